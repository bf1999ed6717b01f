"""Kinds whose payload names a class: one row a sort of class (spec 12.3, 12.4).

Making an instance again runs no code of the class: neither ``__init__``, ``__new__`` nor a validator. The exceptions
are stated in each row's ``runs``. Which classes may be made at all is the allow-list's matter.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable
from dataclasses import MISSING
from dataclasses import fields as dataclass_fields
from typing import TYPE_CHECKING, Any

from threadmark.checkpoint.serde import fields as by_fields
from threadmark.checkpoint.serde.allow import class_key
from threadmark.checkpoint.serde.fields import NO_DEFAULT, Down, Up, builtin_base, extras_of
from threadmark.checkpoint.serde.kinds import Sort
from threadmark.checkpoint.serde.pydantics import PYDANTIC, PYDANTIC_V1

if TYPE_CHECKING:
    from threadmark.checkpoint.serde.wire import Encode

__all__ = ["SORTS", "SORT_OF_CODE", "encoder", "sort_of"]


def encoder(cls: type, sort: Sort) -> Encode:
    """What writes instances of ``cls``."""
    return sort.code, sort.down(cls, class_key(cls))


# -- enums ---------------------------------------------------------------------------------------------------

_SCALARS = (str, int, float, bytes, bool, type(None))


def _enum_down(cls: Any, key: str) -> Down:
    def down(member: Any) -> list[Any]:
        value = member._value_
        return [key, value] if type(value) in _SCALARS else [key, None, member._name_]

    return down


def _enum_up(cls: Any) -> Up:
    # Flags make members for combined bits in Flag._missing_, which is the standard library's own code.
    combines = issubclass(cls, enum.Flag) and cls._missing_.__func__ is enum.Flag._missing_.__func__  # type: ignore[attr-defined]

    def up(value: Any, name: str | None = None) -> Any:
        members = cls.__members__ if name is not None else cls._value2member_map_
        wanted = name if name is not None else value
        if wanted in members:
            return members[wanted]
        if combines and type(value) is int:
            return cls(value)
        raise ValueError(f"{class_key(cls).replace(':', '.')} has no member {wanted!r} any more")

    return up


# -- tuples with names ---------------------------------------------------------------------------------------


def _is_namedtuple(cls: Any) -> bool:
    names = getattr(cls, "_fields", None)
    return issubclass(cls, tuple) and type(names) is tuple and all(type(name) is str for name in names)


def _namedtuple_down(cls: Any, key: str) -> Down:
    names = cls._fields
    if not cls.__dictoffset__:
        return lambda value: [key, dict(zip(names, value, strict=True))]
    return lambda value: [key, dict(zip(names, value, strict=True)), dict(vars(value))]


def _namedtuple_up(cls: Any) -> Up:
    names, wanted = cls._fields, frozenset(cls._fields)
    defaults = getattr(cls, "_field_defaults", {})

    def up(fields: dict[str, Any], extras: dict[str, Any] | None = None) -> Any:
        if fields.keys() != wanted:
            fields = by_fields.completed(cls, names, fields, (), lambda name: defaults.get(name, NO_DEFAULT))
        value = tuple.__new__(cls, [fields[name] for name in names])
        if extras:
            value.__dict__.update(extras)
        return value

    return up


# -- dataclasses, attrs, msgspec -----------------------------------------------------------------------------


def _dataclass_down(cls: Any, key: str) -> Down:
    return by_fields.down(cls, key, [field.name for field in dataclass_fields(cls)])


def _dataclass_up(cls: Any) -> Up:
    listed = {field.name: field for field in dataclass_fields(cls)}

    def default(name: str) -> Any:
        field = listed[name]
        if field.default is not MISSING:
            return field.default
        return NO_DEFAULT if field.default_factory is MISSING else field.default_factory()

    return by_fields.up(cls, list(listed), default)


def _attrs_down(cls: Any, key: str) -> Down:
    return by_fields.down(cls, key, [field.name for field in cls.__attrs_attrs__])


def _attrs_up(cls: Any) -> Up:
    listed = {field.name: field for field in cls.__attrs_attrs__}
    nothing = sys.modules["attr"].NOTHING

    def default(name: str) -> Any:
        given = listed[name].default
        factory = getattr(given, "factory", None)
        if given is nothing or getattr(given, "takes_self", False):
            return NO_DEFAULT
        return given if factory is None else factory()

    make = by_fields.up(cls, list(listed), default)
    if "_attrs_cached_hash" not in by_fields.slot_names(cls):
        return make

    def up(*parts: Any) -> Any:
        value = make(*parts)
        object.__setattr__(value, "_attrs_cached_hash", None)
        return value

    return up


def _is_msgspec(cls: type) -> bool:
    loaded = sys.modules.get("msgspec")
    return loaded is not None and issubclass(cls, loaded.Struct)


def _msgspec_down(cls: Any, key: str) -> Down:
    names = cls.__struct_fields__
    return lambda value: [key, {name: getattr(value, name) for name in names}]


def _msgspec_up(cls: Any) -> Up:
    names = frozenset(cls.__struct_fields__)
    # The constructor of a struct is msgspec's own, but for this hook of the class.
    hooked = hasattr(cls, "__post_init__")

    def up(fields: dict[str, Any]) -> Any:
        if not names.issuperset(fields):
            by_fields.completed(cls, cls.__struct_fields__, fields, (), lambda _: None)
        value = cls(**fields)
        if hooked:
            for name, item in fields.items():
                sys.modules["msgspec"].structs.force_setattr(value, name, item)
        return value

    return up


# -- exceptions ----------------------------------------------------------------------------------------------


def _exception_down(cls: Any, key: str) -> Down:
    base: Any = builtin_base(cls)
    slots = by_fields.slot_names(cls)

    def down(error: Any) -> list[Any]:
        _, args, *rest = base.__reduce__(error)
        state = dict(rest[0] or {}) if rest else {}
        state |= {name: getattr(error, name) for name in slots if hasattr(error, name)}
        return [key, list(args), state] if state else [key, list(args)]

    return down


def _exception_up(cls: Any) -> Up:
    base: Any = builtin_base(cls)
    slots = by_fields.slot_names(cls)

    def up(args: list[Any], state: dict[str, Any] | None = None) -> Any:
        error = base.__new__(cls, *args)
        base.__init__(error, *args)
        for name, item in (state or {}).items():
            if name in slots or (hasattr(base, name) and not name.startswith("__")):
                object.__setattr__(error, name, item)
            else:
                error.__dict__[name] = item
        return error

    return up


# -- subclasses of builtin containers and scalars; classes themselves ----------------------------------------

_PLAIN: dict[type, Callable[[Any], Any]] = {
    str: lambda value: str.__str__(value),
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    int: lambda value: int.__int__(value),
    float: lambda value: float.__float__(value),
    list: lambda value: list.__getitem__(value, slice(None)),
    tuple: lambda value: tuple.__getitem__(value, slice(None)),
    dict: lambda value: dict(dict.items(value)),
    set: lambda value: set.union(set(), value),
    frozenset: lambda value: frozenset.union(frozenset(), value),
}
_FILL: dict[type, Callable[[Any, Any], Any]] = {list: list.extend, dict: dict.update, set: set.update}


def _is_subclass(cls: type) -> bool:
    return builtin_base(cls) in _PLAIN and not by_fields.slot_names(cls)


def _subclass_down(cls: Any, key: str) -> Down:
    plain, in_dict = _PLAIN[builtin_base(cls)], bool(cls.__dictoffset__)

    def down(value: Any) -> list[Any]:
        state = extras_of(cls, vars(value), frozenset()) if in_dict else None
        return [key, plain(value), state] if state else [key, plain(value)]

    return down


def _subclass_up(cls: Any) -> Up:
    base: Any = builtin_base(cls)
    fill = _FILL.get(base)

    def up(plain: Any, state: dict[str, Any] | None = None) -> Any:
        if type(plain) is not base:
            raise TypeError(f"expected {base.__name__}, found {type(plain).__name__}")
        made: Any = base.__new__  # which type that is, only the class knows
        value = made(cls) if fill else made(cls, plain)
        if fill:
            fill(value, plain)
        if state:
            value.__dict__.update(state)
        return value

    return up


def _is_plain_object(cls: type) -> bool:
    """An ordinary class: its memory holds attributes and nothing that only C code knows."""
    return builtin_base(cls) is object


SORTS: tuple[Sort, ...] = (
    Sort("enum", lambda cls: issubclass(cls, enum.Enum), _enum_down, _enum_up, equal="the same member"),
    Sort("exception", lambda cls: issubclass(cls, BaseException), _exception_down, _exception_up,
         equal="type, args and attributes", runs="the constructor of the builtin exception it derives from"),
    PYDANTIC,
    PYDANTIC_V1,
    Sort("msgspec", _is_msgspec, _msgspec_down, _msgspec_up, runs="`__post_init__`, when the class has one"),
    Sort("attrs", lambda cls: hasattr(cls, "__attrs_attrs__") and _is_plain_object(cls), _attrs_down, _attrs_up),
    Sort("namedtuple", _is_namedtuple, _namedtuple_down, _namedtuple_up),
    Sort("dataclass", lambda cls: hasattr(cls, "__dataclass_fields__") and _is_plain_object(cls), _dataclass_down,
         _dataclass_up),
    Sort("subclass", _is_subclass, _subclass_down, _subclass_up),
)  # fmt: skip
SORT_OF_CODE = {sort.code: sort for sort in SORTS}


def sort_of(cls: type) -> Sort | None:
    """The first sort that fits; None for a class that is no record."""
    return next((sort for sort in SORTS if sort.fits(cls)), None)
