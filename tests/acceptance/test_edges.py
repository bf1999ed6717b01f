"""Where a graph goes: edges, barriers, conditional edges, and what is refused when it is built (spec 2.4, 2.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
from langchain_core.runnables import RunnableLambda

from tests.acceptance.kit import Log, chain, fan, lines, say, thread
from tests.conftest import Call
from threadmark.channels import LastValue
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.errors import InvalidUpdateError
from threadmark.graph import END, START, StateGraph
from threadmark.managed import RemainingSteps
from threadmark.types import Send

Node = Callable[[Any], Any]


def nodes(*names: str) -> StateGraph[Any]:
    builder = StateGraph(Log)
    for name in names:
        builder.add_node(name, say(name))
    return builder


def ran(call: Call, builder: StateGraph[Any], *log: str) -> list[str]:
    return call(builder.compile(), "invoke", {"log": list(log)})["log"]


# -- edges and barriers


def test_several_edges_to_one_node_in_one_step_run_it_once(call: Call) -> None:
    builder = fan("a", "b").add_node("c", say("c")).add_edge("a", "c").add_edge("b", "c")
    assert ran(call, builder) == ["a", "b", "c"]


def test_edges_of_unequal_length_run_the_tail_twice_and_a_barrier_once(call: Call) -> None:
    for joined in (False, True):
        builder = fan("a", "b").add_node("b2", say("b2")).add_node("c", say("c")).add_edge("b", "b2")
        if joined:
            builder.add_edge(["a", "b2"], "c")
        else:
            builder.add_edge("a", "c").add_edge("b2", "c")
        assert ran(call, builder) == (["a", "b", "b2", "c"] if joined else ["a", "b", "b2", "c", "c"])


def test_a_barrier_works_again_in_a_loop(saver: Any, call: Call) -> None:
    builder = nodes("a", "b", "c", "join").add_edge(START, "a").add_edge("a", "b").add_edge("a", "c")
    builder.add_edge(["b", "c"], "join")
    builder.add_conditional_edges("join", lambda state: END if state["log"].count("join") == 3 else "a")
    graph = builder.compile(checkpointer=saver)
    assert call(graph, "invoke", {"log": []}, thread())["log"] == ["a", "b", "c", "join"] * 3


def test_a_barrier_that_is_half_full_waits_for_the_next_run(saver: Any, call: Call) -> None:
    builder = nodes("a", "b", "join").add_edge(["a", "b"], "join")
    builder.add_conditional_edges(START, lambda state: state["log"][-1])
    graph = builder.compile(checkpointer=saver)
    assert call(graph, "invoke", {"log": ["a"]}, thread())["log"] == ["a", "a"]
    assert call(graph, "invoke", {"log": ["b"]}, thread())["log"] == ["a", "a", "b", "b", "join"]


def test_a_deferred_barrier_waits_for_everything_else(call: Call) -> None:
    builder = fan("a", "b", "x").add_node("x2", say("x2")).add_edge("x", "x2")
    builder.add_node("join", say("join"), defer=True).add_edge(["a", "b"], "join")
    assert ran(call, builder) == ["a", "b", "x", "x2", "join"]


def test_deferred_nodes_in_a_row(call: Call) -> None:
    builder = fan("a").add_node("d1", say("d1"), defer=True).add_node("d2", say("d2"), defer=True)
    builder.add_edge("a", "d1").add_edge("d1", "d2").add_edge("a", "d2")
    assert ran(call, builder) == ["a", "d1", "d2", "d2"]


def test_entry_and_finish_points(call: Call) -> None:
    assert ran(call, nodes("a").set_entry_point("a").set_finish_point("a")) == ["a"]
    builder = nodes("a", "b").set_conditional_entry_point(lambda state: "b")
    assert ran(call, builder) == ["b"]


def test_a_sequence_takes_functions_and_pairs_and_does_not_connect_start(call: Call, node: Node) -> None:
    def second(state: Log) -> dict[str, list[str]]:
        return {"log": ["second"]}

    builder = StateGraph(Log).add_sequence([("first", node(say("first"))), node(second)])
    with pytest.raises(ValueError, match="entrypoint"):
        builder.compile()
    assert ran(call, builder.add_edge(START, "first")) == ["first", "second"]


def test_a_node_that_nothing_leads_to_is_fine(call: Call) -> None:
    assert ran(call, fan("a").add_node("alone", say("alone"))) == ["a"]


# -- conditional edges


def routed(path: Any, path_map: Any = None, source: str = "a") -> StateGraph[Any]:
    builder = nodes("a", "b", "c").add_edge(START, "a")
    return builder.add_conditional_edges(source, path, path_map)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("b", ["a", "b"]),
        (["b", "c"], ["a", "b", "c"]),
        (("c", "b"), ["a", "b", "c"]),
        (END, ["a"]),
        ([], ["a"]),
        (["b", END], ["a", "b"]),
        (Send("b", {}), ["a", "b"]),
        ([Send("b", {}), "c", Send("b", {})], ["a", "c", "b", "b"]),
        ("nowhere", ["a"]),
        (True, ["a"]),
    ],
)
def test_what_a_path_function_may_return(call: Call, node: Node, result: Any, expected: list[str]) -> None:
    assert ran(call, routed(node(lambda state: result))) == expected


def literal(state: Log) -> Literal["b", "c"]:
    return "c"


def literals(state: Log) -> list[Literal["b", "c"]]:
    return ["b", "c"]


def test_a_path_map_or_an_annotation_names_the_targets(call: Call, node: Node) -> None:
    assert ran(call, routed(node(lambda state: True), {True: "b", False: "c"})) == ["a", "b"]
    assert ran(call, routed(node(lambda state: [True, False]), {True: "b", False: END})) == ["a", "b"]
    assert ran(call, routed(node(lambda state: "c"), ["b", "c"])) == ["a", "c"]
    assert ran(call, routed(node(literal))) == ["a", "c"]
    assert ran(call, routed(node(literals))) == ["a", "b", "c"]
    assert ran(call, routed(node(lambda state: Send("b", {})), ["c"])) == ["a", "b"]


@pytest.mark.parametrize(
    ("result", "path_map", "error"),
    [
        (None, None, ValueError),
        (START, None, ValueError),
        ("x", ["b"], KeyError),
        (Send(END, {}), None, InvalidUpdateError),
    ],
)
def test_what_a_path_function_may_not_return(
    saver: Any, call: Call, node: Node, result: Any, path_map: Any, error: type[Exception]
) -> None:
    graph = routed(node(lambda state: result), path_map).compile(checkpointer=saver)
    with pytest.raises(error):
        call(graph, "invoke", {"log": []}, thread())
    assert call(graph, "get_state", thread()).next == ("a",)


def test_a_path_function_sees_the_node_s_own_writes_and_extra_keys(call: Call, node: Node) -> None:
    seen = []

    def where(state: Any) -> str:
        seen.append(state)
        return END

    builder = StateGraph(Log)
    builder.add_node("a", node(lambda state: {"log": ["mine"], "extra": 1}))
    builder.add_node("b", node(say("b")))
    builder.add_edge(START, "a").add_edge(START, "b").add_conditional_edges("a", node(where))
    assert ran(call, builder, "in") == ["in", "mine", "b"]
    assert seen == [{"log": ["in", "mine"], "extra": 1}]


def test_a_path_function_gets_what_nodes_get(saver: Any, call: Call, node: Node) -> None:
    seen = []

    def where(state, config, runtime):  # type: ignore[no-untyped-def]
        seen.append((config["configurable"]["thread_id"], runtime.context))
        return "b"

    graph = routed(node(where)).compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread("here"), context="ctx")
    assert seen == [("here", "ctx")]


def test_a_runnable_may_be_a_path(call: Call) -> None:
    assert ran(call, routed(RunnableLambda(lambda state: "b"), ["b"])) == ["a", "b"]


def test_several_conditional_edges_of_one_node_all_count(call: Call, node: Node) -> None:
    def one(state: Log) -> str:
        return "b"

    def two(state: Log) -> str:
        return "c"

    assert ran(call, routed(node(one)).add_conditional_edges("a", node(two))) == ["a", "b", "c"]


def test_a_conditional_entry_sees_the_input(call: Call, node: Node) -> None:
    builder = nodes("a", "b").add_conditional_edges(START, node(lambda state: state["log"][0]))
    assert ran(call, builder, "b") == ["b", "b"]


def test_edges_and_conditional_edges_of_one_node_both_count(saver: Any, call: Call) -> None:
    graph = routed(lambda state: "b").add_edge("a", "c").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    assert lines(call(graph, "get_state_history", thread()))[2:] == [
        "#2 p=1 loop/1 [a] (b,c)",
        "#3 p=2 loop/2 [a b c] ()",
    ]


# -- what is refused when a graph is built


def sync_node(state: Log) -> None:
    return None


def timed(function: Any) -> StateGraph[Any]:
    return StateGraph(Log).add_node("a", function, timeout=1).add_edge(START, "a")


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "node twice": (lambda: nodes("a", "a"), "already present"),
    "node named START": (lambda: nodes(START), "reserved"),
    "node named END": (lambda: nodes(END), "reserved"),
    "pipe in a name": (lambda: nodes("a|b"), r"'\|'"),
    "colon in a name": (lambda: nodes("a:b"), "':'"),
    "no entry": (lambda: nodes("a").compile(), "entrypoint"),
    "edge from END": (lambda: nodes("a").add_edge(END, "a"), "END"),
    "edge to START": (lambda: nodes("a").add_edge("a", START), "START"),
    "barrier to START": (lambda: nodes("a").add_edge(["a"], START), "START"),
    "barrier from END": (lambda: nodes("a").add_edge([END], "a"), "END"),
    "edge from nowhere": (lambda: fan("a").add_edge("x", "a").compile(), "unknown node 'x'"),
    "edge to nowhere": (lambda: fan("a").add_edge("a", "x").compile(), "unknown node `x`"),
    "barrier from nowhere": (lambda: fan("a").add_edge(["a", "x"], "a"), "x"),
    "barrier to nowhere": (lambda: fan("a").add_edge(["a"], "x"), "x"),
    "branch from nowhere": (lambda: fan("a").add_conditional_edges("x", literal).compile(), "'x'"),
    "branch to nowhere": (lambda: routed(lambda state: "x", ["x"]).compile(), "unknown target 'x'"),
    "branch twice": (lambda: routed(literal).add_conditional_edges("a", literal), "literal"),
    "empty sequence": (lambda: StateGraph(Log).add_sequence([]), "at least one"),
    "sequence with a name twice": (lambda: StateGraph(Log).add_sequence([("a", say("a")), ("a", say("b"))]), "'a'"),
    "breakpoint nowhere": (lambda: fan("a").compile(interrupt_before=["x"]), "`x`"),
    "breakpoint behind nowhere": (lambda: fan("a").compile(interrupt_after=["x"]), "`x`"),
    "reserved node": (lambda: fan("__interrupt__").compile(), "reserved"),
    "time limit of a plain function": (lambda: timed(sync_node).compile(), "async"),
    "time limit of no time": (lambda: StateGraph(Log).add_node("a", say("a"), timeout=0), "greater than 0"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_when_built(what: str) -> None:
    build, message = REFUSED[what]
    with pytest.raises(ValueError, match=message):
        build()


def test_a_reserved_key_is_refused() -> None:
    from typing_extensions import TypedDict

    schema = TypedDict("schema", {"__interrupt__": str, "log": list[str], "configurable": str})  # type: ignore[misc]
    with pytest.raises(ValueError, match="reserved"):
        StateGraph(schema).add_node("a", say("a")).add_edge(START, "a").compile()


@pytest.mark.parametrize("thing", [object(), "memory", InMemorySaver])
def test_something_that_is_no_saver_is_refused(thing: Any) -> None:
    with pytest.raises(TypeError, match="checkpointer"):
        fan("a").compile(checkpointer=thing)


def test_a_node_that_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="node"):
        StateGraph(Log).add_node("a", 3)


def test_a_name_alone_is_no_node() -> None:
    with pytest.raises((RuntimeError, ValueError), match="add_node"):
        StateGraph(Log).add_node("a")


def test_changes_after_compiling_warn_and_do_not_count(call: Call) -> None:
    builder = fan("a")
    graph = builder.compile()
    with pytest.warns(UserWarning, match="already been compiled"):
        builder.add_node("late", say("late"))
    with pytest.warns(UserWarning, match="already been compiled"):
        builder.add_edge("a", "late")
    assert call(graph, "invoke", {"log": []}) == {"log": ["a"]}


def test_a_builder_compiles_as_often_as_one_likes(call: Call) -> None:
    builder = chain("a")
    assert call(builder.compile(), "invoke", {"log": []}) == call(builder.compile(), "invoke", {"log": []})


def test_what_a_compiled_graph_says_of_itself() -> None:
    graph = fan("a").compile(name="mine", interrupt_before=["a"])
    assert (graph.name, graph.get_name(), graph.stream_mode) == ("mine", "mine", "updates")
    assert (graph.input_channels, graph.output_channels, graph.stream_channels) == ("__start__", ["log"], ["log"])
    assert (graph.interrupt_before_nodes, graph.interrupt_after_nodes) == (["a"], [])
    single = StateGraph(int).add_node("a", lambda state: 1).add_edge(START, "a").compile()
    assert (single.output_channels, single.stream_channels) == ("__root__", "__root__")
    assert LastValue(int) == LastValue(str)
    assert RemainingSteps is not None
