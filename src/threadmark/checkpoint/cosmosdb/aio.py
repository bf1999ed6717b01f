"""``CosmosDBSaver``: threads in a container, for programs on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, TypeVar

from azure.core.exceptions import AzureError
from azure.cosmos.aio import CosmosClient

from threadmark.checkpoint.base import Retention
from threadmark.checkpoint.cosmosdb import setup
from threadmark.checkpoint.cosmosdb.connection import Address, address, address_from
from threadmark.checkpoint.cosmosdb.driver import Operation, Turns, copied, scope
from threadmark.checkpoint.cosmosdb.errors import is_missing_item, translated
from threadmark.checkpoint.cosmosdb.items import Item
from threadmark.checkpoint.cosmosdb.memory import Memory
from threadmark.checkpoint.cosmosdb.rows import Change, View
from threadmark.checkpoint.saver import Saver
from threadmark.colour import running_loop
from threadmark.errors import ColourError, SaverError

__all__ = ["CosmosDBSaver"]

S = TypeVar("S", bound="CosmosDBSaver")


class Awaited:
    """Requests over the SDK's asynchronous client, opened on the event loop that needs it."""

    def __init__(self, address: Address | None, container: Any = None) -> None:
        self.place = address.place if address is not None else setup.place_of(container)
        self.loop: asyncio.AbstractEventLoop | None = None
        self._address, self._given = address, container
        self._client: Any = None
        self._container: Any = None
        self._opening = asyncio.Lock()
        self._turns = Turns(asyncio.Lock)
        self._closed = False

    async def read(self, partition: str, id: str) -> Item | None:
        container = await self.container()
        try:
            return dict(await container.read_item(id, partition_key=partition))
        except AzureError as error:
            if is_missing_item(error):
                return None
            raise translated(error, self.place) from error

    async def query(self, text: str, params: Mapping[str, Any], partition: str | None) -> AsyncGenerator[Any, None]:
        container = await self.container()
        given = scope(params, partition)
        given.pop("enable_cross_partition_query", None)  # here it is understood
        try:
            async for found in container.query_items(text, **given):
                yield found
        except AzureError as error:
            raise translated(error, self.place) from error

    async def batch(self, partition: str, operations: Sequence[Operation]) -> list[dict[str, Any]]:
        container = await self.container()
        try:
            return list(
                await container.execute_item_batch(copied(operations), partition_key=partition, no_response=True)
            )
        except AzureError as error:
            raise translated(error, self.place, writing=True) from error

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

    def leave(self, partition: str) -> None:
        self._turns.leave(partition)

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

    async def container(self) -> Any:
        """The SDK's container, ready for use on this event loop."""
        self._arrive()
        if self._container is None:
            async with self._opening:
                if self._container is None:
                    await self._open()
        return self._container

    async def _open(self) -> None:
        if self._closed:
            raise SaverError(f"the saver on {self.place} is closed; open a new one")
        try:
            if self._address is not None and self._client is None:
                credential = self._address.credential or _default_credential()
                client = CosmosClient(self._address.endpoint, credential, **self._address.client_options())
                self._client = client
                await client.__aenter__()
            await setup.prepare(self, self.place)
        except AzureError as error:
            raise translated(error, self.place) from error
        self._container = self._reached()

    def _reached(self) -> Any:
        if self._address is None:
            return self._given
        return self._client.get_database_client(self._address.database).get_container_client(self._address.container)

    async def properties(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = await self._reached().read()
        return found

    async def account(self) -> Any:
        return None if self._client is None else await self._client.client_connection.GetDatabaseAccount()

    async def make_database(self) -> None:
        assert self._address is not None, "a container that was handed in is there"
        await self._client.create_database(self._address.database)

    async def make_container(self) -> None:
        assert self._address is not None
        database = self._client.get_database_client(self._address.database)
        await database.create_container(self._address.container, setup.PARTITION, indexing_policy=dict(setup.INDEXES))

    async def close(self) -> None:
        """Close the client, if it is ours and this is its event loop. Idempotent."""
        self._closed = True
        client, self._client, self._container = self._client, None, None
        if client is not None and self.loop is running_loop():
            await client.close()

    def after_fork(self) -> None:
        """Open a client of our own when it is next needed."""
        if self._client is not None:
            _left_behind.append(self._client)
        self.loop = self._client = self._container = None


_left_behind: list[Any] = []
"""Clients of a parent process, whose sockets it still uses."""


def _default_credential() -> Any:
    """Whoever this program runs as: the environment, a managed identity, a developer's login."""
    from azure.identity.aio import DefaultAzureCredential

    return DefaultAzureCredential()


class AwaitedPort:
    """Rows in a container, over the SDK's asynchronous client."""

    blocking = False
    waits = True
    grouped = False

    def __init__(self, items: Awaited) -> None:
        self.items = items
        self._memory = Memory()

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that last used it."""
        return self.items.loop

    def read(self) -> View:
        return View(self.items, self._memory)

    def write(self) -> Change:
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


class CosmosDBSaver(Saver):
    """Keeps threads in a container of Azure Cosmos DB for NoSQL, one logical partition a thread; to be awaited.

    It works on the event loop that uses it; its blocking methods may be called from other threads of the program.
    Nothing is asked of the account before the first use, which makes database and container if need be.

    Args:
        container: A container of the SDK's asynchronous client, whose closing is yours; or the database's name, to be
            followed by the container's.
        container_name: The container; one that is there must be partitioned by ``/thread``.
        database_name: The database, by its name.
        endpoint: The account's URL; by default ``COSMOSDB_ENDPOINT`` from the environment.
        key: The account's key; by default ``COSMOSDB_KEY``.
        credential: A token credential of ``azure.identity.aio`` in the place of a key. With neither,
            ``DefaultAzureCredential()``.
        cosmos_client_kwargs: More arguments for the SDK's client. By default it waits for request units up to nine
            times, 30 seconds in all, before ``Unavailable``.
        serde: Turns values into bytes.
        config_keys: Keys of ``config["configurable"]`` to keep as metadata.
        retention: What the saver removes by itself.

    Raises:
        ValueError: No endpoint.
        ForeignDatabase: At the first use: the container is partitioned otherwise, or holds other items than ours.
        SaverError: The same: access is refused, or the container lets items expire.
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
        self._start(where, container, serde, config_keys, retention)

    @classmethod
    def from_conn_info(
        cls: type[S],
        *,
        endpoint: str,
        key: str | None = None,
        database_name: str,
        container_name: str,
        serde: Any = None,
        cosmos_client_kwargs: Mapping[str, Any] | None = None,
    ) -> S:
        """A saver on this container, usable at once, and a context manager (``async with``) that closes it."""
        return cls(
            database_name,
            container_name,
            endpoint=endpoint,
            key=key,
            serde=serde,
            cosmos_client_kwargs=cosmos_client_kwargs,
        )

    @classmethod
    def from_conn_string(
        cls: type[S],
        conn_string: str,
        *,
        serde: Any = None,
        config_keys: Sequence[str] | None = None,
        retention: Retention | None = None,
    ) -> S:
        """A saver on what a connection string or a URL names; see ``CosmosDBSaverSync.from_conn_string``."""
        saver = cls.__new__(cls)
        saver._start(address_from(conn_string), None, serde, config_keys, retention)
        return saver

    def _start(
        self,
        where: Address | None,
        container: Any,
        serde: Any,
        config_keys: Sequence[str] | None,
        retention: Retention | None,
    ) -> None:
        self._items = Awaited(where, container)
        Saver.__init__(self, AwaitedPort(self._items), serde=serde, config_keys=config_keys, retention=retention)

    async def setup(self) -> None:
        """Make the database and the container unless they are there; otherwise the first use does it."""
        await self._items.container()
