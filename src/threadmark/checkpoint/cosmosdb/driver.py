"""Requests to one container: a point read, a query, a batch. Blocking, or awaited over the SDK's other half."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
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


class Requests:
    """Requests over one half of the SDK, whose client is opened when it is first needed.

    What the halves do differently is below: to get a result, to wait, to keep others out. With ``read_only`` a
    container that is not there is not made.
    """

    blocking: bool
    _turns: Turns

    def __init__(self, address: Address | None, container: Any = None, *, read_only: bool = False) -> None:
        self.place = address.place if address is not None else setup.place_of(container)
        self.read_only = read_only
        self._address, self._given = address, container
        self._client: Any = None
        self._container: Any = None
        self._closed = False

    async def _done(self, result: Any) -> Any:
        """The result of a method of the SDK's."""
        raise NotImplementedError

    def _each(self, results: Any) -> AsyncGenerator[Any, None]:
        """The results of a query of the SDK's."""
        raise NotImplementedError

    async def _opened(self, address: Address) -> Any:
        """The SDK's client."""
        raise NotImplementedError

    async def container(self) -> Any:
        """The SDK's container, ready for use."""
        raise NotImplementedError

    async def read(self, partition: str, id: str) -> Item | None:
        container = await self.container()
        try:
            return dict(await self._done(container.read_item(id, partition_key=partition)))
        except AzureError as error:
            if is_missing_item(error):
                return None
            raise translated(error, self.place) from error

    async def query(self, text: str, params: Mapping[str, Any], partition: str | None) -> AsyncGenerator[Any, None]:
        container = await self.container()
        try:
            async with aclosing(self._each(container.query_items(text, **self._scope(params, partition)))) as results:
                async for found in results:
                    yield found
        except AzureError as error:
            raise translated(error, self.place) from error

    def _scope(self, params: Mapping[str, Any], partition: str | None) -> dict[str, Any]:
        """Arguments of the SDK's ``query_items``."""
        given: dict[str, Any] = {
            "parameters": [{"name": name, "value": value} for name, value in params.items()],
            "max_item_count": PAGE,
        }
        if partition is not None:
            return {**given, "partition_key": partition}
        return {**given, "enable_cross_partition_query": True} if self.blocking else given

    async def batch(self, partition: str, operations: Sequence[Operation]) -> list[dict[str, Any]]:
        container = await self.container()
        # The SDK takes options out of the operations, and a batch may have to be sent again.
        copied: list[Operation] = [(name, given, dict(*options)) for name, given, *options in operations]
        try:
            asked = container.execute_item_batch(copied, partition_key=partition, no_response=True)
            return list(await self._done(asked))
        except AzureError as error:
            raise translated(error, self.place, writing=True) from error

    def leave(self, partition: str) -> None:
        self._turns.leave(partition)

    async def _open(self) -> None:
        if self._closed:
            raise SaverError(f"the saver on {self.place} is closed; open a new one")
        try:
            if self._address is not None and self._client is None:
                self._client = await self._opened(self._address)
            await setup.prepare(self, self.place, make=not self.read_only)
        except AzureError as error:
            raise translated(error, self.place) from error
        self._container = self._reached()

    def _reached(self) -> Any:
        if self._address is None:
            return self._given
        return self._client.get_database_client(self._address.database).get_container_client(self._address.container)

    async def properties(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = await self._done(self._reached().read())
        return found

    async def account(self) -> Any:
        return None if self._client is None else await self._done(self._client.client_connection.GetDatabaseAccount())

    async def make_database(self) -> None:
        assert self._address is not None, "a container that was handed in is there"
        await self._done(self._client.create_database(self._address.database))

    async def make_container(self) -> None:
        assert self._address is not None
        database, name = self._client.get_database_client(self._address.database), self._address.container
        await self._done(database.create_container(name, setup.PARTITION, indexing_policy=dict(setup.INDEXES)))

    def let_go(self) -> Any:
        """Be closed; the client that is still to be closed, if there is one."""
        self._closed = True
        client, self._client, self._container = self._client, None, None
        return client

    def after_fork(self) -> None:
        """Go on with a client of our own. The parent's connections are left as they are."""
        if self._client is not None:
            _left_behind.append(self._client)
            self._client = self._container = None


_left_behind: list[Any] = []
"""Clients of a parent process, whose sockets it still uses."""


class Blocking(Requests):
    """The SDK's blocking client, which any thread may use."""

    blocking = True
    loop = None

    def __init__(self, address: Address | None, container: Any = None, *, read_only: bool = False) -> None:
        super().__init__(address, container, read_only=read_only)
        self._opening, self._turns = threading.Lock(), Turns(threading.Lock)

    async def _done(self, result: Any) -> Any:
        return result

    async def _each(self, results: Iterable[Any]) -> AsyncGenerator[Any, None]:
        for found in results:
            yield found

    async def _opened(self, address: Address) -> Any:
        return CosmosClient(address.endpoint, address.credential or _default_credential(), **address.client_options())

    async def container(self) -> Any:
        if self._container is None:
            with self._opening:
                if self._container is None:
                    await self._open()
        return self._container

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    async def enter(self, partition: str) -> None:
        self._turns.lock(partition).acquire()

    async def close(self) -> None:
        """Close the client, if it is ours. Idempotent."""
        client = self.let_go()
        if client is not None:
            client.close()

    def after_fork(self) -> None:
        super().after_fork()
        self._opening, self._turns = threading.Lock(), Turns(threading.Lock)


def _default_credential() -> Any:
    """Whoever this program runs as: the environment, a managed identity, a developer's login."""
    from azure.identity import DefaultAzureCredential

    return DefaultAzureCredential()
