"""State that fails its declared schema is never committed (house 1.7; spec 2.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from threadmark.channels import MISSING, LastValue
from threadmark.channels.binop import overwritten
from threadmark.engine.plan import Writes

Check = Callable[[str, Writes, Mapping[str, Any]], None]


def check_of(schema: Any, channels: Mapping[str, Any]) -> Check | None:
    """What checks a task's writes against a pydantic schema before they are stored; None for other schemas.

    Values are checked and kept as they were written. A key with a reducer is checked after it.
    """
    fields = getattr(schema, "model_fields", None) or getattr(schema, "__pydantic_fields__", None)
    if not isinstance(schema, type) or not isinstance(fields, dict):
        return None
    adapters = {name: _adapter(info) for name, info in fields.items() if name in channels}

    def check(node: str, writes: Writes, live: Mapping[str, Any]) -> None:
        grouped: dict[str, list[Any]] = {}
        for name, value in writes:
            if name in adapters:
                grouped.setdefault(name, []).append(value)
        for name, values in grouped.items():
            try:
                for value in _results(channels[name], live.get(name), values):
                    adapters[name](value)
            except Exception as error:
                error.add_note(f"Node {node!r} wrote this to the state key {name!r}; nothing of the node was stored")
                raise

    return check


def _results(spec: Any, live: Any, values: list[Any]) -> list[Any]:
    """The values that a key would have: each write of a plain key, what a reducer makes of them."""
    if isinstance(spec, LastValue):
        return values
    if len(values) == 1 and (found := overwritten(values[0]))[0]:
        return [found[1]]
    channel = spec.from_checkpoint(MISSING) if live is None else live.copy()
    channel.update(values)
    value = channel.peek()
    return [] if value is MISSING else [value]


def _adapter(info: Any) -> Callable[[Any], Any]:
    from pydantic import ConfigDict, TypeAdapter
    from pydantic.errors import PydanticUserError

    annotated: Any = Annotated[(info.annotation, info)]
    try:
        adapter = TypeAdapter(annotated, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:  # a type with a config of its own
        adapter = TypeAdapter(annotated)
    return adapter.validate_python


__all__ = ["check_of"]
