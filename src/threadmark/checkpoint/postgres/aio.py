"""``AsyncPostgresSaver``: the same saver on an event loop, without threads."""

from __future__ import annotations

import asyncio
from collections import deque
from inspect import isawaitable
from typing import Any

import psycopg

from threadmark.checkpoint.postgres.awaited import AwaitedLine
from threadmark.checkpoint.postgres.connections import Connections, HandedIn, Pool
from threadmark.checkpoint.postgres.driver import Driver, Gate
from threadmark.checkpoint.postgres.line import Line
from threadmark.checkpoint.postgres.port import PostgresPort
from threadmark.checkpoint.postgres.saver import PostgresSaver, is_async_pool, refused
from threadmark.colour import running_loop

__all__ = ["AsyncPostgresSaver"]


class AwaitedGate:
    """For the tasks of one event loop; of the next one, when that is over."""

    def __init__(self, places: int) -> None:
        self._places = self._free = places
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting = deque[asyncio.Future[bool]]()

    async def enter(self, patience: float) -> bool:
        running = asyncio.get_running_loop()
        if self._loop is not running:
            self._loop, self._free, self._waiting = running, self._places, deque()
        if self._free:
            self._free -= 1
            return True
        turn = running.create_future()
        self._waiting.append(turn)
        # Not asyncio.timeout(), which cancels its task: of one that runs whole() nobody could tell who did it.
        end = running.call_later(patience, _decide, turn, False)
        try:
            found: bool = await turn
            return found
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():
                self.leave()
            raise
        finally:
            end.cancel()

    def leave(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(True)
                return
        self._free += 1


def _decide(turn: asyncio.Future[bool], answer: bool) -> None:
    if not turn.done():
        turn.set_result(answer)


class Awaited:
    """``psycopg.AsyncConnection``."""

    def __init__(self, patience: float) -> None:
        self.patience = patience

    async def connect(self, settings: dict[str, Any]) -> Line:
        # In a task of its own, since psycopg may cancel the one that it runs in, and mean itself.
        opening = psycopg.AsyncConnection.connect(autocommit=True, prepare_threshold=None, **settings)
        return self.line(await asyncio.ensure_future(opening))

    def line(self, conn: Any) -> Line:
        return AwaitedLine(conn, self.patience)

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

    async def take(self) -> Line:
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
