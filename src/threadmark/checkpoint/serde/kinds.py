"""The table of kinds: which Python type is which msgpack extension, one row a type (spec 12.3).

Codes are stored for ever: a row may be added, never changed. 0 to 7 are LangGraph's (``legacy``), ours start at 16.
A kind needs no permission on loading: nothing but its own type comes out of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadmark.checkpoint.serde.fields import Down, Up
    from threadmark.checkpoint.serde.wire import Decode, Encode

__all__ = ["CLASS_CODES", "FIRST_OWN_CODE", "PICKLE", "Kind", "Sort", "by_type_name", "kinds", "raw_codes"]

FIRST_OWN_CODE = 0x10


@dataclass(frozen=True, slots=True)
class Kind:
    """One type that has an extension code.

    ``down`` gives what goes on the wire, ``up`` makes the value out of it again; when ``raw``, what lies between is
    bytes, else anything that can be packed. ``type`` is ``"module:qualname"``; the module is looked up when a value
    of the type turns up, and imported when one is loaded, so it must be in the standard library or ours, or come with
    an extra. ``equal`` says by what a value that came back is the same, ``note`` what else there is to know of it.
    """

    code: int
    type: str
    down: Callable[[Any], Any]
    up: Callable[[Any], Any]
    raw: bool = False
    equal: str = "=="
    note: str = ""

    def encoder(self) -> Encode:
        return (-self.code if self.raw else self.code), self.down

    def decoder(self) -> Decode:
        up = self.up
        if self.raw:
            return lambda data, _: up(data)
        return lambda data, unpack: up(unpack(data))


CLASS_CODES = {
    "enum": 0x50,
    "namedtuple": 0x51,
    "dataclass": 0x52,
    "exception": 0x53,
    "pydantic": 0x54,
    "pydantic v1": 0x55,
    "attrs": 0x56,
    "msgspec": 0x57,
    "subclass": 0x58,
    "class": 0x59,
    "batch": 0x5C,
    "pickle": 0x5F,
}
"""Kinds whose payload names a class; the allow-list is asked about it. See ``records``."""

PICKLE = CLASS_CODES["pickle"]


@dataclass(frozen=True, slots=True)
class Sort:
    """A sort of class: how its instances are taken apart and made again."""

    name: str
    fits: Callable[[type], bool]
    down: Callable[[type, str], Down]
    up: Callable[[type], Up]
    equal: str = "=="
    runs: str = "nothing"

    @property
    def code(self) -> int:
        return CLASS_CODES[self.name]


def kinds() -> Iterable[Kind]:
    """Every row, from the files that hold them."""
    from threadmark.checkpoint.serde import arrays, frames, own, pandas_frames, pydantics, stdlib

    return (*stdlib.KINDS, *own.KINDS, *pydantics.KINDS, *arrays.KINDS, *frames.KINDS, *pandas_frames.KINDS)


@cache
def raw_codes() -> frozenset[int]:
    """Codes whose payload is no msgpack."""
    return frozenset({PICKLE, *(row.code for row in kinds() if row.raw)})


_by_name: dict[str, Kind] = {}


def by_type_name(kind: type) -> Kind | None:
    """The row of exactly this type, or None."""
    if not _by_name:
        _by_name.update({row.type: row for row in kinds()})
    # Python 3.13 defines paths in a module of its own.
    module = kind.__module__.removesuffix("._local")
    row = _by_name.get(f"{module}:{kind.__qualname__}")
    # Another class may bear the name; a few of Python's own (the type of `...`) stand in no module.
    if row is None or not (_found(row.type) is kind or (kind.__module__ == "builtins" and _is_static(kind))):
        return None
    return row


def _is_static(kind: type) -> bool:
    return not kind.__flags__ & (1 << 9)


def _found(name: str) -> Any:
    module, _, qualname = name.partition(":")
    return getattr(sys.modules.get(module), qualname, None)
