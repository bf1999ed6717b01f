"""Says where in a value the part is that cannot be written. Runs after a failure only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from threadmark.checkpoint.serde.records import sort_of

__all__ = ["problems"]

_MOST = 5
_DEEPEST = 60


def problems(value: Any, failure: Callable[[Any], str | None]) -> list[tuple[str, str]]:
    """Pairs of path and reason, the first few in the order of the value. ``failure`` tries one part."""
    return list(islice(_walk(value, "", failure, ()), _MOST))


def _walk(
    value: Any, path: str, failure: Callable[[Any], str | None], around: tuple[Any, ...]
) -> Iterator[tuple[str, str]]:
    reason = failure(value)
    if reason is None:
        return
    if any(value is outer for outer in around):
        yield path, f"this {type(value).__name__} contains itself"
        return
    found = False
    if len(around) < _DEEPEST:
        for label, part in _parts(value):
            place = path + label if path else label.removeprefix(".")
            for problem in _walk(part, place, failure, (*around, value)):
                yield problem
                found = True
    if not found:
        yield path, reason


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a value with what leads to them."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield f" (the key {key!r})", key
            yield f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]", part
        if factory := getattr(value, "default_factory", None):
            yield ".default_factory", factory
        return
    fields = _fields(value)
    if fields is not None:
        for name, part in fields:
            yield f".{name}", part
    elif isinstance(value, list | tuple) or type(value).__name__ == "deque":
        yield from ((f"[{at}]", part) for at, part in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield from (("{}", part) for part in value)
    elif type(value).__name__ == "ndarray" and value.dtype.kind == "O":
        yield from ((f".flat[{at}]", part) for at, part in enumerate(value.ravel().tolist()))


def _fields(value: Any) -> list[tuple[str, Any]] | None:
    """Attributes of an object that is written as its fields; None for anything else."""
    cls = type(value)
    names: list[str] = list(getattr(cls, "__slots__", ())) if cls.__module__ == "threadmark.types" else []
    if not names:
        sort = sort_of(cls)
        if sort is None or sort.name in ("enum", "subclass"):
            return None
        names = list(
            getattr(cls, "__struct_fields__", None)
            or getattr(cls, "_fields", None)
            or getattr(cls, "__dataclass_fields__", None)
            or [field.name for field in getattr(cls, "__attrs_attrs__", ())]
        )
        names += [name for name in getattr(value, "__dict__", {}) if name not in names]
        names += list(getattr(value, "__pydantic_private__", None) or {})
        names += list(getattr(value, "__pydantic_extra__", None) or {})
        if isinstance(value, BaseException):
            names = ["args", *names]
    missing = object()
    parts = [(name, getattr(value, name, missing)) for name in dict.fromkeys(names)]
    undefined = getattr(sys.modules.get("pydantic_core"), "PydanticUndefined", missing)
    return [(name, part) for name, part in parts if part is not missing and part is not undefined]
