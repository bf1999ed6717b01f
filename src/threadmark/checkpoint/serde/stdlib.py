"""Rows for the builtin types and the standard library."""

from __future__ import annotations

import os
import re
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

from threadmark.checkpoint.serde.kinds import Kind

__all__ = [
    "ADDRESS_NAMES",
    "KINDS",
    "MODULES",
    "PATH_NAMES",
    "expect",
    "fixed_zone",
    "is_zone",
    "named_zone",
    "pattern",
]


def _lazy(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


def expect(value: Any, *kinds: type) -> Any:
    """The value itself; TypeError when the wire holds something of another type."""
    if type(value) not in kinds:
        raise TypeError(f"expected {' or '.join(kind.__name__ for kind in kinds)}, found {type(value).__name__}")
    return value


# -- text, bytes, numbers ------------------------------------------------------------------------------------


def _memoryview(parts: list[Any]) -> memoryview:
    form, shape, readonly, data = parts
    view = memoryview(expect(data, bytes) if readonly else bytearray(expect(data, bytes)))
    return view if form == "B" and len(shape) == 1 else view.cast(form, shape)


def _int_down(value: int) -> bytes:
    return value.to_bytes((value.bit_length() + 8) // 8, "big", signed=True)


def _fraction(parts: list[int]) -> Any:
    top, bottom = parts
    return _lazy("fractions", "Fraction")(expect(top, int), expect(bottom, int))


# -- collections ---------------------------------------------------------------------------------------------


def _flat(pairs: Any) -> list[Any]:
    return [part for pair in pairs.items() for part in pair]


def _pairs(flat: list[Any]) -> Any:
    if len(expect(flat, list)) % 2:
        raise ValueError("a key without a value")
    parts = iter(flat)
    return zip(parts, parts, strict=True)


def _ordered(items: Any) -> list[Any]:
    """Members of a set, in an order that does not depend on the process where they are plain: equal sets are to give
    equal bytes, so that a saver sees that nothing changed."""
    members = list(items)
    kinds = set(map(type, members))
    if kinds <= {str} or kinds <= {int} or kinds <= {bytes}:
        members.sort()
    elif len(members) > 1:
        members.sort(key=lambda member: (type(member).__name__, repr(member) if type(member) in _PLAIN else ""))
    return members


_PLAIN = frozenset({str, int, bytes, float, bool, type(None), tuple})

_FACTORIES: dict[str, type] = {
    kind.__name__: kind
    for kind in (list, dict, set, frozenset, tuple, str, bytes, bytearray, int, float, complex, bool)
} | {kind.__name__: kind for kind in (deque, Counter, OrderedDict)}
_FACTORY_NAMES = {kind: name for name, kind in _FACTORIES.items()}


def _defaultdict_down(value: defaultdict[Any, Any]) -> list[Any]:
    factory = value.default_factory
    # A class of the user's goes as a class, and asks the allow-list; a function is refused there.
    return [_FACTORY_NAMES.get(factory, factory) if isinstance(factory, type) else factory, _flat(value)]


def _defaultdict(parts: list[Any]) -> defaultdict[Any, Any]:
    factory, flat = parts
    if factory is not None and not isinstance(factory, type):
        factory = _FACTORIES[expect(factory, str)]
    return defaultdict(factory, _pairs(flat))


def _deque(parts: list[Any]) -> deque[Any]:
    items, maxlen = parts
    return deque(expect(items, list), maxlen)


def _counter(flat: list[Any]) -> Counter[Any]:
    made: Counter[Any] = Counter()
    for key, count in _pairs(flat):
        made[key] = count
    return made


# -- time ----------------------------------------------------------------------------------------------------


def _is_plain_zone(zone: tzinfo | None) -> bool:
    """Whether isoformat says all there is: no zone, or a fixed offset without a name of its own."""
    return zone is None or (type(zone) is timezone and len(zone.__reduce__()[1]) == 1)


def _moment_down(value: datetime | time) -> Any:
    if not value.fold and _is_plain_zone(value.tzinfo):
        return value.isoformat()
    return [value.replace(tzinfo=None, fold=0).isoformat(), value.tzinfo, value.fold]


def _moment(kind: Any) -> Any:
    def up(wire: Any) -> Any:
        if type(wire) is str:
            return kind.fromisoformat(wire)
        text, zone, fold = wire
        return kind.fromisoformat(text).replace(tzinfo=zone, fold=fold)

    return up


def _timezone_down(zone: timezone) -> list[Any]:
    return list(zone.__reduce__()[1])


def fixed_zone(parts: list[Any]) -> timezone:
    """A fixed offset, with a name of its own or without; UTC is the one that Python has."""
    offset = timedelta(*parts[0]) if type(parts[0]) is list else parts[0]
    made = timezone(offset, *parts[1:])
    return UTC if made.__reduce__() == UTC.__reduce__() else made


def is_zone(key: str) -> bool:
    """Whether the system, or the tzdata package, has a zone of that name."""
    if not key or os.path.isabs(key) or os.path.normpath(key) != key or key.startswith(".."):
        return False
    return any(os.path.isfile(os.path.join(root, key)) for root in _zone_roots())


@cache
def _zone_roots() -> list[str]:
    found = find_spec("tzdata")
    package = [os.path.join(os.path.dirname(found.origin), "zoneinfo")] if found and found.origin else []
    return [*_lazy("zoneinfo", "TZPATH"), *package]


def _zone_key(zone: Any) -> bytes:
    if zone.key is None:
        raise TypeError("a ZoneInfo that was made from a file has no key to store")
    return str(zone.key).encode()


def named_zone(data: bytes) -> Any:
    """The ZoneInfo of a key that this system lists."""
    key = data.decode()
    # ZoneInfo opens the file that its key names, or imports a package after it, so only real names get that far.
    if not is_zone(key):
        raise ValueError(f"this system has no time zone {key!r}; install tzdata")
    return _lazy("zoneinfo", "ZoneInfo")(key)


# -- patterns, paths, addresses ------------------------------------------------------------------------------

PATH_NAMES = ("PurePosixPath", "PureWindowsPath", "PosixPath", "WindowsPath")
ADDRESS_NAMES = ("IPv4Address", "IPv6Address", "IPv4Network", "IPv6Network", "IPv4Interface", "IPv6Interface")
# re.DEBUG prints, re.TEMPLATE and unknown bits have no use.
_RE_FLAGS = int(re.I | re.L | re.M | re.S | re.U | re.X | re.A)


def pattern(parts: list[Any]) -> Any:
    """A compiled pattern; flags that print are left out."""
    text, flags = parts
    return re.compile(expect(text, str, bytes), expect(flags, int) & _RE_FLAGS)


def _path_kinds() -> list[Kind]:
    def up(name: str) -> Any:
        return lambda data: _lazy("pathlib", name)(data.decode("utf-8", "surrogatepass"))

    return [
        Kind(0x40 + at, f"pathlib:{name}", lambda path: str(path).encode("utf-8", "surrogatepass"), up(name), raw=True)
        for at, name in enumerate(PATH_NAMES)
    ]


def _address_kinds() -> list[Kind]:
    def up(name: str) -> Any:
        return lambda text: _lazy("ipaddress", name)(expect(text, str))

    return [Kind(0x46 + at, f"ipaddress:{name}", str, up(name)) for at, name in enumerate(ADDRESS_NAMES)]


MODULES = frozenset({
    "array", "builtins", "collections", "datetime", "decimal", "fractions", "ipaddress", "pathlib", "pathlib._local",
    "re", "types", "uuid", "zoneinfo",
})  # fmt: skip
"""Where the types of this table come from."""

_SINGLES: dict[bytes, Any] = {b"...": ...}

KINDS: tuple[Kind, ...] = (
    Kind(0x10, "builtins:tuple", list, lambda items: tuple(expect(items, list))),
    # 0x11 is text with lone surrogates, 0x14 a dict whose keys msgpack has not; the writer makes them itself.
    Kind(0x11, "builtins:str", lambda text: text.encode("utf-8", "surrogatepass"),
         lambda data: data.decode("utf-8", "surrogatepass"), raw=True, note="lone surrogates and NUL included"),
    Kind(0x12, "builtins:bytearray", bytes, bytearray, raw=True),
    Kind(0x13, "builtins:memoryview", lambda view: [view.format, list(view.shape), view.readonly, view.tobytes()],
         _memoryview),
    Kind(0x14, "builtins:dict", _flat, lambda flat: dict(_pairs(flat)), note="any hashable keys"),
    Kind(0x15, "builtins:int", _int_down, lambda data: int.from_bytes(data, "big", signed=True), raw=True,
         note="any size"),
    Kind(0x16, "builtins:complex", lambda z: [z.real, z.imag], lambda parts: complex(*map(float, parts))),
    Kind(0x17, "builtins:set", _ordered, lambda items: set(expect(items, list))),
    Kind(0x18, "builtins:frozenset", _ordered, lambda items: frozenset(expect(items, list))),
    Kind(0x19, "builtins:range", lambda r: [r.start, r.stop, r.step], lambda parts: range(*parts)),
    Kind(0x1A, "builtins:slice", lambda s: [s.start, s.stop, s.step], lambda parts: slice(*parts)),
    Kind(0x1B, "collections:deque", lambda d: [list(d), d.maxlen], _deque, note="with its maxlen"),
    Kind(0x1C, "collections:OrderedDict", _flat, lambda flat: OrderedDict(_pairs(flat))),
    Kind(0x1D, "collections:defaultdict", _defaultdict_down, _defaultdict,
         note="the default factory is None, a builtin type or an allowed class"),
    Kind(0x1E, "collections:Counter", _flat, _counter),
    Kind(0x1F, "collections:ChainMap", lambda chain: chain.maps, lambda maps: ChainMap(*expect(maps, list))),
    Kind(0x20, "datetime:datetime", _moment_down, _moment(datetime), note="zone and fold included"),
    Kind(0x21, "datetime:time", _moment_down, _moment(time), note="zone and fold included"),
    Kind(0x22, "datetime:date", lambda day: day.isoformat().encode(), lambda data: date.fromisoformat(data.decode()),
         raw=True),
    Kind(0x23, "uuid:UUID", lambda value: value.bytes, lambda data: _lazy("uuid", "UUID")(bytes=data), raw=True),
    Kind(0x24, "datetime:timedelta", lambda d: [d.days, d.seconds, d.microseconds], lambda parts: timedelta(*parts)),
    Kind(0x25, "zoneinfo:ZoneInfo", _zone_key, named_zone, raw=True, equal="the same object"),
    Kind(0x26, "decimal:Decimal", lambda value: str(value).encode(),
         lambda data: _lazy("decimal", "Decimal")(data.decode()), raw=True, equal="==, the same digits"),
    Kind(0x27, "datetime:timezone", _timezone_down, fixed_zone),
    Kind(0x28, "fractions:Fraction", lambda value: [value.numerator, value.denominator], _fraction),
    Kind(0x29, "re:Pattern", lambda compiled: [compiled.pattern, compiled.flags & _RE_FLAGS], pattern),
    Kind(0x2A, "types:SimpleNamespace", lambda ns: _flat(vars(ns)),
         lambda flat: SimpleNamespace(**dict(_pairs(flat)))),
    Kind(0x2B, "array:array", lambda a: [a.typecode, a.tobytes()],
         lambda parts: _lazy("array", "array")(expect(parts[0], str), expect(parts[1], bytes))),
    Kind(0x30, "builtins:ellipsis", lambda _: b"...", _SINGLES.__getitem__, raw=True, equal="the same object"),
    *_path_kinds(),
    *_address_kinds(),
)  # fmt: skip
