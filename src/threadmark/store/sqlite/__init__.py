"""A store in a SQLite file, for blocking programs and event loops alike."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from threadmark.checkpoint.serde.base import SerializerProtocol
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.colour import Worker, drive
from threadmark.store.base import BaseStore
from threadmark.store.base.items import IndexConfig, Op, Result, StoreError, TTLConfig
from threadmark.store.base.work import Blocking, Index, OnLoop, Prepared, execute
from threadmark.store.sqlite.rows import SqlRows, prepare

T = TypeVar("T")
_PATIENCE = 60.0
"""Seconds that a statement waits for other connections."""


class SqliteStore(BaseStore):
    """Keeps items in a SQLite file that several threads, event loops and processes may share.

    Filters and likeness are worked out here, over the items under the prefix that is searched; nothing of a filter
    becomes part of a statement.

    Args:
        conn: A ``sqlite3`` connection that any thread may use (``check_same_thread=False``); it stays open when the
            store is closed. ``from_conn_string`` opens a file itself.
        index: Makes items searchable by meaning: ``{"dims": 3, "embed": function, "fields": ["text"]}``.
        ttl: Default time to live and whether reads refresh it. An expired item is never seen again.
        serde: What makes bytes of values; by default one that writes and loads no pickles.
        clock: Seconds since the epoch; for tests.

    Raises:
        StoreError: for a file that is no SQLite database or cannot be written.
    """

    supports_ttl = True

    def __init__(
        self,
        conn: sqlite3.Connection,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        serde: SerializerProtocol | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.conn = conn
        self.index_config = index
        self.ttl_config = ttl
        self._index = Index(index)
        self._serde: SerializerProtocol = JsonPlusSerializer() if serde is None else serde
        self._clock = clock
        self._lock = threading.Lock()
        self._worker = Worker("threadmark-store")
        self._own = False
        with self._told():
            prepare(conn)

    @classmethod
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        serde: SerializerProtocol | None = None,
    ) -> Self:
        """A store on the file with this path, ``:memory:`` for none.

        It is usable at once, and a context manager of both colours that closes it.
        """
        try:
            conn = sqlite3.connect(conn_string, timeout=_PATIENCE, check_same_thread=False)
        except sqlite3.Error as error:
            raise StoreError(f"the store {conn_string!r} cannot be opened: {error}") from error
        try:
            store = cls(conn, index=index, ttl=ttl, serde=serde)
        except BaseException:
            conn.close()
            raise
        store._own = True
        return store

    @property
    def embeddings(self) -> Any:
        """What makes vectors; None without an index."""
        return self._index.embeddings

    def with_allowlist(self, extra: Any) -> Self:
        """A store on the same file whose serializer also takes the classes of ``extra``."""
        extend = getattr(self._serde, "with_allowlist", None)
        if extend is None:
            return self
        clone = object.__new__(type(self))
        clone.__dict__.update(self.__dict__, _serde=extend(extra), _own=False)
        return clone

    def setup(self) -> None:
        """Nothing is left to do: the tables are made when the store is. Kept for programs that call it."""

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return self._execute(drive(self._index.prepare(ops, Blocking)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        batch = await self._index.prepare(ops, OnLoop)
        return await self._aside(lambda: self._execute(batch))

    def sweep_ttl(self) -> int:
        """Delete what has expired; how many items that were."""
        with self._transaction() as rows:
            return rows.sweep(self._clock())

    async def asweep_ttl(self) -> int:
        """The same as ``sweep_ttl`` on the running event loop."""
        return await self._aside(self.sweep_ttl)

    def close(self) -> None:
        """End the store's thread, and close the file if the store has opened it. Idempotent."""
        self._worker.close()
        if self._own:
            with self._lock:
                self.conn.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()

    async def _aside(self, job: Callable[[], T]) -> T:
        """Do something in the store's own thread, to its end even when the caller is cancelled."""
        return await self._worker.run(job)

    def _execute(self, batch: Prepared) -> list[Result]:
        with self._transaction() as rows:
            now = self._clock()
            if batch.puts:
                rows.sweep(now)
            return execute(batch, rows, now)

    @contextmanager
    def _transaction(self) -> Iterator[SqlRows]:
        with self._lock, self._told():
            if self.conn.in_transaction:  # a connection of the user's, with statements that they did not commit
                self.conn.execute("COMMIT")
            self.conn.execute("BEGIN IMMEDIATE")
            try:
                yield SqlRows(self.conn, self._serde)
            except BaseException:
                self.conn.execute("ROLLBACK")
                raise
            self.conn.execute("COMMIT")

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"the store's database cannot be used: {error}") from error


__all__ = ["SqliteStore"]
