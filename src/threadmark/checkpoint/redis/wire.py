"""Sending commands: one way for both colours, and what blocking clients do differently from those of an event loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final

from redis.client import NEVER_DECODE
from redis.exceptions import AskError, ConnectionError, MovedError, RedisError

from threadmark.checkpoint.redis.scripts import Command, key_of
from threadmark.errors import SaverError

RAW: Final[dict[str, Any]] = {NEVER_DECODE: []}
"""Bytes are wanted, also from a client that decodes."""
_ELSEWHERE: Final = (MovedError, AskError)
"""A cluster's answer when another of its servers has the slot."""
_LOOKS: Final = 3
"""How often a cluster is asked where a slot is."""


class Wire:
    """What carries commands to a server, or to those of a cluster. A blocking one never suspends.

    The client is one that was handed in, or one of its own, which ``make`` makes when it is first wanted. ``limit`` is
    how many calls are under way at once; more wait. None where the client sees to that.
    """

    blocking: bool
    resends: int
    """How often a command is sent again whose connection was lost, beyond what the client does by itself."""

    def __init__(
        self,
        server: str,
        *,
        client: Any = None,
        make: Callable[[], Any] | None = None,
        cluster: bool,
        limit: int | None = None,
    ) -> None:
        self.server = server
        """What messages call it: no user, no password."""
        self.is_cluster = cluster
        self._client, self._make, self._limit = client, make, limit
        self._closed = False
        self._gate: AbstractAsyncContextManager[Any] = nullcontext()

    @property
    def client(self) -> Any:
        """The client of redis-py."""
        raise NotImplementedError

    # -- what the colours do differently -------------------------------------------------------------------------------

    async def _ready(self) -> Any:
        """The client, to be used now."""
        raise NotImplementedError

    async def _done(self, result: Any) -> Any:
        """The result of a method of the client's."""
        raise NotImplementedError

    async def _piped(self, client: Any, commands: Sequence[Command]) -> list[Any]:
        """The replies of one server, in one round trip."""
        raise NotImplementedError

    async def _piped_to(self, client: Any, node: Any, commands: Sequence[Command]) -> list[Any]:
        """The same of a server of a cluster."""
        raise NotImplementedError

    async def pause(self, seconds: float) -> None:
        raise NotImplementedError

    # -- commands ------------------------------------------------------------------------------------------------------

    async def one(self, command: Command) -> Any:
        """The reply to one script's command."""
        client = await self._ready()
        async with self._gate:
            return await self._done(client.execute_command(*command, **RAW))

    async def many(self, commands: Sequence[Command]) -> list[Any]:
        """The replies, an error for one that failed. They are run in this order, but on a cluster in any."""
        client = await self._ready()
        if not self.is_cluster:
            return await self._piped(client, commands)
        replies: list[Any] = [None] * len(commands)
        by_node: dict[str, tuple[Any, list[int]]] = {}
        for at, command in enumerate(commands):
            node = client.get_node_from_key(key_of(command))
            by_node.setdefault(node.name, (node, []))[1].append(at)
        for node, places in by_node.values():
            try:
                async with self._gate:
                    found = await self._piped_to(client, node, [commands[at] for at in places])
            except ConnectionError as error:
                found = [error] * len(places)
            for at, reply in zip(places, found, strict=True):
                replies[at] = await self._followed(commands[at], reply)
        return replies

    async def together(self, commands: Sequence[Command]) -> list[Any]:
        """The same on one connection, in order; the first one's key says to which server."""
        client = await self._ready()
        if not self.is_cluster:
            return await self._piped(client, commands)
        for attempt in range(_LOOKS):
            try:
                node = client.get_node_from_key(key_of(commands[0]))
                async with self._gate:
                    replies = await self._piped_to(client, node, commands)
                if not isinstance(replies[0], _ELSEWHERE):
                    break
            except ConnectionError:
                if attempt + 1 == _LOOKS:
                    raise
            await self._done(client.nodes_manager.initialize())
        return replies

    async def _followed(self, command: Command, reply: Any) -> Any:
        """The reply, from another server when the slot is there now."""
        if isinstance(reply, (*_ELSEWHERE, ConnectionError)):
            try:
                return await self.one(command)
            except RedisError as error:
                return error
        return reply

    # -- its life ------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close the client, unless it was handed in. Idempotent."""
        self._closed = True
        client = self._client
        if self._make is not None and client is not None:
            self._client = None
            await self._dismiss(client)

    async def _dismiss(self, client: Any) -> None:
        """Close a client of our own."""
        raise NotImplementedError

    def _closed_already(self) -> SaverError:
        return SaverError(f"the saver on {self.server} is closed; open a new one")

    def after_fork(self) -> None:
        """Go on with connections of our own. A handed-in client sees to its own."""
        if self._make is not None and self._client is not None:
            _left_behind.append(self._client)
            self._client = None


_left_behind: list[Any] = []
"""Clients of a parent process: closing them here would close connections that it still uses."""


class _Gate:
    """A semaphore of threads, in the form of one of an event loop."""

    def __init__(self, places: int) -> None:
        self._places = threading.BoundedSemaphore(places)

    async def __aenter__(self) -> None:
        self._places.acquire()

    async def __aexit__(self, *exc: object) -> None:
        self._places.release()


class BlockingWire(Wire):
    """Commands through a blocking client, which any thread may use."""

    blocking = True

    def __init__(self, server: str, **options: Any) -> None:
        super().__init__(server, **options)
        self.resends = int(self._make is None)
        self._renew()

    def _renew(self) -> None:
        self._lock = threading.Lock()
        if self._limit is not None:
            self._gate = _Gate(self._limit)

    @property
    def client(self) -> Any:
        if self._closed:
            raise self._closed_already()
        if self._client is None and self._make is not None:
            with self._lock:
                if self._client is None:
                    self._client = self._make()
        return self._client

    async def _ready(self) -> Any:
        return self.client

    async def _done(self, result: Any) -> Any:
        return result

    async def _piped(self, client: Any, commands: Sequence[Command]) -> list[Any]:
        with client.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command, **RAW)
            return list(pipe.execute(raise_on_error=False))

    async def _piped_to(self, client: Any, node: Any, commands: Sequence[Command]) -> list[Any]:
        return await self._piped(client.get_redis_connection(node), commands)

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    async def _dismiss(self, client: Any) -> None:
        client.close()

    def after_fork(self) -> None:
        self._renew()
        super().after_fork()
