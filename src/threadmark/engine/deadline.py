"""Limits on how long a node may run, or stay without a sign of life (spec 4.4)."""

from __future__ import annotations

import time
from collections.abc import Coroutine
from typing import Any

from threadmark.engine.task import Task
from threadmark.errors import NodeTimeoutError
from threadmark.later import asyncio
from threadmark.types import seconds


async def within(task: Task, body: Coroutine[Any, Any, Any]) -> Any:
    """Await a node's body within its task's limits; raises ``NodeTimeoutError`` and cancels the body."""
    policy = task.timeout
    assert policy is not None
    run = None if policy.run_timeout is None else seconds(policy.run_timeout)
    idle = None if policy.idle_timeout is None else seconds(policy.idle_timeout)
    began = task.last_sign = time.monotonic()
    work = asyncio.ensure_future(body)
    try:
        while True:
            limits = [began + run] if run is not None else []
            if idle is not None:
                limits.append(task.last_sign + idle)
            done, _ = await asyncio.wait([work], timeout=max(0.0, min(limits) - time.monotonic()))
            if done:
                return work.result()
            now = time.monotonic()
            if run is not None and now - began >= run:
                raise NodeTimeoutError(task.name, now - began, kind="run", run_timeout=run, idle_timeout=idle)
            if idle is not None and now - task.last_sign >= idle:
                raise NodeTimeoutError(task.name, now - began, kind="idle", run_timeout=run, idle_timeout=idle)
    finally:
        if not work.done():
            work.cancel()
            await asyncio.wait([work])


__all__ = ["within"]
