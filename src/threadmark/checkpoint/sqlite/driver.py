"""Connections: one statement at a time, transactions that wait for their turn."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar

from threadmark.checkpoint.sqlite.errors import is_busy, translated

T = TypeVar("T")

PATIENCE: Final = 60.0
"""Seconds that a statement waits for other connections before ``Unavailable``."""


class Sql(Protocol):
    """What runs statements. A blocking one never suspends."""

    async def fetch(self, statement: str, args: Sequence[Any] = ()) -> list[Any]: ...

    async def run(self, statement: str, args: Sequence[Any] = ()) -> int:
        """Run a statement; the number of rows that it changed."""
        ...

    async def run_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None: ...


class Blocking:
    """Statements on a ``sqlite3`` connection that any thread may use, one transaction at a time."""

    def __init__(self, conn: sqlite3.Connection, file: str) -> None:
        self.conn = conn
        self.file = file
        self.lock = threading.RLock()

    async def fetch(self, statement: str, args: Sequence[Any] = ()) -> list[Any]:
        return self.conn.execute(statement, args).fetchall()

    async def run(self, statement: str, args: Sequence[Any] = ()) -> int:
        return self.conn.execute(statement, args).rowcount

    async def run_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        self.conn.executemany(statement, rows)


class Transaction:
    """``async with`` block: a transaction on a blocking connection, opened by ``begin``."""

    __slots__ = ("_begin", "_rows", "_sql")

    def __init__(self, sql: Blocking, begin: str, rows: Any) -> None:
        self._sql, self._begin, self._rows = sql, begin, rows

    async def __aenter__(self) -> Any:
        sql = self._sql
        sql.lock.acquire()
        try:
            self._open(sql)
        except BaseException as error:
            sql.lock.release()
            if isinstance(error, sqlite3.Error):
                raise translated(error, sql.file) from error
            raise
        return self._rows

    def _open(self, sql: Blocking) -> None:
        if sql.conn.in_transaction:  # the user's own connection, with a statement of theirs not committed
            sql.conn.commit()
        try:
            sql.conn.execute(self._begin)
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            patiently(lambda: sql.conn.execute(self._begin))

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        sql = self._sql
        try:
            if error is None:
                sql.conn.execute("COMMIT")
                return
        except BaseException as failed:
            error = failed
        finally:
            if error is not None and sql.conn.in_transaction:
                sql.conn.execute("ROLLBACK")
            sql.lock.release()
        if isinstance(error, sqlite3.Error):
            raise translated(error, sql.file) from error
        if kind is None:
            raise error


def patiently(action: Callable[[], T], patience: float = PATIENCE) -> T:
    """Try again while another connection is in the way. SQLite's own waiting sleeps up to 100 ms at a time."""
    end, pause = time.monotonic() + patience, 0.0002
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > end:
                raise
        time.sleep(pause * (0.5 + random.random()))
        pause = min(pause * 1.5, 0.01)
