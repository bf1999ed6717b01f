"""Sending commands: one protocol, kept by blocking clients and by those of an event loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Protocol

from redis.client import NEVER_DECODE
from redis.exceptions import AskError, ConnectionError, MovedError, RedisError

from threadmark.checkpoint.redis.scripts import Command, key_of
from threadmark.errors import SaverError

RAW: Final[dict[str, Any]] = {NEVER_DECODE: []}
"""Bytes are wanted, also from a client that decodes."""
ELSEWHERE: Final = (MovedError, AskError)
"""A cluster's answer when another of its servers has the slot."""
LOOKS: Final = 3
"""How often a cluster is asked where a slot is."""


class Wire(Protocol):
    """What carries commands to a server, or to those of a cluster. A blocking one never suspends."""

    @property
    def server(self) -> str:
        """What messages call it: no user, no password."""
        ...

    @property
    def client(self) -> Any:
        """The client of redis-py."""
        ...

    @property
    def is_cluster(self) -> bool: ...

    @property
    def resends(self) -> int:
        """How often a command is sent again whose connection was lost, beyond what the client does by itself."""
        ...

    async def one(self, command: Command) -> Any:
        """The reply to one script's command."""
        ...

    async def many(self, commands: Sequence[Command]) -> list[Any]:
        """The replies, an error for one that failed. They are run in this order, but on a cluster in any."""
        ...

    async def together(self, commands: Sequence[Command]) -> list[Any]:
        """The same on one connection, in order; the first one's key says to which server."""
        ...

    async def pause(self, seconds: float) -> None: ...

    async def close(self) -> None: ...

    def after_fork(self) -> None: ...


class BlockingWire:
    """Commands through a blocking client: one that was handed in, or one of its own, made when it is first wanted.

    ``limit`` is how many calls are under way at once; more wait. None where the client sees to that.
    """

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
        self.is_cluster = cluster
        self.resends = int(make is None)
        self._client, self._make, self._limit = client, make, limit
        self._closed = False
        self._renew()

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._gate: AbstractContextManager[Any] = nullcontext()
        if self._limit is not None:
            self._gate = threading.BoundedSemaphore(self._limit)

    @property
    def client(self) -> Any:
        """The client."""
        if self._closed:
            raise SaverError(f"the saver on {self.server} is closed; open a new one")
        if self._client is None and self._make is not None:
            with self._lock:
                if self._client is None:
                    self._client = self._make()
        return self._client

    async def one(self, command: Command) -> Any:
        with self._gate:
            return self.client.execute_command(*command, **RAW)

    async def many(self, commands: Sequence[Command]) -> list[Any]:
        if not self.is_cluster:
            return _piped(self.client, commands)
        replies: list[Any] = [None] * len(commands)
        by_node: dict[str, tuple[Any, list[int]]] = {}
        for at, command in enumerate(commands):
            node = self.client.get_node_from_key(key_of(command))
            by_node.setdefault(node.name, (node, []))[1].append(at)
        for node, places in by_node.values():
            try:
                with self._gate:
                    found = _piped(self.client.get_redis_connection(node), [commands[at] for at in places])
            except ConnectionError as error:
                found = [error] * len(places)
            for at, reply in zip(places, found, strict=True):
                replies[at] = await self._followed(commands[at], reply)
        return replies

    async def together(self, commands: Sequence[Command]) -> list[Any]:
        if not self.is_cluster:
            return _piped(self.client, commands)
        for attempt in range(LOOKS):
            try:
                node = self.client.get_node_from_key(key_of(commands[0]))
                with self._gate:
                    replies = _piped(self.client.get_redis_connection(node), commands)
                if not isinstance(replies[0], ELSEWHERE):
                    break
            except ConnectionError:
                if attempt + 1 == LOOKS:
                    raise
            self.client.nodes_manager.initialize()
        return replies

    async def _followed(self, command: Command, reply: Any) -> Any:
        """The reply, from another server when the slot is there now."""
        if isinstance(reply, (*ELSEWHERE, ConnectionError)):
            try:
                return await self.one(command)
            except RedisError as error:
                return error
        return reply

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    async def close(self) -> None:
        """Close the client, unless it was handed in. Idempotent."""
        self._closed = True
        client = self._client
        if self._make is not None and client is not None:
            self._client = None
            client.close()

    def after_fork(self) -> None:
        """Go on with connections of our own. A handed-in client sees to its own."""
        self._renew()
        if self._make is not None and self._client is not None:
            _left_behind.append(self._client)
            self._client = None


_left_behind: list[Any] = []
"""Clients of a parent process: closing them here would close connections that it still uses."""


def _piped(client: Any, commands: Sequence[Command]) -> list[Any]:
    with client.pipeline(transaction=False) as pipe:
        for command in commands:
            pipe.execute_command(*command, **RAW)
        return list(pipe.execute(raise_on_error=False))
