"""``AsyncPostgresSaver``: the same saver on an event loop, without threads."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from inspect import isawaitable
from typing import Any

import psycopg

from threadmark.checkpoint.postgres.connections import Connections, HandedIn, Pool
from threadmark.checkpoint.postgres.driver import Driver, Gate
from threadmark.checkpoint.postgres.port import PostgresPort
from threadmark.checkpoint.postgres.saver import PostgresSaver, is_async_pool, refused
from threadmark.checkpoint.postgres.wire import Rows, Sent, talk
from threadmark.colour import running_loop

__all__ = ["AsyncPostgresSaver"]


class AwaitedGate:
    """For the tasks of one event loop; of the next one, when that is over."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._loop: asyncio.AbstractEventLoop | None = None
        self._free = asyncio.Semaphore(places)

    async def enter(self, patience: float) -> bool:
        running = asyncio.get_running_loop()
        if self._loop is not running:
            self._loop, self._free = running, asyncio.Semaphore(self._places)
        if not self._free.locked():
            return await self._free.acquire()
        try:
            async with asyncio.timeout(patience):
                return await self._free.acquire()
        except TimeoutError:
            return False

    def leave(self) -> None:
        self._free.release()


class Awaited:
    """``psycopg.AsyncConnection``."""

    def __init__(self, patience: float) -> None:
        self.patience = patience

    async def connect(self, settings: dict[str, Any]) -> Any:
        return await psycopg.AsyncConnection.connect(autocommit=True, prepare_threshold=None, **settings)

    async def converse(self, conn: Any, sent: Sequence[Sent]) -> list[Rows]:
        found: list[Rows] = await conn.wait(talk(conn.pgconn, sent, self.patience))
        return found

    async def done(self, result: Any) -> Any:
        return await result if isawaitable(result) else result

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def gate(self, places: int) -> Gate:
        return AwaitedGate(places)


class AwaitedPort(PostgresPort):
    """The port on an event loop."""

    loop: asyncio.AbstractEventLoop | None
    """The event loop that last used it, or where it was made."""

    def __init__(self, driver: Driver, connections: Connections, schema: str, *, read_only: bool = False) -> None:
        super().__init__(driver, connections, schema, blocking=False, read_only=read_only)
        self.loop = running_loop()

    async def take(self) -> Any:
        self.loop = asyncio.get_running_loop()
        return await super().take()


class AsyncPostgresSaver(PostgresSaver):
    """``PostgresSaver`` over ``psycopg.AsyncConnection`` or ``psycopg_pool.AsyncConnectionPool``.

    It works on the event loop that calls it, or on a later one when that is over. Blocking methods work from other
    threads than the loop's only; ``PostgresSaver`` serves both colours from anywhere, by threads of its own.
    """

    async def setup(self) -> None:  # type: ignore[override]
        """Make the schema and the tables unless they are there; several processes may do it at once."""
        assert isinstance(self._port, PostgresPort)
        await self._port.prepare()

    @classmethod
    def _driver(cls, timeout: float) -> Driver:
        return Awaited(super()._driver(timeout).patience)

    @classmethod
    def _port_over(
        cls, driver: Driver, connections: Connections, schema: str, *, read_only: bool = False
    ) -> PostgresPort:
        return AwaitedPort(driver, connections, schema, read_only=read_only)

    @classmethod
    def _handed_in(cls, driver: Driver, conn: Any) -> Connections:
        if isinstance(conn, psycopg.AsyncConnection):
            return HandedIn(driver, conn)
        if hasattr(conn, "getconn") and is_async_pool(conn):
            return Pool(driver, conn)
        raise refused(cls.__name__, conn, "a psycopg.AsyncConnection or a psycopg_pool.AsyncConnectionPool")
