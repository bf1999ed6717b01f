"""Tasks that a running node calls: ``@task`` functions, each with a stored result of its own (spec 15)."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from typing import Any

from threadmark.colour import drive, running_loop
from threadmark.engine.attempt import attempt
from threadmark.engine.caching import recall_cached, remember
from threadmark.engine.call import Call, wanted_by
from threadmark.engine.commits import store_tasks
from threadmark.engine.names import PUSH, RETURN
from threadmark.engine.plan import PUSH_TRIGGERS, Node, Writes
from threadmark.engine.prepare import recall
from threadmark.engine.stored import stored_form
from threadmark.engine.task import Task
from threadmark.errors import GraphInterrupt
from threadmark.later import asyncio
from threadmark.types import CachePolicy, RetryPolicy, TimeoutPolicy

Arguments = tuple[Sequence[Any], Mapping[str, Any]]


def node_of(
    function: Callable[..., Any],
    name: str,
    *,
    is_async: bool,
    retry: Sequence[RetryPolicy] = (),
    cache: CachePolicy[Any] | None = None,
    timeout: TimeoutPolicy | None = None,
) -> Node:
    """The node that a ``@task`` function is: its input are the arguments of one call."""
    wanted = wanted_by(function, inject_first=True)

    def bound(value: Arguments, task: Task) -> Any:
        args, kwargs = value
        found = {key: find(task) for key, find in wanted.items() if key not in kwargs} if not args or wanted else {}
        return function(*args, **kwargs, **found)

    return Node(
        name=name,
        call=Call(None if is_async else bound, bound if is_async else None, name, function),
        triggers=PUSH_TRIGGERS,
        read=lambda channels, run: None,
        update=_returned,
        retry=tuple(retry),
        cache=cache,
        timeout=timeout,
    )


def _returned(result: Any) -> Writes:
    return [(RETURN, result)]


class Called(Future[Any]):
    """The result to come of a called task. Waiting for one that has not begun runs it in the waiting thread.

    So tasks that wait for tasks cannot use up the threads of a run.
    """

    def __init__(self, task: Task, gate: Any, loop: Any = None) -> None:
        super().__init__()
        self.task = task
        self.loop = loop
        """The event loop on which its run stores and looks things up, when that is in another thread."""
        self._gate = gate
        self._claimed = threading.Lock()
        self._context = contextvars.copy_context()
        self.asked_for = False

    def begin(self) -> None:
        """Run the task, unless somebody does already."""
        if not self._claimed.acquire(blocking=False):
            return
        task = self.task
        if not task.stored and not self._there(cached(task)):
            with self._gate or nullcontext():
                self._context.run(attempt, task)
            self._there(ended(task))
        settle(self, task)

    def _there(self, operation: Any) -> Any:
        return (
            drive(operation) if self.loop is None else asyncio.run_coroutine_threadsafe(operation, self.loop).result()
        )

    def result(self, timeout: float | None = None) -> Any:
        """The task's result, or the error that it raised."""
        self.asked_for = True
        self.begin()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The error that the task raised, if any."""
        self.asked_for = True
        self.begin()
        return super().exception(timeout)

    def __await__(self) -> Any:
        return asyncio.wrap_future(self).__await__()


def call(parent: Task, node: Node, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Start a task from within ``parent``'s node; a future of its result.

    The id depends on the parent's path and on how many tasks it has called: calls must come in the same order when
    the node runs again. A result that is stored is given back without running.
    """
    run = parent.run
    number = parent.count_task()
    task = Task(run, node, (PUSH, parent.path, number, True), PUSH_TRIGGERS, (tuple(args), dict(kwargs)))
    task.future_call = True
    recall(task, run.pending.get(task.id))
    run.called.append(task)
    if "tasks" in run.sink.modes:
        run.sink.task_started(run, task)
    elsewhere = run.on_loop and running_loop() is not run.loop
    if run.on_loop and not (elsewhere and node.call.sync is not None):
        from threadmark.engine.called_on_loop import start  # brings all of asyncio

        return start(task, parent.gate(asyncio.Semaphore))
    if node.call.sync is None:
        raise RuntimeError(
            f"task {node.name!r} is async and its caller is not; make the caller async and run it with ainvoke"
        )
    # Under a loop too a plain task can run in the plain function that waits for it: threads cannot be used up.
    called = Called(task, parent.gate(threading.Semaphore), run.loop if elsewhere else None)
    task.future = called
    if task.stored:
        called.begin()
    else:
        run.runner.submit(called.begin)
    return called


async def cached(task: Task) -> bool:
    """Whether a cache holds the task's result; it is then stored and told like one that has run."""
    run = task.run
    if run.cache is None or task.node.cache is None or not await recall_cached(run, [task]):
        return False
    await ended(task)
    return True


async def ended(task: Task) -> None:
    """Store what a called task left, at once: whatever becomes of its caller, it need not run again."""
    run = task.run
    if run.saving is not None and not task.halted:
        task.handed_over = True
        await store_tasks(run, [stored_form(task)])
    if run.cache is not None:
        await remember(run, [task])
    if run.sink.modes:
        run.sink.task_ended(run, task)


def settle(future: Future[Any], task: Task) -> None:
    """Put a task's outcome into its future."""
    try:
        future.set_result(outcome(task))
    except BaseException as error:
        future.set_exception(error)


def outcome(task: Task) -> Any:
    """What a called task returned; raises its error, or its question."""
    if task.error is not None:
        raise task.error
    if task.interrupts or task.halted:
        raise GraphInterrupt(task.interrupts)
    return next((value for name, value in task.writes if name == RETURN), None)


async def wait_for_called(tasks: Sequence[Task]) -> None:
    """Wait for called tasks that nobody waited for; for what they leave in storage, and for their errors."""
    for task in tasks:
        future = task.future
        if isinstance(future, Called) and future.loop is None:
            future.begin()
            Future.exception(future)
        elif hasattr(future, "ended"):
            await future.ended()
        elif future is not None:
            await _ended_elsewhere(future)


async def _ended_elsewhere(future: Future[Any]) -> None:
    """Wait for a future of another thread, without asking how it ended."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    future.add_done_callback(lambda _: loop.call_soon_threadsafe(done.set))
    await done.wait()


__all__ = ["Called", "call", "node_of", "wait_for_called"]
