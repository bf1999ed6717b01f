"""Calling a saver in one colour from blocking checks."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

from threadmark.checkpoint.capabilities import Colour

Run: TypeAlias = Callable[[Awaitable[Any]], Any]
"""Runs an awaitable to its end on the saver's event loop, and waits for it."""


class Caller:
    """Calls ``target.name`` or its ``a`` twin and hands back a plain value; iterators become lists."""

    def __init__(self, colour: Colour, run: Run) -> None:
        self.colour = colour
        self.run = run
        self._prefix = "a" if colour == "async" else ""

    def __call__(self, target: object, name: str, /, *args: Any, **kwargs: Any) -> Any:
        result = getattr(target, self._prefix + name)(*args, **kwargs)
        if isinstance(result, AsyncIterator):
            return self.run(_collected(result))
        if inspect.isawaitable(result):
            return self.run(result)
        return list(result) if isinstance(result, Iterator) else result

    def stepwise(self, target: object, name: str, /, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """The items of an iterating method, each fetched only when it is asked for."""
        result = getattr(target, self._prefix + name)(*args, **kwargs)
        if not isinstance(result, AsyncIterator):
            yield from result
            return
        while (item := self.run(_next(result))) is not _END:
            yield item

    def together(self, calls: Sequence[Callable[[Caller], Any]]) -> list[Any]:
        """What ``calls`` give when all of them are under way at once: a result each, or the error it raised.

        Each is a function of a ``Caller``. It runs in a thread of its own, all start at the same moment, and calls
        of the awaited colour meet on the event loop.
        """
        start = threading.Barrier(len(calls))

        def one(made: Callable[[Caller], Any]) -> Any:
            start.wait()
            try:
                return made(self)
            except Exception as error:
                return error

        with ThreadPoolExecutor(len(calls)) as pool:
            return list(pool.map(one, calls))


_END = object()


async def _collected(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


async def _next(items: AsyncIterator[Any]) -> Any:
    return await anext(items, _END)


async def awaited(result: Awaitable[Any]) -> Any:
    """A coroutine around anything that can be awaited."""
    return await result


def on_loop(loop: asyncio.AbstractEventLoop) -> Run:
    """Runs awaitables on an event loop that another thread keeps running."""

    def run(result: Awaitable[Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(awaited(result), loop).result()

    return run


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="conformance-loop", daemon=True)
        self._thread.start()
        self.run: Run = on_loop(self.loop)

    def close(self) -> None:
        """Stop the loop. Idempotent."""
        if self.loop.is_closed():
            return
        self.run(self.loop.shutdown_asyncgens())
        self.run(self.loop.shutdown_default_executor())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
