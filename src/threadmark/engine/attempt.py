"""One task, run: the node's body, its routers, and trying again (spec 4.1, 4.2, 7.6)."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from dataclasses import replace
from typing import Any

from threadmark.engine.call import InContext, is_awaitable
from threadmark.engine.chat_models import CONFIG_MODULE, lend_config
from threadmark.engine.deltas import prepared
from threadmark.engine.names import NO_WRITES, RESUME
from threadmark.engine.plan import Branch, with_writes
from threadmark.engine.task import Task
from threadmark.errors import GraphBubbleUp, GraphInterrupt, NodeCancelledError, ParentCommand
from threadmark.later import asyncio
from threadmark.types import CURRENT, Command, RetryPolicy

InThread = Callable[..., Awaitable[Any]]


def attempt(task: Task) -> None:
    """Run a task on this thread, in the current context; what it raised is its ``error``."""
    CURRENT.set(task)
    if CONFIG_MODULE in sys.modules:
        lend_config(task)
    task.ran = True
    number = 1
    while True:
        try:
            if not task.routed:
                _wrote(task, _called(task))
            if task.node.branches:
                _before_routing(task)
                for branch in task.node.branches:
                    if branch.call.sync is None:
                        raise TypeError(_needs_loop(task, "path function"))
                    task.writes.extend(branch.decide(branch.call.sync(branch_input(task, branch), task)))
                _after_routing(task)
            return
        except BaseException as error:
            wait = failed(task, error, number)
            if wait is None:
                return
        time.sleep(wait)
        number += 1
        task.begin_attempt(number)


def _called(task: Task) -> Any:
    call = task.node.call
    if call.sync is None:
        raise TypeError(_needs_loop(task, "node"))
    result = call.sync(task.input, task)
    if is_awaitable(result):
        result.close()
        raise TypeError(_needs_loop(task, "node"))
    return result


def _needs_loop(task: Task, what: str) -> str:
    return f"{what} of {task.name!r} is async; run the graph with ainvoke or astream, or make it a plain function"


async def attempt_async(task: Task, in_thread: InThread) -> None:
    """The same on the event loop; a plain function gets a thread, so that it cannot stop the loop."""
    context = copy_context()
    context.run(CURRENT.set, task)
    if CONFIG_MODULE in sys.modules:
        context.run(lend_config, task)
    await InContext(context, _attempt_async(task, in_thread))


async def _attempt_async(task: Task, in_thread: InThread) -> None:
    task.ran = True
    number = 1
    while True:
        try:
            if not task.routed:
                _wrote(task, await (_called_async if task.timeout is None else _timed)(task, in_thread))
            if task.node.branches:
                _before_routing(task)
                for branch in task.node.branches:
                    goes = await routed(branch, branch_input(task, branch), task, in_thread)
                    task.writes.extend(branch.decide(goes))
                _after_routing(task)
            return
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and _cancelled_from_outside():
                task.error = error
                raise
            wait = failed(task, error, number)
            if wait is None:
                return
        await asyncio.sleep(wait)
        number += 1
        task.begin_attempt(number)


async def _timed(task: Task, in_thread: InThread) -> Any:
    from threadmark.engine.deadline import within

    return await within(task, _called_async(task, in_thread))


async def _called_async(task: Task, in_thread: InThread) -> Any:
    call = task.node.call
    if call.async_ is not None:
        return await call.async_(task.input, task)
    result = await in_thread(call.sync, task.input, task)
    return await result if is_awaitable(result) else result


async def routed(branch: Branch, value: Any, task: Task, in_thread: InThread) -> Any:
    """Call a path function on the event loop."""
    if branch.call.async_ is not None:
        return await branch.call.async_(value, task)
    return await in_thread(branch.call.sync, value, task)


def _cancelled_from_outside() -> bool:
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0


def _wrote(task: Task, result: Any) -> None:
    node = task.node
    task.result = result
    writes = node.update(result)
    if node.check is not None:
        node.check(node.name, writes, task.run.state.channels)
    if task.run.plan.deltas:
        writes = prepared(task.run.plan, writes)
    task.writes.extend(writes)
    task.writes.extend(node.edges)


def branch_input(task: Task, branch: Branch) -> Any:
    """What a path function is given: the state with the task's own writes in it (spec 2.4)."""
    if branch.read is None:
        return task.result
    state = branch.read(with_writes(task.run.state.channels, task.body or []), task.run)
    if isinstance(state, dict) and isinstance(task.result, dict):
        known = task.run.plan.channels
        state = {**{key: value for key, value in task.result.items() if key not in known}, **state}
    return state


def _before_routing(task: Task) -> None:
    if task.routed:
        task.writes.extend(task.body or [])
    else:
        task.body = list(task.writes)


def _after_routing(task: Task) -> None:
    task.body = None
    if task.failed_before:
        task.writes.append((NO_WRITES, None))  # tells routers that are done from some that have failed


def failed(task: Task, error: BaseException, number: int) -> float | None:
    """What follows from an error: seconds to wait before the next attempt, or None when the task has ended."""
    if isinstance(error, ParentCommand):
        _commanded(task, error)
        return None
    if isinstance(error, GraphInterrupt):
        task.interrupts = tuple(error.args[0]) if error.args else ()
        task.writes = [write for write in task.writes if write[0] == RESUME]
        task.halted = not task.interrupts
        return None
    if isinstance(error, asyncio.CancelledError):
        error = _caused(NodeCancelledError(task.name), error)
    if isinstance(error, GraphBubbleUp) or not isinstance(error, Exception):
        task.error = error
        return None
    policy = _matching(task.node.retry, error)
    if policy is None or number >= policy.max_attempts:
        task.error = error
        error.add_note(_where(task))
        return None
    interval = min(policy.max_interval, policy.initial_interval * policy.backoff_factor ** (number - 1))
    return float(interval) + (random.uniform(0, 1) if policy.jitter else 0.0)


def _where(task: Task) -> str:
    run = task.run
    return f"During task with name '{task.name}' and id '{task.id}', in namespace {run.ns!r}, at step {run.step}"


def _caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def _matching(policies: Sequence[RetryPolicy], error: Exception) -> RetryPolicy | None:
    """The first policy that is about this error."""
    for policy in policies:
        on = policy.retry_on
        if isinstance(on, type):
            matches = isinstance(error, on)
        elif callable(on):
            matches = on(error)
        else:
            matches = isinstance(error, tuple(on))
        if matches:
            return policy
    return None


def _commanded(task: Task, signal: ParentCommand) -> None:
    """A command from a graph called in this task: taken here when it is addressed to it, else passed on up."""
    command: Command[Any] = signal.args[0]
    own = task.ns
    if command.graph in (own, own.rpartition("|")[2].partition(":")[0]) and command.graph is not None:
        try:
            task.writes.extend(task.node.update(replace(command, graph=None)))
            task.writes.extend(task.node.edges)
        except Exception as error:
            task.error = error
        return
    if command.graph == Command.PARENT:
        # Named now, while it is known whose parent is meant.
        parent = task.run.parent
        signal = signal if parent is None else ParentCommand(replace(command, graph=parent.ns))
    task.error = signal
