"""Graphs inside graphs, and runs that stop at a question and go on with its answer."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any, TypedDict

from benchmarks.clock import repeated
from benchmarks.counting import enabled
from benchmarks.registry import Figures, Workload, enter_all
from benchmarks.savers import saver
from benchmarks.systems import System

CHILDREN, STEPS = 10, 3
QUESTIONS = 10


class Count(TypedDict):
    """The state of parent and children: how many nodes have run."""

    n: int


def plus_one(state: Count) -> Count:
    return {"n": state["n"] + 1}


def chain(system: System, names: list[str], node: Any) -> Any:
    """These nodes one after the other, not yet compiled."""
    builder = system.StateGraph(Count)
    for name in names:
        builder.add_node(name, node)
    for before, after in itertools.pairwise([system.START, *names, system.END]):
        builder.add_edge(before, after)
    return builder


def children(system: System, *, kind: str) -> Figures:
    """A parent whose nodes are graphs of a few nodes."""
    if enabled():
        return {}
    child = chain(system, [f"step_{number}" for number in range(STEPS)], plus_one).compile()
    with saver(system, kind) as opened:
        graph = chain(system, [f"child_{number}" for number in range(CHILDREN)], child).compile(checkpointer=opened)
        threads = itertools.count()

        def run() -> None:
            config = {"configurable": {"thread_id": str(next(threads))}}
            assert graph.invoke({"n": 0}, config) == {"n": CHILDREN * STEPS}

        return repeated(run, parts=CHILDREN, what="child")


def questions(system: System, *, kind: str) -> Figures:
    """One node after the other asks, and each run answers the last one's question."""
    if enabled():
        return {}

    def ask(state: Count) -> Count:
        return {"n": state["n"] + system.interrupt("how many?")}

    with saver(system, kind) as opened:
        names = [f"ask_{number}" for number in range(QUESTIONS)]
        graph = chain(system, names, ask).compile(checkpointer=opened)
        threads = itertools.count()

        def run() -> None:
            config = {"configurable": {"thread_id": str(next(threads))}}
            found = graph.invoke({"n": 0}, config)
            for answer in range(QUESTIONS):
                assert [question.value for question in found["__interrupt__"]] == ["how many?"]
                found = graph.invoke(system.Command(resume=answer), config)
            assert found == {"n": sum(range(QUESTIONS))}

        return repeated(run, parts=QUESTIONS, what="question")


enter_all(
    tuple(
        Workload(
            f"{name}.{kind}",
            partial(measure, kind=kind),
            f"{about}, saver {kind}",
            goals={f"cpu us/{part}": goal},
        )
        for name, part, measure, goal, about in (
            ("nested", "child", children, 6, f"{CHILDREN} graphs of {STEPS} nodes in a graph"),
            ("pause", "question", questions, 3, f"{QUESTIONS} questions, each answered by a run"),
        )
        for kind in ("memory", "sqlite")
    )
)
