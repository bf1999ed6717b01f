"""Collects the classes that type annotations name: those of a graph's schemas may travel without being listed."""

from __future__ import annotations

import sys
import typing
from collections.abc import Iterator
from typing import Any, ForwardRef, TypeVar, get_args, get_origin

__all__ = ["collect"]


def collect(*annotations: Any) -> set[type]:
    """The classes in ``annotations`` and in the annotations of their fields, however deep.

    Looks into ``Annotated``, unions, generics, literals of enum members, TypedDicts, NamedTuples, dataclasses, attrs
    and msgspec classes and pydantic models. Names that cannot be resolved are passed over.
    """
    found: set[type] = set()
    seen: set[int] = set()
    # The list keeps what is looked at alive, so that ids stay unique.
    todo: list[tuple[Any, Any]] = [(annotation, None) for annotation in annotations]
    for annotation, owner in todo:
        if id(annotation) in seen and not isinstance(annotation, str):
            continue
        seen.add(id(annotation))
        if isinstance(annotation, str | ForwardRef):
            todo.extend((value, owner) for value in _resolved(annotation, owner))
            continue
        if isinstance(annotation, type) and get_origin(annotation) is None:
            if annotation.__module__ not in ("builtins", "typing"):
                found.add(annotation)
            todo.extend((part, annotation) for part in _fields(annotation))
        else:
            todo.extend((part, owner) for part in _parts(annotation))
    return found


def _parts(annotation: Any) -> Iterator[Any]:
    """What an annotation that is no class is made of."""
    origin = get_origin(annotation)
    if origin is typing.Annotated:
        yield annotation.__origin__
        return
    if origin is typing.Literal:
        yield from (type(value) for value in get_args(annotation))
        return
    if isinstance(annotation, TypeVar):
        yield from (annotation.__bound__, *annotation.__constraints__)
        return
    yield from (origin, *get_args(annotation))
    for inner in ("__supertype__", "__value__"):  # NewType, and the type statement
        yield getattr(annotation, inner, None)


def _fields(cls: type) -> Iterator[Any]:
    """The annotations of a class's fields, its bases' among them."""
    models = cls.__dict__.get("__pydantic_fields__")
    if models is not None:
        yield from (field.annotation for field in models.values())
        return
    if cls.__module__ in ("builtins", "typing") or cls.__module__.partition(".")[0] in sys.stdlib_module_names:
        return
    yield from getattr(cls, "__orig_bases__", ())
    for base in cls.__mro__:
        for annotation in _annotations(base).values():
            yield from _resolved(annotation, base) if isinstance(annotation, str) else (annotation,)


def _annotations(cls: type) -> dict[str, Any]:
    """The annotations of a class; those of a base for one that has none. Python 3.14 evaluates them only now."""
    try:
        return dict(getattr(cls, "__annotations__", {}))
    except NameError:
        return {}


def _resolved(annotation: str | ForwardRef, owner: Any) -> Iterator[Any]:
    """What a name in quotes stands for in the module of the class that uses it."""
    text = annotation if isinstance(annotation, str) else annotation.__forward_arg__
    module = sys.modules.get(getattr(owner, "__module__", ""))
    scope = {**vars(typing), **vars(module)} if module else dict(vars(typing))
    if isinstance(owner, type):
        scope |= {owner.__name__: owner, **vars(owner)}
    try:
        # The text is the program's own source, as typing.get_type_hints evaluates it.
        yield eval(text, scope)
    except Exception:
        return
