"""A process that runs a graph over Redis is killed at any moment; another goes on to the right end."""

from __future__ import annotations

import itertools
import random
import signal
import subprocess
import sys
import textwrap
from typing import Any

import pytest

from tests.services.redis import RedisServer
from threadmark.checkpoint.conformance.kit import config
from threadmark.checkpoint.redis import RedisSaver

STEPS = 24
# Two nodes side by side, then one that joins them: 3 task writes and 2 checkpoints a round.
PROGRAM = """
    import asyncio, operator, sys
    from typing import Annotated, TypedDict
    from threadmark.checkpoint.redis import RedisSaver
    from threadmark.checkpoint.redis.aio import AsyncRedisSaver
    from threadmark.constants import END, START
    from threadmark.graph import StateGraph

    URL, COLOUR, DURABILITY, STEPS = *sys.argv[1:4], int(sys.argv[4])
    CONFIG = {"configurable": {"thread_id": "t"}, "recursion_limit": 1000}

    class State(TypedDict):
        left: Annotated[list[int], operator.add]
        right: Annotated[list[int], operator.add]
        rounds: int

    def graph(saver):
        builder = StateGraph(State)
        builder.add_node("fork", lambda state: None)
        builder.add_node("left", lambda state: {"left": [state["rounds"]]})
        builder.add_node("right", lambda state: {"right": [state["rounds"]]})
        builder.add_node("join", lambda state: {"rounds": state["rounds"] + 1})
        builder.add_edge(START, "fork")
        builder.add_edge("fork", "left")
        builder.add_edge("fork", "right")
        builder.add_edge(["left", "right"], "join")
        builder.add_conditional_edges("join", lambda state: "fork" if state["rounds"] < STEPS else END)
        return builder.compile(checkpointer=saver)

    def told(event):
        if "join" in event:
            print(event["join"]["rounds"], flush=True)

    def blocking():
        with RedisSaver.from_conn_string(URL) as saver:
            made = graph(saver)
            given = {"rounds": 0} if made.get_state(CONFIG).metadata is None else None
            for event in made.stream(given, CONFIG, stream_mode="updates", durability=DURABILITY):
                told(event)

    async def awaited():
        async with AsyncRedisSaver.from_conn_string(URL) as saver:
            made = graph(saver)
            given = {"rounds": 0} if (await made.aget_state(CONFIG)).metadata is None else None
            async for event in made.astream(given, CONFIG, stream_mode="updates", durability=DURABILITY):
                told(event)

    blocking() if COLOUR == "sync" else asyncio.run(awaited())
    print("end", flush=True)
"""


def killed(url: str, colour: str, durability: str, after: int) -> tuple[int, bool]:
    """Run until so many rounds were told of; the last of them, and whether the run came to its end."""
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), url, colour, durability, str(STEPS)],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        last = -1
        for told, text in enumerate(process.stdout, 1):
            if text == "end\n":
                return last, True
            last = int(text)
            if told >= after:
                process.send_signal(signal.SIGKILL)
                break
        process.stdout.read()
    assert process.returncode == -signal.SIGKILL
    return last, False


def stored(url: str) -> list[Any]:
    """The thread's history as a process that remembers nothing reads it, oldest first, after looking at each of it."""
    with RedisSaver.from_conn_string(url) as saver:
        found = list(saver.list(config()))[::-1]
        for item in found:
            assert saver.get_tuple(item.config) == item
    for earlier, later in itertools.pairwise(found):
        assert later.parent_config == earlier.config
        assert later.metadata["step"] == earlier.metadata["step"] + 1
    return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("colour", "durability"), [("sync", "sync"), ("async", "async")])
def test_killed_at_any_moment(redis_server: RedisServer, colour: str, durability: str) -> None:
    redis_server.flush()
    chance = random.Random(f"{colour} {durability}")
    last, ended, rounds = -1, False, 0
    while not ended:
        told, ended = killed(redis_server.url, colour, durability, chance.randint(1, 12))
        last = max(last, told)
        values = stored(redis_server.url)[-1].checkpoint["channel_values"]
        rounds = values.get("rounds", 0)
        for side in ("left", "right"):
            assert values.get(side, []) in (list(range(rounds)), list(range(rounds + 1)))
        if durability == "sync":  # what a stream has told of is the step before the one that is being stored
            assert rounds >= last - 1
    assert rounds == STEPS
    assert (values["left"], values["right"]) == (list(range(STEPS)), list(range(STEPS)))
