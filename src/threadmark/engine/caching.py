"""Outputs of nodes that stand in for a run of them (spec 15)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xxhash import xxh3_128_hexdigest

from threadmark.engine.plan import Node
from threadmark.engine.run import Run
from threadmark.engine.task import Task

Key = tuple[tuple[str, ...], str]
NAMESPACE = "__pregel_ns_writes"


def namespace_of(node: Node) -> tuple[str, ...]:
    """Where a node's outputs are kept: by what it runs and what it is called."""
    target = node.call.target
    identity = f"{getattr(target, '__module__', '')}.{getattr(target, '__qualname__', type(target).__qualname__)}"
    return (NAMESPACE, identity, node.name)


def key_of(task: Task) -> Key | None:
    """The key of a task's output; None for a node without a cache policy."""
    policy = task.node.cache
    if policy is None:
        return None
    if isinstance(task.input, tuple) and task.future_call:
        args, kwargs = task.input
        made = policy.key_func(*args, **kwargs)
    else:
        made = policy.key_func(task.input)
    text = made.encode() if isinstance(made, str) else bytes(made)
    return namespace_of(task.node), xxh3_128_hexdigest(text)


async def recall_cached(run: Run, todo: Sequence[Task]) -> list[Task]:
    """Give tasks the outputs that the cache holds for them; those that got one need not run."""
    keys = {key: task for task in todo if (key := key_of(task)) is not None}
    if not keys:
        return []
    cache: Any = run.cache
    found = await cache.aget(list(keys)) if run.on_loop else cache.get(list(keys))
    hits = []
    for key, task in keys.items():
        if key in found:
            task.writes = [(name, value) for name, value in found[key]]
            task.stored = True
            hits.append(task)
    return hits


async def remember(run: Run, ended: Sequence[Task]) -> None:
    """Keep the outputs of tasks that have run; errors and questions are never kept."""
    pairs = {
        key: (task.writes, task.node.cache.ttl)
        for task in ended
        if task.node.cache is not None and task.ran and task.is_finished and (key := key_of(task)) is not None
    }
    if not pairs:
        return
    cache: Any = run.cache
    await cache.aset(pairs) if run.on_loop else cache.set(pairs)


__all__ = ["namespace_of", "recall_cached", "remember"]
