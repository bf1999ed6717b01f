"""A compiled entrypoint: a graph of one node, which can be drawn and described like others."""

from __future__ import annotations

import inspect
from typing import Any

from threadmark.constants import END, START
from threadmark.engine.compiled import CompiledGraph
from threadmark.graph.branch import function_hints
from threadmark.graph.draw import DrawnGraph, Edge, Node
from threadmark.graph.jsonschema import json_schema


class CompiledWorkflow(CompiledGraph):
    """What ``@entrypoint`` makes of a function."""

    function: Any
    """The function."""

    def get_graph(self, config: Any = None, *, xray: int | bool = False) -> DrawnGraph:
        """The workflow as nodes and edges: its tasks are known only when it runs."""
        names = {START: None, self.name: self.function, END: None}
        return DrawnGraph(
            {name: Node(name, name, data, None) for name, data in names.items()},
            [Edge(START, self.name), Edge(self.name, END)],
        )

    async def aget_graph(self, config: Any = None, *, xray: int | bool = False) -> DrawnGraph:
        """The same as ``get_graph``."""
        return self.get_graph(config, xray=xray)

    def get_input_jsonschema(self, config: Any = None) -> dict[str, Any]:
        """The JSON schema of the first parameter. Needs pydantic."""
        first = next(iter(inspect.signature(self.function).parameters))
        return json_schema(function_hints(self.function).get(first, Any), "LangGraphInput")

    def get_output_jsonschema(self, config: Any = None) -> dict[str, Any]:
        """The JSON schema of what a caller is given. Needs pydantic."""
        returned = self.plan.channels[END].ValueType
        return json_schema(Any if returned is object else returned, "LangGraphOutput")

    def get_context_jsonschema(self) -> dict[str, Any] | None:
        """The JSON schema of ``runtime.context``; None for a workflow without ``context_schema``. Needs pydantic."""
        schema = self.plan.context_schema
        return None if schema is None else json_schema(schema, "LangGraphContext")


__all__ = ["CompiledWorkflow"]
