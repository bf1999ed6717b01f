"""Objects as their fields: read from an instance, put back into a new one without running any of its code."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import repeat
from operator import attrgetter
from types import MemberDescriptorType
from typing import Any, TypeAlias

from threadmark.checkpoint.serde.allow import class_key
from threadmark.checkpoint.serde.errors import DeserializationError

__all__ = ["NO_DEFAULT", "Down", "Up", "builtin_base", "dict_setter", "down", "extras_of", "slot_names", "up"]

Down: TypeAlias = Callable[[Any], list[Any]]
"""What of an object goes on the wire: the name of its class and parts."""
Up: TypeAlias = Callable[..., Any]
"""Makes the object from what followed the class name."""

NO_DEFAULT: Any = object()
_set = object.__setattr__
_new = object.__new__
_HEAP_TYPE = 1 << 9


def builtin_base(cls: type) -> type:
    """The nearest base that is written in C: ``object`` for an ordinary class."""
    return next(base for base in cls.__mro__ if not base.__flags__ & _HEAP_TYPE)


def slot_names(cls: type) -> frozenset[str]:
    """Names of the slots that Python classes among the bases have declared."""
    return frozenset(
        name
        for base in cls.__mro__
        if base.__flags__ & _HEAP_TYPE
        for name, value in vars(base).items()
        if isinstance(value, MemberDescriptorType)
    )


def dict_setter(cls: type) -> Callable[[Any, dict[str, Any]], None]:
    """Sets the ``__dict__`` of an instance, past any ``__setattr__`` of the class."""
    setter: Callable[[Any, dict[str, Any]], None]
    setter = next(vars(base)["__dict__"] for base in cls.__mro__ if "__dict__" in vars(base)).__set__
    return setter


def extras_of(cls: type, state: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """Attributes beside the fields; what a cached_property computed is left out, it computes it again."""
    return {
        name: value
        for name, value in state.items()
        if name not in names and not isinstance(getattr(cls, name, None), cached_property)
    }


def down(cls: type, key: str, names: Sequence[str]) -> Down:
    """How instances of ``cls`` give ``[key, fields]``, or with it their other attributes and unset fields' names."""
    wanted = frozenset(names)
    slots = slot_names(cls) & wanted
    in_dict = bool(cls.__dictoffset__)

    def odd(value: Any) -> list[Any]:
        state = vars(value) if in_dict else {}
        found = {name: state[name] for name in names if name in state}
        found |= {name: getattr(value, name) for name in names if name in slots and hasattr(value, name)}
        return [key, found, extras_of(cls, state, wanted), [name for name in names if name not in found]]

    if slots:
        get = attrgetter(*names)
        single = len(names) == 1

        def from_slots(value: Any) -> list[Any]:
            if in_dict and vars(value):
                return odd(value)
            try:
                values = get(value)
            except AttributeError:
                return odd(value)
            return [key, {names[0]: values} if single else dict(zip(names, values, strict=True))]

        return odd if slots != wanted else from_slots

    def from_dict(value: Any) -> list[Any]:
        state = value.__dict__
        return [key, state] if state.keys() == wanted else odd(value)

    def even(values: Sequence[Any]) -> list[Any] | None:
        states = [value.__dict__ for value in values]
        return [states] if set(map(tuple, states)) == {tuple(names)} else None

    from_dict.even = even  # type: ignore[attr-defined]
    return from_dict if in_dict else odd


def up(cls: type, names: Sequence[str], default: Callable[[str], Any]) -> Up:
    """How an instance is made again. ``default`` gives the value of a field that was added since, or NO_DEFAULT."""
    wanted = frozenset(names)
    slots = slot_names(cls)
    in_dict = bool(cls.__dictoffset__)
    set_dict = dict_setter(cls) if in_dict and not slots else None

    def make_by_dict(fields: dict[str, Any], extras: dict[str, Any] | None = None, unset: Sequence[str] = ()) -> Any:
        if fields.keys() != wanted:
            fields = completed(cls, names, fields, unset, default)
        value: Any = _new(cls)
        set_dict(value, {**fields, **extras} if extras else fields)  # type: ignore[misc]
        return value

    def many(found: Sequence[dict[str, Any]], *others: Any) -> list[Any]:
        # A call of C for all of them takes half the time of making one after the other.
        if others or set(map(tuple, found)) != {tuple(names)}:
            return list(map(make_by_dict, found, *others))
        values: list[Any] = list(map(_new, repeat(cls, len(found))))
        deque(map(set_dict, values, found), 0)  # type: ignore[arg-type]
        return values

    def make(fields: dict[str, Any], extras: dict[str, Any] | None = None, unset: Sequence[str] = ()) -> Any:
        if fields.keys() != wanted:
            fields = completed(cls, names, fields, unset, default)
        value: Any = _new(cls)
        for name, item in fields.items():
            if name in slots:
                _set(value, name, item)
            else:
                value.__dict__[name] = item
        if extras:
            value.__dict__.update(extras)
        return value

    setters = {name: getattr(cls, name).__set__ for name in names if name in slots}

    def make_by_slots(fields: dict[str, Any], extras: dict[str, Any] | None = None, unset: Sequence[str] = ()) -> Any:
        if fields.keys() != wanted:
            fields = completed(cls, names, fields, unset, default)
        value: Any = _new(cls)
        for name, item in fields.items():
            setters[name](value, item)
        if extras:
            value.__dict__.update(extras)
        return value

    if set_dict is not None:
        make_by_dict.many = many  # type: ignore[attr-defined]
        return make_by_dict
    return make_by_slots if setters.keys() == wanted else make


def completed(
    cls: type, names: Sequence[str], fields: dict[str, Any], unset: Sequence[str], default: Callable[[str], Any]
) -> dict[str, Any]:
    """The stored fields with defaults for those that the class has got since. Raises when a field has gone."""
    key = class_key(cls)
    gone = [name for name in fields if name not in names]
    if gone:
        raise DeserializationError(
            f"class {key.replace(':', '.')} no longer has the stored field {', '.join(map(repr, gone))}; give it "
            f"back, or write the value anew with update_state",
            class_name=key,
        )
    made = {}
    for name in names:
        value: Any = fields[name] if name in fields else NO_DEFAULT if name in unset else default(name)
        if value is not NO_DEFAULT:
            made[name] = value
        elif name not in unset:
            raise DeserializationError(
                f"class {key.replace(':', '.')} has a field {name!r} that was not stored; give it a default",
                class_name=key,
            )
    return made
