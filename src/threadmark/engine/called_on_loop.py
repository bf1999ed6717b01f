"""Tasks called on an event loop: what their caller is given to wait for (spec 15)."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Any

from threadmark.colour import running_loop
from threadmark.engine.attempt import attempt_async
from threadmark.engine.calls import cached, ended, outcome
from threadmark.engine.task import Task

__all__ = ["start"]


class CalledOnLoop(asyncio.Task[Any]):
    """A called task on an event loop. It knows whether anybody has asked for its result."""

    asked_for = False

    def __await__(self) -> Any:
        self.asked_for = True
        return super().__await__()

    def result(self) -> Any:
        """The task's result, or the error that it raised."""
        self.asked_for = True
        return super().result()

    def exception(self) -> BaseException | None:
        """The error that the task raised, if any."""
        self.asked_for = True
        return super().exception()

    def add_done_callback(self, callback: Any, *, context: Any = None) -> None:
        """Tell ``callback`` of the end; that is how ``gather`` and its like ask."""
        self.asked_for = True
        super().add_done_callback(callback, context=context)

    async def ended(self) -> None:
        """Wait for the end, without asking how it was."""
        asked = self.asked_for
        await asyncio.wait([self])
        self.asked_for = asked


def start(task: Task, gate: Any) -> Any:
    """Start a called task on its run's loop; what its caller waits for."""
    loop = task.run.loop
    assert loop is not None
    if running_loop() is loop:
        task.future = job = CalledOnLoop(_on_loop(task, gate), loop=loop)
        job.add_done_callback(_retrieved)
        job.asked_for = False
        return job
    task.future = other = asyncio.run_coroutine_threadsafe(_on_loop(task, gate), loop)
    return other


def _retrieved(job: asyncio.Future[Any]) -> None:
    if not job.cancelled():
        asyncio.Task.exception(job)  # raised when the caller's node has ended


async def _on_loop(task: Task, gate: Any) -> Any:
    if not task.stored and not await cached(task):
        async with gate or nullcontext():
            await attempt_async(task, task.run.runner.in_thread)
        await ended(task)
    return outcome(task)
