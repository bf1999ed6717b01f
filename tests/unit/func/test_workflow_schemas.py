"""What a workflow says about itself: its picture and its JSON schemas."""

from __future__ import annotations

from typing import Any

import pytest

from threadmark.func import entrypoint


def plain(text):  # type: ignore[no-untyped-def]
    return text


def typed(numbers: list[int]) -> str:
    return str(numbers)


def final(text: str) -> entrypoint.final[int, list[str]]:
    return entrypoint.final(value=1, save=[text])


def bare(text: str) -> entrypoint.final:  # type: ignore[type-arg]
    return entrypoint.final(value=1, save=2)


@pytest.mark.parametrize(
    ("function", "input", "output"),
    [
        (plain, {}, {}),
        (typed, {"type": "array", "items": {"type": "integer"}}, {"type": "string"}),
        (final, {"type": "string"}, {"type": "integer"}),
        (bare, {"type": "string"}, {}),
    ],
)
def test_schemas_come_from_annotations(function: Any, input: dict[str, Any], output: dict[str, Any]) -> None:
    flow = entrypoint()(function)
    assert flow.get_input_jsonschema() == {**input, "title": "LangGraphInput"}
    assert flow.get_output_jsonschema() == {**output, "title": "LangGraphOutput"}
    assert flow.get_context_jsonschema() is None


async def test_a_workflow_is_drawn_as_one_node() -> None:
    flow = entrypoint()(typed)
    assert "__start__ --> typed;" in flow.get_graph().draw_mermaid()
    assert await flow.aget_graph(xray=True) == flow.get_graph()
