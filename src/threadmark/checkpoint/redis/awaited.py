"""Sending commands from an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final

from redis.asyncio import RedisCluster
from redis.asyncio.cluster import PipelineCommand
from redis.exceptions import ConnectionError, RedisError

from threadmark.checkpoint.redis.scripts import Command, key_of
from threadmark.checkpoint.redis.wire import ELSEWHERE, LOOKS, RAW
from threadmark.colour import running_loop
from threadmark.errors import ColourError, SaverError

_RESENDS: Final = 2


class AwaitedWire:
    """Commands through a client of an event loop: one that was handed in, or one of its own for each loop.

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
        self.resends = _RESENDS if cluster else int(make is None)
        self.is_cluster = cluster
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop that last used it."""
        self._client, self._make, self._limit, self._closed = client, make, limit, False
        self._gate: AbstractAsyncContextManager[Any] = nullcontext()

    @property
    def client(self) -> Any:
        """The client; None before a loop has asked for one of ours."""
        return self._client

    async def _ready(self) -> Any:
        running = asyncio.get_running_loop()
        if self._closed:
            raise SaverError(f"the saver on {self.server} is closed; open a new one")
        if self.loop is not running:
            if self._make is not None:
                self._client = self._make()
            elif self.loop is not None:
                raise ColourError(
                    f"this client of {self.server} belongs to another event loop; make a new one and a new saver in "
                    f"this loop, or open the saver with from_conn_string, which connects anew for each"
                )
            self.loop = running
            if self._limit is not None:
                self._gate = asyncio.Semaphore(self._limit)
        client = self._client
        if self.is_cluster:  # or else its first commands go anywhere, and it closes what others use to look again
            await client.initialize()
        return client

    async def one(self, command: Command) -> Any:
        client = await self._ready()
        async with self._gate:
            try:
                return await client.execute_command(*command, **RAW)
            except AttributeError as error:
                if not self.is_cluster:
                    raise
                # When it looks for moved slots, redis-py closes what other calls are just connecting.
                raise ConnectionError("the cluster's client closed a connection that was in use") from error

    async def many(self, commands: Sequence[Command]) -> list[Any]:
        client = await self._ready()
        if not self.is_cluster:
            return await _piped(client, commands)
        replies: list[Any] = [None] * len(commands)
        by_node: dict[str, tuple[Any, list[int]]] = {}
        for at, command in enumerate(commands):
            node = client.get_node_from_key(key_of(command))
            by_node.setdefault(node.name, (node, []))[1].append(at)
        for node, places in by_node.values():
            try:
                async with self._gate:
                    found = await _piped_to(node, [commands[at] for at in places])
            except ConnectionError as error:
                found = [error] * len(places)
            for at, reply in zip(places, found, strict=True):
                replies[at] = await self._followed(commands[at], reply)
        return replies

    async def together(self, commands: Sequence[Command]) -> list[Any]:
        client = await self._ready()
        if not self.is_cluster:
            return await _piped(client, commands)
        for attempt in range(LOOKS):
            try:
                async with self._gate:
                    replies = await _piped_to(client.get_node_from_key(key_of(commands[0])), commands)
                if not isinstance(replies[0], ELSEWHERE):
                    break
            except ConnectionError:
                if attempt + 1 == LOOKS:
                    raise
            await client.nodes_manager.initialize()
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
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Close the client, unless it was handed in. Idempotent."""
        self._closed = True
        client = self._client
        if self._make is not None and client is not None:
            self._client = None
            if self.loop is not None and self.loop is running_loop():  # else its connections went with their loop
                await client.aclose()

    def after_fork(self) -> None:
        """A loop does not survive a fork: what comes next is a new one. A handed-in client sees to its own."""
        if self._make is not None and self._client is not None:
            _left_behind.append(self._client)
            self._client, self.loop = None, None


_left_behind: list[Any] = []
"""Clients of a parent process: closing them here would close connections that it still uses."""


async def _piped(client: Any, commands: Sequence[Command]) -> list[Any]:
    async with client.pipeline(transaction=False) as pipe:
        for command in commands:
            pipe.execute_command(*command, **RAW)
        return list(await pipe.execute(raise_on_error=False))


async def _piped_to(node: Any, commands: Sequence[Command]) -> list[Any]:
    sent = [PipelineCommand(at, *command, **RAW) for at, command in enumerate(commands)]
    await node.execute_pipeline(sent)
    return [command.result for command in sent]


def is_cluster(client: Any) -> bool:
    """Whether a client of an event loop is one of a cluster."""
    return isinstance(client, RedisCluster)
