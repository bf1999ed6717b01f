"""Statements and their values, as bytes on their way to a server."""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NamedTuple

BINARY: Final = 1
"""Values are in PostgreSQL's own form, not text."""

Rows = list[tuple[Any, ...]]


# -- values ----------------------------------------------------------------------------------------------------------


class Kind(NamedTuple):
    """A type of PostgreSQL's in its binary form."""

    oid: int
    put: Callable[[Any], bytes | None]
    take: Callable[[bytes], Any]
    item: int = 0
    """The type of its items, if it is a list."""


def put_text(text: str) -> bytes:
    """Text without the character 0, which PostgreSQL refuses; the order of texts is kept."""
    if "\0" in text or "\1" in text:
        text = text.replace("\1", "\1\2").replace("\0", "\1\1")
    return text.encode()


def take_text(data: bytes) -> str:
    """The text that ``put_text`` was given."""
    text = str(data, "utf-8")
    if "\1" in text:
        text = text.replace("\1\1", "\0").replace("\1\2", "\1")
    return text


put_number: Final = struct.Struct("!q").pack
length: Final = struct.Struct("!i").pack
"""How many bytes follow."""
_array: Final = struct.Struct("!5i")
_NULL: Final = b"\xff\xff\xff\xff"


def _take_number(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


def _list_of(kind: Kind, oid: int) -> Kind:
    put_one, take_one, inner = kind.put, kind.take, kind.oid

    nothing = struct.pack("!3i", 0, 0, inner)

    def put(items: Collection[Any]) -> bytes:
        if not items:
            return nothing
        parts, gaps = [b""], 0
        for item in items:
            data = None if item is None else put_one(item)
            if data is None:
                gaps = 1
                parts.append(_NULL)
            else:
                parts.append(length(len(data)))
                parts.append(data)
        parts[0] = _array.pack(1, gaps, inner, len(items), 1)
        return b"".join(parts)

    def take(data: bytes) -> list[Any]:
        if len(data) < _array.size:
            return []
        _, _, _, count, _ = _array.unpack_from(data)
        at, items = _array.size, list[Any]()
        for _ in range(count):
            size = _take_number(data[at : at + 4])
            at += 4
            items.append(None if size < 0 else take_one(data[at : at + size]))
            at += max(size, 0)
        return items

    return Kind(oid, put, take, inner)


def begin_of_one(kind: Kind) -> bytes:
    """How a list of one item begins: its length, as ``length`` makes it, and its bytes follow."""
    return _array.pack(1, 0, kind.item, 1, 1)


def one_null(kind: Kind) -> bytes:
    """A list of one NULL."""
    return _array.pack(1, 1, kind.item, 1, 1) + _NULL


TEXT: Final = Kind(25, put_text, take_text)
INT: Final = Kind(20, put_number, _take_number)
BLOB: Final = Kind(17, bytes, bytes)
BOOL: Final = Kind(16, lambda yes: b"\1" if yes else b"\0", lambda data: data == b"\1")
TEXTS: Final = _list_of(TEXT, 1009)
INTS: Final = _list_of(INT, 1016)
BLOBS: Final = _list_of(BLOB, 1001)


# -- statements ------------------------------------------------------------------------------------------------------


class Sent(NamedTuple):
    """A statement with its values, ready to go."""

    request: tuple[bytes, list[bytes | None], list[int], list[int]]
    """The statement, its values, their types and their formats, as psycopg before 3.3 wants them: lists."""
    takes: Sequence[Callable[[bytes], Any]]


class Query:
    """A statement with the types of its parameters and of the columns that it gives."""

    __slots__ = ("_formats", "_oids", "_puts", "_sql", "_takes")

    def __init__(self, sql: str, puts: Sequence[Kind] = (), takes: Sequence[Kind] = ()) -> None:
        self._sql = sql.encode()
        self._oids = [kind.oid for kind in puts]
        self._formats = [BINARY] * len(puts)
        self._puts = [kind.put for kind in puts]
        self._takes = [kind.take for kind in takes]

    def __call__(self, *values: Any) -> Sent:
        """The statement with these values; None is NULL."""
        data = [None if value is None else put(value) for put, value in zip(self._puts, values, strict=True)]
        return self.sent(data)

    def sent(self, data: list[bytes | None]) -> Sent:
        """The statement with values that are bytes already."""
        return Sent((self._sql, data, self._oids, self._formats), self._takes)
