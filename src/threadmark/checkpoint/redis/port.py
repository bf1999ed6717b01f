"""The port over Redis: transactions that are views, and changes that are sent when they end."""

from __future__ import annotations

import asyncio
from typing import Any

from threadmark.checkpoint.records import Conflict
from threadmark.checkpoint.redis.change import Writing
from threadmark.checkpoint.redis.rows import Rows
from threadmark.checkpoint.redis.store import Store
from threadmark.errors import SaverError


class Reading:
    """``async with`` block: what is stored."""

    def __init__(self, store: Store) -> None:
        self._rows = Rows(store)

    async def __aenter__(self) -> Rows:
        return self._rows

    async def __aexit__(self, *exc: object) -> None:
        return None


class Transaction:
    """``async with`` block: a change, sent at the end unless the block fails."""

    def __init__(self, store: Store) -> None:
        self._rows = Writing(store)
        self._store = store

    async def __aenter__(self) -> Writing:
        if self._store.settings.read_only:
            raise SaverError(f"{self._store.wire.server} was opened to be read only; use from_conn_string to write")
        return self._rows

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            if error is None:
                await self._rows.commit()
        except Conflict:
            self._rows.doubt()
            raise
        if isinstance(error, Conflict):
            self._rows.doubt()


class RedisPort:
    """Rows behind a wire. Any number of threads may use it; each waits for its own commands only."""

    waits = True
    grouped = False
    direct = None
    steady = False

    def __init__(self, store: Store, *, blocking: bool) -> None:
        self.store = store
        self.blocking = blocking

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that last used a wire that needs one."""
        loop: asyncio.AbstractEventLoop | None = getattr(self.store.wire, "loop", None)
        return loop

    def read(self) -> Reading:
        return Reading(self.store)

    def write(self) -> Transaction:
        return Transaction(self.store)

    async def pause(self, seconds: float) -> None:
        await self.store.wire.pause(seconds)

    async def reclaim(self) -> None:
        """Redis does that."""

    async def close(self) -> None:
        await self.store.wire.close()

    def after_fork(self) -> None:
        self.store.wire.after_fork()
