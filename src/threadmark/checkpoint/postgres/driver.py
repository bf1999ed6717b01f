"""What the two colours of psycopg do differently: connect, converse, wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, Protocol

import psycopg

from threadmark.checkpoint.postgres.wire import Rows, Sent, talk


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

    async def connect(self, settings: dict[str, Any]) -> Any: ...

    async def converse(self, conn: Any, sent: Sequence[Sent]) -> list[Rows]:
        """One round trip on a connection that is at rest."""
        ...

    async def done(self, result: Any) -> Any:
        """The result of a method of psycopg's, which is to be awaited in one of the colours."""
        ...

    async def pause(self, seconds: float) -> None: ...

    def gate(self, places: int) -> Gate: ...


class BlockingGate:
    """For threads."""

    def __init__(self, places: int) -> None:
        self._places = threading.Semaphore(places)

    async def enter(self, patience: float) -> bool:
        return self._places.acquire(timeout=patience)

    def leave(self) -> None:
        self._places.release()


class Blocking:
    """``psycopg.Connection``."""

    def __init__(self, patience: float) -> None:
        self.patience = patience

    async def connect(self, settings: dict[str, Any]) -> Any:
        return psycopg.Connection.connect(autocommit=True, prepare_threshold=None, **settings)

    async def converse(self, conn: Any, sent: Sequence[Sent]) -> list[Rows]:
        found: list[Rows] = conn.wait(talk(conn.pgconn, sent, self.patience))
        return found

    async def done(self, result: Any) -> Any:
        return result

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def gate(self, places: int) -> Gate:
        return BlockingGate(places)
