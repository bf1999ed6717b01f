"""Graphs written over channels: what starts a node, what it reads and writes, and what is refused."""

from __future__ import annotations

import asyncio
import logging
import operator
from collections import Counter
from typing import Any, TypedDict

import pytest

from tests.acceptance.kit import thread
from tests.conftest import Call
from tests.runtime.over import double, node, over, pair, seen_by, several
from threadmark.cache.memory import InMemoryCache
from threadmark.channels import (
    BinaryOperatorAggregate,
    LastValue,
    Topic,
)
from threadmark.config import RunnableConfig
from threadmark.errors import (
    EmptyInputError,
    GraphRecursionError,
    InvalidUpdateError,
    NodeTimeoutError,
)
from threadmark.graph import START, StateGraph
from threadmark.managed import RemainingSteps
from threadmark.pregel import ChannelWriteEntry, NodeBuilder, Pregel
from threadmark.runtime import Runtime
from threadmark.types import CachePolicy, Command, RetryPolicy, Send, TimeoutPolicy, interrupt

NOW = RetryPolicy(initial_interval=0, jitter=False)


# -- what a node reads, does and writes --------------------------------------------------------------------------------


def test_a_node_starts_when_its_channel_has_changed(call: Call) -> None:
    assert call(pair(), "invoke", 3) == 12
    assert call(pair(output=["mid", "out", "more"]), "invoke", 3) == {"mid": 6, "out": 12}
    assert call(pair(), "invoke", 3, output_keys=["mid"]) == {"mid": 6}
    assert call(pair(), "batch", [1, 2]) == [4, 8]


def test_a_graph_that_never_writes_its_output_returns_nothing(call: Call) -> None:
    assert call(over({"first": node("in", double)}), "invoke", 3) is None
    assert call(over({"first": node("in", double)}, output=["out"]), "invoke", 3) is None


@pytest.mark.parametrize(
    ("builder", "given"),
    [
        (NodeBuilder().subscribe_only("in"), 1),
        (NodeBuilder().subscribe_to("in"), {"in": 1}),
        (NodeBuilder().subscribe_to("in", "mid").read_from("more"), {"in": 1}),
        (NodeBuilder().subscribe_to("in").read_from("sum", "left"), {"in": 1, "sum": 0, "left": 9}),
        (NodeBuilder().subscribe_to("in", read=False), {}),
        (NodeBuilder().read_from("sum").subscribe_to("in", read=False), {"sum": 0}),
    ],
)
def test_a_node_is_given_the_channels_that_it_asks_for(call: Call, builder: NodeBuilder, given: Any) -> None:
    seen, look = seen_by()
    channels = {"sum": BinaryOperatorAggregate(int, operator.add), "left": RemainingSteps}
    call(over({"look": builder.do(look)}, channels=channels), "invoke", 1, {"recursion_limit": 9})
    assert seen == [given]


def test_a_single_channel_stands_alone() -> None:
    with pytest.raises(ValueError, match="Cannot subscribe to channels"):
        NodeBuilder().subscribe_only("a").subscribe_to("b")
    with pytest.raises(ValueError, match="Cannot read additional channels"):
        NodeBuilder().subscribe_only("a").read_from("b")
    with pytest.raises(ValueError, match="Cannot subscribe to a single channel"):
        NodeBuilder().read_from("b").subscribe_only("a")
    with pytest.raises(TypeError, match="not 5"):
        NodeBuilder().do(5)


def test_steps_follow_each_other_and_writes_come_last(call: Call) -> None:
    """A step behind ``write_to`` changes what is written, too."""
    graph = over(
        {"n": NodeBuilder().subscribe_only("in").do(double).write_to("mid").do(lambda x: x + 1).write_to("out")},
        output=["mid", "out"],
    )
    assert call(graph, "invoke", 3) == {"mid": 7, "out": 7}
    assert call(over({"n": node("in", to="out")}), "invoke", 3) == 3


