"""Journals of in-memory savers: who reads, or stores something beside them, cannot tell that there are any."""

from __future__ import annotations

import gc
import operator
import os
import weakref
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest

from threadmark.checkpoint.journal import MOST, Journal
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.retaining import Retention
from threadmark.errors import HeadMoved
from threadmark.graph import END, START, StateGraph

CONFIG: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 5 * MOST}


@dataclass
class Thing:
    """A value of a class."""

    number: int


class State(TypedDict, total=False):
    n: int
    thing: Thing
    text: str
    held: list[Any]
    log: Annotated[list[int], operator.add]


def looping(saver: InMemorySaver, until: int, update: Any = lambda n: {}) -> Any:
    """A graph of one node that counts; ``update`` gives what else it writes."""

    def node(state: State) -> Any:
        return {"n": state["n"] + 1, **update(state["n"] + 1)}

    builder = StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_conditional_edges("node", lambda state: "node" if state["n"] < until else END)
    return builder.compile(checkpointer=saver)


def journals(saver: InMemorySaver, thread: str = "1") -> list[Journal]:
    backlog = saver._backlog
    assert backlog is not None
    waiting = backlog._waiting.get(thread)
    return [] if waiting is None else [each for each in waiting.kept if isinstance(each, Journal)]


def rows(saver: InMemorySaver) -> int:
    """Checkpoints that are stored already."""
    return sum(len(found) for shelf in saver._port._shelves.values() for found in shelf.checkpoints.values())  # type: ignore[attr-defined]


def values_of(graph: Any, key: str = "n") -> list[Any]:
    return [one.values.get(key) for one in graph.get_state_history(CONFIG)][::-1]


def test_small_supersteps_are_noted_until_somebody_reads() -> None:
    saver = InMemorySaver()
    graph = looping(saver, 5)
    graph.invoke({"n": 0}, CONFIG)
    assert (len(journals(saver)), rows(saver)) == (1, 0)
    assert values_of(graph) == [None, 0, 1, 2, 3, 4, 5]
    assert (journals(saver), rows(saver)) == ([], 7)


def test_threads_that_nobody_reads_stay_as_they_are() -> None:
    saver = InMemorySaver()
    graph = looping(saver, 5)
    for name in "12":
        graph.invoke({"n": 0}, {"configurable": {"thread_id": name}})
    assert graph.get_state(CONFIG).values == {"n": 5, "log": []}
    assert (len(journals(saver, "1")), len(journals(saver, "2"))) == (0, 1)
    assert len(list(saver.list(None))) == 14
    assert len(journals(saver, "2")) == 0


@pytest.mark.parametrize(
    "value",
    ["x" * 1000, ["y"] * 100, {str(key): key for key in range(100)}, {"deep": ["z" * 5000]}, b"\0" * 300],
)
def test_a_long_value_is_stored_as_ever_and_so_is_what_follows(value: Any) -> None:
    saver = InMemorySaver()
    graph = looping(saver, 6, lambda n: {"held": value} if n == 3 else {})
    graph.invoke({"n": 0}, CONFIG)
    assert not [each for each in journals(saver) if not each.closed]
    assert values_of(graph) == [None, 0, 1, 2, 3, 4, 5, 6]
    assert values_of(graph, "held") == [None] * 4 + [value] * 4


def test_a_value_that_is_changed_later_is_stored_as_it_was() -> None:
    saver, held = InMemorySaver(), list[Any]()

    def update(n: int) -> Any:
        held.append([n])
        for each in held:
            each.append(n)
        return {"held": held[-1], "text": "t" * n}

    graph = looping(saver, 4, update)
    graph.invoke({"n": 0}, CONFIG)
    assert len(journals(saver)) == 1
    assert values_of(graph, "held") == [None, None, [1, 1], [2, 2], [3, 3], [4, 4]]
    assert values_of(graph, "text") == [None, None, "t", "tt", "ttt", "tttt"]


def test_odd_values_come_back_as_they_are() -> None:
    saver = InMemorySaver()
    odd = [2**100, -(2**70), "\ud800", 1.5, True, None, b"", b"\xc4", (1, 2), {3}, float("inf"), "", -0.0]
    graph = looping(saver, len(odd), lambda n: {"held": odd[n - 1]})
    graph.invoke({"n": 0}, CONFIG)
    assert len(journals(saver)) == 1
    found = values_of(graph, "held")[2:]
    assert [(type(value), repr(value)) for value in found] == [(type(value), repr(value)) for value in odd]


def test_a_value_that_cannot_be_stored_is_told_by_the_superstep_that_wrote_it() -> None:
    saver = InMemorySaver()
    graph = looping(saver, 5, lambda n: {"held": object()} if n == 3 else {})
    with pytest.raises(Exception, match="held") as raised:
        graph.invoke({"n": 0}, CONFIG)
    assert raised.value.nodes == ("node",)  # type: ignore[attr-defined]
    assert values_of(graph) == [None, 0, 1, 2]


@pytest.mark.parametrize(("node", "key"), [("\ud800", "n"), ("node", "\0metadata"), ("node", "\0writes")])
def test_names_that_the_saver_refuses_are_refused_at_once(node: str, key: str) -> None:
    saver = InMemorySaver()
    fields: Any = {"n": int, key: int}
    builder: Any = StateGraph(TypedDict("Odd", fields))  # type: ignore[operator]
    builder.add_node("first", lambda state: {"n": 1}).add_node(node, lambda state: {key: 2})
    graph = builder.add_edge(START, "first").add_edge("first", node).compile(checkpointer=saver)
    with pytest.raises(ValueError, match=r"task_path|no channel may be named"):
        graph.invoke({"n": 0}, CONFIG)
    assert graph.get_state(CONFIG).values["n"] == 1
    saver.delete_thread("1")


