"""Several runs at once, each as it would run alone: what ``batch`` and ``abatch`` do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from threadmark.later import asyncio


def in_threads(
    one: Callable[[Any, Any], Any], inputs: Sequence[Any], config: Any, *, return_exceptions: bool
) -> list[Any]:
    """What ``one(input, config)`` returns for each input, in their order; each but a single one in a thread."""
    configs = _configs(config, len(inputs))

    def caught(input: Any, config: Any) -> Any:
        try:
            return one(input, config)
        except Exception as error:
            if return_exceptions:
                return error
            raise

    pairs = list(zip(inputs, configs, strict=True))
    if len(pairs) < 2:
        return [caught(*pair) for pair in pairs]
    with ThreadPoolExecutor(_concurrency(configs) or len(pairs)) as pool:
        jobs = [pool.submit(copy_context().run, caught, *pair) for pair in pairs]
        return [job.result() for job in jobs]


async def in_tasks(
    one: Callable[[Any, Any], Awaitable[Any]], inputs: Sequence[Any], config: Any, *, return_exceptions: bool
) -> list[Any]:
    """The same on the running event loop."""
    configs = _configs(config, len(inputs))
    gate = asyncio.Semaphore(_concurrency(configs) or max(len(inputs), 1))

    async def gated(input: Any, config: Any) -> Any:
        async with gate:
            return await one(input, config)

    jobs = (gated(input, config) for input, config in zip(inputs, configs, strict=True))
    return list(await asyncio.gather(*jobs, return_exceptions=return_exceptions))


def _configs(config: Any, count: int) -> list[Any]:
    if isinstance(config, (list, tuple)):
        if len(config) != count:
            raise ValueError(f"{count} inputs need {count} configs, or one for all; got {len(config)}")
        return list(config)
    return [config] * count


def _concurrency(configs: Sequence[Any]) -> int | None:
    return next((c["max_concurrency"] for c in configs if c and c.get("max_concurrency")), None)


__all__ = ["in_tasks", "in_threads"]
