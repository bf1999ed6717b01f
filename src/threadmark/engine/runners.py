"""Where tasks run: on threads for a blocking caller, on the event loop for an async one (house 5)."""

from __future__ import annotations

import contextvars
import os
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Any, Protocol, TypeVar

from threadmark.colour import drive, settled
from threadmark.engine.attempt import attempt, attempt_async, branch_input, routed
from threadmark.engine.plan import Branch
from threadmark.engine.stream import Sink
from threadmark.engine.task import Task
from threadmark.later import asyncio

T = TypeVar("T")
MAX_THREADS = 32
"""Threads of one run when the config names no ``max_concurrency``: enough that tasks which wait do not stop others."""


class Runner(Protocol):
    """How a run waits. Neither method raises what a task raised: it is the task's ``error``."""

    cancels: bool
    """Whether running tasks can be stopped when one of them has failed."""

    async def one(self, task: Task) -> None:
        """Run a single task to its end; nothing is delivered meanwhile."""
        ...

    def many(self, tasks: Sequence[Task], sink: Sink | None, timeout: float | None) -> AsyncGenerator[list[Task], None]:
        """Run tasks at once; yields those that have ended, or an empty list when ``sink`` has something.

        ``timeout``: seconds for all of them together, else ``TimeoutError``.
        """
        ...

    def spawn(self, job: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """Start a background job; the returned call waits for it."""
        ...

    def submit(self, job: Callable[[], None]) -> None:
        """Run a job on one of the run's threads, soon."""
        ...

    async def in_thread(self, function: Callable[..., T], *args: object) -> T:
        """Run a plain function without stopping whoever else is served here."""
        ...

    async def route(self, branch: Branch, task: Task) -> Any:
        """Call a path function outside of a running task: for updates of the state."""
        ...

    async def shielded(self, op: Awaitable[T]) -> T:
        """Do something to its end even if the caller is cancelled meanwhile."""
        ...

    async def close(self) -> None:
        """Wait for what still runs and give back threads."""
        ...


# Background saves of blocking runs. Idle threads of an executor never keep the process alive.
def _new_background() -> None:
    global _background
    _background = ThreadPoolExecutor(max_workers=64, thread_name_prefix="threadmark-save")


_background: ThreadPoolExecutor
_new_background()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_background)  # the parent's threads are not there any more


