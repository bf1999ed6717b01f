"""The same node in four places: in the root graph, in a graph that is a node, in one called in a node, three deep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.acceptance.kit import Log
from tests.conftest import Call
from threadmark.graph import START, StateGraph
from threadmark.types import interrupt

PLACES = ("root", "child", "called", "three levels")


class Body:
    """What the innermost nodes do; keeps a line about each time that one of them runs."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def asking(self, name: str, *questions: str) -> Callable[[Log], dict[str, list[str]]]:
        """A node that asks its questions in turn and adds the answers to the log."""

        def ask(state: Log) -> dict[str, list[str]]:
            self.ran.append(name)
            return {"log": [f"{name}:{interrupt(question)}" for question in questions]}

        return ask

    def saying(self, name: str) -> Callable[[Log], dict[str, list[str]]]:
        """A node that adds its name to the log."""

        def say(state: Log) -> dict[str, list[str]]:
            self.ran.append(name)
            return {"log": [name]}

        return say

    def failing(self, name: str, until: list[Any]) -> Callable[[Log], dict[str, list[str]]]:
        """A node that fails as long as ``until`` is empty."""

        def fail(state: Log) -> dict[str, list[str]]:
            self.ran.append(name)
            if not until:
                raise ValueError(f"{name} is down")
            return {"log": [name]}

        return fail


def graph_of(*nodes: tuple[str, Any], checkpointer: Any = None) -> Any:
    """START -> each node in turn, compiled."""
    builder: StateGraph[Any] = StateGraph(Log)
    before = START
    for name, action in nodes:
        builder.add_node(name, action)
        builder.add_edge(before, name)
        before = name
    return builder.compile(checkpointer=checkpointer)


def calling(graph: Any, call: Call) -> Callable[[Log], Any]:
    """A node that calls a graph of its own colour with an empty log, and returns what that wrote."""

    async def acalled(state: Log) -> Any:
        return {"log": (await graph.ainvoke({"log": []}))["log"]}

    def called(state: Log) -> Any:
        return {"log": graph.invoke({"log": []})["log"]}

    return acalled if call.colour == "async" else called


def placed(
    place: str, name: str, action: Any, call: Call, *, before: Any = None, true: bool = False, graph: Any = None
) -> Any:
    """``action`` as a node of the root graph named ``name``: itself, or inside the graphs that ``place`` says.

    ``before``: a node that runs before it in the innermost graph. ``true``: children keep their state on the thread.
    ``graph``: the innermost graph, in place of one around ``action``.
    """
    saver = True if true else None
    if place == "root":
        return action
    nodes = [("before", before), ("ask", action)] if before is not None else [("ask", action)]
    inner = graph or graph_of(*nodes, checkpointer=saver)
    if place == "child":
        return inner
    if place == "called":
        return calling(inner, call)
    return graph_of(("inner", calling(inner, call)), checkpointer=saver)
