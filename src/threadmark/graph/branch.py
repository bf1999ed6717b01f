"""Conditional edges: from what a path function returns to where the graph goes (spec 2.4)."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from threadmark.constants import END, START
from threadmark.engine.call import Call, call_of
from threadmark.engine.names import BRANCH_TO, TASKS
from threadmark.engine.plan import Writes
from threadmark.errors import InvalidUpdateError
from threadmark.types import Send


@dataclass(frozen=True, slots=True)
class BranchSpec:
    """A conditional edge as it was given."""

    name: str
    call: Call
    ends: Mapping[Hashable, str] | None
    """What the path function returns -> node; None: it returns nodes."""
    input_schema: type | None = None
    """The schema that the path function's first parameter is annotated with."""

    def decide(self, result: Any) -> Writes:
        """The writes that lead to what the path function chose.

        Raises ``ValueError`` for None or START, ``KeyError`` for a value that ``path_map`` does not have, and
        ``InvalidUpdateError`` for a packet to END.
        """
        chosen = result if isinstance(result, (list, tuple)) else [result]
        writes: Writes = []
        for item in chosen:
            target = item if isinstance(item, Send) or self.ends is None else self.ends[item]
            if target is None or target == START:
                raise ValueError(f"Branch {self.name!r} did not return a valid destination: {target!r}")
            if isinstance(target, Send):
                if target.node == END:
                    raise InvalidUpdateError("Cannot send a packet to the END node")
                writes.append((TASKS, target))
            elif target != END:
                writes.append((f"{BRANCH_TO}{target}", None))
        return writes


def branch_spec(path: Any, path_map: Mapping[Hashable, str] | Sequence[str] | None) -> BranchSpec:
    """Look at a path function once: its name, its targets and the schema that it reads."""
    call = call_of(path)
    name = "condition" if call.name == "<lambda>" else call.name
    ends: dict[Hashable, str] | None = None
    if isinstance(path_map, Mapping):
        ends = dict(path_map)
    elif path_map is not None:
        ends = {target: target for target in path_map}
    else:
        ends = _literal_targets(path)
    return BranchSpec(name, call, ends, first_annotation(path))


def _literal_targets(path: Any) -> dict[Hashable, str] | None:
    returned = function_hints(path).get("return")
    if get_origin(returned) is Literal:
        return {target: target for target in get_args(returned)}
    for inner in get_args(returned):  # list[Literal[...]], Sequence[...]
        if get_origin(inner) is Literal:
            return {target: target for target in get_args(inner)}
    return None


def first_annotation(function: Any) -> type | None:
    """The class that a function's first parameter is annotated with, if that class has annotated fields."""
    try:
        first = next(iter(inspect.signature(function).parameters), None)
    except (TypeError, ValueError):
        return None
    annotation = function_hints(function).get(first) if first is not None else None
    if (
        isinstance(annotation, type)
        and annotation.__module__ != "builtins"
        and getattr(annotation, "__annotations__", None)
    ):
        return annotation
    return None


def function_hints(function: Any) -> dict[str, Any]:
    """The annotations of a function or callable object; none where they cannot be evaluated."""
    if not (inspect.isfunction(function) or inspect.ismethod(function)):
        function = getattr(type(function), "__call__", function)  # noqa: B004  an object's own method
    try:
        return get_type_hints(function)
    except Exception:
        return {}


__all__ = ["BranchSpec", "branch_spec", "first_annotation", "function_hints"]
