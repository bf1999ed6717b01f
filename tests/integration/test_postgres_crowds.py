"""Many at once: from one event loop, from threads, from processes. Nothing is lost, and nobody meets an error."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from operator import add
from typing import Annotated, Any, TypedDict

import pytest

from tests.sizes import sized
from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.checkpoint.postgres.aio import AsyncPostgresSaver
from threadmark.errors import HeadMoved
from threadmark.graph import START, StateGraph

NODES = 3
CROWD, RUNS, PROCESSES = 64, sized(20, 5), 4
"""How many threads there are, how many runs each has, and how many processes share them."""


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


def run(graph: Any, name: str) -> None:
    """All runs of one thread."""
    for _ in range(RUNS):
        graph.invoke({"total": 0, "log": []}, thread(name), durability="sync")


def check(saver: PostgresSaver, *others: str) -> None:
    """All that the runs of every thread did is there, in order. ``others`` are threads of other runs."""
    counts = {line.thread_id: line.checkpoints for line in saver.list_threads() if line.thread_id not in others}
    assert counts == {f"t{number}": RUNS * (NODES + 2) for number in range(CROWD)}
    graph = graph_of(saver)
    for name in counts:
        state = graph.get_state(thread(name))
        assert state.next == ()
        assert state.values == {"total": RUNS * NODES, "log": list(range(RUNS * NODES))}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("durability", ["sync", "async"])
async def test_from_one_event_loop(pg_url: str, pg_schema: str, durability: Any) -> None:
    async with AsyncPostgresSaver.from_conn_string(pg_url, schema=pg_schema) as saver:
        graph = graph_of(saver)

        async def work(name: str) -> None:
            for _ in range(RUNS):
                await graph.ainvoke({"total": 0, "log": []}, thread(name), durability=durability)

        await asyncio.gather(*(work(f"t{number}") for number in range(CROWD)))
    with PostgresSaver.from_conn_string(pg_url, schema=pg_schema) as reader:
        check(reader)


@pytest.mark.timeout(600)
def test_from_sixteen_threads(pg_url: str, pg_schema: str) -> None:
    with PostgresSaver.from_conn_string(pg_url, schema=pg_schema, pool_size=8) as saver:
        graph = graph_of(saver)
        with ThreadPoolExecutor(16) as workers:
            list(workers.map(lambda number: run(graph, f"t{number}"), range(CROWD)))
        check(saver)


def process(url: str, schema: str, which: int) -> None:
    """What each of several processes does: runs of its share of the threads, and some of a thread that all share."""
    with PostgresSaver.from_conn_string(url, schema=schema) as saver:
        graph = graph_of(saver)
        with ThreadPoolExecutor(4) as workers:
            list(workers.map(lambda number: run(graph, f"t{number}"), range(which, CROWD, PROCESSES)))
        done = 0
        while done < RUNS:
            try:
                graph.invoke({"total": 0, "log": []}, thread("shared"))
                done += 1
            except HeadMoved:  # another process was quicker: what it did is not overwritten
                pass


PROGRAM = """
import sys
from tests.integration.test_postgres_crowds import process

process(*sys.argv[1:3], int(sys.argv[3]))
"""


@pytest.mark.timeout(600)
def test_from_four_processes(pg_url: str, pg_schema: str) -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, pg_url, pg_schema, str(which)]) for which in range(PROCESSES)
    ]
    assert [each.wait(500) for each in started] == [0] * PROCESSES
    with PostgresSaver.from_conn_string(pg_url, schema=pg_schema) as saver:
        check(saver, "shared")
        # Runs that gave way may have left steps behind; those that ended each added all of theirs to what was there.
        shared = graph_of(saver).get_state(thread("shared"))
        assert shared.next == ()
        assert shared.values["total"] >= PROCESSES * RUNS * NODES
        assert shared.values["log"] == list(range(shared.values["total"]))
