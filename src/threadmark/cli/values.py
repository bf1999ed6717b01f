"""Stored values for people and for programs: classes by name and fields, never by instance."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from rich.pretty import pretty_repr

from threadmark.checkpoint.serde.view import Opaque
from threadmark.types import Command, Interrupt, Send

_OURS: Final = {
    Send: ("node", "arg", "timeout"),
    Interrupt: ("value", "id", "response_schema"),
    Command: ("graph", "update", "resume", "goto"),
}
MANY: Final = 6
"""Members of a container that are shown unless everything is asked for."""
LONG: Final = 240
"""Characters of a text that are shown unless everything is asked for."""


def as_json(value: Any) -> Any:
    """Plain JSON data. What JSON does not know becomes ``{"$type": name, ...}``; a tuple becomes a list."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$type": "float", "value": str(value)}
    if isinstance(value, list | tuple):
        return [as_json(member) for member in value]
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: as_json(member) for key, member in value.items()}
        return {"$type": "dict", "items": [[as_json(key), as_json(member)] for key, member in value.items()]}
    if isinstance(value, bytes | bytearray):
        return {"$type": type(value).__name__, "base64": base64.b64encode(value).decode()}
    named = _named(value)
    if named is not None:
        return {"$type": named[0], "fields": as_json(named[1])}
    if isinstance(value, set | frozenset):
        return {"$type": type(value).__name__, "items": sorted((as_json(member) for member in value), key=repr)}
    return {"$type": f"{type(value).__module__}.{type(value).__qualname__}", "value": str(value)}


def pretty(value: Any, width: int, *, full: bool) -> list[str]:
    """A value as lines, of this width where it can be helped."""
    limits: dict[str, Any] = {} if full else {"max_length": MANY, "max_string": LONG, "max_depth": 6}
    return pretty_repr(_drawable(value), max_width=width, **limits).splitlines()


def brief(value: Any) -> str:
    """A value on one line, with classes by name and fields."""
    return repr(_drawable(value))


def _named(value: Any) -> tuple[str, Any] | None:
    """Name and fields of an instance of a class; None for other values."""
    if isinstance(value, Opaque):
        return value.name.replace(":", "."), value.fields
    fields = _OURS.get(type(value))
    if fields is None:
        return None
    given = {name: found for name in fields if (found := getattr(value, name)) is not None}
    return f"{type(value).__module__}.{type(value).__qualname__}", given


class _Instance:
    """Draws an instance of a class that is not there."""

    def __init__(self, fields: Any) -> None:
        self.fields = fields

    def __rich_repr__(self) -> Iterator[Any]:
        if isinstance(self.fields, Mapping):
            yield from self.fields.items()
        else:
            yield self.fields

    def __repr__(self) -> str:
        named = isinstance(self.fields, Mapping)
        inside = (f"{k}={v!r}" for k, v in self.fields.items()) if named else (repr(self.fields),)
        return f"{type(self).__name__}({', '.join(inside)})"


@cache
def _class_named(name: str) -> type[_Instance]:
    # The printer of nested values asks an object for the name of its class.
    return type(name, (_Instance,), {})


def _drawable(value: Any) -> Any:
    named = _named(value)
    if named is not None:
        return _class_named(named[0].rpartition(".")[2] or named[0])(_drawable(named[1]))
    if isinstance(value, Mapping):
        return {_key(key): _drawable(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_drawable(member) for member in value]
    if isinstance(value, tuple):
        return tuple(_drawable(member) for member in value)
    return value


def _key(key: Any) -> Any:
    return key if not isinstance(key, Opaque) else _drawable(key)
