"""Replay and fork from every checkpoint of a thread, those of children included (spec 6.5, 6.6, 7.5; house 1.7)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from tests.acceptance.kit import Log, thread
from tests.conftest import Call
from tests.runtime.kit import Body, calling, graph_of, placed
from threadmark.channels import DeltaChannel
from threadmark.errors import EmptyInputError
from threadmark.graph import END, START, StateGraph
from threadmark.types import Command

Node = Callable[[Any], Any]
NESTED = ("child", "called", "three levels")

SEQUENCE = ["a", "s1", "ask", "s2", "end"]
FIRST_INSIDE = {"a": "a", "n": "s1", "inner": "s1", "s1": "s1", "ask": "ask", "s2": "s2", "end": "end"}


class Program:
    """a -> n (s1 -> ask -> s2, somewhere inside) -> end, run to its end once."""

    def __init__(self, saver: Any, call: Call, node: Node, place: str, *, true: bool) -> None:
        self.call, self.saver, self.body = call, saver, Body()
        body = self.body
        inner = [
            ("s1", node(body.saying("s1"))),
            ("ask", node(body.asking("ask", "?"))),
            ("s2", node(body.saying("s2"))),
        ]
        kept = True if true else None
        nested = placed(place, "n", None, call, graph=graph_of(*inner, checkpointer=kept), true=true)
        self.graph = graph_of(
            ("a", node(body.saying("a"))), ("n", nested), ("end", node(body.saying("end"))), checkpointer=saver
        )

    def turn(self, answer: str, **how: Any) -> Any:
        self.call(self.graph, "invoke", {"log": []}, thread(), **how)
        return self.call(self.graph, "invoke", Command(resume=answer), thread(), **how)

    def rows(self) -> list[Any]:
        return list(self.saver.list(thread()))


def bytes_on_disk(folder: Path) -> set[Any]:
    """Every row of every table that holds threads, for a saver on disk."""
    found: set[Any] = set()
    for path in folder.glob("*.db"):
        with closing(sqlite3.connect(path)) as file:
            for table in ("checkpoint", "task", "value", "segment"):
                found |= {(table, *row) for row in file.execute(f"SELECT * FROM {table}")}
    return found


def expected(row: Any) -> list[str]:
    """The nodes that come after a stored checkpoint of the sequence."""
    values = row.checkpoint["channel_values"]
    due = [name.removeprefix("branch:to:") for name in values if name.startswith("branch:to:")]
    ns = row.config["configurable"]["checkpoint_ns"]
    if due:
        return SEQUENCE[SEQUENCE.index(FIRST_INSIDE[due[0]]) :]
    if "__start__" in values:
        return SEQUENCE[1 if ns else 0 :]
    return SEQUENCE[-1:] if ns else []


@pytest.mark.parametrize("true", [False, True])
@pytest.mark.parametrize("place", NESTED)
def test_from_every_checkpoint_exactly_what_follows_runs_and_nothing_stored_changes(
    saver: Any, call: Call, node: Node, place: str, true: bool, tmp_path: Path
) -> None:
    program = Program(saver, call, node, place, true=true)
    first = program.turn("first")
    assert first["log"][-1] == "end"
    for row in program.rows():
        before, on_disk = program.rows(), bytes_on_disk(tmp_path)
        program.body.ran.clear()
        follows = expected(row)
        shown = call(program.graph, "invoke", None, _config(row))
        where = (row.config["configurable"], row.metadata)
        if "ask" in follows:
            assert [question.value for question in shown["__interrupt__"]] == ["?"], where
            assert program.body.ran == follows[: follows.index("ask") + 1], where
            program.body.ran.clear()
            shown = call(program.graph, "invoke", Command(resume="again"), thread())
            assert program.body.ran == follows[follows.index("ask") :], where
        else:
            assert program.body.ran == follows, where
        word = "ask:again" if "ask" in follows else "ask:first"
        assert shown["log"] == [word if entry.startswith("ask:") else entry for entry in first["log"]], where
        assert call(program.graph, "get_state", thread()).next == ()
        kept = {_key(one): one for one in program.rows()}
        assert all(kept[_key(one)] == one for one in before), where
        assert on_disk <= bytes_on_disk(tmp_path), where


def _config(row: Any) -> Any:
    own = row.config["configurable"]
    map_ = {**row.metadata["parents"], own["checkpoint_ns"]: own["checkpoint_id"]}
    return {"configurable": {**own, "checkpoint_map": map_}}


def _key(row: Any) -> tuple[str, str]:
    own = row.config["configurable"]
    return own["checkpoint_ns"], own["checkpoint_id"]


@pytest.mark.parametrize("place", NESTED)
def test_a_child_s_checkpoint_needs_no_map(saver: Any, call: Call, node: Node, place: str) -> None:
    program = Program(saver, call, node, place, true=False)
    program.turn("first")
    row = next(one for one in program.rows() if "branch:to:s2" in one.checkpoint["channel_values"])
    program.body.ran.clear()
    call(program.graph, "invoke", None, {"configurable": row.config["configurable"]})
    assert program.body.ran == ["s2", "end"]


@pytest.mark.parametrize("place", NESTED)
def test_a_child_s_checkpoint_that_is_not_there_is_refused(saver: Any, call: Call, node: Node, place: str) -> None:
    program = Program(saver, call, node, place, true=False)
    program.turn("first")
    row = next(one for one in program.rows() if one.config["configurable"]["checkpoint_ns"])
    before = program.rows()
    own = {**row.config["configurable"], "checkpoint_id": "1f000000-0000-6000-8000-000000000000"}
    with pytest.raises(EmptyInputError, match="1f000000"):
        call(program.graph, "invoke", None, {"configurable": own})
    assert program.rows() == before


@pytest.mark.parametrize("place", ["child", "called"])
def test_a_child_with_thread_state_is_given_its_state_of_that_time(
    saver: Any, call: Call, node: Node, place: str
) -> None:
    program = Program(saver, call, node, place, true=True)
    program.turn("one")
    program.turn("two")
    ns = "n"
    newest = max(
        (row for row in program.rows() if row.config["configurable"]["checkpoint_ns"] == ns),
        key=lambda row: row.checkpoint["id"],
    )
    answers = sorted({word for word in newest.checkpoint["channel_values"]["log"] if word.startswith("ask:")})
    assert answers == ["ask:one", "ask:two"]
    root = [row for row in program.rows() if not row.config["configurable"]["checkpoint_ns"]]
    second_turn = next(row for row in root if "branch:to:n" in row.checkpoint["channel_values"])
    call(program.graph, "invoke", None, _config(second_turn))
    call(program.graph, "invoke", Command(resume="again"), thread())
    newest = max(
        (row for row in program.rows() if row.config["configurable"]["checkpoint_ns"] == ns),
        key=lambda row: row.checkpoint["id"],
    )
    answers = sorted({word for word in newest.checkpoint["channel_values"]["log"] if word.startswith("ask:")})
    assert answers == ["ask:again", "ask:one"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("place", NESTED)
def test_every_durability_replays(saver: Any, call: Call, node: Node, place: str, durability: str) -> None:
    program = Program(saver, call, node, place, true=False)
    program.turn("first", durability=durability)
    before = program.rows()
    for row in before:
        if row.config["configurable"]["checkpoint_ns"]:
            continue
        shown = call(program.graph, "invoke", None, _config(row), durability=durability)
        if "__interrupt__" in shown:
            shown = call(program.graph, "invoke", Command(resume="again"), thread(), durability=durability)
        assert shown["log"][-1] == "end"
    kept = {_key(one): one for one in program.rows()}
    assert all(kept[_key(one)] == one for one in before)


def test_an_update_of_a_child_is_seen_when_its_question_is_answered(saver: Any, call: Call, node: Node) -> None:
    program = Program(saver, call, node, "child", true=False)
    call(program.graph, "invoke", {"log": []}, thread())
    (task,) = call(program.graph, "get_state", thread(), subgraphs=True).tasks
    made = call(program.graph, "update_state", task.state.config, {"log": ["by hand"]})
    assert made["configurable"]["checkpoint_ns"] == task.state.config["configurable"]["checkpoint_ns"]
    shown = call(program.graph, "invoke", None, thread())
    assert [question.value for question in shown["__interrupt__"]] == ["?"]
    done = call(program.graph, "invoke", Command(resume="A"), thread())
    assert done["log"] == ["a", "a", "s1", "by hand", "ask:A", "s2", "end"]


def test_two_forks_of_one_checkpoint_share_nothing(saver: Any, call: Call, node: Node) -> None:
    program = Program(saver, call, node, "child", true=False)
    program.turn("first")
    history = call(program.graph, "get_state_history", thread())
    before_n = next(one for one in history if one.next == ("n",))
    made = [
        call(program.graph, "update_state", before_n.config, {"log": [word]}, as_node="a") for word in ("left", "right")
    ]
    for config, word in zip(made, ("left", "right"), strict=True):
        state = call(program.graph, "get_state", config)
        assert (state.values["log"], state.next) == (["a", word], ("n",))
    for config, word in zip(made, ("left", "right"), strict=True):
        call(program.graph, "invoke", None, config)
        done = call(program.graph, "invoke", Command(resume=word), thread())
        assert [entry for entry in done["log"] if entry in ("left", "right", "ask:left", "ask:right")].count(
            f"ask:{word}"
        ) == 1
    assert call(program.graph, "get_state", history[0].config).values == history[0].values


def test_new_input_at_a_checkpoint_inside_a_child_branches_at_its_root(saver: Any, call: Call, node: Node) -> None:
    program = Program(saver, call, node, "child", true=False)
    program.turn("first")
    inside = next(row for row in program.rows() if row.config["configurable"]["checkpoint_ns"])
    before = program.rows()
    program.body.ran.clear()
    shown = call(program.graph, "invoke", {"log": ["new"]}, _config(inside))
    assert "__interrupt__" in shown
    assert program.body.ran == ["a", "s1", "ask"]
    newest = call(program.graph, "get_state_history", thread(), filter={"source": "input"})[0]
    assert newest.parent_config["configurable"]["checkpoint_id"] == inside.metadata["parents"][""]
    kept = {_key(one): one for one in program.rows()}
    assert all(kept[_key(one)] == one for one in before)


class Deltas(TypedDict):
    log: Annotated[
        list[str], DeltaChannel(lambda state, writes: [*state, *(word for write in writes for word in write)])
    ]


@pytest.mark.parametrize("true", [False, True])
def test_a_delta_channel_in_a_child_has_its_value_of_that_time(saver: Any, call: Call, node: Node, true: bool) -> None:
    ran: list[str] = []

    def saying(name: str) -> Callable[[Any], Any]:
        def say(state: Any) -> Any:
            ran.append(name)
            return {"log": [name]}

        return say

    inner: StateGraph[Any] = StateGraph(Deltas)
    for before, name in (("", "s1"), ("s1", "s2"), ("s2", "s3")):
        inner.add_node(name, node(saying(name)))
        inner.add_edge(before or START, name)
    graph = graph_of(("n", calling(inner.compile(checkpointer=True if true else None), call)), checkpointer=saver)
    assert call(graph, "invoke", {"log": []}, thread())["log"] == ["s1", "s2", "s3"]
    for number, name in enumerate(("s2", "s3"), 1):
        found = [row for row in saver.list(thread()) if f"branch:to:{name}" in row.checkpoint["channel_values"]]
        ran.clear()
        done = call(graph, "invoke", None, _config(found[-1]))
        assert done["log"] == ["s1", "s2", "s3"]
        assert ran == ["s1", "s2", "s3"][number:]
        assert call(graph, "get_state", thread()).values["log"] == ["s1", "s2", "s3"]


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("source", ["fork", "update"])
@pytest.mark.parametrize("place", NESTED)
def test_a_child_of_a_branch_that_runs_once_more_begins_afresh(
    saver: Any, call: Call, node: Node, place: str, source: str, times: int
) -> None:
    """Replaying the newest fork or update makes no further fork, so its tasks keep their ids, and their children
    the namespaces in which they were before."""
    program = Program(saver, call, node, place, true=False)
    call(program.graph, "invoke", {"log": []}, thread())
    before_n = next(one for one in call(program.graph, "get_state_history", thread()) if one.next == ("n",))
    if source == "fork":
        call(program.graph, "invoke", None, before_n.config)
    else:
        call(program.graph, "update_state", before_n.config, {"log": []}, as_node="a")
        call(program.graph, "invoke", None, thread())
    branch = call(program.graph, "get_state", thread())
    assert branch.metadata["source"] == source
    for _ in range(times):
        program.body.ran.clear()
        call(program.graph, "invoke", None, branch.config)
        assert program.body.ran == ["s1", "ask"]
    assert call(program.graph, "get_state", thread()).config == branch.config
    done = call(program.graph, "invoke", Command(resume="A"), thread())
    assert [entry for entry in done["log"] if entry != "a"] == ["s1", "ask:A", "s2", "end"]


@pytest.mark.parametrize("place", ["child", "called"])
def test_a_chosen_checkpoint_of_a_child_is_for_its_first_call_only(
    saver: Any, call: Call, node: Node, place: str
) -> None:
    """A node that is due once more in the same replay calls a new child."""
    body = Body()
    inner = graph_of(("s1", node(body.saying("s1"))), ("s2", node(body.saying("s2"))))
    builder: StateGraph[Any] = StateGraph(Log)
    builder.add_node("n", inner if place == "child" else calling(inner, call))
    builder.add_edge(START, "n")
    builder.add_conditional_edges("n", lambda state: "n" if state["log"].count("s2") % 8 in (1, 2) else END)
    graph = builder.compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    rows = [row for row in saver.list(thread()) if "branch:to:s2" in row.checkpoint["channel_values"]]
    first = min(rows, key=lambda row: row.checkpoint["id"])
    ran, body.ran = body.ran, []
    assert ran[:4] == ["s1", "s2", "s1", "s2"]
    call(graph, "invoke", None, _config(first))
    assert body.ran == ran[1:]


def test_nodes_of_one_name_in_two_levels_are_told_apart_in_a_replay(saver: Any, call: Call, node: Node) -> None:
    body = Body()
    innermost = graph_of(("s1", node(body.saying("s1"))), ("s2", node(body.saying("s2"))))
    inner = graph_of(("n", calling(innermost, call)), ("n2", calling(innermost, call)))
    graph = graph_of(("n", calling(inner, call)), ("n2", calling(innermost, call)), checkpointer=saver)
    first = call(graph, "invoke", {"log": []}, thread())
    assert body.ran == ["s1", "s2"] * 3
    for row in list(saver.list(thread())):
        if "__start__" not in row.checkpoint["channel_values"]:
            assert call(graph, "invoke", None, _config(row)) == first
