"""A graph as a picture: its nodes and edges as data, as Mermaid text and as ASCII."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from threadmark.constants import END, START

if TYPE_CHECKING:
    from threadmark.graph.node import NodeSpec
    from threadmark.graph.state import CompiledStateGraph

_HEADER = "---\nconfig:\n  flowchart:\n    curve: {curve}\n---\ngraph TD;\n"
_STYLES = {"default": "fill:#f2f0ff,line-height:1.2", "first": "fill-opacity:0", "last": "fill:#bfb6fc"}
_MARKUP = ("*", "_", "`")
"""What Mermaid would take for emphasis around a label."""


class Node(NamedTuple):
    """A drawn node. ``id`` is its name, behind the names of the nodes it lies in, with colons between."""

    id: str
    name: str
    data: Any
    """What it runs; None for the end."""
    metadata: Mapping[str, Any] | None


class Edge(NamedTuple):
    """A drawn edge; ``conditional``: it may not be taken. ``data`` is what stands beside it."""

    source: str
    target: str
    data: str | None = None
    conditional: bool = False


@dataclass
class DrawnGraph:
    """What ``get_graph()`` gives: nodes by id, and edges."""

    nodes: dict[str, Node] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)

    def to_json(self) -> dict[str, list[dict[str, Any]]]:
        """Nodes and edges as plain JSON values."""
        return {"nodes": [_node_json(node) for node in self.nodes.values()], "edges": [*map(_edge_json, self.edges)]}

    def draw_mermaid(self, *, with_styles: bool = True, curve_style: str = "linear") -> str:
        """The graph in Mermaid's language. ``with_styles=False`` leaves out looks and labels: edges only.

        Dotted edges may not be taken. ``curve_style`` is one of Mermaid's names for how edges bend.
        """
        out = _HEADER.format(curve=curve_style) if with_styles else "graph TD;\n"
        out += "".join(f"\t{line}\n" for line in _block(self, (), styled=with_styles))
        if with_styles:
            out += "".join(f"\tclassDef {name} {style}\n" for name, style in _STYLES.items())
        return out

    def draw_ascii(self) -> str:
        """The graph in characters: boxes in layers, ``*`` along edges and ``.`` along those that may not be taken."""
        from threadmark.graph.ascii import ascii_art

        labels = {id: node.id for id, node in self.nodes.items()}
        return ascii_art(labels, [(edge.source, edge.target, edge.conditional) for edge in self.edges])

    def print_ascii(self) -> None:
        """Print ``draw_ascii()``."""
        print(self.draw_ascii())  # noqa: T201


# -- from a builder ------------------------------------------------------------------------------------------------


def drawn(graph: CompiledStateGraph, *, xray: int | bool = False) -> DrawnGraph:
    """The picture of a compiled graph; ``xray``: with the insides of its sub-graphs, to a depth or (True) all."""
    builder = graph.builder
    shown = {name: spec for name, spec in builder.nodes.items() if not spec.is_error_handler}
    out = DrawnGraph({START: Node(START, START, None, None)})
    for name, spec in shown.items():
        out.nodes[name] = Node(name, name, spec.call.target, _metadata(graph, name, spec) or None)
    known = set(_edges(graph))
    sources = {edge.source for edge in known}
    out.edges = sorted(known | {Edge(name, END) for name in shown if name not in sources}, key=_place)
    if any(edge.target == END for edge in out.edges):
        out.nodes[END] = Node(END, END, None, None)
    if xray:
        for name, spec in shown.items():
            if getattr(spec.call.target, "builder", None) is not None:
                inside = spec.call.target.get_graph(xray=xray if isinstance(xray, bool) else xray - 1)
                _put_inside(out, name, inside)
    return out


def _place(edge: Edge) -> tuple[bool, str, str, str]:
    """By name, so that a picture does not change with the order of calls; the ways out come last."""
    return (edge.target == END and not edge.conditional, edge.source, edge.target, edge.data or "")


def _metadata(graph: CompiledStateGraph, name: str, spec: NodeSpec) -> dict[str, Any]:
    out = dict(spec.metadata)
    if spec.defer:
        out["defer"] = True
    breaks = {"before": graph.plan.interrupt_before, "after": graph.plan.interrupt_after}
    if stops := [when for when, names in breaks.items() if names == "*" or name in names]:
        out["__interrupt"] = ",".join(stops)
    return out


def _edges(graph: CompiledStateGraph) -> Iterator[Edge]:
    builder = graph.builder
    for start, end in builder.edges:
        yield Edge(start, end)
    for starts, end in builder.waiting_edges:
        yield from (Edge(start, end) for start in starts)
    for start, branches in builder.branches.items():
        for branch in branches.values():
            for answer, end in (branch.ends or {}).items():
                yield Edge(start, end, None if str(answer) == end else str(answer), conditional=True)
    for name, spec in builder.nodes.items():
        labels = spec.ends if isinstance(spec.ends, Mapping) else dict.fromkeys(spec.ends)
        yield from (Edge(name, end, label, conditional=True) for end, label in labels.items())


def _put_inside(out: DrawnGraph, name: str, inside: DrawnGraph) -> None:
    """Put a sub-graph's picture in the place of its node, without its start and end where they say nothing."""
    first, last = _lone_edge(inside, START, "source", "target"), _lone_edge(inside, END, "target", "source")
    if len(inside.nodes) < 3:
        return
    if first is not None:
        inside.edges.remove(first)
        del inside.nodes[START]
    if last is not None and last in inside.edges:
        inside.edges.remove(last)
        del inside.nodes[END]
    entry = f"{name}:{START if first is None else first.target}"
    leave = f"{name}:{END if last is None else last.source}"
    del out.nodes[name]
    for node in inside.nodes.values():
        id = f"{name}:{node.id}"
        out.nodes[id] = Node(id, id, node.data, node.metadata)
    out.edges = [
        edge._replace(
            source=leave if edge.source == name else edge.source, target=entry if edge.target == name else edge.target
        )
        for edge in out.edges
    ]
    out.edges += [
        edge._replace(source=f"{name}:{edge.source}", target=f"{name}:{edge.target}") for edge in inside.edges
    ]


