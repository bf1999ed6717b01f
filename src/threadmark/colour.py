"""The only file that knows there are two colours: blocking callers and event loops (decision 0001).

Code that does I/O is written once, as ``async def`` that awaits ports. A blocking port never suspends, so its
coroutines can be driven to their end by one step, without an event loop and without a thread.
"""

from __future__ import annotations

import atexit
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from types import coroutine
from typing import Any, TypeAlias, TypeVar

from threadmark.errors import ColourError
from threadmark.later import asyncio

T = TypeVar("T")
_Entry: TypeAlias = "tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]"
"""A job, and who is told what came of it."""


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
    if "asyncio" not in sys.modules:
        return None
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def wait_there(op: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    """Wait on this thread for something that is done on another thread's event loop."""
    return asyncio.run_coroutine_threadsafe(op, loop).result()


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
        self._jobs: SimpleQueue[_Entry | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._open = 0
        """Jobs that were handed in and have not ended."""
        self._start = threading.Lock()
        self._arrivals: Arrivals | None = None

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Hand in a job; of one thread, they run one after the other."""
        future: Future[T] = Future()

        def tell(result: Any, error: BaseException | None) -> None:
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

        self._hand_in((job, tell))
        return future

    async def run(self, job: Callable[[], T]) -> T:
        """Run a job and wait for it without blocking the loop, to its end even when cancelled: see ``settled``."""
        loop = asyncio.get_running_loop()
        arrivals = self._arrivals
        if arrivals is None or arrivals.loop is not loop:
            arrivals = self._arrivals = Arrivals(loop)
        visit = Visit(arrivals)
        self._hand_in((job, visit.tell))
        return await visit.ended()  # type: ignore[no-any-return]

    def _hand_in(self, entry: _Entry) -> None:
        with self._start:
            self._open += 1
            if len(self._threads) < min(self._open, self._limit):
                thread = threading.Thread(target=self._work, args=(self._jobs,), name=self._name, daemon=True)
                thread.start()
                self._threads.append(thread)
                _workers.add(self)
            self._jobs.put(entry)

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

    def _work(self, jobs: SimpleQueue[_Entry | None]) -> None:
        while (entry := jobs.get()) is not None:
            job, tell = entry
            result, error = None, None
            try:
                result = job()
            except BaseException as raised:
                error = raised
            self._ended()
            tell(result, error)
            del job, tell, entry, result, error  # an idle worker must not keep a run's state alive

    def _ended(self) -> None:
        with self._start:
            self._open -= 1


_workers: weakref.WeakSet[Worker] = weakref.WeakSet()


@atexit.register
def _finish_workers() -> None:
    for worker in list(_workers):
        worker.close()


class Arrivals:
    """What ends in threads, told to one event loop in bunches: to wake a loop takes a system call and a callback.

    That, and no ``Future`` between a thread and the loop, spares a short run among many a tenth of its time.
    """

    __slots__ = ("_ended", "_lock", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._lock = threading.Lock()
        self._ended: list[Visit] = []

    def add(self, visit: Visit) -> None:
        """From any thread: one has ended."""
        with self._lock:
            first = not self._ended
            self._ended.append(visit)
        if first:
            with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
                self.loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        with self._lock:
            ended, self._ended = self._ended, []
        for visit in ended:
            visit.arrive()


class Visit:
    """One job in a thread, and the caller on a loop who waits for it."""

    __slots__ = ("_arrivals", "_arrived", "_error", "_result", "_waiter")

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._waiter = arrivals.loop.create_future()
        self._arrived = False
        self._result: Any = None
        self._error: BaseException | None = None

    def tell(self, result: Any, error: BaseException | None) -> None:
        """In the thread: this is what came of it."""
        self._result, self._error = result, error
        self._arrivals.add(self)

    def arrive(self) -> None:
        """On the loop: it is known now."""
        self._arrived = True
        if not self._waiter.done():
            self._waiter.set_result(None)

    async def ended(self) -> Any:
        """Wait for the end; a cancellation is delivered then."""
        try:
            await self._waiter
        except asyncio.CancelledError:
            while not self._arrived:
                self._waiter = self._arrivals.loop.create_future()
                with suppress(asyncio.CancelledError):
                    await self._waiter
            raise
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
            return self._result
        finally:
            del error  # it names this frame


async def offload(worker: Worker, op: Callable[[], Awaitable[T]]) -> T:
    """Run a whole one-colour operation in ``worker`` and wait for it without blocking the loop.

    A cancelled caller never abandons a half-done operation: it is waited for, then the cancellation is delivered.
    """
    return await worker.run(lambda: drive(op()))


async def settled(future: asyncio.Future[T]) -> T:
    """Wait for ``future`` to its end even when cancelled, and only then deliver the cancellation."""
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        waiter = future.get_loop().create_future()
        ended = partial(_release, waiter)
        future.add_done_callback(ended)
        try:
            await waiter
        except asyncio.CancelledError as error:
            cancelled = error
            future.remove_done_callback(ended)
    if cancelled is None:
        return future.result()
    if not future.cancelled():
        future.exception()  # marks it as retrieved: the cancellation is what the caller hears of
    try:
        raise cancelled
    finally:
        del cancelled


def _release(waiter: asyncio.Future[None], _: object) -> None:
    if not waiter.done():
        waiter.set_result(None)


class _Kept:
    """Stands before what a task waits for: when the task is cancelled that is noted, and what it waits for goes on."""

    __slots__ = ("_asyncio_future_blocking", "cancellation", "future")

    def __init__(self) -> None:
        self.cancellation: asyncio.CancelledError | None = None

    def before(self, future: Any) -> _Kept:
        future._asyncio_future_blocking = False  # as a task does with what it is given
        self.future, self._asyncio_future_blocking = future, True
        return self

    # What a task does with what it waits for.

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self.future.get_loop()  # type: ignore[no-any-return]

    def add_done_callback(self, callback: Callable[[Any], object], *, context: Any) -> None:
        self.future.add_done_callback(callback, context=context)

    def cancel(self, msg: Any = None) -> bool:
        self.cancellation = asyncio.CancelledError(*(() if msg is None else (msg,)))
        return True


@coroutine
def whole(op: Coroutine[Any, Any, T]) -> Generator[Any, None, T]:
    """``settled`` for an operation that runs in the task of its caller, which spares three turns of the event loop.

    Nothing in ``op`` may cancel the task that it runs in and mean itself, as ``asyncio.timeout`` does.
    """
    kept = _Kept()
    while True:
        try:
            waited = op.send(None)
        except StopIteration as stop:
            if kept.cancellation is None:
                return stop.value  # type: ignore[no-any-return]
            break
        except BaseException:
            if kept.cancellation is None:
                raise
            break
        try:
            yield waited if waited is None else kept.before(waited)
        except GeneratorExit:
            op.close()
            raise
        except asyncio.CancelledError as error:
            if waited is None or not waited.cancelled():
                kept.cancellation = error
        except BaseException:
            pass  # of what is waited for: it raises the same in the operation
    cancellation, kept.cancellation = kept.cancellation, None
    try:
        raise cancellation
    finally:
        del cancellation  # it names this frame
