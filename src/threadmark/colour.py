"""The only file that knows there are two colours: blocking callers and event loops (decision 0001).

Code that does I/O is written once, as ``async def`` that awaits ports. A blocking port never suspends, so its
coroutines can be driven to their end by one step, without an event loop and without a thread.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from threadmark.errors import ColourError

T = TypeVar("T")


def drive(op: Awaitable[T]) -> T:
    """Run one-colour code to its end on this thread, without an event loop.

    Raises ``ColourError`` when the code suspends: an async port was reached from a blocking call.
    """
    steps = op.__await__()
    try:
        next(steps)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    close = getattr(steps, "close", None)
    if close is not None:
        close()
    raise ColourError(
        "a blocking call reached code that waits on an event loop; use the method whose name starts with 'a'"
    )


def drive_iter(source: AsyncIterator[T]) -> Iterator[T]:
    """The same for a stream: each item is one drive. Closing the iterator closes the source."""
    try:
        while True:
            try:
                item = drive(source.__anext__())
            except StopAsyncIteration:
                return
            yield item
    finally:
        aclose = getattr(source, "aclose", None)
        if aclose is not None:
            drive(aclose())


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs on this thread, if any."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def refuse_inside_loop(what: str, instead: str) -> None:
    """Raise ``ColourError`` on a thread whose event loop a blocking call would stop for ever."""
    if running_loop() is not None:
        raise ColourError(f"{what} would block the running event loop; await {instead} instead")


class Worker:
    """One daemon thread that runs jobs in order: the home of a blocking port under an event loop.

    The thread starts with the first job and never keeps the process alive; what was handed in before the
    interpreter exits is still finished, so a background save is not lost at a normal exit.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._start = threading.Lock()

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Hand in a job; jobs run one after the other."""
        future: Future[T] = Future()
        with self._start:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
                _workers.add(self)
            self._jobs.put((job, future))
        return future

    def close(self) -> None:
        """Finish what was handed in and end the thread. Idempotent; a later job starts a new one."""
        with self._start:
            thread, self._thread = self._thread, None
            if thread is not None:
                self._jobs.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _work(self) -> None:
        while (entry := self._jobs.get()) is not None:
            job, future = entry
            try:
                future.set_result(job())
            except BaseException as exc:
                future.set_exception(exc)
            del job, future, entry  # an idle worker must not keep a run's state alive


_workers: weakref.WeakSet[Worker] = weakref.WeakSet()


@atexit.register
def _finish_workers() -> None:
    for worker in list(_workers):
        worker.close()


async def offload(worker: Worker, op: Callable[[], Awaitable[T]]) -> T:
    """Run a whole one-colour operation in ``worker`` and wait for it without blocking the loop.

    A cancelled caller never abandons a half-done operation: it is waited for, then the cancellation is delivered.
    """
    return await settled(asyncio.wrap_future(worker.submit(lambda: drive(op()))))


async def settled(future: asyncio.Future[T]) -> T:
    """Wait for ``future`` to its end even when cancelled, and only then deliver the cancellation."""
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        while not future.done():
            try:
                await asyncio.wait([future])
            except asyncio.CancelledError:
                continue
        if not future.cancelled():
            future.exception()  # marks it as retrieved: the cancellation is what the caller hears of
        raise
