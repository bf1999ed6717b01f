"""Streams of graphs in graphs, early ends, and how much is waited for (spec 10)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from tests.acceptance.kit import Log, chain, listen, say, thread
from tests.conftest import Call
from tests.runtime.kit import PLACES, Body, calling, graph_of, placed
from threadmark.config import get_stream_writer
from threadmark.graph import START, StateGraph
from threadmark.types import Command, Durability

Node = Callable[[Any], Any]


def told(call: Call, graph: Any, *args: Any, **how: Any) -> list[Any]:
    return list(call(graph, "stream", *args, **how))


def names(ns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(level.partition(":")[0] for level in ns)


def three_levels(call: Call, node: Node, saver: Any = None) -> Any:
    deep = graph_of(("deep", node(say("deep"))))
    middle = graph_of(("mid", node(say("mid"))), ("called", calling(deep, call)))
    return graph_of(("top", node(say("top"))), ("n", middle), checkpointer=saver)


def test_updates_of_all_levels_with_their_namespaces(saver: Any, call: Call, node: Node) -> None:
    found = told(call, three_levels(call, node, saver), {"log": []}, thread(), stream_mode="updates", subgraphs=True)
    assert [(names(ns), *payload) for ns, payload in found] == [
        ((), "top"),
        (("n",), "mid"),
        (("n", "called"), "deep"),
        (("n",), "called"),
        ((), "n"),
    ]
    stored = {row.config["configurable"]["checkpoint_ns"] for row in saver.list(thread())}
    assert {"|".join(ns) for ns, _ in found} == stored


def test_without_subgraphs_only_the_root_is_told(call: Call, node: Node) -> None:
    found = told(call, three_levels(call, node), {"log": []}, stream_mode="updates")
    assert [list(payload) for payload in found] == [["top"], ["n"]]


def test_modes_and_subgraphs_make_triples(call: Call, node: Node) -> None:
    found = told(call, three_levels(call, node), {"log": []}, stream_mode=["values", "updates"], subgraphs=True)
    assert {(len(ns), mode) for ns, mode, _ in found} == {(n, m) for n in range(3) for m in ("values", "updates")}


def test_the_second_envelope_has_namespaces(call: Call, node: Node) -> None:
    found = told(call, three_levels(call, node), {"log": []}, stream_mode="updates", subgraphs=True, version="v2")
    assert [(event["type"], names(event["ns"])) for event in found][2] == ("updates", ("n", "called"))


@pytest.mark.parametrize("mode", ["values", "updates", "tasks", "checkpoints", "debug"])
@pytest.mark.parametrize("place", PLACES)
def test_every_mode_goes_through_a_question_and_its_answer(
    saver: Any, call: Call, node: Node, place: str, mode: str
) -> None:
    graph = graph_of(("n", placed(place, "n", node(Body().asking("ask", "?")), call)), checkpointer=saver)
    first = told(call, graph, {"log": []}, thread(), stream_mode=mode, subgraphs=True)
    assert ("?" in repr(first)) is (mode != "checkpoints")  # a question makes no checkpoint
    second = told(call, graph, Command(resume="A"), thread(), stream_mode=mode, subgraphs=True)
    assert "ask:A" in repr(second)
    assert call(graph, "get_state", thread()).values == {"log": ["ask:A"]}


@pytest.mark.parametrize("place", PLACES)
def test_a_question_is_told_once_at_the_root(saver: Any, call: Call, node: Node, place: str) -> None:
    graph = graph_of(("n", placed(place, "n", node(Body().asking("ask", "?")), call)), checkpointer=saver)
    found = told(call, graph, {"log": []}, thread(), stream_mode="updates")
    assert [[question.value for question in payload["__interrupt__"]] for payload in found] == [["?"]]


def test_custom_events_of_all_levels(call: Call, node: Node) -> None:
    def tell(state: Log) -> None:
        get_stream_writer()("hello")

    deep = graph_of(("deep", node(tell)))
    graph = graph_of(("mid", node(tell)), ("called", calling(deep, call)))
    found = told(call, graph, {"log": []}, stream_mode="custom", subgraphs=True)
    assert [(names(ns), payload) for ns, payload in found] == [((), "hello"), (("called",), "hello")]
    assert told(call, graph, {"log": []}, stream_mode="custom") == ["hello"]


def test_a_stream_inside_a_node_is_heard_there_and_above(call: Call) -> None:
    deep = graph_of(("one", say("1")), ("two", say("2")))
    heard: list[Any] = []

    def inside(state: Log) -> Any:
        heard.extend(deep.stream({"log": []}, stream_mode="updates"))
        return {"log": ["heard"]}

    async def inside_on_loop(state: Log) -> Any:
        heard.extend([event async for event in deep.astream({"log": []}, stream_mode="updates")])
        return {"log": ["heard"]}

    graph = graph_of(("n", inside_on_loop if call.colour == "async" else inside))
    above = told(call, graph, {"log": []}, stream_mode="updates", subgraphs=True)
    assert [list(event) for event in heard] == [["one"], ["two"]]
    assert [list(payload) for _, payload in above] == [["one"], ["two"], ["n"]]


# -- early ends --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("place", ["root", "child", "called"])
def test_closing_after_each_item_loses_nothing(saver: Any, node: Node, place: str, durability: Durability) -> None:
    with asyncio.Runner() as runner:
        call = Call("sync", runner)
        body = Body()
        graph = graph_of(
            ("a", body.saying("a")),
            ("n", placed(place, "n", body.saying("n"), call, before=body.saying("before"))),
            ("end", body.saying("end")),
            checkpointer=saver,
        )
        input: Any = {"log": []}
        for _ in range(20):
            stream = graph.stream(input, thread(), stream_mode="updates", subgraphs=True, durability=durability)
            first = next(stream, None)
            stream.close()
            input = None
            if first is None:
                break
        log = graph.get_state(thread()).values["log"]
        assert [word for word in log if word in ("a", "end")][-1:] == ["end"]
        assert graph.get_state(thread()).next == ()
        assert sorted(set(body.ran)) == sorted({"a", "n", "end"} | ({"before"} if place != "root" else set()))


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_closing_on_a_loop_while_nodes_run_keeps_what_ended(saver: Any, durability: Durability) -> None:
    ended = asyncio.Event()
    ran: list[str] = []

    async def quick(state: Log) -> Any:
        ran.append("quick")
        return {"log": ["quick"]}

    async def slow(state: Log) -> Any:
        ran.append("slow")
        if len(ran) < 3:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
        return {"log": ["slow"]}

    builder: StateGraph[Any] = StateGraph(Log)
    builder.add_node("quick", quick)
    builder.add_node("slow", slow)
    builder.add_edge(START, "quick")
    builder.add_edge(START, "slow")
    graph = builder.compile(checkpointer=saver)
    stream = graph.astream({"log": []}, thread(), stream_mode="updates", durability=durability)
    assert await anext(stream) == {"quick": {"log": ["quick"]}}
    await stream.aclose()  # type: ignore[attr-defined]
    assert ended.is_set()
    state = await graph.aget_state(thread())
    assert (state.next, state.values) == (("slow",), {"log": ["quick"]})
    assert await graph.ainvoke(None, thread()) == {"log": ["quick", "slow"]}
    assert ran == ["quick", "slow", "slow"]


def test_a_consumer_that_fails_ends_the_run(saver: Any) -> None:
    graph = chain("a", "b", "c").compile(checkpointer=saver)

    def consume() -> None:
        with closing(graph.stream({"log": []}, thread(), stream_mode="updates")) as stream:  # type: ignore[type-var]
            for event in stream:
                raise LookupError(event)

    with pytest.raises(LookupError, match="a"):
        consume()
    assert graph.get_state(thread()).next == ("b",)
    assert graph.invoke(None, thread()) == {"log": ["a", "b", "c"]}


def test_what_a_child_told_before_its_error_arrives(saver: Any, call: Call, node: Node) -> None:
    inner = graph_of(("good", node(say("good"))), ("bad", node(Body().failing("bad", []))))
    graph = graph_of(("n", inner), checkpointer=saver)
    found: list[Any] = []

    async def collect() -> Any:
        return await listen(graph.astream({"log": []}, thread(), stream_mode="updates", subgraphs=True), found)

    if call.colour == "async":
        with asyncio.Runner() as runner:
            error = runner.run(collect())
    else:
        error = None
        try:
            for event in graph.stream({"log": []}, thread(), stream_mode="updates", subgraphs=True):
                found.append(event)  # noqa: PERF402
        except ValueError as caught:
            error = caught
    assert isinstance(error, ValueError)
    assert [list(payload) for _, payload in found] == [["good"]]


# -- whoever listens slowly --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["child", "called"])
def test_a_child_waits_for_a_slow_listener_between_supersteps(saver: Any, place: str) -> None:
    with asyncio.Runner() as runner:
        call = Call("sync", runner)
        body = Body()
        inner = graph_of(*((name, body.saying(name)) for name in ("s1", "s2", "s3")))
        graph = graph_of(("n", inner if place == "child" else calling(inner, call)), checkpointer=saver)
        stream = graph.stream({"log": []}, thread(), stream_mode="updates", subgraphs=True)
        next(stream)
        assert "s1" in body.ran
        list(stream)
        assert body.ran == ["s1", "s2", "s3"]


def test_two_runs_of_one_graph_do_not_mix(saver: Any) -> None:
    gate = threading.Barrier(2, timeout=30)

    def meet(state: Log) -> Any:
        gate.wait()
        get_stream_writer()(state["log"][0])
        return {"log": [state["log"][0] * 2]}

    graph = chain(("meet", meet)).compile(checkpointer=saver)
    heard: dict[str, list[Any]] = {}

    def run(word: str) -> None:
        heard[word] = list(graph.stream({"log": [word]}, thread(word), stream_mode=["custom", "values"]))

    workers = [threading.Thread(target=run, args=(word,)) for word in "xy"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    for word in "xy":
        assert heard[word] == [
            ("values", {"log": [word]}),
            ("custom", word),
            ("values", {"log": [word, word * 2]}),
        ]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_debug_events_tell_the_step_of_their_superstep(
    saver: Any, call: Call, node: Node, durability: Durability
) -> None:
    graph = graph_of(("a", node(say("a"))), ("b", node(say("b"))), checkpointer=saver)
    found = told(call, graph, {"log": []}, thread(), stream_mode="debug", durability=durability)
    assert [(event["type"], event["step"]) for event in found] == [
        ("checkpoint", -1),
        ("checkpoint", 0),
        ("task", 1),
        ("task_result", 1),
        ("checkpoint", 1),
        ("task", 2),
        ("task_result", 2),
        ("checkpoint", 2),
    ]
