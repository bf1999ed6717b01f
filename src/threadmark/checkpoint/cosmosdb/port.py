"""The port over a container, in both colours."""

from __future__ import annotations

from typing import Any

from threadmark.checkpoint.cosmosdb.connection import Address
from threadmark.checkpoint.cosmosdb.driver import Blocking
from threadmark.checkpoint.cosmosdb.memory import Memory
from threadmark.checkpoint.cosmosdb.rows import Change, View


class CosmosPort:
    """Rows in a container, over the SDK's blocking client."""

    blocking = True
    waits = True
    grouped = False

    def __init__(self, items: Blocking) -> None:
        self.items = items
        self._memory = Memory()

    def read(self) -> View:
        return View(self.items, self._memory)

    def write(self) -> Change:
        return Change(self.items, self._memory)

    async def pause(self, seconds: float) -> None:
        await self.items.pause(seconds)

    async def reclaim(self) -> None:
        """The service does that."""

    async def close(self) -> None:
        self.items.close()

    def after_fork(self) -> None:
        self._memory = Memory()
        self.items.after_fork()


def blocking_port(address: Address | None, container: Any = None) -> CosmosPort:
    """A port on an address, or on a container of the SDK's that was handed in."""
    return CosmosPort(Blocking(address, container))
