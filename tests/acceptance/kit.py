"""Small graphs, and threads as short lines, for the tests of the engine."""

from __future__ import annotations

from collections.abc import Callable
from operator import add
from typing import Annotated, Any, TypedDict

from threadmark.graph import START, StateGraph


class Log(TypedDict):
    """The state of most tests: what ran, in the order in which it counted."""

    log: Annotated[list[str], add]


class Pair(TypedDict):
    """A key that keeps the last write and one with a reducer."""

    foo: str
    bar: Annotated[list[str], add]


def thread(id: str = "1", **more: Any) -> dict[str, Any]:
    """A config that names a thread."""
    return {"configurable": {"thread_id": id, **more}}


def say(word: str) -> Callable[[Any], dict[str, list[str]]]:
    """A node that adds its word to the log."""

    def node(state: Any) -> dict[str, list[str]]:
        return {"log": [word]}

    return node


def chain(*nodes: str | tuple[str, Any], schema: Any = Log) -> StateGraph[Any]:
    """START -> each node in turn; a bare name is a node that says it."""
    builder = StateGraph(schema)
    before = START
    for item in nodes:
        name, action = (item, say(item)) if isinstance(item, str) else item
        builder.add_node(name, action)
        builder.add_edge(before, name)
        before = name
    return builder


def fan(*nodes: str | tuple[str, Any], schema: Any = Log) -> StateGraph[Any]:
    """START -> all nodes at once."""
    builder = StateGraph(schema)
    for item in nodes:
        name, action = (item, say(item)) if isinstance(item, str) else item
        builder.add_node(name, action)
        builder.add_edge(START, name)
    return builder


async def listen(stream: Any, told: list[Any]) -> BaseException | None:
    """Everything that a stream of either colour tells goes to ``told``; the error that it ends with is returned."""
    try:
        if hasattr(stream, "__anext__"):
            async for one in stream:
                told.append(one)  # noqa: PERF401  what came before an error must be kept
        else:
            told.extend(stream)
    except BaseException as error:
        return error
    return None


def lines(history: list[Any]) -> list[str]:
    """A history, oldest first: ``number parent source/step values next``."""
    oldest_first = history[::-1]
    numbers = {one.config["configurable"]["checkpoint_id"]: number for number, one in enumerate(oldest_first)}
    out = []
    for number, one in enumerate(oldest_first):
        parent = one.parent_config and numbers[one.parent_config["configurable"]["checkpoint_id"]]
        values = " ".join(one.values.get("log", ()))
        metadata = one.metadata
        came_from = "-" if parent is None else parent
        out.append(f"#{number} p={came_from} {metadata['source']}/{metadata['step']} [{values}] ({','.join(one.next)})")
    return out


def id_of(snapshot: Any) -> str:
    """The checkpoint that a snapshot shows."""
    return str(snapshot.config["configurable"]["checkpoint_id"])
