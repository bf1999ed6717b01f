"""A program that kills itself with SIGKILL at a chosen command of its MongoDB saver.

``python -m tests.integration.mongodb_victim`` forks a process for each line that it reads: a command's name and its
arguments, as JSON. A command that writes may die before it, after it, or when the server has carried out half of it.
"""

from __future__ import annotations

import asyncio
import operator
import os
import signal
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypedDict

from tests.services.forks import serve
from threadmark.checkpoint.base import empty_checkpoint
from threadmark.checkpoint.codec import Codec
from threadmark.checkpoint.draft import StepDraft
from threadmark.checkpoint.mongodb import AsyncMongoDBSaver, MongoDBSaver
from threadmark.errors import HeadMoved
from threadmark.graph import START, StateGraph
from threadmark.types import Send

CONFIG: dict[str, Any] = {"configurable": {"thread_id": "job"}, "recursion_limit": 50}
ROUNDS, PACKETS = 3, 2
WHEN = ("before", "half", "after")


class Fate:
    """Counts the writing commands of a driver, and kills the process at the chosen one."""

    def __init__(self, saver: Any, at: int, when: str) -> None:
        driver = saver._port.driver
        self.calls, self.at, self.when = 0, at, when
        self._write, self._commit = driver.write, driver.commit
        driver.write, driver.commit = self.write, self.commit

    async def write(self, operations: Sequence[Any], session: Any = None) -> Any:
        self.calls += 1
        if (self.calls, self.when) == (self.at, "half") and len(operations) > 1:
            await self._write(operations[: len(operations) // 2], session)
        self._die("before", "half")
        found = await self._write(operations, session)
        self._die("after")
        return found

    async def commit(self, session: Any) -> None:
        self.calls += 1
        self._die("before", "half")
        await self._commit(session)
        self._die("after")

    def _die(self, *when: str) -> None:
        if self.calls == self.at and self.when in when:
            os.kill(os.getpid(), signal.SIGKILL)


# -- single operations -----------------------------------------------------------------------------------------------


def config(thread_id: str, id: str | None = None) -> Any:
    named = {"thread_id": thread_id, "checkpoint_ns": ""}
    return {"configurable": named if id is None else {**named, "checkpoint_id": id}}


def checkpoint(number: int) -> Any:
    """The ``number``-th checkpoint of a thread, the same in every process."""
    values = {"rows": [f"line {n} " * 100 for n in range(number)], "same": "x" * 3000}
    return {
        **empty_checkpoint(),
        "id": f"{number:08}",
        "ts": f"2026-01-01T00:00:{number:02}+00:00",
        "channel_values": values,
        "channel_versions": {"rows": f"{number:032}", "same": f"{1:032}"},
    }


def step(saver: Any, number: int, thread_id: str = "t") -> None:
    """The superstep that leads to the ``number``-th checkpoint: two tasks' writes, and it."""
    made, at = checkpoint(number), config(thread_id, f"{number - 1:08}" if number else None)
    tasks = [(f"task {n}", "~p", [("rows", made["channel_values"]["rows"]), ("n", n)]) for n in range(2)]
    metadata = {"source": "loop", "step": number, "run_id": f"r{number}"}
    saver.put_step(at, made, metadata, {"rows": made["channel_versions"]["rows"]}, tasks if number else [])


def again(saver: Any) -> None:
    """A checkpoint in the place of one with the same id, and writes of a task that has some."""
    made = checkpoint(2)
    made["channel_values"]["same"] = "y" * 3000
    saver.put(config("t", f"{1:08}"), made, {"source": "fork", "step": 2}, made["channel_versions"])
    saver.put_writes(config("t", f"{1:08}"), [("__resume__", "yes"), ("late", 1)], "task 0", "~p")


OPERATIONS: dict[str, Callable[[Any], None]] = {
    "a new thread": lambda saver: step(saver, 0, "new"),
    "a step": lambda saver: step(saver, 3),
    "a replacement": again,
    "a prune": lambda saver: saver.prune(["t"]),
    "runs deleted": lambda saver: saver.delete_for_runs(["r1"]),
    "a copy": lambda saver: saver.copy_thread("t", "copy"),
    "a thread deleted": lambda saver: saver.delete_thread("t"),
}


def die(uri: str, name: str, options: dict[str, Any], operation: str, at: int, when: str) -> None:
    """Carry out an operation up to the ``at``-th command that writes."""
    with MongoDBSaver.from_conn_string(uri, name, **options) as saver:
        saver.setup()
        Fate(saver, at, when)
        OPERATIONS[operation](saver)


# -- a job -----------------------------------------------------------------------------------------------------------


class State(TypedDict):
    log: Annotated[list[str], operator.add]
    round: int


def graph_of(saver: Any) -> Any:
    """Rounds of packets that meet again."""

    def plan(state: State) -> Any:
        return {"log": [f"plan {state['round']}"]}

    def work(number: int) -> Any:
        return {"log": [f"work {number}" + "." * 2000]}

    def join(state: State) -> Any:
        return {"log": ["join"], "round": state["round"] + 1}

    builder = StateGraph(State)
    builder.add_node("plan", plan)
    builder.add_node("work", work)
    builder.add_node("join", join)
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", lambda state: [Send("work", number) for number in range(PACKETS)])
    builder.add_edge("work", "join")
    builder.add_conditional_edges("join", lambda state: "plan" if state["round"] < ROUNDS else "__end__")
    return builder.compile(checkpointer=saver)


def work_on(graph: Any, call: Callable[..., Any]) -> Any:
    """Begin, or go on where a dead process was; the state then."""
    state = call("get_state", CONFIG)
    while state.next or state.metadata is None:
        call("invoke", {"log": [], "round": 0} if state.metadata is None else None, CONFIG, durability="sync")
        state = call("get_state", CONFIG)
    return state


def job(uri: str, name: str, options: dict[str, Any], colour: str, at: int, when: str, diary: str) -> None:
    """Work on the job up to the ``at``-th command that writes. The diary says what was acknowledged."""
    log = os.open(diary, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def acknowledge(drafts: Sequence[StepDraft]) -> None:
        ids = [draft.checkpoint.id for draft in drafts if draft.checkpoint is not None]
        os.write(log, "".join(f"{id}\n" for id in ids).encode())

    if colour == "sync":
        with MongoDBSaver.from_conn_string(uri, name, **options) as saver:
            Fate(saver, at, when)
            graph, commit = graph_of(saver), saver._commit

            def committed(codec: Codec, drafts: Sequence[StepDraft]) -> None:
                commit(codec, drafts)
                acknowledge(drafts)

            saver._commit = committed  # type: ignore[method-assign]
            work_on(graph, lambda method, *args, **more: getattr(graph, method)(*args, **more))
        return

    async def awaited() -> None:
        async with AsyncMongoDBSaver.from_conn_string(uri, name, **options) as saver:
            Fate(saver, at, when)
            graph, commit = graph_of(saver), saver._acommit

            async def committed(codec: Codec, drafts: Sequence[StepDraft]) -> None:
                await commit(codec, drafts)
                acknowledge(drafts)

            saver._acommit = committed  # type: ignore[method-assign]
            state = await graph.aget_state(CONFIG)
            while state.next or state.metadata is None:
                given = {"log": [], "round": 0} if state.metadata is None else None
                await graph.ainvoke(given, CONFIG, durability="sync")
                state = await graph.aget_state(CONFIG)

    asyncio.run(awaited())


# -- several at once -------------------------------------------------------------------------------------------------


def count(uri: str, name: str, options: dict[str, Any], times: int) -> None:
    """Add one to a number, so many times, while others do the same."""
    with MongoDBSaver.from_conn_string(uri, name, **options) as saver:
        left = times
        while left:
            head = saver.get_tuple(config("count"))
            number = head.checkpoint["channel_values"]["n"] if head else 0
            made = {**empty_checkpoint(), "channel_values": {"n": number + 1}, "channel_versions": {"n": number + 1}}
            at = head.config if head else config("count")
            expected = at["configurable"].get("checkpoint_id")
            try:
                saver.put(at, made, {"step": number}, {"n": number + 1}, expected_head=expected)
                left -= 1
            except HeadMoved:
                continue


COMMANDS: dict[str, Callable[..., None]] = {"die": die, "job": job, "count": count}


if __name__ == "__main__":
    serve(lambda name, *args: COMMANDS[name](*args))
