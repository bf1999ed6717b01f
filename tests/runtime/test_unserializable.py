"""What no serializer can take: the error says where it is and who wrote it, and nothing of the step is stored."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest

from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.serde.errors import SerializationError
from threadmark.graph import START, StateGraph

CONFIG = {"configurable": {"thread_id": "1"}}


class State(TypedDict):
    messages: Annotated[list[Any], operator.add]


def writes_a_function(state: State) -> dict[str, Any]:
    return {"messages": [{"extra": {"fn": lambda: 1}}]}


@pytest.mark.parametrize("durability", ["sync", "async"])
@pytest.mark.parametrize("sibling", [False, True])
def test_the_error_names_the_path_and_the_node(durability: str, *, sibling: bool) -> None:
    builder = StateGraph(State).add_node("bad", writes_a_function).add_edge(START, "bad")
    if sibling:
        builder.add_node("good", lambda state: {"messages": ["fine"]}).add_edge(START, "good")
    graph = builder.compile(checkpointer=InMemorySaver())
    with pytest.raises(SerializationError, match=r"messages\[0\]\.extra\.fn: .*written by node 'bad'"):
        graph.invoke({"messages": []}, CONFIG, durability=durability)
    assert [snapshot.metadata["step"] for snapshot in graph.get_state_history(CONFIG)] == [0, -1]
    assert "bad" in graph.get_state(CONFIG).next
