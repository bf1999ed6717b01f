"""Channel versions as bytes: ten for the usual string of 51 characters, exact for every other kind (spec
1.6).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from threadmark.checkpoint.layout.program import put_varint, take_varint, varint
from threadmark.errors import DamagedRow

__all__ = ["Version", "pack_version", "unpack_versions"]

Version: TypeAlias = "str | int | float | bool | bytes | tuple[Version, ...] | list[Version] | None"
"""A channel's version. Comes back with the same type and the same value, whichever of these it is."""

_COUNTED, _TEXT, _INT, _BIG, _FLOAT, _NONE, _FALSE, _TRUE, _BYTES, _TUPLE, _LIST = range(11)
_COUNTED_HEAD: Final = bytes((_COUNTED,))
_COUNTER_DIGITS: Final = 32
# A counter of our own. Fifteen digits, neither first nor last of them a zero, are those that a float of them is written
# with; to write it to see that takes four times as long.
_USUAL: Final = re.compile(r"[0-9]{32}\.0\.[1-9][0-9]{13}[1-9]")
_DEEPEST: Final = 16
_DOUBLE: Final = struct.Struct("<d")
_CONSTANTS: Final[dict[int, bool | None]] = {_NONE: None, _FALSE: False, _TRUE: True}


def pack_version(version: Version) -> bytes:
    """A kind byte and what the kind needs. TypeError for a type that is none of ``Version``'s."""
    if type(version) is str:
        return _pack_text(version)
    return _pack_other(version, 0)


# The changes of a row repeat most versions of the row before.
@lru_cache(maxsize=256)
def _pack_text(text: str) -> bytes:
    counted = _pack_counted(text)
    if counted is not None:
        return counted
    return _sized(_TEXT, text.encode("utf-8", "surrogatepass"))


def _pack_counted(text: str) -> bytes | None:
    """Counter and fraction as numbers, when exactly this text can be made of them again."""
    usual = _USUAL.fullmatch(text) is not None
    if not usual and (not 33 < len(text) < 64 or text[_COUNTER_DIGITS] != "." or text[_COUNTER_DIGITS + 1] == "-"):
        return None
    try:
        counter, fraction = int(text[:_COUNTER_DIGITS]), float(text[_COUNTER_DIGITS + 1 :])
    except ValueError:
        return None
    if not 0 <= counter < 1 << 56 or not (usual or _counted(counter, fraction) == text):
        return None
    return _COUNTED_HEAD + varint(counter) + _DOUBLE.pack(fraction)


@lru_cache(maxsize=256)
def _counted(counter: int, fraction: float) -> str:
    return f"{counter:032}.{fraction:016}"


def _pack_other(version: Version, depth: int) -> bytes:
    match version:
        case None:
            return bytes((_NONE,))
        case bool():
            return bytes((_TRUE if version else _FALSE,))
        case int():
            return _pack_int(int(version))
        case float():
            return bytes((_FLOAT,)) + _DOUBLE.pack(version)
        case str():
            return _pack_text(str(version))
        case bytes():
            return _sized(_BYTES, version)
        case tuple() | list() if depth < _DEEPEST:
            out = bytearray((_TUPLE if isinstance(version, tuple) else _LIST,))
            put_varint(out, len(version))
            return bytes(out) + b"".join(_pack_other(item, depth + 1) for item in version)
    raise TypeError(
        f"a channel version of type {type(version).__name__} cannot be stored; "
        "let the saver's get_next_version return str or int"
    )


def _pack_int(number: int) -> bytes:
    if -(1 << 61) < number < 1 << 61:
        out = bytearray((_INT,))
        put_varint(out, number << 1 if number >= 0 else (-number << 1) - 1)
        return bytes(out)
    return _sized(_BIG, number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True))


def _sized(kind: int, data: bytes) -> bytes:
    out = bytearray((kind,))
    put_varint(out, len(data))
    return bytes(out) + data


def unpack_versions(data: bytes, at: int, count: int) -> tuple[list[Version], int]:
    """``count`` versions packed one behind the other, and the position behind them.

    IndexError, struct.error or UnicodeDecodeError at bytes that are too short or no text, else DamagedRow.
    """
    return _unpack(data, at, count, 0)


def _unpack(data: bytes, at: int, count: int, depth: int) -> tuple[list[Version], int]:
    found = list[Version]()
    for _ in range(count):
        kind, start = data[at], at + 1
        if kind == _COUNTED:  # nearly all of them: an eighth of what reading a row's maps took
            size, start = (data[start], start + 1) if data[start] < 0x80 else take_varint(data, start)
            found.append(_counted(size, _DOUBLE.unpack_from(data, start)[0]))
            at = start + 8
        elif kind in _CONSTANTS:
            found.append(_CONSTANTS[kind])
            at = start
        elif kind == _FLOAT:
            found.append(_DOUBLE.unpack_from(data, start)[0])
            at = start + 8
        else:
            size, start = take_varint(data, start)
            version, at = _unpack_sized(kind, size, data, start, depth)
            found.append(version)
    return found, at


def _unpack_sized(kind: int, size: int, data: bytes, at: int, depth: int) -> tuple[Version, int]:
    if kind == _INT:
        return -((size + 1) >> 1) if size & 1 else size >> 1, at
    if kind in (_TUPLE, _LIST) and depth < _DEEPEST:
        items: Sequence[Version]
        items, at = _unpack(data, at, size, depth + 1)
        return (tuple(items) if kind == _TUPLE else items), at
    piece = data[at : at + size]
    if len(piece) != size:
        raise IndexError
    if kind == _TEXT:
        return piece.decode("utf-8", "surrogatepass"), at + size
    if kind == _BYTES:
        return piece, at + size
    if kind == _BIG:
        return int.from_bytes(piece, "little", signed=True), at + size
    raise DamagedRow(f"a channel version is of unknown kind {kind}; the row is damaged or of a newer version")
