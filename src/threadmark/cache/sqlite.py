"""A cache in an SQLite file of its own."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike, fspath
from types import TracebackType
from typing import Any, Self, TypeVar

from threadmark.cache.base import BaseCache, CacheError, Encoded, FullKey, Namespace, ValueT, expiry
from threadmark.checkpoint.serde.base import SerializerProtocol
from threadmark.colour import Worker

T = TypeVar("T")
_PATIENCE = 60.0
"""Seconds that a statement waits for other connections."""
# A key keeps its kind: a column without a type turns neither text nor bytes into the other.
_TABLE = """
CREATE TABLE IF NOT EXISTS threadmark_cache (
    ns TEXT NOT NULL, key NOT NULL, expires REAL, tag TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY (ns, key)
) WITHOUT ROWID
"""
_INDEX = "CREATE INDEX IF NOT EXISTS threadmark_cache_expires ON threadmark_cache (expires) WHERE expires IS NOT NULL"


class SqliteCache(BaseCache[ValueT]):
    """Keeps entries in a file that several threads and processes may share; ``":memory:"`` for none.

    Deleting the file is safe while nobody has it open. Close the cache, or use it in a ``with`` block.

    Args:
        path: The file; it is made if need be.
        serde: As for ``BaseCache``.
        clock: Seconds since the epoch, since other processes compare with it; for tests.

    Raises:
        CacheError: for a file that is no SQLite database or cannot be written.
    """

    def __init__(
        self,
        *,
        path: str | PathLike[str],
        serde: SerializerProtocol | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(serde=serde)
        self._file = _File(fspath(path), clock)

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        return self._decoded(self._file.get(keys))

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        return self._decoded(await self._file.aside(lambda: self._file.get(keys)))

    def set(self, pairs: Mapping[FullKey, tuple[ValueT, int | None]]) -> None:
        self._file.set(self._encoded(pairs))

    async def aset(self, pairs: Mapping[FullKey, tuple[ValueT, int | None]]) -> None:
        entries = self._encoded(pairs)
        await self._file.aside(lambda: self._file.set(entries))

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        self._file.clear(namespaces)

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        await self._file.aside(lambda: self._file.clear(namespaces))

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _File:
    """The connection that a cache and its copies with other serializers share."""

    def __init__(self, path: str, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._worker = Worker("threadmark-cache")
        with self._told():
            self._conn = sqlite3.connect(path, timeout=_PATIENCE, check_same_thread=False, isolation_level=None)
            self._conn.execute("PRAGMA journal_mode=WAL")
            self._conn.execute("PRAGMA synchronous=OFF")  # a power cut may cost entries, which a cache may forget
            self._conn.execute(_TABLE)
            self._conn.execute(_INDEX)

    def __del__(self) -> None:
        if hasattr(self, "_conn"):
            self.close()

    def close(self) -> None:
        self._worker.close()
        with self._lock:
            self._conn.close()

    async def aside(self, job: Callable[[], T]) -> T:
        """Do something in the cache's own thread, so that a busy file does not stop the event loop."""
        return await self._worker.run(job)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise CacheError(f"the cache {self._path!r} cannot be used: {error}") from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._told():
            self._conn.execute("BEGIN IMMEDIATE")
            try:
                yield self._conn
            except BaseException:
                self._conn.execute("ROLLBACK")
                raise
            self._conn.execute("COMMIT")

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, Encoded]:
        found: dict[FullKey, Encoded] = {}
        now = self._clock()
        with self._lock, self._told():
            for namespace, key in keys:
                row = self._conn.execute(
                    "SELECT tag, value FROM threadmark_cache"
                    " WHERE ns = ? AND key = ? AND (expires IS NULL OR expires > ?)",
                    (_ns(namespace), key, now),
                ).fetchone()
                if row is not None:
                    found[(namespace, key)] = (row[0], row[1])
        return found

    def set(self, entries: Sequence[tuple[FullKey, Encoded, int | None]]) -> None:
        now = self._clock()
        rows: list[tuple[Any, ...]] = [
            (_ns(namespace), key, expiry(now, ttl), tag, value) for (namespace, key), (tag, value), ttl in entries
        ]
        with self._transaction() as conn:
            conn.execute("DELETE FROM threadmark_cache WHERE expires <= ?", (now,))
            conn.executemany("INSERT OR REPLACE INTO threadmark_cache VALUES (?, ?, ?, ?, ?)", rows)

    def clear(self, namespaces: Sequence[Namespace] | None) -> None:
        with self._transaction() as conn:
            if namespaces is None:
                conn.execute("DELETE FROM threadmark_cache")
            else:
                rows = [(_ns(namespace),) for namespace in namespaces]
                conn.executemany("DELETE FROM threadmark_cache WHERE ns = ?", rows)


def _ns(namespace: Sequence[str]) -> str:
    return json.dumps(list(namespace))


__all__ = ["SqliteCache"]
