"""The port over a container, in both colours."""

from __future__ import annotations

from typing import Any

from threadmark.checkpoint.cosmosdb.change import Change
from threadmark.checkpoint.cosmosdb.memory import Memory
from threadmark.checkpoint.cosmosdb.rows import View
from threadmark.errors import SaverError


class CosmosPort:
    """Rows in a container. ``items`` are requests to it, over one half of the SDK."""

    waits = True
    grouped = False
    direct = None
    steady = False

    def __init__(self, items: Any) -> None:
        self.items = items
        self.blocking: bool = items.blocking
        self._memory = Memory()

    @property
    def loop(self) -> Any:
        """The event loop that last used it, of requests that need one."""
        return self.items.loop

    def read(self) -> View:
        return View(self.items, self._memory)

    def write(self) -> Change:
        if self.items.read_only:
            raise SaverError(f"{self.items.place} was opened to be read only")
        return Change(self.items, self._memory)

    async def pause(self, seconds: float) -> None:
        await self.items.pause(seconds)

    async def reclaim(self) -> None:
        """The service does that."""

    async def close(self) -> None:
        await self.items.close()

    def after_fork(self) -> None:
        self._memory = Memory()
        self.items.after_fork()