def test_who_reads_in_the_middle_of_a_run_finds_all_of_it() -> None:
    saver, seen = InMemorySaver(), list[Any]()

    def update(n: int) -> Any:
        if n in (2, 3, 6):
            seen.append(values_of(graph))
        return {}

    graph = looping(saver, 8, update)
    graph.invoke({"n": 0}, CONFIG)
    assert seen == [[None, 0, 1], [None, 0, 1, 2], [None, 0, 1, 2, 3, 4, 5]]
    assert values_of(graph) == [None, 0, 1, 2, 3, 4, 5, 6, 7, 8]


def test_somebody_who_stores_beside_a_run_is_noticed() -> None:
    saver = InMemorySaver()

    def update(n: int) -> Any:
        if n == 3:
            other.update_state(CONFIG, {"n": 100}, as_node="node")
        return {}

    graph, other = looping(saver, 8, update), looping(saver, 8)
    with pytest.raises(HeadMoved):
        graph.invoke({"n": 0}, CONFIG)
    assert values_of(graph) == [None, 0, 1, 2, 100]


def test_a_thread_that_is_deleted_meanwhile_is_missed() -> None:
    saver = InMemorySaver()
    graph = looping(saver, 8, lambda n: saver.delete_thread("1") or {} if n == 3 else {})
    with pytest.raises(HeadMoved):
        graph.invoke({"n": 0}, CONFIG)
    assert list(saver.list(None)) == []


def test_what_waits_is_bounded() -> None:
    saver = InMemorySaver()
    graph = looping(saver, 2 * MOST + 10)
    graph.invoke({"n": 0}, CONFIG)
    assert 2 * MOST < rows(saver) <= 2 * MOST + 5
    assert len(list(saver.list(CONFIG))) == 2 * MOST + 12


def test_a_saver_that_prunes_while_graphs_run_notes_nothing() -> None:
    saver = InMemorySaver(retention=Retention(keep_last=3))
    looping(saver, 20).invoke({"n": 0}, CONFIG)
    assert journals(saver) == []
    assert len(list(saver.list(CONFIG))) < 20


def test_metadata_of_the_config_stands_in_every_checkpoint() -> None:
    saver = InMemorySaver()
    graph = looping(saver, 4)
    config = {**CONFIG, "metadata": {"who": "me"}, "configurable": {"thread_id": "1", "run_id": "r"}}
    graph.invoke({"n": 0}, config)
    assert len(journals(saver)) == 1
    expected = [
        {"source": "loop", "step": step, "parents": {}, "run_id": "r", "who": "me"} for step in range(4, -1, -1)
    ]
    assert [each.metadata for each in saver.list(CONFIG)][:-1] == expected


def test_graphs_in_graphs_have_journals_of_their_own() -> None:
    saver = InMemorySaver()
    inner = looping(saver, 3)
    builder = StateGraph(State)
    builder.add_node("inner", inner.builder.compile())
    builder.add_node("last", lambda state: {"n": state["n"] * 10})
    builder.add_edge(START, "inner")
    builder.add_edge("inner", "last")
    graph = builder.compile(checkpointer=saver)
    assert graph.invoke({"n": 0}, CONFIG)["n"] == 30
    assert [each._ref.ns.partition(":")[0] for each in journals(saver)] == ["", "inner"]
    found = list(saver.list({"configurable": {"thread_id": "1"}}))
    spaces = {each.config["configurable"]["checkpoint_ns"].partition(":")[0] for each in found}
    assert (len(found), spaces) == (9, {"", "inner"})
    inside = [each for each in found if each.metadata["parents"]]
    assert [each.checkpoint["channel_values"].get("n") for each in inside] == [3, 2, 1, 0, None]
    assert {*inside[0].metadata["parents"]} == {""}


def test_a_forked_child_goes_on_without_the_lock_of_its_parent() -> None:
    saver = InMemorySaver()

    def update(n: int) -> Any:
        if n == 3:
            backlog = saver._backlog
            assert backlog is not None
            with backlog._turn:
                children.append(os.fork())
        return {}

    children = list[int]()
    graph = looping(saver, 6, update)
    try:
        graph.invoke({"n": 0}, CONFIG)
        complete = values_of(graph) == [None, 0, 1, 2, 3, 4, 5, 6]
    except BaseException:
        complete = False
    if children == [0]:
        os._exit(0 if complete else 1)
    assert complete
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0


def test_threads_that_nobody_reads_do_not_keep_the_objects_of_their_states() -> None:
    saver, held = InMemorySaver(), list[Any]()

    def node(state: State) -> Any:
        held.append(weakref.ref(state["thing"]))
        return {"n": state["n"] + 1}

    builder = StateGraph(State).add_node("node", node).add_edge(START, "node")
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"n": 0, "thing": Thing(4)}, CONFIG)
    graph.invoke({"n": 5}, CONFIG)
    gc.collect()
    assert len(journals(saver)) == 1
    assert [each() for each in held] == [None, None]
    assert values_of(graph, "thing") == [None, *[Thing(4)] * 5]


def test_notes_are_nothing_to_the_garbage_collector() -> None:
    saver = InMemorySaver()
    graph = looping(saver, 500, lambda n: {"held": [n], "text": str(n)})
    graph.invoke({"n": 0}, CONFIG)
    (journal,) = journals(saver)
    for _ in range(3):  # tuples in tuples, from the innermost on
        gc.collect()
    assert len(journal._notes) > 400
    assert not [note for note in journal._notes if gc.is_tracked(note)]
