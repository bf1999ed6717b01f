"""Children whose parent saves in the background: their steps go with its own, in order, and nobody reads too early."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

import pytest

from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.graph import END, START, StateGraph
from threadmark.types import Command, interrupt


class State(TypedDict, total=False):
    n: int
    seen: list[Any]


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[SqliteSaver]:
    with SqliteSaver.from_conn_string(str(tmp_path / "a.db"), synchronous="OFF") as opened:
        yield opened


CONFIG: Any = {"configurable": {"thread_id": "1"}}


def chain(names: dict[str, Any]) -> Any:
    builder = StateGraph(State)
    for name, node in names.items():
        builder.add_node(name, node)
    for before, after in itertools.pairwise([START, *names, END]):
        builder.add_edge(before, after)
    return builder


def plus(state: State) -> State:
    return {"n": state["n"] + 1}


def child(**options: Any) -> Any:
    return chain({"one": plus, "two": plus}).compile(**options)


async def run(graph: Any, given: Any, *, on_loop: bool) -> Any:
    if on_loop:
        return await graph.ainvoke(given, CONFIG)
    return await asyncio.to_thread(graph.invoke, given, CONFIG)


@pytest.mark.parametrize("on_loop", [False, True])
async def test_children_share_the_commits_of_their_parent(saver: SqliteSaver, on_loop: bool) -> None:
    graph = chain({name: child() for name in "abcdef"}).compile(checkpointer=saver)
    statements: list[str] = []
    with saver._turn:
        saver.conn.set_trace_callback(statements.append)
        running = asyncio.ensure_future(run(graph, {"n": 0}, on_loop=on_loop))
        await asyncio.sleep(0.3)  # the background waits for its turn, and the run goes on
        assert not running.done()
    assert await running == {"n": 12}
    saver.conn.set_trace_callback(None)
    assert statements.count("COMMIT") <= 2
    rows = list(saver.list({"configurable": {"thread_id": "1"}}))
    assert len([row for row in rows if row.config["configurable"]["checkpoint_ns"]]) == 6 * 4
    in_order = sorted(rows, key=lambda row: row.checkpoint["id"])
    assert in_order == rows[::-1]


@pytest.mark.parametrize(("on_loop", "awaited"), [(False, False), (True, False), (True, True)])
async def test_a_node_sees_what_a_child_before_it_has_stored(saver: SqliteSaver, on_loop: bool, awaited: bool) -> None:
    inside = {"configurable": {"thread_id": "1", "checkpoint_ns": "inner"}}

    def look(state: State) -> State:
        newest = graph.get_state(inside)
        return {"seen": [newest.values["n"], len(list(graph.get_state_history(inside)))]}

    async def alook(state: State) -> State:
        newest = await graph.aget_state(inside)
        return {"seen": [newest.values["n"], len([each async for each in graph.aget_state_history(inside)])]}

    graph = chain({"inner": child(checkpointer=True), "look": alook if awaited else look}).compile(checkpointer=saver)
    assert await run(graph, {"n": 0}, on_loop=on_loop) == {"n": 2, "seen": [2, 4]}


@pytest.mark.parametrize("on_loop", [False, True])
async def test_a_child_with_state_of_its_own_goes_on_from_what_it_stored_in_this_run(
    saver: SqliteSaver, on_loop: bool
) -> None:
    class Kept(TypedDict, total=False):
        n: int
        count: int

    inner = StateGraph(Kept)
    inner.add_node("count", lambda state: {"count": state.get("count", 0) + 1, "n": state["n"] + 1})
    inner.add_edge(START, "count")
    builder = StateGraph(State)
    builder.add_node("inner", inner.compile(checkpointer=True))
    builder.add_edge(START, "inner")
    builder.add_conditional_edges("inner", lambda state: END if state["n"] >= 5 else "inner")
    graph = builder.compile(checkpointer=saver)
    assert await run(graph, {"n": 0}, on_loop=on_loop) == {"n": 5}
    found = saver.get_tuple({"configurable": {"thread_id": "1", "checkpoint_ns": "inner"}})
    assert found is not None
    assert found.checkpoint["channel_values"]["count"] == 5


@pytest.mark.parametrize("on_loop", [False, True])
async def test_an_error_of_storing_a_child_s_step_is_the_run_s(
    saver: SqliteSaver, on_loop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = chain({"inner": child(), "more": plus}).compile(checkpointer=saver)

    def fail(*args: Any) -> Any:
        raise OSError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(SqliteSaver, "_drain", fail)
        with pytest.raises(OSError, match="no room"):
            await run(graph, {"n": 0}, on_loop=on_loop)
    assert list(saver.list(CONFIG)) == []


@pytest.mark.parametrize("on_loop", [False, True])
@pytest.mark.parametrize("in_memory", [False, True])
async def test_a_child_that_asks_goes_on_where_it_stood(saver: SqliteSaver, on_loop: bool, in_memory: bool) -> None:
    inner = chain({"one": plus, "ask": lambda state: {"n": state["n"] + interrupt("more?")}, "two": plus}).compile()
    graph = chain({"before": child(), "inner": inner, "after": child()}).compile(
        checkpointer=InMemorySaver() if in_memory else saver
    )
    asked = await run(graph, {"n": 0}, on_loop=on_loop)
    assert [question.value for question in asked["__interrupt__"]] == ["more?"]
    assert await run(graph, Command(resume=10), on_loop=on_loop) == {"n": 16}