def _lone_edge(graph: DrawnGraph, id: str, near: str, far: str) -> Edge | None:
    """The edge at a start or end, if it is the only one there and the only way to or from the node behind it."""
    found = [edge for edge in graph.edges if getattr(edge, near) == id]
    if len(found) != 1:
        return None
    beyond = getattr(found[0], far)
    return found[0] if sum(getattr(edge, far) == beyond for edge in graph.edges) == 1 else None


# -- as JSON and as Mermaid ----------------------------------------------------------------------------------------


def _node_json(node: Node) -> dict[str, Any]:
    if node.id.rpartition(":")[2] == END:
        return {"id": node.id}
    kind = type(node.data)
    path = ["threadmark", "start"] if node.data is None else [*kind.__module__.split("."), kind.__qualname__]
    out: dict[str, Any] = {"id": node.id, "type": "runnable", "data": {"id": path, "name": node.name}}
    return {**out, "metadata": dict(node.metadata)} if node.metadata else out


def _edge_json(edge: Edge) -> dict[str, Any]:
    out: dict[str, Any] = {"source": edge.source, "target": edge.target}
    if edge.data is not None:
        out["data"] = edge.data
    return {**out, "conditional": True} if edge.conditional else out


def _block(graph: DrawnGraph, inside: tuple[str, ...], *, styled: bool) -> Iterator[str]:
    """The lines for the nodes and edges that lie directly in a sub-graph, then for the sub-graphs in it."""
    depth = len(inside)
    homes = {id: tuple(id.split(":")[:-1]) for id in graph.nodes}
    if styled:
        yield from (_node_line(node) for id, node in graph.nodes.items() if homes[id] == inside)
    for edge in graph.edges:
        if _common(homes[edge.source], homes[edge.target]) == inside:
            yield _edge_line(edge)
    below = dict.fromkeys(home[depth] for home in homes.values() if home[:depth] == inside and len(home) > depth)
    for name in below:
        yield f"subgraph {name}"
        yield from _block(graph, (*inside, name), styled=styled)
        yield "end"


def _common(a: Sequence[str], b: Sequence[str]) -> tuple[str, ...]:
    size = next((at for at, pair in enumerate(zip(a, b, strict=False)) if pair[0] != pair[1]), min(len(a), len(b)))
    return tuple(a[:size])


def _node_line(node: Node) -> str:
    label = node.id.rpartition(":")[2]
    if label.startswith(_MARKUP) and label.endswith(_MARKUP):
        label = f"<p>{label}</p>"
    if node.metadata:
        notes = "\n".join(f"{key} = {value}" for key, value in node.metadata.items())
        label += f"<hr/><small><em>{notes}</em></small>"
    style = {START: "first", END: "last"}.get(node.id)
    return f"{_safe(node.id)}({label})" if style is None else f"{_safe(node.id)}([{label}]):::{style}"


def _edge_line(edge: Edge) -> str:
    arrow = "-.->" if edge.conditional else "-->"
    if edge.data is not None:
        text = f"&nbsp;{edge.data}&nbsp;"
        arrow = f"-. {text} .->" if edge.conditional else f"-- {text} -->"
    return f"{_safe(edge.source)} {arrow} {_safe(edge.target)};"


def _safe(id: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", lambda found: f"\\{ord(found[0]):x}", id)


__all__ = ["DrawnGraph", "Edge", "Node", "drawn"]
