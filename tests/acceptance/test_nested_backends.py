"""Graphs in graphs leave the same in every store, whose children are stored with their parent in the background."""

from __future__ import annotations

import asyncio
import operator
import re
from typing import Annotated, Any, TypedDict

import pytest

from benchmarks.backends import STORES, Servers
from tests.services.cosmosdb import Account
from tests.services.mongodb import Mongo
from tests.services.postgres import Postgres
from tests.services.redis import RedisServer
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.graph import END, START, StateGraph
from threadmark.types import Command, RetryPolicy, interrupt

CONFIG: Any = {"configurable": {"thread_id": "1"}}


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def child(name: str, *, asks: bool = False, fails: list[int] | None = None) -> Any:
    def work(state: State) -> State:
        if fails and fails.pop():
            raise ConnectionError
        return {"log": [f"{name} {interrupt('?')}" if asks else name]}

    builder = StateGraph(State)
    builder.add_node("begin", lambda state: {"log": [f"{name} begins"]})
    builder.add_node("work", work)
    builder.add_edge(START, "begin")
    builder.add_edge("begin", "work")
    return builder.compile()


def parent(saver: Any) -> Any:
    builder = StateGraph(State)
    builder.add_node("first", child("first"))
    builder.add_node(
        "again", child("again", fails=[0, 1]), retry_policy=RetryPolicy(initial_interval=0.01, jitter=False)
    )
    builder.add_node("left", child("left"))
    builder.add_node("right", child("right", asks=True))
    builder.add_edge(START, "first")
    builder.add_edge("first", "again")
    builder.add_edge("again", "left")
    builder.add_edge("again", "right")
    builder.add_edge(["left", "right"], END)
    return builder.compile(checkpointer=saver)


async def left_by(saver: Any, *, on_loop: bool) -> list[Any]:
    """What both runs leave, without the ids."""
    graph = parent(saver)
    for given in ({"log": []}, Command(resume="yes")):
        if on_loop:
            await graph.ainvoke(given, CONFIG)
        else:
            await asyncio.to_thread(graph.invoke, given, CONFIG)
    found = []
    for row in saver.list({"configurable": {"thread_id": "1"}}):
        ns = re.sub(r":[^|]*", "", row.config["configurable"]["checkpoint_ns"])
        values, metadata = row.checkpoint["channel_values"], row.metadata
        found.append((ns, metadata["source"], metadata["step"], values.get("log"), len(row.pending_writes)))
    return sorted(found, key=str)


@pytest.mark.parametrize("store", [name for name in STORES if name != "memory"])
async def test_graphs_in_graphs_leave_the_same_in_every_store(
    postgres_server: Postgres, redis_server: RedisServer, mongodb: Mongo, fake: Account, store: str
) -> None:
    expected = await left_by(InMemorySaver(), on_loop=False)
    assert [ns for ns, *_ in expected].count("again") == 4  # the second attempt went on where the first one failed
    for on_loop in (False, True):
        with STORES[store](Servers(postgres_server, redis_server, mongodb, fake)) as (opener, _), opener() as saver:
            saver.delete_thread("1")
            assert await left_by(saver, on_loop=on_loop) == expected