class ThreadRunner:
    """For a blocking caller. Threads start when the first superstep has several tasks, and live for the run.

    A running thread cannot be cancelled: a run that fails waits for its running tasks.
    """

    cancels = False

    def __init__(self, max_concurrency: int | None) -> None:
        self._limit = max_concurrency or MAX_THREADS
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def submit(self, job: Callable[[], None]) -> None:
        self._grow(len(self._threads) + 1)
        self._jobs.put(job)

    async def in_thread(self, function: Callable[..., T], *args: object) -> T:
        return function(*args)

    async def one(self, task: Task) -> None:
        contextvars.copy_context().run(attempt, task)

    async def many(
        self, tasks: Sequence[Task], sink: Sink | None, timeout: float | None
    ) -> AsyncGenerator[list[Task], None]:
        events: SimpleQueue[Task | None] = SimpleQueue()
        stop = threading.Event()

        failed = threading.Event()

        def job(task: Task, context: contextvars.Context, *, waits: bool) -> Callable[[], None]:
            def work() -> None:
                if not stop.is_set() and not (waits and failed.is_set()):
                    context.run(attempt, task)
                    if task.is_fatal:
                        failed.set()  # the run will fail: what waits for a thread need not start
                events.put(task)

            return work

        if sink is not None:
            sink.wake = lambda: events.put(None)
        self._grow(len(tasks))
        for number, task in enumerate(tasks):
            self._jobs.put(job(task, contextvars.copy_context(), waits=number >= self._limit))
        left = len(tasks)
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            while left:
                ended = _drain(events, deadline)
                done = [task for task in ended if task is not None]
                left -= len(done)
                yield done
        finally:
            if sink is not None:
                sink.wake = None
            stop.set()
            while left:  # a thread cannot be stopped; what runs is waited for, what waits is dropped
                left -= events.get() is not None

    def _grow(self, wanted: int) -> None:
        for _ in range(min(wanted, self._limit) - len(self._threads)):
            thread = threading.Thread(target=_work, args=(self._jobs,), name="threadmark-task", daemon=True)
            thread.start()
            self._threads.append(thread)

    def spawn(self, job: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        try:
            future: Future[None] = _background.submit(lambda: drive(job()))
        except RuntimeError:  # the interpreter is on its way out and starts no more threads: save here and now
            future = Future()
            try:
                future.set_result(drive(job()))
            except BaseException as error:
                future.set_exception(error)

        async def join() -> None:
            future.result()

        return join

    async def route(self, branch: Branch, task: Task) -> Any:
        if branch.call.sync is None:
            raise TypeError(f"path function {branch.name!r} is async; use aupdate_state")
        return branch.call.sync(branch_input(task, branch), task)

    async def shielded(self, op: Awaitable[T]) -> T:
        return await op

    async def close(self) -> None:
        for _ in self._threads:
            self._jobs.put(None)
        self._threads.clear()


def _told_apart(function: Callable[..., T], *args: object) -> T:
    try:
        return function(*args)
    except StopIteration as error:  # no future can carry it: whoever waits would wait for ever
        raise RuntimeError("a plain function raised StopIteration") from error


def _work(jobs: SimpleQueue[Callable[[], None] | None]) -> None:
    while (job := jobs.get()) is not None:
        job()
        del job  # an idle thread must not keep a task alive


def _drain(events: SimpleQueue[Task | None], deadline: float | None) -> list[Task | None]:
    """Wait for an event, and take those that have come with it."""
    try:
        found = [events.get(timeout=None if deadline is None else max(0.0, deadline - time.monotonic()))]
    except Empty:
        raise TimeoutError("the superstep took longer than the graph's step_timeout") from None
    while not events.empty():
        found.append(events.get())
    return found


_starting = threading.Lock()


class LoopRunner:
    """For an async caller: async nodes as tasks of the loop, plain functions in threads."""

    cancels = True

    def __init__(self, max_concurrency: int | None) -> None:
        self._gate = asyncio.Semaphore(max_concurrency) if max_concurrency else None
        self._limit = max_concurrency or MAX_THREADS
        self._pool: ThreadPoolExecutor | None = None

    def submit(self, job: Callable[[], None]) -> None:
        self._threads().submit(job)

    async def one(self, task: Task) -> None:
        await attempt_async(task, self.in_thread)

    async def in_thread(self, function: Callable[..., T], *args: object) -> T:
        """Run a plain function in one of the run's threads, in a copy of the current context.

        A thread cannot be stopped: when the caller is cancelled, the function goes on and its result is dropped.
        """
        context = contextvars.copy_context()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads(), lambda: context.run(_told_apart, function, *args))

    def _threads(self) -> ThreadPoolExecutor:
        with _starting:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._limit, thread_name_prefix="threadmark-task")
            return self._pool

    async def _gated(self, task: Task) -> None:
        if self._gate is None:
            await attempt_async(task, self.in_thread)
        else:
            async with self._gate:
                await attempt_async(task, self.in_thread)

    async def many(
        self, tasks: Sequence[Task], sink: Sink | None, timeout: float | None
    ) -> AsyncGenerator[list[Task], None]:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        ended: list[Task] = []
        home = threading.get_ident()

        def finished(_: asyncio.Task[None], task: Task) -> None:
            ended.append(task)
            ready.set()

        def wake() -> None:
            if threading.get_ident() == home:
                ready.set()
            else:
                loop.call_soon_threadsafe(ready.set)

        if sink is not None:
            sink.wake = wake
        running: dict[asyncio.Task[None], Task] = {}
        for task in tasks:
            job = loop.create_task(self._gated(task))
            job.add_done_callback(lambda job, task=task: finished(job, task))  # type: ignore[misc]
            running[job] = task
        left = len(tasks)
        deadline = None if timeout is None else loop.time() + timeout
        try:
            while left:
                if deadline is None:
                    await ready.wait()
                else:
                    async with asyncio.timeout_at(deadline):
                        await ready.wait()
                ready.clear()
                done, ended[:] = ended[:], []
                left -= len(done)
                yield done
        finally:
            if sink is not None:
                sink.wake = None
            await _cancel([job for job in running if not job.done()])
            for job, task in running.items():
                if job.cancelled() and task.error is None:
                    task.error = asyncio.CancelledError()

    def spawn(self, job: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        task = asyncio.ensure_future(job())

        async def join() -> None:
            await settled(task)

        return join

    async def route(self, branch: Branch, task: Task) -> Any:
        return await routed(branch, branch_input(task, branch), task, self.in_thread)

    async def shielded(self, op: Awaitable[T]) -> T:
        return await settled(asyncio.ensure_future(op))

    async def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False)


async def _cancel(jobs: Sequence[asyncio.Task[None]]) -> None:
    """Cancel and wait; a cancellation that comes meanwhile is delivered when all have ended."""
    if not jobs:
        return
    for job in jobs:
        job.cancel()
    await settled(asyncio.ensure_future(_all(jobs)))


async def _all(jobs: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.gather(*jobs, return_exceptions=True)


__all__ = ["LoopRunner", "Runner", "ThreadRunner"]
