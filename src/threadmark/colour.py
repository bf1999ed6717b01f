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
    """A daemon thread that runs jobs in order: the home of a blocking port under an event loop.

    A thread starts with the first job and never keeps the process alive; what was handed in before the
    interpreter exits is still finished, so a background save is not lost at a normal exit. With ``threads`` up to so
    many jobs run at once; each is started when a job finds the others busy.
    """

    def __init__(self, name: str, threads: int = 1) -> None:
        self._name, self._limit = name, threads
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._open = 0
        """Jobs that were handed in and have not ended."""
        self._start = threading.Lock()

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Hand in a job; of one thread, they run one after the other."""
        future: Future[T] = Future()
        with self._start:
            self._open += 1
            if len(self._threads) < min(self._open, self._limit):
                thread = threading.Thread(target=self._work, args=(self._jobs,), name=self._name, daemon=True)
                thread.start()
                self._threads.append(thread)
                _workers.add(self)
            self._jobs.put((job, future))
        return future

    def close(self) -> None:
        """Finish what was handed in and end the threads. Idempotent; a later job starts a new one."""
        with self._start:
            threads, self._threads = self._threads, []
            jobs, self._jobs = self._jobs, SimpleQueue()
            for _ in threads:
                jobs.put(None)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    def _work(self, jobs: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]) -> None:
        while (entry := jobs.get()) is not None:
            job, future = entry
            try:
                result = job()
            except BaseException as exc:
                self._ended()
                future.set_exception(exc)
            else:
                self._ended()
                future.set_result(result)
                del result
            del job, future, entry  # an idle worker must not keep a run's state alive

    def _ended(self) -> None:
        with self._start:
            self._open -= 1


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
