"""What a run tells while it runs: modes, lists of modes, and events that arrive live (spec 10)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.kit import Log, Pair, chain, fan, listen, say, thread
from tests.conftest import Call
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.config import get_stream_writer
from threadmark.errors import GraphRecursionError
from threadmark.graph import START, StateGraph
from threadmark.types import Command, GraphOutput, Send, interrupt

Node = Callable[[Any], Any]


# -- payloads


def test_values_are_told_when_they_change(saver: Any, call: Call, node: Node) -> None:
    graph = chain("a", ("quiet", node(lambda state: None)), "b").compile(checkpointer=saver)
    assert call(graph, "stream", {"log": ["in"]}, thread(), stream_mode="values") == [
        {"log": ["in"]},
        {"log": ["in", "a"]},
        {"log": ["in", "a", "b"]},
    ]
    assert call(graph, "stream", None, thread(), stream_mode="values") == [{"log": ["in", "a", "b"]}]


def test_updates_are_told_task_by_task(call: Call, node: Node) -> None:
    graph = chain("a", ("quiet", node(lambda state: None)), ("b", node(lambda state: {"log": ["b"]}))).compile()
    assert call(graph, "stream", {"log": []}) == [{"a": {"log": ["a"]}}, {"quiet": None}, {"b": {"log": ["b"]}}]


def test_several_writes_to_one_key_are_a_list(call: Call, node: Node) -> None:
    def twice(state: Pair) -> list[Any]:
        return [Command(update={"bar": ["1"]}), {"bar": ["2"], "foo": "x"}]

    graph = chain(("a", node(twice)), schema=Pair).compile()
    assert call(graph, "stream", {"foo": ""}) == [{"a": [{"bar": ["1"], "foo": "x"}, {"bar": ["2"]}]}]


def test_each_packet_tells_its_update(call: Call) -> None:
    builder = StateGraph(Log).add_node("w", lambda state: {"log": [state]})
    builder.add_conditional_edges(START, lambda state: [Send("w", "x"), Send("w", "y")])
    told = call(builder.compile(), "stream", {"log": []}, {"max_concurrency": 1})
    assert told == [{"w": {"log": ["x"]}}, {"w": {"log": ["y"]}}]


def test_a_list_of_modes_gives_pairs(call: Call, node: Node) -> None:
    def talk(state: Log) -> dict[str, list[str]]:
        get_stream_writer()("hello")
        return {"log": ["a"]}

    graph = chain(("a", node(talk))).compile()
    assert call(graph, "stream", {"log": []}, stream_mode=["updates", "custom", "values"]) == [
        ("values", {"log": []}),
        ("custom", "hello"),
        ("updates", {"a": {"log": ["a"]}}),
        ("values", {"log": ["a"]}),
    ]
    assert call(graph, "stream", {"log": []}, stream_mode=["custom"]) == [("custom", "hello")]


def test_the_mode_of_the_graph_is_the_default(call: Call) -> None:
    graph = chain("a").compile()
    graph.stream_mode = "values"
    assert call(graph, "stream", {"log": []}) == [{"log": []}, {"log": ["a"]}]


def test_output_keys_narrow_what_is_told(call: Call, node: Node) -> None:
    graph = chain(("a", node(lambda state: {"foo": "x", "bar": ["y"]})), schema=Pair).compile()
    given = {"foo": "", "bar": []}
    assert call(graph, "invoke", given, output_keys="foo") == "x"
    assert call(graph, "invoke", given, output_keys=["bar"]) == {"bar": ["y"]}
    assert call(graph, "stream", given, output_keys=["foo"], stream_mode="values") == [{"foo": ""}, {"foo": "x"}]
    assert call(graph, "stream", given, output_keys=["foo"]) == [{"a": {"foo": "x"}}]


def test_invoke_with_another_mode_returns_the_chunks(call: Call) -> None:
    graph = chain("a").compile()
    assert call(graph, "invoke", {"log": []}, stream_mode="updates") == [{"a": {"log": ["a"]}}]
    assert call(graph, "invoke", {"log": []}, stream_mode=["values"])[-1] == ("values", {"log": ["a"]})


def test_the_second_envelope(saver: Any, call: Call, node: Node) -> None:
    graph = chain(("ask", node(lambda state: {"log": [interrupt("?")]}))).compile(checkpointer=saver)
    told = call(graph, "stream", {"log": []}, thread(), stream_mode=["values", "updates"], version="v2")
    assert [(one["type"], one["ns"]) for one in told] == [("values", ()), ("updates", ()), ("values", ())]
    assert told[0] == {"type": "values", "ns": (), "data": {"log": []}, "interrupts": ()}
    assert told[-1]["data"] == {"log": []}
    assert [one.value for one in told[-1]["interrupts"]] == ["?"]
    found = call(graph, "invoke", None, thread(), version="v2")
    assert isinstance(found, GraphOutput)
    assert (found.value, [one.value for one in found.interrupts]) == ({"log": []}, ["?"])


def test_questions_are_told_as_updates_and_values(saver: Any, call: Call, node: Node) -> None:
    graph = chain("a", ("ask", node(lambda state: {"log": [interrupt("?")]}))).compile(checkpointer=saver)
    told = call(graph, "stream", {"log": []}, thread(), stream_mode=["updates", "values"])
    assert told[:3] == [("values", {"log": []}), ("updates", {"a": {"log": ["a"]}}), ("values", {"log": ["a"]})]
    (mode, update), (other, values) = told[3:]
    assert (mode, other) == ("updates", "values")
    assert [one.value for one in update["__interrupt__"]] == ["?"]
    assert values["log"] == ["a"]
    assert [one.value for one in values["__interrupt__"]] == ["?"]
    answered = call(graph, "stream", Command(resume="A"), thread(), stream_mode=["updates", "values"])
    assert answered == [
        ("values", {"log": ["a"]}),
        ("updates", {"ask": {"log": ["A"]}}),
        ("values", {"log": ["a", "A"]}),
    ]


def test_a_breakpoint_is_told_as_an_empty_question(saver: Any, call: Call) -> None:
    graph = chain("a", "b").compile(checkpointer=saver, interrupt_before=["b"])
    assert call(graph, "stream", {"log": []}, thread()) == [{"a": {"log": ["a"]}}, {"__interrupt__": ()}]


def test_results_found_in_storage_are_told_as_such(saver: Any, call: Call, node: Node) -> None:
    down = [True]

    def b(state: Log) -> dict[str, list[str]]:
        if down:
            raise ValueError("down")
        return {"log": ["b"]}

    graph = fan(("a", node(say("a"))), ("b", node(b))).compile(checkpointer=saver)
    with pytest.raises(ValueError, match="down"):
        call(graph, "invoke", {"log": []}, thread())
    down.clear()
    assert call(graph, "stream", None, thread()) == [
        {"a": {"log": ["a"]}, "__metadata__": {"cached": True}},
        {"b": {"log": ["b"]}},
    ]


def test_tasks_are_told_when_they_start_and_end(saver: Any, call: Call) -> None:
    graph = chain("a").compile(checkpointer=saver)
    started, ended = call(graph, "stream", {"log": []}, thread(), stream_mode="tasks")
    assert (started["name"], started["input"], started["triggers"]) == ("a", {"log": []}, ("branch:to:a",))
    assert ended == {"id": started["id"], "name": "a", "error": None, "result": {"log": ["a"]}, "interrupts": []}


def test_checkpoints_are_told_with_what_comes_next(saver: Any, call: Call) -> None:
    graph = chain("a", "b").compile(checkpointer=saver)
    told = call(graph, "stream", {"log": []}, thread(), stream_mode="checkpoints")
    assert [(one["metadata"]["source"], one["metadata"]["step"], one["values"], one["next"]) for one in told] == [
        ("input", -1, {"log": []}, ["__start__"]),
        ("loop", 0, {"log": []}, ["a"]),
        ("loop", 1, {"log": ["a"]}, ["b"]),
        ("loop", 2, {"log": ["a", "b"]}, []),
    ]
    history = call(graph, "get_state_history", thread())[::-1]
    ids = [one["config"]["configurable"]["checkpoint_id"] for one in told]
    assert ids == [one.config["configurable"]["checkpoint_id"] for one in history]
    parents = [one["parent_config"] and one["parent_config"]["configurable"]["checkpoint_id"] for one in told]
    assert parents == [None, *ids[:-1]]


def test_debug_wraps_checkpoints_and_tasks(saver: Any, call: Call) -> None:
    graph = chain("a").compile(checkpointer=saver)
    told = call(graph, "stream", {"log": []}, thread(), stream_mode="debug")
    assert [(one["type"], one["step"]) for one in told] == [
        ("checkpoint", -1),
        ("checkpoint", 0),
        ("task", 1),
        ("task_result", 1),
        ("checkpoint", 1),
    ]


def test_what_ended_before_an_error_is_told_before_it(saver: Any, call: Call, node: Node) -> None:
    def fail(state: Log) -> None:
        raise ValueError("down")

    graph = chain("a", ("b", node(fail))).compile(checkpointer=saver)
    stream = getattr(graph, "stream" if call.colour == "sync" else "astream")
    told: list[Any] = []
    error = asyncio.run(listen(stream({"log": []}, thread(), stream_mode=["updates", "tasks"]), told))
    assert repr(error) == "ValueError('down')"
    assert ("updates", {"a": {"log": ["a"]}}) in told
    assert told[-1][0] == "tasks"
    assert repr(told[-1][1]["error"]) == "ValueError('down')"


def test_a_limit_tells_everything_before_it_raises() -> None:
    told: list[Any] = []
    stream = chain("a", "b").compile().stream({"log": []}, {"recursion_limit": 1})
    with pytest.raises(GraphRecursionError):
        told.extend(stream)
    assert told == [{"a": {"log": ["a"]}}]


# -- live


def test_custom_events_of_a_single_node_arrive_while_it_runs() -> None:
    heard = threading.Event()

    def talk(state: Log, writer: Any) -> dict[str, list[str]]:
        writer("first")
        assert heard.wait(10)
        writer("second")
        return {"log": ["done"]}

    events = []
    for mode, event in chain(("talk", talk)).compile().stream({"log": []}, stream_mode=["custom", "updates"]):
        events.append((mode, event))
        if event == "first":
            heard.set()
    assert events == [("custom", "first"), ("custom", "second"), ("updates", {"talk": {"log": ["done"]}})]


@pytest.mark.parametrize("colour", ["plain", "coroutine"])
async def test_custom_events_of_a_single_node_arrive_while_it_runs_on_a_loop(colour: str) -> None:
    heard = threading.Event()
    heard_on_loop = asyncio.Event()

    def talk(state: Log, writer: Any) -> dict[str, list[str]]:
        writer("first")
        assert heard.wait(10)
        return {"log": ["done"]}

    async def talk_on_loop(state: Log, writer: Any) -> dict[str, list[str]]:
        writer("first")
        async with asyncio.timeout(10):
            await heard_on_loop.wait()
        return {"log": ["done"]}

    graph = chain(("talk", talk if colour == "plain" else talk_on_loop)).compile()
    events = []
    async for event in graph.astream({"log": []}, stream_mode="custom"):
        events.append(event)
        heard.set()
        heard_on_loop.set()
    assert events == ["first"]


def test_updates_of_a_fan_out_arrive_as_each_task_ends() -> None:
    told_of_first = threading.Event()

    def second(state: Log) -> dict[str, list[str]]:
        assert told_of_first.wait(10)
        return {"log": ["second"]}

    told = []
    for one in fan("first", ("second", second)).compile().stream({"log": []}):
        told.append(one)
        told_of_first.set()
    assert told == [{"first": {"log": ["first"]}}, {"second": {"log": ["second"]}}]


def test_the_next_superstep_waits_until_it_is_asked_for(saver: Any) -> None:
    ran: list[str] = []
    graph = chain(*((name, lambda state, name=name: ran.append(name)) for name in "abc")).compile(checkpointer=saver)
    stream = graph.stream({"log": []}, thread())
    next(stream)
    assert ran == ["a"]
    next(stream)
    assert ran == ["a", "b"]
    stream.close()
    assert graph.get_state(thread()).next == ("c",)
    graph.invoke(None, thread())
    assert ran == ["a", "b", "c"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_a_stream_that_is_closed_early_can_be_gone_on_with(saver: Any, durability: str) -> None:
    graph = chain("a", "b", "c").compile(checkpointer=saver)
    stream = graph.astream({"log": []}, thread(), durability=durability)
    assert await anext(stream) == {"a": {"log": ["a"]}}
    await stream.aclose()
    state = await graph.aget_state(thread())
    assert (state.values, state.next) == ({"log": ["a"]}, ("b",))
    assert await graph.ainvoke(None, thread()) == {"log": ["a", "b", "c"]}


def test_nobody_listens_and_writers_still_work(call: Call, node: Node) -> None:
    def talk(state: Log, writer: Any) -> dict[str, list[str]]:
        writer("to nobody")
        return {"log": ["a"]}

    assert call(chain(("a", node(talk))).compile(), "invoke", {"log": []}) == {"log": ["a"]}


def test_printing_is_beside_the_result(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    graph = chain("a").compile()
    assert call(graph, "invoke", {"log": []}, print_mode="updates") == {"log": ["a"]}
    assert "'a'" in capsys.readouterr().out
    assert call(graph, "stream", {"log": []}, stream_mode="values", print_mode=["updates"])[-1] == {"log": ["a"]}
    assert "[updates]" in capsys.readouterr().out


def test_a_custom_event_may_be_anything(call: Call, node: Node) -> None:
    thing = object()

    def talk(state: Log, writer: Any) -> None:
        writer(None)
        writer(thing)

    graph = chain(("a", node(talk)), ("b", say("b"))).compile(checkpointer=InMemorySaver())
    assert call(graph, "stream", {"log": []}, thread(), stream_mode="custom") == [None, thing]
