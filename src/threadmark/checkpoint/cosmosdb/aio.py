"""``CosmosDBSaver``: threads in a container, for programs on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from typing import Any

from azure.cosmos.aio import CosmosClient

from threadmark.checkpoint.base import Retention
from threadmark.checkpoint.cosmosdb.connection import Address, address
from threadmark.checkpoint.cosmosdb.driver import Requests, Turns
from threadmark.checkpoint.cosmosdb.saver import CosmosDBSaverSync
from threadmark.colour import running_loop
from threadmark.errors import ColourError

__all__ = ["CosmosDBSaver"]


class Awaited(Requests):
    """The SDK's asynchronous client, opened on the event loop that needs it."""

    blocking = False

    def __init__(self, address: Address | None, container: Any = None, *, read_only: bool = False) -> None:
        super().__init__(address, container, read_only=read_only)
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop that last used it."""
        self._opening, self._turns = asyncio.Lock(), Turns(asyncio.Lock)

    async def _done(self, result: Any) -> Any:
        return await result

    async def _each(self, results: AsyncIterable[Any]) -> AsyncGenerator[Any, None]:
        async for found in results:
            yield found

    async def _opened(self, address: Address) -> Any:
        credential = address.credential or _default_credential()
        self._client = CosmosClient(address.endpoint, credential, **address.client_options())
        return await self._client.__aenter__()

    async def container(self) -> Any:
        self._arrive()
        if self._container is None:
            async with self._opening:
                if self._container is None:
                    await self._open()
        return self._container

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def enter(self, partition: str) -> None:
        self._arrive()
        lock = self._turns.lock(partition)
        try:
            await lock.acquire()
        except BaseException:
            self._turns.leave(partition, held=False)
            raise

    def _arrive(self) -> None:
        """Take notice of another event loop than last time: a second ``asyncio.run`` over the same saver."""
        running = asyncio.get_running_loop()
        if self.loop is not running:
            if self.loop is not None and self._given is not None:
                raise ColourError(
                    f"{self.place} belongs to a client on another event loop; open the saver by names "
                    f"(from_conn_info) to use it on several loops, one after the other"
                )
            # The sockets of the loop before are the garbage collector's: only that loop could close them.
            self.loop, self._opening, self._turns = running, asyncio.Lock(), Turns(asyncio.Lock)
            self._client = self._container = None

    async def close(self) -> None:
        """Close the client, if it is ours and this is its event loop. Idempotent."""
        client = self.let_go()
        if client is not None and self.loop is running_loop():
            await client.close()

    def after_fork(self) -> None:
        super().after_fork()
        self.loop = None


def _default_credential() -> Any:
    """Whoever this program runs as: the environment, a managed identity, a developer's login."""
    from azure.identity.aio import DefaultAzureCredential

    return DefaultAzureCredential()


class CosmosDBSaver(CosmosDBSaverSync):
    """``CosmosDBSaverSync`` over the SDK's asynchronous client, to be awaited.

    It works on the event loop that uses it; its blocking methods may be called from other threads of the program.

    Args:
        container: A container of the SDK's asynchronous client, whose closing is yours; or the database's name, to be
            followed by the container's.
        container_name: The container; one that is there must be partitioned by ``/thread``.
        database_name: The database, by its name.
        credential: A token credential of ``azure.identity.aio``.

    The other arguments, and the errors, are those of ``CosmosDBSaverSync``.
    """

    def __init__(
        self,
        container: Any = None,
        container_name: str | None = None,
        *,
        database_name: str | None = None,
        endpoint: str | None = None,
        key: str | None = None,
        credential: Any = None,
        cosmos_client_kwargs: Mapping[str, Any] | None = None,
        serde: Any = None,
        config_keys: Sequence[str] | None = None,
        retention: Retention | None = None,
    ) -> None:
        where = None
        if container is None or isinstance(container, str):
            names = database_name or container, container_name
            where = address(*names, endpoint=endpoint, credential=credential or key, options=cosmos_client_kwargs)
            container = None
        self._start(Awaited(where, container), serde, config_keys, retention)

    @classmethod
    def _requests(cls, where: Address, *, read_only: bool = False) -> Requests:
        return Awaited(where, read_only=read_only)

    async def setup(self) -> None:  # type: ignore[override]
        """Make the database and the container unless they are there; otherwise the first use does it."""
        await self._items.container()
