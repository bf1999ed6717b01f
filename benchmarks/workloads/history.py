"""Reading a whole thread: every snapshot of a thousand supersteps."""

from __future__ import annotations

from functools import partial
from typing import TypedDict

from benchmarks.clock import repeated
from benchmarks.counting import enabled
from benchmarks.registry import Figures, Workload, enter_all
from benchmarks.savers import saver
from benchmarks.systems import System

SUPERSTEPS = 1_000
CONFIG = {"configurable": {"thread_id": "long"}, "recursion_limit": SUPERSTEPS + 10}


class Round(TypedDict):
    """The state: the superstep, and a text that stays."""

    n: int
    note: str


def measure(system: System, *, kind: str) -> Figures:
    if enabled():
        return {}
    builder = system.StateGraph(Round)
    builder.add_node("step", lambda state: {"n": state["n"] + 1})
    builder.add_edge(system.START, "step")
    builder.add_conditional_edges("step", lambda state: system.END if state["n"] >= SUPERSTEPS else "step")
    with saver(system, kind) as opened:
        graph = builder.compile(checkpointer=opened)
        graph.invoke({"n": 0, "note": "x" * 500}, CONFIG)

        def read() -> None:
            found = list(graph.get_state_history(CONFIG))
            assert [snapshot.values.get("n") for snapshot in found[:-1]] == [*range(SUPERSTEPS, -1, -1)]
            assert found[0].next == ()

        return repeated(read, parts=SUPERSTEPS, what="snapshot")


enter_all(
    tuple(
        Workload(
            f"history.{kind}",
            partial(measure, kind=kind),
            f"the whole history of {SUPERSTEPS} supersteps, saver {kind}",
            goals={"cpu us/snapshot": 3},
        )
        for kind in ("memory", "sqlite")
    )
)
