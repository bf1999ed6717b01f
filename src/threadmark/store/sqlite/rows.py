"""The rows of a SQLite store: one table, one row an item."""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from threadmark.checkpoint.serde.base import SerializerProtocol
from threadmark.store.base.embed import Vector
from threadmark.store.base.match import under
from threadmark.store.base.work import Entry, Namespace

_SCHEMA = (
    """
    CREATE TABLE IF NOT EXISTS threadmark_store (
        id INTEGER PRIMARY KEY, ns TEXT NOT NULL, key TEXT NOT NULL, tag TEXT NOT NULL, value BLOB NOT NULL,
        created TEXT NOT NULL, updated TEXT NOT NULL, dims INTEGER, vectors BLOB, ttl REAL, expires REAL,
        UNIQUE (ns, key)
    )
    """,
    "CREATE INDEX IF NOT EXISTS threadmark_store_expires ON threadmark_store (expires) WHERE expires IS NOT NULL",
)
_COLUMNS = "tag, value, created, updated, dims, vectors, ttl, expires"


def prepare(conn: sqlite3.Connection) -> None:
    """Make the table unless it is there."""
    conn.execute("PRAGMA journal_mode=WAL")
    for statement in _SCHEMA:
        conn.execute(statement)


class SqlRows:
    """Rows inside one transaction."""

    def __init__(self, conn: sqlite3.Connection, serde: SerializerProtocol) -> None:
        self._conn = conn
        self._serde = serde

    def get(self, namespace: Namespace, key: str) -> Entry | None:
        row = self._conn.execute(
            f"SELECT {_COLUMNS} FROM threadmark_store WHERE ns = ? AND key = ?", (_text(namespace), key)
        ).fetchone()
        return None if row is None else self._entry(row)

    def under(self, prefix: Namespace) -> Iterator[tuple[Namespace, str, Entry]]:
        # The list's text without its closing bracket begins all that lie below; no text sorts behind U+10FFFF.
        low = _text(prefix)[:-1]
        rows = self._conn.execute(
            f"SELECT ns, key, {_COLUMNS} FROM threadmark_store WHERE ns >= ? AND ns < ? ORDER BY ns, id",
            (low, low + "\U0010ffff"),
        )
        for ns, key, *row in rows.fetchall():
            namespace = tuple(json.loads(ns))
            if under(namespace, prefix):
                yield namespace, key, self._entry(row)

    def namespaces(self) -> Iterable[Namespace]:
        rows = self._conn.execute("SELECT DISTINCT ns FROM threadmark_store").fetchall()
        return [tuple(json.loads(ns)) for (ns,) in rows]

    def put(self, namespace: Namespace, key: str, entry: Entry) -> None:
        tag, value = self._serde.dumps_typed(entry.value)
        dims = len(entry.vectors[0]) if entry.vectors else None
        flat = array("d", (number for vector in entry.vectors for number in vector)).tobytes() if dims else None
        self._conn.execute(
            f"INSERT INTO threadmark_store (ns, key, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (ns, key) DO UPDATE SET tag = excluded.tag, value = excluded.value,"
            " created = excluded.created, updated = excluded.updated, dims = excluded.dims,"
            " vectors = excluded.vectors, ttl = excluded.ttl, expires = excluded.expires",
            (
                _text(namespace),
                key,
                tag,
                value,
                entry.created.isoformat(),
                entry.updated.isoformat(),
                dims,
                flat,
                entry.ttl,
                entry.expires,
            ),
        )

    def touch(self, namespace: Namespace, key: str, expires: float) -> None:
        self._conn.execute(
            "UPDATE threadmark_store SET expires = ? WHERE ns = ? AND key = ?", (expires, _text(namespace), key)
        )

    def drop(self, namespace: Namespace, key: str) -> None:
        self._conn.execute("DELETE FROM threadmark_store WHERE ns = ? AND key = ?", (_text(namespace), key))

    def sweep(self, now: float) -> int:
        return self._conn.execute("DELETE FROM threadmark_store WHERE expires <= ?", (now,)).rowcount

    def given(self, value: dict[str, Any]) -> dict[str, Any]:
        return value  # made for this call alone

    def _entry(self, row: Sequence[Any]) -> Entry:
        tag, value, created, updated, dims, vectors, ttl, expires = row
        return Entry(
            value=self._serde.loads_typed((tag, value)),
            created=datetime.fromisoformat(created),
            updated=datetime.fromisoformat(updated),
            vectors=_vectors(vectors, dims) if dims else (),
            ttl=ttl,
            expires=expires,
        )


def _text(namespace: Sequence[str]) -> str:
    return json.dumps(list(namespace), separators=(",", ":"))


def _vectors(flat: bytes, dims: int) -> list[Vector]:
    numbers = array("d")
    numbers.frombytes(flat)
    return [list(numbers[at : at + dims]) for at in range(0, len(numbers), dims)]
