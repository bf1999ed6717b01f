"""Sending commands from an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from redis.asyncio import RedisCluster
from redis.asyncio.cluster import PipelineCommand
from redis.exceptions import ConnectionError

from threadmark.checkpoint.redis.scripts import Command
from threadmark.checkpoint.redis.wire import RAW, Wire
from threadmark.colour import running_loop
from threadmark.errors import ColourError

_RESENDS: Final = 2


class AwaitedWire(Wire):
    """Commands through a client of an event loop; one of our own for each loop."""

    blocking = False

    def __init__(self, server: str, **options: Any) -> None:
        super().__init__(server, **options)
        self.resends = _RESENDS if self.is_cluster else int(self._make is None)
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop that last used it."""

    @property
    def client(self) -> Any:
        """The client; None before a loop has asked for one of ours."""
        return self._client

    async def _ready(self) -> Any:
        running = asyncio.get_running_loop()
        if self._closed:
            raise self._closed_already()
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

    async def _done(self, result: Any) -> Any:
        try:
            return await result
        except AttributeError as error:
            if not self.is_cluster:
                raise
            # When it looks for moved slots, redis-py closes what other calls are just connecting.
            raise ConnectionError("the cluster's client closed a connection that was in use") from error

    async def _piped(self, client: Any, commands: Sequence[Command]) -> list[Any]:
        async with client.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command, **RAW)
            return list(await pipe.execute(raise_on_error=False))

    async def _piped_to(self, client: Any, node: Any, commands: Sequence[Command]) -> list[Any]:
        sent = [PipelineCommand(at, *command, **RAW) for at, command in enumerate(commands)]
        await node.execute_pipeline(sent)
        return [command.result for command in sent]

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _dismiss(self, client: Any) -> None:
        if self.loop is not None and self.loop is running_loop():  # else its connections went with their loop
            await client.aclose()

    def after_fork(self) -> None:
        """A loop does not survive a fork: what comes next is a new one."""
        if self._make is not None and self._client is not None:
            self.loop = None
        super().after_fork()


def is_cluster(client: Any) -> bool:
    """Whether a client of an event loop is one of a cluster."""
    return isinstance(client, RedisCluster)
