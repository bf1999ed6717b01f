"""What the two colours of psycopg do differently: connect, wait, let so many in at once."""

from __future__ import annotations

import time
from queue import Empty, SimpleQueue
from typing import Any, Protocol

import psycopg

from threadmark.checkpoint.postgres.line import BlockingLine, Line


class Gate(Protocol):
    """Lets so many in at once."""

    async def enter(self, patience: float) -> bool:
        """Wait for a place, for so many seconds; whether there was one."""
        ...

    def leave(self) -> None: ...


class Driver(Protocol):
    """psycopg in one colour. A blocking one never suspends."""

    patience: float
    """Seconds that the server may be silent."""

    async def connect(self, settings: dict[str, Any]) -> Line:
        """A new connection."""
        ...

    def line(self, conn: Any) -> Line:
        """A connection that somebody else has opened."""
        ...

    async def done(self, result: Any) -> Any:
        """The result of a method of psycopg's, which is to be awaited in one of the colours."""
        ...

    async def pause(self, seconds: float) -> None: ...

    def gate(self, places: int) -> Gate: ...


class BlockingGate:
    """For threads: a queue of places. A semaphore takes 130 interpreter steps each time, and this none of its own."""

    def __init__(self, places: int) -> None:
        self._places: SimpleQueue[None] = SimpleQueue()
        for _ in range(places):
            self._places.put(None)

    async def enter(self, patience: float) -> bool:
        try:
            self._places.get(timeout=patience)
        except Empty:
            return False
        return True

    def leave(self) -> None:
        self._places.put(None)


class Blocking:
    """``psycopg.Connection``."""

    def __init__(self, patience: float) -> None:
        self.patience = patience

    async def connect(self, settings: dict[str, Any]) -> Line:
        return self.line(psycopg.Connection.connect(autocommit=True, prepare_threshold=None, **settings))

    def line(self, conn: Any) -> Line:
        return BlockingLine(conn, self.patience)

    async def done(self, result: Any) -> Any:
        return result

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def gate(self, places: int) -> Gate:
        return BlockingGate(places)
