"""What an Arrow stream says about itself, read without Arrow: enough to refuse a bomb before a library unpacks it.

A stream is a row of messages, each a flatbuffer with a body behind it. Compressed bodies and row counts that the bytes
cannot hold make small bytes large. We write neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

__all__ = ["refuse_bomb"]

_I32, _I64, _U16, _U32 = Struct("<i"), Struct("<q"), Struct("<H"), Struct("<I")
_DICTIONARY, _BATCH = 2, 3


def refuse_bomb(stream: bytes | memoryview) -> None:
    """Raises ValueError for a stream that takes much more memory than it has bytes."""
    rows = 0
    for kind, table, buffer in _messages(stream):
        batch = table
        if kind == _DICTIONARY:
            batch = _offset(buffer, table, 1)
        elif kind != _BATCH:
            continue
        if _field(buffer, batch, 3):
            raise ValueError("compressed Arrow data is not accepted")
        place = _field(buffer, batch, 0)
        rows += _I64.unpack_from(buffer, place)[0] if place else 0
    # A column of booleans has eight rows in a byte; only columns of nothing but nulls have more.
    if rows > 8 * len(stream):
        raise ValueError(f"{rows} rows in {len(stream)} bytes: columns without any value are not accepted")


def _messages(stream: bytes | memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """Kind, position of its table and flatbuffer of every message."""
    data = memoryview(stream)
    at = 0
    while at + 8 <= len(data):
        marker, size = _U32.unpack_from(data, at)[0], _I32.unpack_from(data, at + 4)[0]
        if marker != 0xFFFFFFFF:
            raise ValueError("no Arrow stream")
        if size == 0:
            return
        if size < 0 or at + 8 + size > len(data):
            raise ValueError("an Arrow message is longer than the stream")
        buffer = data[at + 8 : at + 8 + size]
        root = _U32.unpack_from(buffer, 0)[0]
        place = _field(buffer, root, 3)
        body = _I64.unpack_from(buffer, place)[0] if place else 0
        if body < 0:
            raise ValueError("an Arrow message of negative length")
        kind = _field(buffer, root, 1)
        yield (buffer[kind] if kind else 0), _offset(buffer, root, 2), buffer
        at += 8 + size + body


def _field(buffer: memoryview, table: int, number: int) -> int:
    """Where a field of a flatbuffer table lies; 0 when it is absent."""
    names = table - _I32.unpack_from(buffer, table)[0]
    if names < 0 or 4 + 2 * number >= _U16.unpack_from(buffer, names)[0]:
        return 0
    offset: int = _U16.unpack_from(buffer, names + 4 + 2 * number)[0]
    return table + offset if offset else 0


def _offset(buffer: memoryview, table: int, number: int) -> int:
    """The table that a field points to."""
    place = _field(buffer, table, number)
    if not place:
        raise ValueError("an Arrow message lacks its header")
    return place + int(_U32.unpack_from(buffer, place)[0])
