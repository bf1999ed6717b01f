"""Pictures of graphs: nodes and edges, Mermaid text, characters."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

import pytest

from threadmark.graph import END, START, CompiledStateGraph, StateGraph
from threadmark.graph.ascii import ascii_art
from threadmark.types import Command


class State(TypedDict):
    x: int


def node(state: State) -> dict[str, Any]:
    return {}


def graph(edges: list[Any], **nodes: Any) -> CompiledStateGraph:
    builder = StateGraph(State)
    for name, action in nodes.items():
        builder.add_node(name, action)
    for start, end in edges:
        builder.add_edge(start, end)
    return builder.compile()


def lines(picture: str) -> list[str]:
    """The edges of a Mermaid picture without styles."""
    head, *rest = picture.strip("\n").split("\n")
    assert head == "graph TD;"
    return [line.strip() for line in rest]


def test_plain_edges_are_drawn_by_name_and_ways_out_last() -> None:
    made = graph([(START, "b"), ("b", "c"), ("b", "a"), ("c", END)], a=node, b=node, c=node)
    assert lines(made.get_graph().draw_mermaid(with_styles=False)) == [
        "__start__ --> b;",
        "b --> a;",
        "b --> c;",
        "a --> __end__;",
        "c --> __end__;",
    ]


def test_a_styled_picture_has_nodes_and_looks() -> None:
    builder = StateGraph(State)
    builder.add_node("ask", node, metadata={"team": "blue"})
    builder.add_node("late one", node, defer=True)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", "late one")
    made = builder.compile(interrupt_before=["ask"], interrupt_after="*")
    assert made.get_graph().draw_mermaid().split("\n") == [
        "---",
        "config:",
        "  flowchart:",
        "    curve: linear",
        "---",
        "graph TD;",
        "\t__start__([<p>__start__</p>]):::first",
        "\task(ask<hr/><small><em>team = blue",
        "__interrupt = before,after</em></small>)",
        "\tlate\\20one(late one<hr/><small><em>defer = True",
        "__interrupt = after</em></small>)",
        "\t__end__([<p>__end__</p>]):::last",
        "\t__start__ --> ask;",
        "\task --> late\\20one;",
        "\tlate\\20one --> __end__;",
        "\tclassDef default fill:#f2f0ff,line-height:1.2",
        "\tclassDef first fill-opacity:0",
        "\tclassDef last fill:#bfb6fc",
        "",
    ]


def route(state: State) -> str:
    return "yes"


def literal(state: State) -> Literal["b", "__end__"]:
    return "b"


@pytest.mark.parametrize(
    ("path", "path_map", "drawn"),
    [
        (route, {"yes": "b", "no": END}, ["a -. &nbsp;no&nbsp; .-> __end__;", "a -. &nbsp;yes&nbsp; .-> b;"]),
        (route, ["b", END], ["a -.-> __end__;", "a -.-> b;"]),
        (literal, None, ["a -.-> __end__;", "a -.-> b;"]),
    ],
)
def test_conditional_edges_are_dotted_and_named(path: Any, path_map: Any, drawn: list[str]) -> None:
    builder = StateGraph(State)
    builder.add_node("a", node)
    builder.add_node("b", node)
    builder.add_edge(START, "a")
    builder.add_conditional_edges("a", path, path_map)
    picture = lines(builder.compile().get_graph().draw_mermaid(with_styles=False))
    assert picture == ["__start__ --> a;", *drawn, "b --> __end__;"]


def test_where_commands_go_is_drawn_too() -> None:
    def go(state: State) -> Command[Literal["b"]]:
        return Command(goto="b")

    made = graph([(START, "a")], a=go, b=node)
    assert "a -.-> b;" in lines(made.get_graph().draw_mermaid(with_styles=False))
    builder = StateGraph(State)
    builder.add_node("a", node, destinations={"b": "when ready"})
    builder.add_node("b", node)
    builder.add_edge(START, "a")
    picture = builder.compile().get_graph().draw_mermaid(with_styles=False)
    assert "a -. &nbsp;when ready&nbsp; .-> b;" in lines(picture)


def test_an_edge_from_several_nodes_is_drawn_from_each() -> None:
    made = graph([(START, "a"), (START, "b"), (["a", "b"], "c")], a=node, b=node, c=node)
    assert lines(made.get_graph().draw_mermaid(with_styles=False))[2:4] == ["a --> c;", "b --> c;"]


@pytest.fixture
def nested() -> CompiledStateGraph:
    inner = graph([(START, "x"), ("x", "y")], x=node, y=node)
    middle = graph([(START, "in")], **{"in": inner})
    return graph([(START, "p"), ("p", "mid"), ("mid", "q")], p=node, mid=middle, q=node)


@pytest.mark.parametrize(
    ("xray", "ids"),
    [
        (False, ["__start__", "p", "mid", "q", "__end__"]),
        (1, ["__start__", "p", "q", "__end__", "mid:in"]),
        (2, ["__start__", "p", "q", "__end__", "mid:in:x", "mid:in:y"]),
        (True, ["__start__", "p", "q", "__end__", "mid:in:x", "mid:in:y"]),
    ],
)
def test_an_xray_shows_sub_graphs_to_a_depth(nested: CompiledStateGraph, xray: Any, ids: list[str]) -> None:
    picture = nested.get_graph(xray=xray)
    assert list(picture.nodes) == ids
    assert {edge.source for edge in picture.edges} | {edge.target for edge in picture.edges} == set(picture.nodes)


def test_sub_graphs_are_blocks_of_the_picture() -> None:
    inner = graph([(START, "x"), ("x", "y")], x=node, y=node)
    made = graph([(START, "p"), ("p", "sub")], p=node, sub=inner)
    assert lines(made.get_graph(xray=True).draw_mermaid(with_styles=False)) == [
        "__start__ --> p;",
        r"p --> sub\3ax;",
        r"sub\3ay --> __end__;",
        "subgraph sub",
        r"sub\3ax --> sub\3ay;",
        "end",
    ]


def test_a_sub_graph_with_two_ways_in_keeps_its_start() -> None:
    inner = graph([(START, "x"), (START, "y")], x=node, y=node)
    made = graph([(START, "sub")], sub=inner)
    assert list(made.get_graph(xray=True).nodes) == [
        "__start__",
        "__end__",
        "sub:__start__",
        "sub:x",
        "sub:y",
        "sub:__end__",
    ]


def test_nodes_and_edges_as_json() -> None:
    made = graph([(START, "a")], a=node)
    found = made.get_graph().to_json()
    assert [one["id"] for one in found["nodes"]] == ["__start__", "a", "__end__"]
    assert found["nodes"][1]["data"] == {"id": ["builtins", "function"], "name": "a"}
    assert found["edges"] == [{"source": "__start__", "target": "a"}, {"source": "a", "target": "__end__"}]


def test_handlers_of_errors_are_not_drawn() -> None:
    builder = StateGraph(State)
    builder.add_node("a", node, error_handler=node)
    builder.add_edge(START, "a")
    assert list(builder.compile().get_graph().nodes) == ["__start__", "a", "__end__"]


async def test_the_async_twin_draws_the_same(nested: CompiledStateGraph) -> None:
    assert await nested.aget_graph(xray=True) == nested.get_graph(xray=True)


# -- in characters ---------------------------------------------------------------------------------------------------


def test_boxes_stand_below_one_another() -> None:
    assert ascii_art({"a": "a", "b": "bee"}, [("a", "b", False)]).split("\n") == [
        " +---+",
        " | a |",
        " +---+",
        "   *",
        "   *",
        "   *",
        "   *",
        "+-----+",
        "| bee |",
        "+-----+",
    ]


def test_every_node_of_a_tangled_graph_is_drawn_once() -> None:
    names = [f"node{number}" for number in range(8)]
    pairs = [(at, to) for at in range(8) for to in range(8) if at * to % 3 == 1]
    edges = [(names[at], names[to], (at + to) % 2 == 0) for at, to in pairs]
    picture = ascii_art({name: name for name in names}, [*edges, ("node0", "node0", False)])
    assert [picture.count(f"| {name} ") for name in names] == [1] * 8
    assert "node0 (loops)" in picture


def test_a_circle_can_be_drawn() -> None:
    picture = ascii_art({"a": "a", "b": "b"}, [("a", "b", False), ("b", "a", True)])
    assert picture.index("| a |") < picture.index("| b |")
    assert "*" in picture


def test_a_way_that_may_not_be_taken_is_dotted() -> None:
    assert "." in ascii_art({"a": "a", "b": "b"}, [("a", "b", True)])
    assert ascii_art({}, []) == ""


def test_printing(nested: CompiledStateGraph, capsys: pytest.CaptureFixture[str]) -> None:
    nested.get_graph().print_ascii()
    assert "| mid |" in capsys.readouterr().out
