"""Schemas as JSON schemas, by pydantic when it is there."""

from __future__ import annotations

import typing
from collections.abc import Iterable
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict


def json_schema(schema: Any, title: str, leave_out: Iterable[str] = ()) -> dict[str, Any]:
    """The JSON schema of a TypedDict, dataclass, pydantic model or any other type.

    Args:
        title: Its title when the type has no name of its own.
        leave_out: Keys that the engine fills in.

    Raises:
        ImportError: pydantic is not there.
    """
    try:
        from pydantic import PydanticSchemaGenerationError, TypeAdapter
    except ImportError as error:
        raise ImportError("JSON schemas are made by pydantic: pip install threadmark[pydantic]") from error
    try:
        out = TypeAdapter(_readable(schema)).json_schema()
    except PydanticSchemaGenerationError:  # a class that pydantic knows nothing of
        out = {}
    out.setdefault("title", title)
    for key in leave_out:
        out.get("properties", {}).pop(key, None)
        if key in out.get("required", ()):
            out["required"].remove(key)
    return out


def _readable(kind: Any) -> Any:
    """The type with each ``typing.TypedDict`` in it made anew as one of ``typing_extensions``.

    Before Python 3.12 pydantic refuses those of ``typing``.
    """
    import typing_extensions

    if is_typeddict(kind):
        hints = get_type_hints(kind, include_extras=True)
        fields = {name: _readable(hint) for name, hint in hints.items()}
        optional: frozenset[str] = getattr(kind, "__optional_keys__", frozenset())
        marked = {name: _optional(hint) if name in optional else hint for name, hint in fields.items()}
        make: Any = typing_extensions.TypedDict
        made = make(kind.__name__, marked)
        made.__doc__ = kind.__doc__
        return made
    origin, args = get_origin(kind), get_args(kind)
    if origin is None or not args or origin in (typing.Literal, typing_extensions.Literal):
        return kind
    if origin is typing.Annotated:
        return _readable(args[0])  # what is behind it are reducers and channels
    inner = tuple(map(_readable, args))
    try:
        return kind.copy_with(inner) if hasattr(kind, "copy_with") else origin[inner]
    except TypeError:  # a union written with |, Callable and the like
        return kind


def _optional(hint: Any) -> Any:
    import typing_extensions

    while get_origin(hint) in (typing.Required, typing.NotRequired):
        hint = get_args(hint)[0]
    return typing_extensions.NotRequired[hint]


__all__ = ["json_schema"]
