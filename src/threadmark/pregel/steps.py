"""Several steps as one call, each with the result of the one before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from threadmark.engine.call import Call, is_awaitable
from threadmark.engine.task import Task
from threadmark.later import asyncio


def call_in_turn(name: str, steps: Sequence[Call]) -> Call:
    """The steps as one call of the colours that all of them have.

    A plain function among async ones runs in a thread, so that it cannot stop the loop; where all are plain the whole
    is one.
    """
    if len(steps) == 1:
        return steps[0]
    if not steps:
        return Call(_same, _same_async, name, _same)
    whole = _Steps(steps)
    blocking = all(step.sync is not None for step in steps)
    on_loop = any(step.async_ is not None for step in steps)
    return Call(whole.run if blocking else None, whole.arun if on_loop else None, name, whole)


def _same(value: Any, task: Any = None) -> Any:
    return value


async def _same_async(value: Any, task: Any = None) -> Any:
    return value


class _Steps:
    def __init__(self, steps: Sequence[Call]) -> None:
        self.steps = tuple(steps)
        targets = [step.target for step in steps]
        # What a cache knows the whole by.
        self.__qualname__ = " | ".join(str(getattr(one, "__qualname__", type(one).__qualname__)) for one in targets)
        self.__module__ = " | ".join(str(getattr(one, "__module__", "")) for one in targets)

    def run(self, value: Any, task: Task) -> Any:
        for step in self.steps:
            assert step.sync is not None
            if is_awaitable(value):  # a plain function has given back a coroutine, and not as the last step
                value.close()
                raise TypeError(f"a step of node {task.name!r} returns a coroutine; make it an async function")
            value = step.sync(value, task)
        return value

    async def arun(self, value: Any, task: Task) -> Any:
        for step in self.steps:
            if step.async_ is not None:
                value = await step.async_(value, task)
            else:
                assert step.sync is not None
                value = await asyncio.to_thread(step.sync, value, task)
                value = await value if is_awaitable(value) else value
        return value


__all__ = ["call_in_turn"]