def test_a_write_may_be_made_or_fixed_or_left_out(call: Call) -> None:
    builder = NodeBuilder().subscribe_only("in").do(double)
    builder.write_to(ChannelWriteEntry("in", mapper=lambda x: x if x < 20 else None, skip_none=True))
    graph = over({"n": builder.write_to("mid", out=lambda x: -x, more=7)}, output=["in", "mid", "out", "more"])
    assert call(graph, "invoke", 3) == {"in": 12, "mid": 24, "out": -24, "more": 7}


def test_none_is_a_value_unless_it_is_skipped(call: Call) -> None:
    graph = over({"n": node("in", lambda x: None, to="out")}, output=["out"])
    assert call(graph, "invoke", 1) == {"out": None}
    graph = over({"n": node("in", lambda x: None, to=ChannelWriteEntry("out", skip_none=True))}, output=["out"])
    assert call(graph, "invoke", 1) is None


def test_a_write_to_no_channel_is_told_of_and_left_out(call: Call, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        graph = over({"n": node("in", double, to=["nowhere", "out"])})
    assert "'nowhere'" in caplog.text
    assert call(graph, "invoke", 1) == 2


def test_nodes_of_one_superstep_meet_in_a_channel(call: Call) -> None:
    nodes = {
        "one": node("in", double, to="met"),
        "two": node("in", lambda x: x + 1, to="met"),
        "end": node("met", sorted, to="out"),
    }
    assert call(over(nodes, channels={"met": Topic(int), "out": LastValue(list)}), "invoke", 5) == [6, 10]
    with pytest.raises(InvalidUpdateError, match="met"):
        call(over(nodes, channels={"met": LastValue(int)}), "invoke", 5)


def test_a_loop_has_a_limit(call: Call) -> None:
    graph = over({"n": node("in", lambda x: x + 1, to=["in", "out"])})
    with pytest.raises(GraphRecursionError):
        call(graph, "invoke", 1, {"recursion_limit": 5})


async def test_steps_of_both_colours_follow_each_other() -> None:
    async def add(number: int) -> int:
        return number + 1

    graph = over({"n": node("in", double, add, lambda x: add(x), to="out")})
    assert await graph.ainvoke(3) == 8
    with pytest.raises(TypeError, match="run the graph with ainvoke"):
        graph.invoke(3)
    with pytest.raises(TypeError, match="make it an async function"):
        over({"n": node("in", lambda x: add(x), double, to="out")}).invoke(3)


def test_a_node_may_take_more_than_its_input(call: Call) -> None:
    def look(value: int, config: RunnableConfig, runtime: Runtime[Any]) -> None:
        runtime.stream_writer((value, config["tags"], config["metadata"]["kind"], runtime.context))

    graph = over({"n": node("in", look).meta("a", kind="x").meta("a", "b", kind="y")}, context_schema=dict)
    (said,) = call(graph, "stream", 1, context={"c": 1}, stream_mode="custom")
    assert said == (1, ["a", "b"], "y", {"c": 1})


def test_policies_are_the_node_s_own_or_the_graph_s(call: Call) -> None:
    tries: Counter[str] = Counter()

    def unsteady(name: str) -> Any:
        def run(value: int) -> int:
            tries[name] += 1
            if tries[name] < 3:
                raise ConnectionError(name)
            return value

        return run

    once = RetryPolicy(initial_interval=0, jitter=False, max_attempts=1)
    first = node("in", unsteady("first"), to="mid")
    nodes = {"first": first, "second": node("mid", unsteady("second"), to="out").add_retry_policies(once)}
    with pytest.raises(ConnectionError, match="second"):
        call(over(nodes, retry_policy=NOW), "invoke", 1)
    assert tries == {"first": 3, "second": 1}


def test_outputs_may_come_from_a_cache(call: Call) -> None:
    seen, look = seen_by()
    graph = over({"n": node("in", look, double, to="out").add_cache_policy(CachePolicy())}, cache=InMemoryCache())
    assert [call(graph, "invoke", number) for number in (1, 1, 2)] == [2, 2, 4]
    assert seen == [1, 2]
    graph = over({"n": node("in", look, to="out")}, cache=InMemoryCache(), cache_policy=CachePolicy())
    assert [call(graph, "invoke", number) for number in (3, 3)] == [3, 3]
    assert seen == [1, 2, 3]


async def test_a_timeout_is_for_async_steps() -> None:
    async def slow(value: int) -> int:
        await asyncio.sleep(30)
        return value

    graph = over({"n": node("in", slow, to="out").set_timeout(TimeoutPolicy(run_timeout=0.01))})
    with pytest.raises(NodeTimeoutError):
        await graph.ainvoke(1)
    with pytest.raises(ValueError, match="only supported for async nodes"):
        over({"n": node("in", double, slow, to="out").set_timeout(1)})
    with pytest.raises(ValueError, match="greater than 0"):
        NodeBuilder().set_timeout(0)


# -- input -------------------------------------------------------------------------------------------------------------


def test_several_channels_take_their_keys_of_a_dict(call: Call) -> None:
    assert call(several(), "invoke", {"in": 1, "mid": 2, "unknown": 3}) == {"in": 1, "mid": 2}
    assert call(several(), "invoke", {"mid": 2}) == {"mid": 2}
    assert call(several(), "invoke", {"in": None}) == {"in": None}


@pytest.mark.parametrize(
    ("given", "error"), [({}, EmptyInputError), ({"out": 1}, EmptyInputError), (None, EmptyInputError), (5, TypeError)]
)
def test_input_that_no_channel_takes_is_refused(saver: Any, call: Call, given: Any, error: Any) -> None:
    with pytest.raises(error):
        call(several(checkpointer=saver), "invoke", given, thread())
    assert call(saver, "list", thread()) == []


def test_a_command_may_begin_a_thread(saver: Any, call: Call) -> None:
    """There is no node that takes one apart: its writes are the input."""
    graph = pair(checkpointer=saver, output=["in", "mid", "out"])
    assert call(graph, "invoke", Command(update={"in": 1}), thread("1")) == {"in": 1, "mid": 2, "out": 4}
    assert call(graph, "invoke", Command(update={"mid": 1}), thread("2")) == {"mid": 1, "out": 2}
    assert call(graph, "invoke", Command(goto=Send("second", 9)), thread("3")) == {"out": 18}
    assert call(several(), "invoke", Command(update={"mid": 1})) == {"mid": 1}


def test_a_node_may_send_packets(call: Call) -> None:
    fan = node("in", lambda count: [Send("work", number) for number in range(count)], to="__pregel_tasks")
    work = NodeBuilder().do(double).write_to("out")
    graph = over({"fan": fan, "work": work}, channels={"out": Topic(int)})
    assert call(graph, "invoke", 3) == [0, 2, 4]


# -- with other graphs -------------------------------------------------------------------------------------------------


def test_a_graph_can_be_a_step(saver: Any, call: Call) -> None:
    inner = pair()
    graph = over({"n": node("in", inner, lambda x: x + 1, to="out")}, checkpointer=saver)
    assert call(graph, "invoke", 1, thread()) == 5
    found = call(graph, "stream", 2, thread(), stream_mode="updates", subgraphs=True)
    assert [(len(ns), update) for ns, update in found] == [
        (1, {"first": None}),  # a called graph tells of its output
        (1, {"second": 8}),
        (0, {"n": {"out": 9}}),
    ]
    assert list(graph.get_subgraphs()) == [("n", inner)]


def test_a_graph_can_be_a_step_for_each_of_a_list(saver: Any, call: Call) -> None:
    graph = over({"n": node("in", pair().map(), sum, to="out")}, channels={"in": LastValue(list)}, checkpointer=saver)
    assert call(graph, "invoke", [1, 2, 3], thread()) == 24
    namespaces = {saved.config["configurable"]["checkpoint_ns"] for saved in call(saver, "list", None)}
    assert len(namespaces) == 4


class Shared(TypedDict, total=False):
    """A state with the channels of a graph inside it, and one of its own."""

    mid: int
    out: int
    own: int


def test_a_graph_can_be_a_node_of_a_state_graph(saver: Any, call: Call) -> None:
    inner = over(
        {"n": node("mid", lambda x: interrupt("how much?") + x, to="out")}, input=["mid"], output=["mid", "out"]
    )
    builder: StateGraph[Any] = StateGraph(Shared).add_node("inner", inner).add_edge(START, "inner")
    graph = builder.compile(checkpointer=saver)
    assert "__interrupt__" in call(graph, "invoke", {"mid": 1, "own": 0}, thread())
    state = call(graph, "get_state", thread(), subgraphs=True)
    assert state.tasks[0].state.values == {"mid": 1}
    assert call(graph, "invoke", Command(resume=9), thread()) == {"mid": 1, "out": 10, "own": 0}


# -- refused, shown and described --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"input": "nowhere"}, "Input channel 'nowhere'"),
        ({"output": ["out", "nowhere"]}, "Output channel 'nowhere'"),
        ({"stream_channels": "nowhere"}, "Stream channel 'nowhere'"),
        ({"input": ["mid", "more"]}, "nothing would ever run"),
        ({"interrupt_before_nodes": ["nobody"]}, "Interrupt node 'nobody'"),
        ({"channels": {"__pregel_tasks": LastValue(int)}}, "is reserved"),
        ({"nodes": {"__input__": node("in")}}, "is reserved"),
        ({"nodes": {"n": node("nowhere")}}, "reads channel 'nowhere'"),
        ({"nodes": {"n": NodeBuilder().subscribe_to("in").read_from("nowhere")}}, "reads channel 'nowhere'"),
    ],
)
def test_what_there_is_not_is_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        over(**{"nodes": {"n": node("in", double, to="out")}, **more})


