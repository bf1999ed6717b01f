"""Whole threads, checkpoint by checkpoint (spec 17)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.kit import Log, chain, fan, id_of, lines, say, thread
from tests.conftest import Call
from threadmark.graph import START, StateGraph
from threadmark.ids import NULL_TASK_ID
from threadmark.types import Command, interrupt

Node = Callable[[Any], Any]


def counters(versions: Any) -> dict[str, int]:
    return {name: int(str(version).partition(".")[0]) for name, version in versions.items()}


def writes_on(saver: Any, snapshot: Any) -> list[tuple[str, str, Any]]:
    return saver.get_tuple(snapshot.config).pending_writes


def diamond() -> StateGraph[Any]:
    builder = StateGraph(Log)
    for name in "abcd":
        builder.add_node(name, say(name))
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")
    builder.add_edge("a", "c")
    builder.add_edge(["b", "c"], "d")
    return builder


def test_t1_two_inputs_through_a_diamond_with_a_barrier(saver: Any, call: Call) -> None:
    graph = diamond().compile(checkpointer=saver)
    call(graph, "invoke", {"log": ["x"]}, thread())
    first = saver.get_tuple(thread()).checkpoint
    call(graph, "invoke", {"log": ["x"]}, thread())
    history = call(graph, "get_state_history", thread())
    assert lines(history) == [
        "#0 p=- input/-1 [] (__start__)",
        "#1 p=0 loop/0 [x] (a)",
        "#2 p=1 loop/1 [x a] (b,c)",
        "#3 p=2 loop/2 [x a b c] (d)",
        "#4 p=3 loop/3 [x a b c d] ()",
        "#5 p=4 input/4 [x a b c d] (__start__)",
        "#6 p=5 loop/5 [x a b c d x] (a)",
        "#7 p=6 loop/6 [x a b c d x a] (b,c)",
        "#8 p=7 loop/7 [x a b c d x a b c] (d)",
        "#9 p=8 loop/8 [x a b c d x a b c d] ()",
    ]
    assert counters(first["channel_versions"]) == {
        "__start__": 2,
        "log": 5,
        "branch:to:a": 3,
        "branch:to:b": 4,
        "branch:to:c": 4,
        "join:b+c:d": 5,
    }
    assert {name: counters(seen) for name, seen in first["versions_seen"].items()} == {
        "__input__": {},
        "__start__": {"__start__": 1},
        "a": {"branch:to:a": 2},
        "b": {"branch:to:b": 3},
        "c": {"branch:to:c": 3},
        "d": {"join:b+c:d": 4},
    }
    stored = [saver.get_tuple(one.config).checkpoint for one in history[::-1]]
    assert stored[3]["channel_values"]["join:b+c:d"] == {"b", "c"}
    assert stored[4]["channel_values"]["join:b+c:d"] == set()
    assert stored[4]["updated_channels"] == ["log"]
    assert {one["v"] for one in stored} == {4}


@pytest.mark.parametrize("defer", [True, False])
def test_t2_a_deferred_node_waits_until_nothing_else_is_due(saver: Any, call: Call, defer: bool) -> None:
    builder = StateGraph(Log)
    for name in ("a", "b", "b2", "c"):
        builder.add_node(name, say(name))
    builder.add_node("d", say("d"), defer=defer)
    for start, end in ((START, "a"), ("a", "b"), ("b", "b2"), ("b2", "d"), ("a", "c"), ("c", "d")):
        builder.add_edge(start, end)
    graph = builder.compile(checkpointer=saver)
    after = ["a", "b", "c", "b2", "d"] if defer else ["a", "b", "c", "b2", "d", "d"]
    assert call(graph, "invoke", {"log": []}, thread()) == {"log": after}
    if not defer:
        return
    by_step = {one.metadata["step"]: saver.get_tuple(one.config) for one in call(graph, "get_state_history", thread())}
    assert list(by_step[2].checkpoint["channel_values"]["branch:to:d"]) == [None, False]
    assert list(by_step[3].checkpoint["channel_values"]["branch:to:d"]) == [None, True]
    assert by_step[3].checkpoint["updated_channels"] == ["branch:to:d", "log"]


def test_t3_a_question_and_its_answer(saver: Any, call: Call, node: Node) -> None:
    def ask(state: Log) -> dict[str, list[str]]:
        return {"log": [interrupt("name?")]}

    graph = chain(("ask", node(ask)), "next").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    paused = call(graph, "get_state", thread())
    ((_, channel, (question,)),) = writes_on(saver, paused)
    assert (channel, question.value, question.id) == ("__interrupt__", "name?", paused.interrupts[0].id)
    assert call(graph, "invoke", Command(resume="A"), thread()) == {"log": ["A", "next"]}

    task = paused.tasks[0].id
    written = [(id, name, value) for id, name, value in writes_on(saver, paused) if name != "__interrupt__"]
    assert [(name, value) for id, name, value in written if id == task] == [
        ("__resume__", ["A"]),
        ("log", ["A"]),
        ("branch:to:next", None),
    ]
    assert [name for id, name, _ in written if id == NULL_TASK_ID] == ["__resume__"]
    history = call(graph, "get_state_history", thread())
    assert lines(history) == [
        "#0 p=- input/-1 [] (__start__)",
        "#1 p=0 loop/0 [] (ask)",
        "#2 p=1 loop/1 [A] (next)",
        "#3 p=2 loop/2 [A next] ()",
    ]
    before, after = (saver.get_tuple(one.config).checkpoint for one in (history[2], history[1]))
    assert after["versions_seen"]["__interrupt__"] == before["channel_versions"]


def test_t4_one_command_answers_updates_and_goes_elsewhere(saver: Any, call: Call, node: Node) -> None:
    def ask(state: Log) -> dict[str, list[str]]:
        return {"log": [interrupt("?")]}

    builder = chain(("one", node(ask)))
    builder.add_node("two", say("two"))
    graph = builder.compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    paused = call(graph, "get_state", thread())
    found = call(graph, "invoke", Command(resume="R", update={"log": ["U"]}, goto="two"), thread())
    assert found == {"log": ["U", "R", "two"]}
    given = [(name, value) for id, name, value in writes_on(saver, paused) if id == NULL_TASK_ID]
    assert [name for name, _ in given if name != "__resume__"] == ["branch:to:two", "log"]
    assert dict(given)["log"] == ["U"]
    assert dict(given)["branch:to:two"] == "__start__"
    assert len(call(graph, "get_state_history", thread())) == 3


def failing_pair(node: Node, down: list[str]) -> StateGraph[Any]:
    """a and b at once; b fails as long as ``down`` says so, and not before a has written."""
    ended = threading.Event()

    def a(state: Log) -> dict[str, list[str]]:
        ended.set()
        return {"log": ["a"]}

    def b(state: Log) -> dict[str, list[str]]:
        if down:
            raise ValueError("boom b")
        return {"log": ["b"]}

    return fan(("a", node(a)), ("b", node(b)))


def test_t5_a_failure_keeps_the_sibling(saver: Any, call: Call, node: Node) -> None:
    down = ["b"]
    graph = failing_pair(node, down).compile(checkpointer=saver)
    with pytest.raises(ValueError, match="boom b") as raised:
        call(graph, "invoke", {"log": ["x"]}, thread())
    assert any("'b'" in note for note in raised.value.__notes__)
    failed = call(graph, "get_state", thread())
    assert (failed.values, failed.next) == ({"log": ["x", "a"]}, ("b",))
    assert {task.name: (task.error, task.result) for task in failed.tasks} == {
        "a": (None, {"log": ["a"]}),
        "b": ("ValueError('boom b')", None),
    }
    record = call(graph, "get_state", failed.config)
    assert (record.values, record.next) == ({"log": ["x"]}, ("a", "b"))
    assert sorted((name, value) for _, name, value in writes_on(saver, failed)) == [
        ("__error__", "ValueError('boom b')"),
        ("log", ["a"]),
    ]
    down.clear()
    assert call(graph, "invoke", None, thread()) == {"log": ["x", "a", "b"]}
    assert len(call(graph, "get_state_history", thread())) == 3


def test_t6_new_input_after_a_failure_drops_what_was_unfinished(saver: Any, call: Call, node: Node) -> None:
    down = ["b"]
    graph = failing_pair(node, down).compile(checkpointer=saver)
    with pytest.raises(ValueError, match="boom b"):
        call(graph, "invoke", {"log": ["x"]}, thread())
    down.clear()
    assert call(graph, "invoke", {"log": ["new"]}, thread()) == {"log": ["x", "new", "a", "b"]}
    assert lines(call(graph, "get_state_history", thread())) == [
        "#0 p=- input/-1 [] (__start__)",
        "#1 p=0 loop/0 [x] (a,b)",
        "#2 p=1 input/1 [x] (__start__)",
        "#3 p=2 loop/2 [x new] (a,b)",
        "#4 p=3 loop/3 [x new a b] ()",
    ]
    newest_input = saver.get_tuple(call(graph, "get_state_history", thread())[2].config).checkpoint
    versions, seen = newest_input["channel_versions"], newest_input["versions_seen"]
    assert seen["a"]["branch:to:a"] <= versions["branch:to:a"]
    assert "branch:to:a" not in newest_input["channel_values"]


async def test_t7_on_a_loop_a_failure_cancels_what_still_runs(saver: Any) -> None:
    import asyncio

    going = asyncio.Event()

    async def ok(state: Log) -> dict[str, list[str]]:
        return {"log": ["ok"]}

    async def slow(state: Log) -> None:
        going.set()
        await asyncio.Event().wait()

    async def bad(state: Log) -> None:
        await going.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        raise ValueError("bad")

    graph = fan(("ok", ok), ("bad", bad), ("slow", slow)).compile(checkpointer=saver)
    with pytest.raises(ValueError, match="bad"):
        await graph.ainvoke({"log": []}, thread())
    failed = await graph.aget_state(thread())
    assert failed.next == ("bad", "slow")
    assert {task.name: task.error for task in failed.tasks} == {
        "ok": None,
        "bad": "ValueError('bad')",
        "slow": "CancelledError()",
    }
    assert failed.values == {"log": ["ok"]}


def test_t8_exit_stores_a_pause_and_its_question(saver: Any, call: Call, node: Node) -> None:
    def ask(state: Log) -> dict[str, list[str]]:
        return {"log": [interrupt("?")]}

    graph = chain(("ask", node(ask))).compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread(), durability="exit")
    assert lines(call(graph, "get_state_history", thread())) == ["#0 p=- loop/0 [] (ask)"]
    assert [one.value for one in call(graph, "get_state", thread()).interrupts] == ["?"]
    assert call(graph, "invoke", Command(resume="A"), thread(), durability="exit") == {"log": ["A"]}
    assert lines(call(graph, "get_state_history", thread())) == [
        "#0 p=- loop/0 [] (ask)",
        "#1 p=0 loop/1 [A] ()",
    ]


@pytest.mark.parametrize(
    ("as_node", "line"),
    [
        (None, "#0 p=- update/0 [u] (a)"),
        ("a", "#0 p=- update/0 [u] (b)"),
        ("__input__", "#0 p=- input/-1 [] (__start__)"),
    ],
)
def test_t9_an_update_begins_a_thread(saver: Any, call: Call, as_node: str | None, line: str) -> None:
    graph = chain("a", "b").compile(checkpointer=saver)
    call(graph, "update_state", thread(), {"log": ["u"]}, as_node=as_node)
    assert lines(call(graph, "get_state_history", thread())) == [line]


def test_t10_a_copy_is_a_sibling(saver: Any, call: Call) -> None:
    graph = chain("a", "b", "c").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    third = call(graph, "get_state_history", thread())[1]
    assert third.metadata["step"] == 2
    made = call(graph, "update_state", third.config, None, as_node="__copy__")
    history = call(graph, "get_state_history", thread())
    assert lines(history)[5:] == ["#5 p=2 fork/3 [a b] (c)"]
    assert id_of(history[0]) == made["configurable"]["checkpoint_id"]
    assert call(graph, "invoke", None, thread()) == {"log": ["a", "b", "c"]}
    assert lines(call(graph, "get_state_history", thread()))[6:] == ["#6 p=5 loop/4 [a b c] ()"]
