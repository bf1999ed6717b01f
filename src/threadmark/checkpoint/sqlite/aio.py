"""``AsyncSqliteSaver``: the same saver under the name that programs on an event loop know."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from typing import Any

from threadmark.checkpoint.base import Retention
from threadmark.checkpoint.sqlite import setup
from threadmark.checkpoint.sqlite.driver import Functions, Transaction
from threadmark.checkpoint.sqlite.errors import closed, translated
from threadmark.checkpoint.sqlite.port import reclaimed
from threadmark.checkpoint.sqlite.rows import Rows
from threadmark.checkpoint.sqlite.saver import SqliteSaver

__all__ = ["AsyncSqliteSaver"]


class Awaited:
    """Statements on an ``aiosqlite`` connection: each is run by that connection's own thread."""

    def __init__(self, conn: Any) -> None:
        self.conn = conn
        self.file = "the database of this aiosqlite connection"
        self.loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()
        self._ready = self._taught = False

    async def fetch(self, statement: str, args: Sequence[Any] = ()) -> list[Any]:
        return list(await self.conn.execute_fetchall(statement, args))

    async def some(self, statement: str, args: Sequence[Any], count: int) -> AsyncIterator[list[Any]]:
        yield await self.fetch(statement, args)  # another thread runs each statement

    async def run(self, statement: str, args: Sequence[Any] = ()) -> int:
        async with self.conn.execute(statement, args) as cursor:
            return int(cursor.rowcount)

    async def run_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        async with self.conn.executemany(statement, rows):
            pass

    async def teach(self, functions: Functions) -> None:
        if not self._taught:
            for name, count, function in functions:
                with suppress(sqlite3.OperationalError):  # see Blocking
                    await self.conn.create_function(name, count, function, deterministic=True)
            self._taught = True

    async def run_to_end(self, statement: str) -> None:
        async with self.conn.executescript(statement):
            pass

    def in_transaction(self) -> bool:
        try:
            return bool(self.conn.in_transaction)
        except ValueError as error:  # aiosqlite's word for a connection that is closed
            raise closed(self.file) from error

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def enter(self) -> None:
        running = asyncio.get_running_loop()
        if self.loop is not running:  # a second asyncio.run() over the same connection
            self.loop, self._lock = running, asyncio.Lock()
        await self._lock.acquire()
        if not self._ready:
            try:
                self.in_transaction()  # asks whether it is open
                await setup.prepare(self, synchronous=None)
                self._ready = True
            except BaseException:
                self._lock.release()
                raise

    def leave(self) -> None:
        self._lock.release()


class AwaitedPort:
    """Rows behind an ``aiosqlite`` connection."""

    blocking = False
    waits = True
    grouped = True
    direct = None
    steady = False

    def __init__(self, conn: Any) -> None:
        self._sql = Awaited(conn)
        self._write = Transaction(self._sql, "BEGIN IMMEDIATE", Rows(self._sql))
        self._read = Transaction(self._sql, "BEGIN", Rows(self._sql))

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that last used it."""
        return self._sql.loop

    def read(self) -> Transaction:
        return self._read

    def write(self) -> Transaction:
        return self._write

    async def reclaim(self) -> None:
        await reclaimed(self._sql)

    async def prepare(self) -> None:
        """Make the tables unless they are there."""
        try:
            await self._sql.enter()
        except sqlite3.Error as error:
            raise translated(error, self._sql.file) from error
        self._sql.leave()

    async def pause(self, seconds: float) -> None:
        await self._sql.pause(seconds)

    async def close(self) -> None:
        """The connection is closed by whoever opened it."""

    def after_fork(self) -> None:
        """Nothing can be saved: the connection's thread did not survive."""


class AsyncSqliteSaver(SqliteSaver):
    """``SqliteSaver`` with an awaitable ``setup``; its constructor also takes an ``aiosqlite`` connection.

    Such a connection is used through its own thread, so blocking methods work from other threads than the event
    loop's only. ``from_conn_string`` gives a saver that serves both.
    """

    def __init__(
        self,
        conn: Any,
        *,
        serde: Any = None,
        config_keys: Sequence[str] | None = None,
        retention: Retention | None = None,
    ) -> None:
        if isinstance(conn, sqlite3.Connection):
            super().__init__(conn, serde=serde, config_keys=config_keys, retention=retention)
        else:
            self._start(AwaitedPort(conn), conn, serde, config_keys, retention)

    async def setup(self) -> None:  # type: ignore[override]
        """Make the tables unless they are there; need not be called."""
        if isinstance(self._port, AwaitedPort):
            await self._port.prepare()
