"""One node sends a thousand tasks, all join: what a task costs when many are due at once."""

from __future__ import annotations

import asyncio
import operator
from functools import partial
from typing import Annotated, Any, TypedDict

from benchmarks.clock import repeated, repeated_async
from benchmarks.counting import enabled
from benchmarks.registry import Figures, Workload, enter_all
from benchmarks.savers import KINDS, async_saver, saver
from benchmarks.systems import System
from benchmarks.workloads.chain import threads

TASKS = 1_000
EXPECTED = sum(number * 2 for number in range(TASKS))


class Work(TypedDict):
    """The state: results of the tasks, and their sum once joined."""

    results: Annotated[list[int], operator.add]
    total: int


def build(system: System, *, asynchronous: bool) -> Any:
    """start -> a thousand times work -> join."""
    double = _double_async if asynchronous else _double
    builder = system.StateGraph(Work)
    builder.add_node("start", _nothing)
    builder.add_node("work", double)
    builder.add_node("join", _join)
    builder.add_edge(system.START, "start")
    builder.add_conditional_edges("start", partial(_send, system.Send), ["work"])
    builder.add_edge("work", "join")
    builder.add_edge("join", system.END)
    return builder


def _nothing(state: Work) -> dict[str, Any]:
    return {}


def _send(send: Any, state: Work) -> list[Any]:
    return [send("work", number) for number in range(TASKS)]


def _double(number: int) -> dict[str, Any]:
    return {"results": [number * 2]}


async def _double_async(number: int) -> dict[str, Any]:
    return {"results": [number * 2]}


def _join(state: Work) -> dict[str, Any]:
    return {"total": sum(state["results"])}


def blocking(system: System, *, kind: str) -> Figures:
    if enabled():
        return {}
    with saver(system, kind) as opened:
        graph = build(system, asynchronous=False).compile(checkpointer=opened)
        configs = threads()

        def run() -> None:
            result = graph.invoke({"results": [], "total": 0}, next(configs))
            assert result["total"] == EXPECTED
            assert result["results"] == [number * 2 for number in range(TASKS)]

        return repeated(run, parts=TASKS, what="task")


def awaited(system: System, *, kind: str) -> Figures:
    if enabled():
        return {}

    async def measure() -> Figures:
        async with async_saver(system, kind) as opened:
            graph = build(system, asynchronous=True).compile(checkpointer=opened)
            configs = threads()

            async def run() -> None:
                result = await graph.ainvoke({"results": [], "total": 0}, next(configs))
                assert result["total"] == EXPECTED

            return await repeated_async(run, parts=TASKS, what="task")

    return asyncio.run(measure())


# How many times less than the peer a task should cost.
GOALS = {"none": 15.0, "sqlite": 8.0}
enter_all(
    tuple(
        Workload(
            name=".".join(part for part in ("fanout", kind, suffix) if part),
            measure=partial(measure, kind=kind),
            about=f"{TASKS} tasks by Send, then a join, saver: {kind}, {calls} calls",
            goals={"cpu us/task": GOALS[kind]} if kind in GOALS else {},
        )
        for kind in KINDS
        for suffix, measure, calls in (("", blocking, "blocking"), ("aio", awaited, "awaited"))
    )
)
