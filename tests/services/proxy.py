"""A TCP proxy in front of a server, for the faults that networks have."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

_CHUNK = 1 << 16


class Proxy:
    """Hands bytes on between clients and one server, by a thread of its own; what it does wrong can be set at any time.

    ``latency`` is in seconds and in each direction. ``refusing`` closes new connections at once. ``silent`` takes
    everything and hands nothing on. ``answer_limit`` is how many more bytes of answers pass, over all connections:
    with the next one every connection is reset in the middle of the answer.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self.latency = 0.0
        self.refusing = False
        self.silent = False
        self.answer_limit: int | None = None
        self.cuts_once = False
        """Whether there is no limit any more once connections were reset for it."""
        self.opened = 0
        """How many connections were handed on to the server."""
        self.asked = 0
        """How many times clients sent something: for a client that waits for each answer, the round trips."""
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]

    def _do(self, what: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(60)

    def reset(self) -> None:
        """Cut every connection, as a router that forgets them does."""
        self._do(self._reset())

    def close(self) -> None:
        """Cut everything and listen no more."""
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        await self._reset()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _reset(self) -> None:
        for writer in list(self._writers):
            _cut(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        upstream: asyncio.StreamWriter | None = None
        passing: list[asyncio.Future[None]] = []
        try:
            if self.refusing:
                return
            answers, upstream = await asyncio.open_connection("127.0.0.1", self._target)
            self._writers.add(upstream)
            self.opened += 1
            ways = [self._pass(reader, upstream, answer=False), self._pass(answers, writer, answer=True)]
            passing = [asyncio.ensure_future(way) for way in ways]
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for way in passing:
                way.cancel()
            await asyncio.gather(*passing, return_exceptions=True)
            self._tasks.discard(task)
            for each in (writer, upstream):
                if each is not None:
                    self._writers.discard(each)
                    _cut(each)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answer: bool) -> None:
        while data := await reader.read(_CHUNK):
            self.asked += not answer
            if self.latency:
                await asyncio.sleep(self.latency)
            if self.silent:
                continue
            limit = self.answer_limit
            if answer and limit is not None:
                self.answer_limit = max(0, limit - len(data))
                if len(data) > limit:
                    if self.cuts_once:
                        self.answer_limit = None
                    writer.write(data[:limit])
                    await writer.drain()
                    await self._reset()
                    return
            writer.write(data)
            await writer.drain()


def _cut(writer: asyncio.StreamWriter) -> None:
    """Close with a reset: what was not read yet is lost."""
    sock = writer.get_extra_info("socket")
    if sock is not None and not writer.transport.is_closing():
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
    writer.transport.abort()


@contextmanager
def proxy(port: int) -> Iterator[Proxy]:
    """A proxy in front of a local port."""
    made = Proxy(port)
    try:
        yield made
    finally:
        made.close()
