"""Fifty trivial nodes one after the other: what a superstep costs beside the node."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import Iterator
from functools import partial
from typing import Any, TypedDict

from benchmarks.clock import repeated, repeated_async
from benchmarks.counting import enabled, weighed
from benchmarks.registry import Figures, Workload, enter_all
from benchmarks.savers import async_saver, saver
from benchmarks.systems import OURS, SYSTEMS, System

NODES = 50
# Runs whose bytes are weighed, so that the empty tables of the file do not count.
WEIGHED = 20


class Count(TypedDict):
    """The state: how many nodes have run."""

    n: int


def build(system: System, *, asynchronous: bool, nodes: int = NODES) -> Any:
    """The chain, not yet compiled."""

    def step(state: Count) -> Count:
        return {"n": state["n"] + 1}

    async def step_async(state: Count) -> Count:
        return {"n": state["n"] + 1}

    builder = system.StateGraph(Count)
    names = [f"node_{number:02}" for number in range(nodes)]
    for name in names:
        builder.add_node(name, step_async if asynchronous else step)
    for before, after in itertools.pairwise([system.START, *names, system.END]):
        builder.add_edge(before, after)
    return builder


def threads() -> Iterator[dict[str, Any]]:
    """A config for each run, each with a thread of its own."""
    for number in itertools.count():
        yield {"configurable": {"thread_id": str(number)}, "recursion_limit": NODES + 10}


def options(kind: str, durability: str | None) -> dict[str, Any]:
    return {} if kind == "none" or durability is None else {"durability": durability}


def blocking(system: System, *, kind: str, durability: str | None) -> Figures:
    if enabled() and kind != "sqlite":
        return {}
    with saver(system, kind) as opened:
        graph = build(system, asynchronous=False).compile(checkpointer=opened)
        configs, chosen = threads(), options(kind, durability)

        def run() -> None:
            assert graph.invoke({"n": 0}, next(configs), **chosen) == {"n": NODES}

        if not enabled():
            figures = repeated(run, parts=NODES, what="superstep")
            return figures | (_bare(system, figures) if (system.package, durability) == (OURS, "sync") else {})
        run()
        with weighed(system.database, runs=WEIGHED, parts=NODES) as figures:
            for _ in range(WEIGHED):
                run()
        return figures


def _bare(system: System, figures: Figures) -> Figures:
    """What a transaction with one row of as many bytes costs on the same file: nothing can take less in ``sync``."""
    if not system.database.exists():
        return {}
    connection = sqlite3.connect(system.database, isolation_level=None)
    connection.execute("PRAGMA synchronous = FULL")
    stored = [
        connection.execute(f"SELECT sum(length({' || '.join(columns)})) FROM {table}").fetchone()[0]
        for table, columns in (("checkpoint", ("ns", "id", "parent", "ts", "hex(body)")), ("task", ("id", "task_id")))
    ]
    (supersteps,) = connection.execute("SELECT count(*) FROM checkpoint").fetchone()
    row = b"\0" * (sum(stored) // supersteps)
    connection.execute("CREATE TABLE bare (row BLOB NOT NULL)")

    def run() -> None:
        for _ in range(NODES):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO bare VALUES (?)", (row,))
            connection.execute("COMMIT")

    bare = repeated(run, parts=NODES, what="bare transaction")
    connection.close()
    times = {
        f"{kind}, times a bare transaction": figures[f"{kind} us/superstep"] / bare[f"{kind} us/bare transaction"]
        for kind in ("wall", "cpu")
    }
    return bare | times


def awaited(system: System, *, kind: str, durability: str | None) -> Figures:
    if enabled() and kind != "sqlite":
        return {}

    async def measure() -> Figures:
        async with async_saver(system, kind) as opened:
            graph = build(system, asynchronous=True).compile(checkpointer=opened)
            configs, chosen = threads(), options(kind, durability)

            async def run() -> None:
                assert await graph.ainvoke({"n": 0}, next(configs), **chosen) == {"n": NODES}

            if not enabled():
                return await repeated_async(run, parts=NODES, what="superstep")
            await run()
            with weighed(system.database, runs=WEIGHED, parts=NODES) as figures:
                for _ in range(WEIGHED):
                    await run()
            return figures

    return asyncio.run(measure())


# How many times less than the peer a superstep should cost, by saver, durability and colour.
GOALS: dict[tuple[str, str | None, str], dict[str, float]] = {
    ("none", None, ""): {"cpu us/superstep": 15},
    ("none", None, "aio"): {"cpu us/superstep": 10},
    **{("memory", None, suffix): {"cpu us/superstep": 12} for suffix in ("", "aio")},
    **{("sqlite", "sync", suffix): {"cpu us/superstep": 4, "wall us/superstep": 3} for suffix in ("", "aio")},
    **{("sqlite", mode, suffix): {"cpu us/superstep": 10} for mode in ("async", "exit") for suffix in ("", "aio")},
    **{("postgres", "sync", suffix): {"cpu us/superstep": 3} for suffix in ("", "aio")},
    **{("postgres", "async", suffix): {"cpu us/superstep": 6} for suffix in ("", "aio")},
}
VARIANTS = [
    ("none", None),
    ("memory", None),
    *((kind, mode) for kind in ("sqlite", "redis", "postgres") for mode in ("sync", "async", "exit")),
]
# The peer's saver wants modules that plain Redis does not have.
ONLY_OURS = ("redis",)


def _limits(kind: str, durability: str | None) -> dict[str, float]:
    if kind != "sqlite":
        return {}
    commits = {"sync": NODES + 2, "async": NODES + 2, "exit": 1}[str(durability)]
    # The log is begun anew once in the weighed runs, with one flush of its own.
    return {"bytes/superstep": 1_000, "commits/run": commits, "fsyncs/run": commits + 0.5}


enter_all(
    tuple(
        Workload(
            name=".".join(part for part in ("chain", kind, durability, suffix) if part),
            measure=partial(measure, kind=kind, durability=durability),
            systems=(OURS,) if kind in ONLY_OURS else SYSTEMS,
            about=f"{NODES} nodes in a row, saver {kind}, durability {durability or 'default'}, {calls}",
            limits=_limits(kind, durability),
            goals=GOALS.get((kind, durability, suffix), {}),
            bounds={"wall, times a bare transaction": 1.6} if (kind, suffix) == ("sqlite", "") else {},
        )
        for kind, durability in VARIANTS
        for suffix, measure, calls in (("", blocking, "blocking"), ("aio", awaited, "awaited"))
    )
)
