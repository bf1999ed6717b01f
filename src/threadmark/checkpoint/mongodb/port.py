"""The port: views and changes of one collection, in either colour."""

from __future__ import annotations

import asyncio
from typing import Any

from threadmark.checkpoint.mongodb.change import Change
from threadmark.checkpoint.mongodb.driver import Driver, Settings
from threadmark.checkpoint.mongodb.publish import carry_out
from threadmark.checkpoint.mongodb.remains import collect
from threadmark.checkpoint.mongodb.rows import Rows
from threadmark.checkpoint.mongodb.store import Store
from threadmark.errors import SaverError


class CollectionPort:
    """Rows in one collection."""

    waits = True
    grouped = False
    direct = None
    steady = False

    def __init__(self, driver: Driver, settings: Settings, *, read_only: bool = False) -> None:
        self.driver, self._settings, self._read_only = driver, settings, read_only
        self.store = Store(driver, settings)

    @property
    def blocking(self) -> bool:
        """Whether the driver never suspends."""
        return self.driver.blocking

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that last used it, of a driver that needs one."""
        return self.driver.loop

    def read(self) -> _Reading:
        return _Reading(self.store)

    def write(self) -> _Writing:
        if self._read_only:
            raise SaverError(f"{self._settings.place} was opened to be read only")
        return _Writing(self.store)

    async def prepare(self) -> None:
        """Make the indexes unless they are there. Several processes may do so at once."""
        await self.store.prepare(writing=True)

    async def pause(self, seconds: float) -> None:
        await self.driver.pause(seconds)

    async def reclaim(self) -> None:
        """Remove what dead writers left; the server itself uses the room again that removed documents leave."""
        await collect(self.store)

    async def close(self) -> None:
        """Close the client if it was opened here. Idempotent."""
        await self.driver.close()

    def after_fork(self) -> None:
        """Open connections anew."""
        self.driver.after_fork()
        self.store = Store(self.driver, self._settings)


class _Reading:
    __slots__ = ("_store",)

    def __init__(self, store: Store) -> None:
        self._store = store

    async def __aenter__(self) -> Rows:
        await self._store.prepare(writing=False)
        return Rows(self._store)

    async def __aexit__(self, *exc: object) -> None:
        """Nothing is held."""


class _Writing:
    __slots__ = ("_change", "_store")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._change = Change(store)

    async def __aenter__(self) -> Change:
        await self._store.prepare(writing=True)
        return self._change

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            if error is None:
                await carry_out(self._store, *self._change.outcome())
        finally:
            if self._change.turn is not None:
                self._change.turn.release()