@pytest.mark.parametrize("more", [{"nodes": {"n": double}}, {"channels": {"more": int}}, {"checkpointer": "a saver"}])
def test_what_is_of_another_kind_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        over(**{"nodes": {"n": node("in", double, to="out")}, **more})


def test_streams_show_the_named_channels(call: Call) -> None:
    graph = pair(stream_channels=["mid", "more"])
    assert call(graph, "stream", 1, stream_mode=["values", "updates"]) == [
        ("updates", {"first": {"mid": 2}}),
        ("values", {"mid": 2}),
        ("updates", {"second": None}),
    ]
    assert call(pair(), "stream", 1) == [{"in": 1, "mid": 2}, {"in": 1, "mid": 2, "out": 4}]
    assert call(pair(stream_mode="updates", stream_channels="out"), "stream", 1) == [{"first": None}, {"second": 4}]
    hidden = over({"n": node("in", double, to="out").meta("langsmith:hidden")})
    assert call(hidden, "stream", 1, stream_mode=["values", "updates"]) == [("values", {"in": 1, "out": 2})]


def test_a_graph_s_picture_shows_who_starts_whom() -> None:
    loop = node("in", double, to=[ChannelWriteEntry("in", skip_none=True), "mid"])
    graph = over({"loop": loop, "end": node("mid", to="out")})
    drawn = {(edge.source, edge.target, edge.conditional) for edge in graph.get_graph().edges}
    assert drawn == {
        ("__start__", "loop", False),
        ("loop", "loop", True),
        ("loop", "end", False),
        ("end", "__end__", False),
    }
    assert "end --> __end__" in graph.get_graph().draw_mermaid()


def test_schemas_are_those_of_the_channels() -> None:
    class Context(TypedDict):
        user: str

    graph = pair(input=["in", "mid"], context_schema=Context)
    assert graph.get_input_jsonschema()["properties"]["mid"]["type"] == "integer"
    assert graph.get_output_jsonschema() == {"type": "integer", "title": "LangGraphOutput"}
    described = graph.get_context_jsonschema()
    assert described is not None
    assert described["required"] == ["user"]
    assert pair().get_context_jsonschema() is None
    assert (graph.input_channels, graph.output_channels) == (["in", "mid"], "out")
    assert sorted(graph.channels) == ["__pregel_tasks", "in", "mid", "more", "out"]


def test_a_default_config_is_the_graph_s_own(saver: Any, call: Call) -> None:
    graph: Pregel = pair(checkpointer=saver, config=thread("mine"), name="numbers")
    assert call(graph, "invoke", 1) == 4
    assert call(graph, "get_state", thread("mine")).values["out"] == 4
    assert graph.get_name() == "numbers"
