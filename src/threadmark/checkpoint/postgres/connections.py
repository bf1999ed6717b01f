"""Where connections come from: opened by the saver itself, or handed in as one or as a pool."""

from __future__ import annotations

import os
import time
import weakref
from collections import deque
from typing import Any, Final, Protocol

import psycopg
from psycopg import pq

from threadmark.checkpoint.postgres.driver import Driver
from threadmark.checkpoint.postgres.errors import unreachable
from threadmark.checkpoint.postgres.line import Line
from threadmark.errors import SaverError, Unavailable

_OK: Final = pq.ConnStatus.OK
_WAITS: Final = (0.02, 0.1, 0.3)
"""Seconds between attempts to connect."""
_AT_ONCE: Final = 1.0


class Connections(Protocol):
    """Lends connections, each to one borrower at a time."""

    foreign: bool
    """Whether a borrower may find a transaction of somebody else's on a connection."""
    steady: bool
    """As in ``Port``."""

    async def take(self) -> Line:
        """A connection; ``Unavailable`` when there is none."""
        ...

    async def give(self, line: Line, *, keep: bool) -> None:
        """Hand a connection back; ``keep`` False for one whose state is not known."""
        ...

    async def close(self) -> None:
        """Let go of what was opened here. Idempotent."""
        ...

    def after_fork(self) -> None:
        """In a forked child: leave the parent's connections alone."""
        ...


class Opened:
    """Up to ``size`` connections, opened when they are needed and kept."""

    foreign, steady = False, True

    def __init__(self, driver: Driver, settings: dict[str, Any], size: int) -> None:
        self._driver, self._settings, self._size = driver, settings, size
        self._idle: deque[Line] = deque()
        self._gate = driver.gate(size)
        self._closed = False
        self._finish = weakref.finalize(self, _finish, self._idle, os.getpid())

    async def take(self) -> Line:
        if self._closed:
            raise SaverError("this saver is closed; open a new one")
        if not await self._gate.enter(self._driver.patience):
            raise Unavailable(
                f"all {self._size} connections were in use for {self._driver.patience:.0f} s; try again, or open the "
                f"saver with a larger pool_size"
            )
        try:
            while self._idle:
                try:
                    line = self._idle.pop()  # the one that was used last: the others may rest
                except IndexError:  # another thread was quicker
                    break
                if line.is_quiet():
                    return line
                line.close()
            return await self._connect()
        except BaseException as error:
            self._gate.leave()
            if isinstance(error, psycopg.Error):
                raise unreachable(error) from error
            raise

    async def _connect(self) -> Line:
        """A new connection. What fails at once is tried again: a server that restarts sends away whoever it has."""
        for wait in _WAITS:
            began = time.monotonic()
            try:
                return await self._driver.connect(self._settings)
            except psycopg.OperationalError as error:
                if isinstance(unreachable(error), Unavailable) and time.monotonic() - began < _AT_ONCE:
                    await self._driver.pause(wait)
                else:
                    raise
        return await self._driver.connect(self._settings)

    async def give(self, line: Line, *, keep: bool) -> None:
        if keep and not self._closed and line.at_rest:
            self._idle.append(line)
        else:
            line.close()
        self._gate.leave()

    async def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def after_fork(self) -> None:
        _left_behind.extend(self._idle)
        self._idle.clear()
        self._gate = self._driver.gate(self._size)
        self._finish.detach()
        self._finish = weakref.finalize(self, _finish, self._idle, os.getpid())


def _finish(idle: deque[Line], pid: int) -> None:
    if pid == os.getpid():
        while idle:
            idle.pop().close()


_left_behind: list[Line] = []
"""Connections of a parent process: closing them here would end sessions that it still uses."""


class HandedIn:
    """One connection of the caller's. psycopg's own lock keeps its other users out meanwhile."""

    foreign, steady = True, True

    def __init__(self, driver: Driver, conn: Any) -> None:
        self._driver, self._conn, self._pid = driver, conn, os.getpid()
        self._line: Line | None = None

    async def take(self) -> Line:
        if self._pid != os.getpid():
            raise SaverError("this saver's connection belongs to the parent process; open another saver in this one")
        await self._driver.done(self._conn.lock.acquire())
        if self._line is None and self._conn.pgconn.status == _OK:
            self._line = self._driver.line(self._conn)
        if self._line is None or not self._line.is_fresh():
            self._conn.lock.release()
            raise Unavailable(
                "the connection that this saver was given is closed or broken; open a saver on a new one, on a pool, "
                "or by from_conn_string(), which replaces broken connections by itself"
            )
        return self._line

    async def give(self, line: Line, *, keep: bool) -> None:
        if keep:
            line.let_go()
        else:
            line.close()
        self._conn.lock.release()

    async def close(self) -> None:
        """The connection is closed by whoever opened it."""

    def after_fork(self) -> None:
        """A connection belongs to the process that opened it: ``take`` says so."""


class Pool:
    """A pool of the caller's."""

    foreign = True
    steady = False  # a pool may cancel the task that waits for a connection, when it has waited for too long

    def __init__(self, driver: Driver, pool: Any) -> None:
        self._driver, self._pool = driver, pool

    async def take(self) -> Line:
        for _ in range(self._pool.max_size + 1):  # each of them may have died while it was idle
            try:
                conn = await self._driver.done(self._pool.getconn())
            except psycopg.Error as error:
                if self._pool.closed:
                    raise SaverError(
                        "the pool that this saver was given is closed, or was not opened yet: open it, or a saver on "
                        "another one"
                    ) from error
                raise unreachable(error) from error
            if conn.pgconn.status == _OK:
                line = self._driver.line(conn)
                if line.is_fresh():
                    return line
            await self._back(conn)
        raise Unavailable("every connection of the pool was broken; try again")

    async def give(self, line: Line, *, keep: bool) -> None:
        if keep:
            line.let_go()
        else:
            line.close()
        await self._driver.done(self._pool.putconn(line.conn))

    async def _back(self, conn: Any) -> None:
        conn.pgconn.finish()
        await self._driver.done(self._pool.putconn(conn))

    async def close(self) -> None:
        """The pool is closed by whoever opened it."""

    def after_fork(self) -> None:
        """The child needs a pool of its own; psycopg's does not survive a fork."""
