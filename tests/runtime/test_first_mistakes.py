"""What people type first and wrongly is told in words that help."""

from __future__ import annotations

import multiprocessing
import sqlite3
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import UUID

import pytest

from threadmark.channels import DeltaChannel
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import EmptyInputError, InvalidUpdateError
from threadmark.graph import START, StateGraph


class State(TypedDict, total=False):
    n: int


class Both(TypedDict, total=False):
    plain: Annotated[list[str], add]
    delta: Annotated[list[str], DeltaChannel(lambda state, writes: state + [x for w in writes for x in w])]


def one(action: Any) -> StateGraph[State]:
    return StateGraph(State).add_node("node", action).add_edge(START, "node")


def config(thread: Any) -> Any:
    return {"configurable": {"thread_id": thread}}


def test_a_path_in_place_of_a_connection(tmp_path: Path) -> None:
    for path in (str(tmp_path / "c.db"), tmp_path / "c.db"):
        with pytest.raises(TypeError, match=r"SqliteSaver\.from_conn_string"):
            SqliteSaver(path)  # type: ignore[arg-type]


def test_a_connection_in_place_of_a_saver() -> None:
    connection = sqlite3.connect(":memory:")
    with pytest.raises(TypeError, match=r"SqliteSaver\(connection\)"):
        one(lambda state: {}).compile(checkpointer=connection)
    connection.close()


def test_a_generator_as_a_node() -> None:
    def node(state: State) -> Any:
        yield {"n": 1}

    with pytest.raises(InvalidUpdateError, match="must return a dict"):
        one(node).compile().invoke({})


def test_one_breakpoint_given_as_text() -> None:
    ran: list[str] = []
    graph = one(lambda state: ran.append("node")).compile(checkpointer=InMemorySaver())
    graph.invoke({}, config("1"), interrupt_before="node")  # type: ignore[arg-type]
    assert (ran, graph.get_state(config("1")).next) == ([], ("node",))


@pytest.mark.parametrize("name", [[1], ("a",), {"id": 1}, b"a", True])
def test_what_is_no_name_in_place_of_a_thread_s(name: Any) -> None:
    saver = InMemorySaver()
    graph = one(lambda state: {"n": 1}).compile(checkpointer=saver)
    for call in (lambda: graph.invoke({"n": 0}, config(name)), lambda: saver.get_tuple(config(name))):
        with pytest.raises(TypeError, match="thread_id must be a text, a number or a UUID"):
            call()
    assert list(saver.list(None)) == []


def test_a_state_key_that_would_be_lost() -> None:
    fields: Any = {"__x": list, "n": int}
    with pytest.raises(ValueError, match="'__x' of Odd begins with two underscores"):
        StateGraph(TypedDict("Odd", fields))  # type: ignore[operator]


def test_a_number_or_a_uuid_as_a_thread_s_name() -> None:
    graph = one(lambda state: {"n": 1}).compile(checkpointer=InMemorySaver())
    for name in (7, UUID(int=7)):
        graph.invoke({"n": 0}, config(name))
        assert graph.get_state(config(str(name))).values == {"n": 1}


def test_a_checkpoint_that_is_not_there_is_named() -> None:
    graph = one(lambda state: {"n": 1}).compile(checkpointer=InMemorySaver())
    graph.invoke({"n": 0}, config("t"))
    with pytest.raises(EmptyInputError, match=r"thread 't' has no checkpoint '1f0'.*history"):
        graph.invoke(None, {"configurable": {"thread_id": "t", "checkpoint_id": "1f0"}})


def test_a_forked_child_goes_on_saving_in_the_background() -> None:
    graph = one(lambda state: {"n": 1}).compile(checkpointer=InMemorySaver())
    graph.invoke({}, config("parent"))
    told = multiprocessing.get_context("fork").SimpleQueue()

    def child() -> None:
        told.put(graph.invoke({}, config("child")))

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(30)
    assert process.exitcode == 0
    assert told.get() == {"n": 1}


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_stream_closed_early_stores_each_write_once(durability: Any) -> None:
    builder: Any = StateGraph(Both)
    builder.add_sequence([(name, lambda state, name=name: {"plain": [name], "delta": [name]}) for name in "abc"])
    builder.add_edge(START, "a")
    graph = builder.compile(checkpointer=InMemorySaver())
    told = graph.stream({"plain": [], "delta": []}, config("1"), durability=durability)
    next(told)
    told.close()
    assert graph.invoke(None, config("1"))["delta"] == ["a", "b", "c"]
    values = graph.get_state(config("1")).values
    assert values["delta"] == values["plain"] == ["a", "b", "c"]
