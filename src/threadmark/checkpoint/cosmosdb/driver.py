"""Requests to one container: a point read, a query, a batch. Blocking, or awaited over the SDK's other half."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from azure.core.exceptions import AzureError
from azure.cosmos import CosmosClient

from threadmark.checkpoint.cosmosdb import setup
from threadmark.checkpoint.cosmosdb.connection import Address
from threadmark.checkpoint.cosmosdb.errors import is_missing_item, translated
from threadmark.checkpoint.cosmosdb.items import Item
from threadmark.errors import SaverError

Operation: TypeAlias = tuple[Any, ...]
"""Of a batch, in the SDK's form: ``("create", (item,))``, with options as a third element."""

PAGE: Final = 100


class Items(Protocol):
    """The items of one container. A blocking one never suspends."""

    place: str
    """What messages call the container."""

    async def read(self, partition: str, id: str) -> Item | None:
        """One item, or None."""
        ...

    def query(self, text: str, params: Mapping[str, Any], partition: str | None) -> AsyncGenerator[Any, None]:
        """Results page by page, one by one; of all partitions where ``partition`` is None."""
        ...

    async def batch(self, partition: str, operations: Sequence[Operation]) -> list[dict[str, Any]]:
        """All of these or none; what became of each. ``InTheWay`` when another writer was."""
        ...

    async def pause(self, seconds: float) -> None: ...

    async def enter(self, partition: str) -> None:
        """Wait until no other transaction of this saver is on this partition, and keep others out."""
        ...

    def leave(self, partition: str) -> None: ...


class Turns:
    """One lock for each partition that somebody is at. ``make`` makes a lock."""

    def __init__(self, make: Any) -> None:
        self._make = make
        self._guard = threading.Lock()
        self._locks: dict[str, list[Any]] = {}

    def lock(self, partition: str) -> Any:
        """The lock of a partition, for one who will come to ``leave``."""
        with self._guard:
            entry = self._locks.setdefault(partition, [self._make(), 0])
            entry[1] += 1
            return entry[0]

    def leave(self, partition: str, *, held: bool = True) -> None:
        """Let the next one in."""
        with self._guard:
            entry = self._locks.get(partition)
            if entry is None:  # of an event loop before this one
                return
            entry[1] -= 1
            if not entry[1]:
                del self._locks[partition]
        if held:
            entry[0].release()


class Blocking:
    """Requests over the SDK's blocking client, which any thread may use. It is opened when it is first needed."""

    def __init__(self, address: Address | None, container: Any = None) -> None:
        self.place = address.place if address is not None else setup.place_of(container)
        self._address, self._given = address, container
        self._client: Any = None
        self._container: Any = None
        self._opening = threading.Lock()
        self._turns = Turns(threading.Lock)
        self._closed = False

    async def read(self, partition: str, id: str) -> Item | None:
        container = await self.container()
        try:
            return dict(container.read_item(id, partition_key=partition))
        except AzureError as error:
            if is_missing_item(error):
                return None
            raise translated(error, self.place) from error

    async def query(self, text: str, params: Mapping[str, Any], partition: str | None) -> AsyncGenerator[Any, None]:
        container = await self.container()
        try:
            for found in container.query_items(text, **scope(params, partition)):
                yield found
        except AzureError as error:
            raise translated(error, self.place) from error

    async def batch(self, partition: str, operations: Sequence[Operation]) -> list[dict[str, Any]]:
        container = await self.container()
        try:
            return list(container.execute_item_batch(copied(operations), partition_key=partition, no_response=True))
        except AzureError as error:
            raise translated(error, self.place, writing=True) from error

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    async def enter(self, partition: str) -> None:
        self._turns.lock(partition).acquire()

    def leave(self, partition: str) -> None:
        self._turns.leave(partition)

    async def container(self) -> Any:
        """The SDK's container, ready for use."""
        if self._container is None:
            with self._opening:
                if self._container is None:
                    await self._open()
        return self._container

    async def _open(self) -> None:
        if self._closed:
            raise SaverError(f"the saver on {self.place} is closed; open a new one")
        try:
            if self._address is not None and self._client is None:
                credential = self._address.credential or _default_credential()
                self._client = CosmosClient(self._address.endpoint, credential, **self._address.client_options())
            await setup.prepare(self, self.place)
        except AzureError as error:
            raise translated(error, self.place) from error
        self._container = self._reached()

    def _reached(self) -> Any:
        if self._address is None:
            return self._given
        return self._client.get_database_client(self._address.database).get_container_client(self._address.container)

    async def properties(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._reached().read()
        return found

    async def account(self) -> Any:
        return None if self._client is None else self._client.client_connection.GetDatabaseAccount()

    async def make_database(self) -> None:
        assert self._address is not None, "a container that was handed in is there"
        self._client.create_database(self._address.database)

    async def make_container(self) -> None:
        assert self._address is not None
        database = self._client.get_database_client(self._address.database)
        database.create_container(self._address.container, setup.PARTITION, indexing_policy=dict(setup.INDEXES))

    def close(self) -> None:
        """Close the client, if it is ours. Idempotent."""
        self._closed = True
        client, self._client, self._container = self._client, None, None
        if client is not None:
            client.close()

    def after_fork(self) -> None:
        """Go on with a client of our own, and no lock held. The parent's connections are left as they are."""
        if self._client is not None:
            _left_behind.append(self._client)
            self._client = self._container = None
        self._opening, self._turns = threading.Lock(), Turns(threading.Lock)


_left_behind: list[Any] = []
"""Clients of a parent process, whose sockets it still uses."""


def _default_credential() -> Any:
    """Whoever this program runs as: the environment, a managed identity, a developer's login."""
    from azure.identity import DefaultAzureCredential

    return DefaultAzureCredential()


def copied(operations: Sequence[Operation]) -> list[Operation]:
    """The same operations, for the SDK to take their options out of: a batch may have to be sent again."""
    return [(name, given, dict(*options)) for name, given, *options in operations]


def scope(params: Mapping[str, Any], partition: str | None) -> dict[str, Any]:
    """Arguments of the SDK's ``query_items``."""
    given: dict[str, Any] = {
        "parameters": [{"name": name, "value": value} for name, value in params.items()],
        "max_item_count": PAGE,
    }
    if partition is None:
        return {**given, "enable_cross_partition_query": True}
    return {**given, "partition_key": partition}
