"""Statements to a server and their answers, all of a round trip at once, over libpq as psycopg wraps it.

This is below psycopg's cursors for two reasons. Several statements share one round trip at a fraction of the cost,
and none is ever prepared on the server under a name, which a pooler between here and there would not bear.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Collection, Generator, Sequence
from typing import Any, Final, NamedTuple

from psycopg import DatabaseError, OperationalError, errors, pq
from psycopg.waiting import Ready, Wait

_BINARY: Final = 1
_FAILED: Final = pq.ExecStatus.FATAL_ERROR
_ROWS: Final = pq.ExecStatus.TUPLES_OK
_SYNC: Final = pq.ExecStatus.PIPELINE_SYNC
_BAD: Final = pq.ConnStatus.BAD
_STATE: Final = pq.DiagnosticField.SQLSTATE
_MESSAGE: Final = pq.DiagnosticField.MESSAGE_PRIMARY

Rows = list[tuple[Any, ...]]


# -- values ----------------------------------------------------------------------------------------------------------


class Kind(NamedTuple):
    """A type of PostgreSQL's in its binary form."""

    oid: int
    put: Callable[[Any], bytes | None]
    take: Callable[[bytes], Any]


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


_number: Final = struct.Struct("!q").pack
_length: Final = struct.Struct("!i").pack
_array: Final = struct.Struct("!5i")


def _take_number(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


def _list_of(kind: Kind, oid: int) -> Kind:
    put_one, take_one, inner = kind.put, kind.take, kind.oid

    nothing, one = struct.pack("!3i", 0, 0, inner), _array.pack(1, 0, inner, 1, 1)

    def put(items: Collection[Any]) -> bytes:
        if not items:
            return nothing
        if len(items) == 1:  # as a rule
            (item,) = items
            data = None if item is None else put_one(item)
            if data is not None:
                return one + _length(len(data)) + data
        parts, gaps = [b""], 0
        for item in items:
            data = None if item is None else put_one(item)
            if data is None:
                gaps = 1
                parts.append(b"\xff\xff\xff\xff")
            else:
                parts.append(_length(len(data)))
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

    return Kind(oid, put, take)


TEXT: Final = Kind(25, put_text, take_text)
INT: Final = Kind(20, _number, _take_number)
BLOB: Final = Kind(17, bytes, bytes)
BOOL: Final = Kind(16, lambda yes: b"\1" if yes else b"\0", lambda data: data == b"\1")
TEXTS: Final = _list_of(TEXT, 1009)
INTS: Final = _list_of(INT, 1016)
BLOBS: Final = _list_of(BLOB, 1001)


# -- statements ------------------------------------------------------------------------------------------------------


class Sent(NamedTuple):
    """A statement with its values, ready to go."""

    sql: bytes
    oids: Sequence[int]
    values: Sequence[bytes | None]
    takes: Sequence[Callable[[bytes], Any]]


class Query:
    """A statement with the types of its parameters and of the columns that it gives."""

    __slots__ = ("_oids", "_puts", "_sql", "_takes")

    def __init__(self, sql: str, puts: Sequence[Kind] = (), takes: Sequence[Kind] = ()) -> None:
        self._sql = sql.encode()
        self._oids = [kind.oid for kind in puts]
        self._puts = [kind.put for kind in puts]
        self._takes = [kind.take for kind in takes]

    def __call__(self, *values: Any) -> Sent:
        """The statement with these values; None is NULL."""
        data = [None if value is None else put(value) for put, value in zip(self._puts, values, strict=True)]
        return Sent(self._sql, self._oids, data, self._takes)


class Silence(OperationalError):
    """The server did not answer in time."""


def talk(conn: pq.abc.PGconn, sent: Sequence[Sent], patience: float) -> Generator[Wait, Ready | None, list[Rows]]:
    """One round trip: send statements, and give the rows of each.

    For ``wait`` of a psycopg connection, which must be at rest. The first error is raised when all has been read, so
    that the connection is at rest again. ``Silence`` after ``patience`` seconds without any answer.
    """
    alone = len(sent) == 1  # then there is nothing to line up behind it
    if not alone:
        conn.enter_pipeline_mode()
    for one in sent:
        conn.send_query_params(one.sql, one.values, one.oids, [_BINARY] * len(one.values), _BINARY)
    if not alone:
        conn.pipeline_sync()
    end = time.monotonic() + patience
    while conn.flush():
        ready = yield Wait.RW
        if ready and ready & Ready.R:
            conn.consume_input()
        elif not ready:
            _expect(end, patience)
    answers, failed = list[Rows](), None
    while True:
        while conn.is_busy():
            if (yield Wait.R):
                conn.consume_input()
                end = time.monotonic() + patience
            else:
                _expect(end, patience)
        result = conn.get_result()
        if result is None:
            if conn.status == _BAD:
                raise failed or OperationalError("the connection was lost")
            if alone:
                break
            continue
        if result.status == _SYNC:
            break
        if result.status == _ROWS:
            answers.append(_rows(result, sent[len(answers)].takes))
        else:
            answers.append([])
            if result.status == _FAILED and failed is None:
                failed = _error(result)
    if not alone:
        conn.exit_pipeline_mode()
    if failed is not None:
        raise failed
    return answers


def _expect(end: float, patience: float) -> None:
    if time.monotonic() > end:
        raise Silence(f"the server did not answer for {patience:.0f} s")


def _rows(result: pq.abc.PGresult, takes: Sequence[Callable[[bytes], Any]]) -> Rows:
    get = result.get_value
    columns = list(enumerate(takes))
    return [
        tuple([None if (data := get(row, column)) is None else take(data) for column, take in columns])
        for row in range(result.ntuples)
    ]


def _error(result: pq.abc.PGresult) -> DatabaseError:
    """The error of a failed statement, as psycopg would raise it."""
    state = (result.error_field(_STATE) or b"").decode()
    message = (result.error_field(_MESSAGE) or b"the statement failed").decode(errors="replace")
    try:
        kind: type[Any] = errors.lookup(state)
    except KeyError:
        kind = DatabaseError
    error: DatabaseError = kind(message)
    error.sqlstate = state or None
    return error
