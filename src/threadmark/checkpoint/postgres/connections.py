"""Where connections come from: opened by the saver itself, or handed in as one or as a pool."""

from __future__ import annotations

import os
import select
import time
import weakref
from collections import deque
from typing import Any, Final, Protocol

import psycopg
from psycopg import pq

from threadmark.checkpoint.postgres.driver import Driver
from threadmark.checkpoint.postgres.errors import unreachable
from threadmark.errors import SaverError, Unavailable

_IDLE: Final = pq.TransactionStatus.IDLE
_ACTIVE: Final = (pq.TransactionStatus.ACTIVE, pq.TransactionStatus.UNKNOWN)
_OK: Final = pq.ConnStatus.OK
_WAITS: Final = (0.02, 0.1, 0.3)
"""Seconds between attempts to connect."""
_AT_ONCE: Final = 1.0


class Connections(Protocol):
    """Lends connections. One that is lent is at rest, and nobody else's until it is given back."""

    async def take(self) -> Any:
        """A connection; ``Unavailable`` when there is none."""
        ...

    async def give(self, conn: Any, *, keep: bool) -> None:
        """Hand a connection back; ``keep`` False for one whose state is not known."""
        ...

    async def close(self) -> None:
        """Let go of what was opened here. Idempotent."""
        ...

    def after_fork(self) -> None:
        """In a forked child: leave the parent's connections alone."""
        ...


def is_fresh(conn: Any) -> bool:
    """Whether an idle connection is alive, as far as can be told without asking the server.

    A server that ends a connection says so or closes it: either way there is something to be read.
    """
    pgconn = conn.pgconn
    if pgconn.status != _OK or pgconn.transaction_status in _ACTIVE:
        return False
    if not hasattr(select, "poll"):
        return not select.select([pgconn.socket], [], [], 0)[0]
    poll = select.poll()
    poll.register(pgconn.socket, select.POLLIN | select.POLLPRI)
    return not poll.poll(0)


def discard(conn: Any) -> None:
    """Close a connection without a word that has to be awaited."""
    conn.pgconn.finish()


class Opened:
    """Up to ``size`` connections, opened when they are needed and kept."""

    def __init__(self, driver: Driver, settings: dict[str, Any], size: int) -> None:
        self._driver, self._settings, self._size = driver, settings, size
        self._idle: deque[Any] = deque()
        self._gate = driver.gate(size)
        self._closed = False
        self._finish = weakref.finalize(self, _finish, self._idle, os.getpid())

    async def take(self) -> Any:
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
                    conn = self._idle.pop()  # the one that was used last: the others may rest
                except IndexError:  # another thread was quicker
                    break
                if is_fresh(conn):
                    return conn
                discard(conn)
            return await self._connect()
        except BaseException as error:
            self._gate.leave()
            if isinstance(error, psycopg.Error):
                raise unreachable(error) from error
            raise

    async def _connect(self) -> Any:
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

    async def give(self, conn: Any, *, keep: bool) -> None:
        if keep and not self._closed and conn.pgconn.transaction_status == _IDLE:
            self._idle.append(conn)
        else:
            discard(conn)
        self._gate.leave()

    async def close(self) -> None:
        self._closed = True
        while self._idle:
            discard(self._idle.pop())

    def after_fork(self) -> None:
        _left_behind.extend(self._idle)
        self._idle.clear()
        self._gate = self._driver.gate(self._size)
        self._finish.detach()
        self._finish = weakref.finalize(self, _finish, self._idle, os.getpid())


def _finish(idle: deque[Any], pid: int) -> None:
    if pid == os.getpid():
        while idle:
            discard(idle.pop())


_left_behind: list[Any] = []
"""Connections of a parent process: closing them here would end sessions that it still uses."""


class HandedIn:
    """One connection of the caller's. psycopg's own lock keeps its other users out meanwhile."""

    def __init__(self, driver: Driver, conn: Any) -> None:
        self._driver, self._conn, self._pid = driver, conn, os.getpid()

    async def take(self) -> Any:
        if self._pid != os.getpid():
            raise SaverError("this saver's connection belongs to the parent process; open another saver in this one")
        await self._driver.done(self._conn.lock.acquire())
        if not is_fresh(self._conn):
            self._conn.lock.release()
            raise Unavailable(
                "the connection that this saver was given is closed or broken; open a saver on a new one, on a pool, "
                "or by from_conn_string(), which replaces broken connections by itself"
            )
        return self._conn

    async def give(self, conn: Any, *, keep: bool) -> None:
        if not keep:
            discard(conn)
        conn.lock.release()

    async def close(self) -> None:
        """The connection is closed by whoever opened it."""

    def after_fork(self) -> None:
        """A connection belongs to the process that opened it: ``take`` says so."""


class Pool:
    """A pool of the caller's."""

    def __init__(self, driver: Driver, pool: Any) -> None:
        self._driver, self._pool = driver, pool

    async def take(self) -> Any:
        for _ in range(self._pool.max_size + 1):  # each of them may have died while it was idle
            try:
                conn = await self._driver.done(self._pool.getconn())
            except psycopg.Error as error:
                raise unreachable(error) from error
            if is_fresh(conn):
                return conn
            await self.give(conn, keep=False)
        raise Unavailable("every connection of the pool was broken; try again")

    async def give(self, conn: Any, *, keep: bool) -> None:
        if not keep:
            discard(conn)
        await self._driver.done(self._pool.putconn(conn))

    async def close(self) -> None:
        """The pool is closed by whoever opened it."""

    def after_fork(self) -> None:
        """The child needs a pool of its own; psycopg's does not survive a fork."""
