"""Running statements: one transaction at a time on a connection, waiting patiently for other connections."""

from __future__ import annotations

import random
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import closing, suppress
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from threadmark.checkpoint.sqlite.errors import is_busy, translated

T = TypeVar("T")
Functions: TypeAlias = Iterable[tuple[str, int, Callable[..., Any]]]
"""Name in SQL, number of arguments, and the function."""

PATIENCE: Final = 60.0
"""Seconds that a transaction waits for those of other connections before ``Unavailable``."""


class Sql(Protocol):
    """What runs statements. A blocking one never suspends."""

    file: str
    """What messages call the database."""

    async def fetch(self, statement: str, args: Sequence[Any] = ()) -> list[Any]: ...

    def some(self, statement: str, args: Sequence[Any], count: int) -> AsyncIterator[list[Any]]:
        """Rows, at most ``count`` at a time where each time costs little."""
        ...

    async def run(self, statement: str, args: Sequence[Any] = ()) -> int:
        """Run a statement; the number of rows that it changed."""
        ...

    async def run_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None: ...

    async def teach(self, functions: Functions) -> None:
        """Let statements call these functions. They are pure and always the same, so once is enough."""
        ...

    async def run_to_end(self, statement: str) -> None:
        """Run a statement without a result to its very end, outside of a transaction.

        One that works in steps, as incremental_vacuum does page by page, stops after its first when run otherwise.
        """
        ...

    def in_transaction(self) -> bool: ...

    async def pause(self, seconds: float) -> None: ...

    async def enter(self) -> None:
        """Wait for this connection to be free, and take it."""
        ...

    def leave(self) -> None: ...


class Blocking:
    """Statements on a ``sqlite3`` connection that any thread may use."""

    def __init__(self, conn: sqlite3.Connection, file: str) -> None:
        self.conn = conn
        self.file = file
        self.lock = threading.RLock()
        """Held while a transaction is open."""
        self._taught: sqlite3.Connection | None = None

    async def fetch(self, statement: str, args: Sequence[Any] = ()) -> list[Any]:
        return self.conn.execute(statement, args).fetchall()

    async def some(self, statement: str, args: Sequence[Any], count: int) -> AsyncIterator[list[Any]]:
        with closing(self.conn.execute(statement, args)) as cursor:
            while rows := cursor.fetchmany(count):
                yield rows

    async def run(self, statement: str, args: Sequence[Any] = ()) -> int:
        return self.conn.execute(statement, args).rowcount

    async def run_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        self.conn.executemany(statement, rows)

    async def teach(self, functions: Functions) -> None:
        if self._taught is not self.conn:
            for name, count, function in functions:
                # Refused while a statement of the owner's runs, if another saver has taught this connection before.
                with suppress(sqlite3.OperationalError):
                    self.conn.create_function(name, count, function, deterministic=True)
            self._taught = self.conn

    async def run_to_end(self, statement: str) -> None:
        self.conn.executescript(statement)

    def in_transaction(self) -> bool:
        return self.conn.in_transaction

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    async def enter(self) -> None:
        self.lock.acquire()

    def leave(self) -> None:
        self.lock.release()

    def close(self) -> None:
        """Close the connection once it is free. Idempotent."""
        with self.lock:
            self.conn.close()

    def renew(self, conn: sqlite3.Connection) -> None:
        """Go on with another connection, and no lock held: in a forked child."""
        self.conn, self.lock = conn, threading.RLock()


class Transaction:
    """``async with`` block: a transaction on a connection, begun by ``begin``; what it yields works inside."""

    __slots__ = ("_begin", "_rows", "_sql")

    def __init__(self, sql: Sql, begin: str, rows: Any) -> None:
        self._sql, self._begin, self._rows = sql, begin, rows

    async def __aenter__(self) -> Any:
        sql = self._sql
        await sql.enter()
        try:
            if sql.in_transaction():  # a connection of the user's, with statements that they did not commit
                await sql.run("COMMIT")
            try:
                await sql.run(self._begin)  # which waits for nobody, as a rule
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise
                await patiently(sql, self._begin)
        except BaseException as error:
            sql.leave()
            if isinstance(error, sqlite3.Error):
                raise translated(error, sql.file) from error
            raise
        return self._rows

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        sql = self._sql
        try:
            if error is None:
                await sql.run("COMMIT")
            elif sql.in_transaction():
                await sql.run("ROLLBACK")
        except sqlite3.Error as failed:
            if error is None and sql.in_transaction():
                await sql.run("ROLLBACK")
            raise translated(failed, sql.file) from failed
        finally:
            sql.leave()
        if isinstance(error, sqlite3.Error):
            raise translated(error, sql.file) from error


async def patiently(sql: Sql, statement: str, patience: float = PATIENCE) -> list[Any]:
    """Run a statement, again and again while another connection is in its way.

    SQLite's own waiting sleeps up to 100 ms at a time, and some statements do not wait at all.
    """
    return await until_free(sql, lambda: sql.fetch(statement), patience)


async def until_free(sql: Sql, action: Callable[[], Awaitable[T]], patience: float = PATIENCE) -> T:
    """Do something again and again while another connection is in its way."""
    try:
        return await action()
    except sqlite3.OperationalError as error:
        if not is_busy(error):
            raise
    end, wait = time.monotonic() + patience, 0.0002
    while True:
        await sql.pause(wait * (0.5 + random.random()))
        wait = min(wait * 1.5, 0.01)
        try:
            return await action()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > end:
                raise
