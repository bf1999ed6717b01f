"""Many at once: from one event loop, from threads, from processes. Nothing is lost, and nobody meets an error."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from operator import add
from typing import Annotated, Any, TypedDict

import pytest

from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.checkpoint.postgres.aio import AsyncPostgresSaver
from threadmark.errors import HeadMoved
from threadmark.graph import START, StateGraph

NODES = 3


class Sum(TypedDict):
    total: Annotated[int, add]
    log: Annotated[list[int], add]


def graph_of(saver: Any) -> Any:
    """A chain whose every node adds one, and says what it found."""

    def step(state: Sum) -> dict[str, Any]:
        return {"total": 1, "log": [state["total"]]}

    builder = StateGraph(Sum)
    names = [f"n{number}" for number in range(NODES)]
    for before, name in zip([START, *names], names, strict=False):
        builder.add_node(name, step)
        builder.add_edge(before, name)
    return builder.compile(checkpointer=saver)


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def check(saver: PostgresSaver, name: str, runs: int) -> None:
    """All that ``runs`` runs did is there, in order."""
    state = graph_of(saver).get_state(thread(name))
    assert state.next == ()
    assert state.values["total"] == runs * NODES
    assert state.values["log"] == list(range(runs * NODES))
    assert len(list(saver.list(thread(name)))) == runs * (NODES + 2)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("durability", ["sync", "async"])
async def test_sixty_four_threads_on_one_event_loop(pg_url: str, pg_schema: str, durability: Any) -> None:
    runs, crowd = 5, 64

    async with AsyncPostgresSaver.from_conn_string(pg_url, schema=pg_schema) as saver:
        graph = graph_of(saver)

        async def work(name: str) -> None:
            for _ in range(runs):
                await graph.ainvoke({"total": 0, "log": []}, thread(name), durability=durability)

        await asyncio.gather(*(work(f"t{number}") for number in range(crowd)))
    with PostgresSaver.from_conn_string(pg_url, schema=pg_schema) as reader:
        for number in range(0, crowd, 7):
            check(reader, f"t{number}", runs)
        assert len(reader.thread_ids()) == crowd


def test_sixteen_threads(pg_url: str, pg_schema: str) -> None:
    runs, errors = 5, list[BaseException]()
    with PostgresSaver.from_conn_string(pg_url, schema=pg_schema, pool_size=8) as saver:
        graph = graph_of(saver)

        def work(name: str) -> None:
            try:
                for _ in range(runs):
                    graph.invoke({"total": 0, "log": []}, thread(name), durability="sync")
            except BaseException as error:
                errors.append(error)

        workers = [threading.Thread(target=work, args=(f"t{number}",)) for number in range(16)]
        for each in workers:
            each.start()
        for each in workers:
            each.join()
        assert errors == []
        for number in range(16):
            check(saver, f"t{number}", runs)


def process(url: str, schema: str, name: str, runs: int) -> None:
    """What each of several processes does: runs of its own, and one more on a thread that all of them share."""
    with PostgresSaver.from_conn_string(url, schema=schema) as saver:
        graph = graph_of(saver)
        for _ in range(runs):
            graph.invoke({"total": 0, "log": []}, thread(name))
        done = 0
        while done < runs:
            try:
                graph.invoke({"total": 0, "log": []}, thread("shared"))
                done += 1
            except HeadMoved:  # another process was quicker: what it did is not overwritten
                pass
        check(saver, name, runs)


PROGRAM = """
import sys
from tests.integration.test_postgres_crowds import process

process(*sys.argv[1:4], int(sys.argv[4]))
"""


@pytest.mark.timeout(600)
def test_four_processes(pg_url: str, pg_schema: str) -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, pg_url, pg_schema, f"p{number}", "5"]) for number in range(4)
    ]
    assert [each.wait(500) for each in started] == [0, 0, 0, 0]
    with PostgresSaver.from_conn_string(pg_url, schema=pg_schema) as saver:
        for number in range(4):
            check(saver, f"p{number}", 5)
        # Runs that gave way may have left steps behind; those that ended each added all of theirs to what was there.
        shared = graph_of(saver).get_state(thread("shared"))
        assert shared.next == ()
        assert shared.values["total"] >= 20 * NODES
        assert shared.values["log"] == list(range(shared.values["total"]))
