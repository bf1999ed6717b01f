"""JSON schemas of what goes in and comes out."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, Optional, TypedDict

import pytest
from pydantic import BaseModel

from threadmark.graph import START, CompiledStateGraph, MessagesState, StateGraph
from threadmark.managed import RemainingSteps


class Part(TypedDict):
    """A part."""

    name: str


class State(TypedDict):
    """The state."""

    log: Annotated[list[str], operator.add]
    part: Part
    parts: NotRequired[list[Part]]
    maybe: Optional[int]  # noqa: UP045
    left: RemainingSteps


class Question(TypedDict):
    q: str


class Model(BaseModel):
    n: int = 3
    names: Annotated[list[str], operator.add] = []


@dataclass
class Context:
    user: str
    tries: int = 1


def made(schema: Any, **more: Any) -> CompiledStateGraph:
    builder = StateGraph(schema, **more)
    builder.add_node("a", lambda state: None)
    builder.add_edge(START, "a")
    return builder.compile()


def test_typed_dicts_with_reducers_and_typed_dicts_in_them() -> None:
    schema = made(State, input_schema=Question, output_schema=Question).get_input_jsonschema()
    assert schema == {
        "properties": {"q": {"title": "Q", "type": "string"}},
        "required": ["q"],
        "title": "Question",
        "type": "object",
    }


def test_what_the_engine_fills_in_is_left_out() -> None:
    class Plain(TypedDict):
        log: Annotated[list[str], operator.add]
        part: Part
        parts: NotRequired[list[Part]]
        maybe: Optional[int]  # noqa: UP045

    schema = made(Plain).get_output_jsonschema()
    assert set(schema["properties"]) == {"log", "part", "parts", "maybe"}
    assert schema["required"] == ["log", "part", "maybe"]
    assert schema["properties"]["log"]["items"] == {"type": "string"}
    assert schema["$defs"]["Part"]["description"] == "A part."


@pytest.mark.parametrize("schema", [Model, MessagesState])
def test_models_keep_their_names(schema: Any) -> None:
    assert made(schema).get_input_jsonschema()["title"] == schema.__name__
    assert made(schema).get_output_jsonschema()["type"] == "object"


def test_a_state_of_one_value_is_named_after_the_graph() -> None:
    assert made(int).get_input_jsonschema() == {"type": "integer", "title": "LangGraphInput"}
    listed = made(Annotated[list[int], operator.add]).get_output_jsonschema()
    assert listed == {"type": "array", "items": {"type": "integer"}, "title": "LangGraphOutput"}


def test_the_context_has_one_when_it_has_a_schema() -> None:
    assert made(Question).get_context_jsonschema() is None
    schema = made(Question, context_schema=Context).get_context_jsonschema()
    assert schema is not None
    assert (schema["title"], schema["required"]) == ("Context", ["user"])
