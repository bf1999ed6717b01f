"""A reducer that changes what it is given in place changes the state, and not what is told of who wrote what."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import pytest

from tests.runtime.kit import Call
from threadmark.channels import DeltaChannel
from threadmark.graph import START, StateGraph

CONFIG: Any = {"configurable": {"thread_id": "t"}}
DURABILITIES = ("sync", "async", "exit")


def popped(state: dict[str, Any], writes: list[dict[str, Any]]) -> dict[str, Any]:
    out = dict(state)
    for write in writes:
        if write.pop("op") == "set":
            out.update(write)
    return out


def counted(state: list[Any], writes: list[list[Any]]) -> list[Any]:
    for write in writes:
        for item in write:
            item["seen"] = item.get("seen", 0) + 1
    return [*state, *(item for write in writes for item in write)]


def taken_over(state: list[Any], writes: list[list[Any]]) -> list[Any]:
    out = writes[0]
    out[:0] = state
    for write in writes[1:]:
        out.extend(write)
    return out


def merged(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    right.pop("op", None)
    return {**left, **right}


class Popped(TypedDict):
    d: Annotated[dict[str, Any], DeltaChannel(popped)]


class Counted(TypedDict):
    d: Annotated[list[Any], DeltaChannel(counted)]


class TakenOver(TypedDict):
    d: Annotated[list[Any], DeltaChannel(taken_over)]


class Merged(TypedDict):
    d: Annotated[dict[str, Any], merged]


def graph_of(schema: Any, result: Any, saver: Any) -> Any:
    builder = StateGraph(schema).add_node("node", lambda state: {"d": result()}).add_edge(START, "node")
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize(
    ("schema", "write"),
    [
        (Popped, lambda: {"op": "set", "x": 1}),
        (Counted, lambda: [{"n": 1}, {"n": 2}]),
        (TakenOver, lambda: [1, 2]),
    ],
)
def test_a_delta_channel_is_what_the_run_said(saver: Any, call: Call, schema: Any, write: Any, durability: str) -> None:
    graph = graph_of(schema, write, saver)
    for _ in range(3):
        told = call(graph, "invoke", {"d": write()}, CONFIG, durability=durability)
        assert call(graph, "get_state", CONFIG).values == told
    call(graph, "update_state", CONFIG, {"d": write()}, as_node="node")
    changed = call(graph, "get_state", CONFIG).values
    assert (changed != told) is (schema is not Popped)
    assert call(graph, "get_state", CONFIG).values == changed


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_history_shows_what_nodes_returned(saver: Any, call: Call, durability: str) -> None:
    graph = graph_of(Merged, lambda: {"op": "set", "x": 1}, saver)
    call(graph, "invoke", {"d": {"op": "set", "y": 1}}, CONFIG, durability=durability)
    last, before, *_ = call(graph, "get_state_history", CONFIG)
    assert last.values == {"d": {"y": 1, "x": 1}}
    assert last.metadata["writes"] == {"node": {"d": {"op": "set", "x": 1}}}
    assert [task.result for task in before.tasks] == [{"d": {"op": "set", "x": 1}}]
