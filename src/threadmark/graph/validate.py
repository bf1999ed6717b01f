"""What is checked when a graph is built and compiled (spec 2.6)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from threadmark.constants import END, START
from threadmark.engine.names import RESERVED

if TYPE_CHECKING:
    from threadmark.graph.state import StateGraph

_RESERVED_NAMES = RESERVED | {"configurable", "langsmith:hidden"}


def check_names(node: str, known: Collection[str]) -> None:
    """Raise ``ValueError`` for a node name that is taken or that the engine needs."""
    if node in known:
        raise ValueError(f"Node `{node}` already present.")
    if node in (START, END):
        raise ValueError(f"Node `{node}` is reserved.")
    for character in ("|", ":"):
        if character in node:
            raise ValueError(f"'{character}' is a reserved character and is not allowed in the node names: {node!r}")


def check_graph(graph: StateGraph[Any], interrupt: Sequence[str] | None) -> None:
    """Raise ``ValueError`` for names that lead nowhere and for a graph without an entry."""
    nodes = graph.nodes
    for name in (*nodes, *graph.channels):
        if name in _RESERVED_NAMES:
            raise ValueError(f"'{name}' is reserved and cannot be the name of a node or a state key")
    sources = {start for start, _ in graph.edges}
    sources |= {start for starts, _ in graph.waiting_edges for start in starts}
    sources |= {source for source, branches in graph.branches.items() if branches}
    for source in sources:
        if source not in nodes and source != START:
            raise ValueError(f"Found edge starting at unknown node '{source}'")
    if START not in sources:
        raise ValueError("Graph must have an entrypoint: add at least one edge from START to another node")
    targets = {end for _, end in graph.edges} | {end for _, end in graph.waiting_edges}
    for target in targets:
        if target not in nodes and target != END:
            raise ValueError(f"Found edge ending at unknown node `{target}`")
    for source, branches in graph.branches.items():
        for name, branch in branches.items():
            for target in (branch.ends or {}).values():
                if target not in nodes and target != END:
                    raise ValueError(f"At '{source}' node, '{name}' branch found unknown target '{target}'")
    for name, spec in nodes.items():
        if spec.timeout is not None and spec.call.async_ is None:
            raise ValueError(f"Node timeouts are only supported for async nodes; {name!r} is a plain function")
    for name in interrupt or ():
        if name not in nodes:
            raise ValueError(f"Interrupt node `{name}` not found")


def check_saver(saver: Any) -> None:
    """Raise ``TypeError`` for something that does not keep the saver contract."""
    if saver is None or isinstance(saver, bool):
        return
    is_class = isinstance(saver, type)
    needed = ("get_tuple", "put", "put_writes", "get_next_version")
    if not is_class and all(callable(getattr(saver, name, None)) for name in needed):
        return
    hint = ""
    if is_class:
        hint = ", the class and not an object of it"
    elif type(saver).__name__.endswith("Connection"):
        hint = "; a connection is no saver yet: SqliteSaver(connection)"
    elif hasattr(saver, "__enter__") or hasattr(saver, "__aenter__"):
        hint = "; it looks like a context manager: enter it first (`with ... as saver:`)"
    raise TypeError(
        f"Invalid checkpointer provided. Expected an instance of `BaseCheckpointSaver`, `True`, `False`, or `None`. "
        f"Received {saver.__name__ if is_class else type(saver).__name__}{hint}."
    )


__all__ = ["check_graph", "check_names", "check_saver"]
