"""The config of a run: a dict outside, a frozen value inside (spec 1.5).

Outside, a config has the shape that people know, LangChain's ``RunnableConfig``. It is taken apart once, at the
facade; between our own layers nobody looks into ``config["configurable"]``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypedDict, cast
from uuid import UUID

from threadmark.errors import MissingThreadId
from threadmark.types import CURRENT, StreamWriter

DEFAULT_RECURSION_LIMIT = 10_007
"""Supersteps of one run when the config does not say (spec 3.2)."""

_NO_NAMES = (bool, bytes, bytearray, list, tuple, dict, set, frozenset)
THREAD_KEYS = frozenset({"thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map"})
"""Keys of ``configurable`` that address a place in storage."""
TASK_KEY = "__pregel_task"
"""Where a node's config carries its task, so that a graph called with that config is the node's child."""


class RunnableConfig(TypedDict, total=False):
    """How a graph is called; every key may be left out. LangChain's class of this name has the same shape."""

    tags: list[str]
    metadata: dict[str, Any]
    """Kept with every checkpoint of the run; strings, numbers and booleans."""
    callbacks: Any
    run_name: str
    max_concurrency: int | None
    """Tasks of one superstep that run at once; None for no bound of the user's."""
    recursion_limit: int
    """Supersteps of this run before ``GraphRecursionError``."""
    configurable: dict[str, Any]
    """``thread_id``, ``checkpoint_id``, ``checkpoint_ns`` and the user's own keys."""
    run_id: UUID | None


class RunConfig(NamedTuple):
    """A config taken apart: what our layers hand to each other. A frozen dataclass takes five times as long to make."""

    thread_id: str | None = None
    ns: str = ""
    checkpoint_id: str | None = None
    checkpoint_map: Mapping[str, str] = {}
    """Namespace -> checkpoint id of the enclosing graphs and of this one, for time travel into a child."""
    recursion_limit: int = DEFAULT_RECURSION_LIMIT
    max_concurrency: int | None = None
    configurable: Mapping[str, Any] = {}
    """The user's own keys, and none of those above."""
    metadata: Mapping[str, Any] = {}
    tags: tuple[str, ...] = ()
    callbacks: Any = None
    run_name: str | None = None
    run_id: Any = None

    @property
    def require_thread_id(self) -> str:
        """The thread's id; raises ``MissingThreadId``."""
        if self.thread_id is None:
            raise MissingThreadId
        return self.thread_id

    def at(self, checkpoint_id: str | None, ns: str | None = None) -> RunConfig:
        """The same config, addressed to another checkpoint."""
        return self._replace(checkpoint_id=checkpoint_id, ns=self.ns if ns is None else ns)


def parse(config: Mapping[str, Any] | None, defaults: Mapping[str, Any] | None = None) -> RunConfig:
    """Take a config apart; ``defaults`` is a config whose keys count where ``config`` has none.

    Raises ``ValueError`` for a recursion limit below 1 and ``TypeError`` for a ``configurable`` that is no dict.
    """
    both, configurable, limit = _parts(config, defaults)
    if limit is None:
        limit = int(os.environ.get("LANGGRAPH_DEFAULT_RECURSION_LIMIT") or DEFAULT_RECURSION_LIMIT)
        _check(limit)
    return RunConfig(
        *_place(configurable),
        recursion_limit=limit,
        max_concurrency=both.get("max_concurrency"),
        configurable={k: v for k, v in configurable.items() if k not in THREAD_KEYS and not k.startswith("__pregel_")},
        metadata=both.get("metadata") or {},
        tags=tuple(both.get("tags") or ()),
        callbacks=both.get("callbacks"),
        run_name=both.get("run_name"),
        run_id=both.get("run_id"),
    )


def parse_place(config: Mapping[str, Any] | None, defaults: Mapping[str, Any] | None = None) -> RunConfig:
    """Take apart what a config addresses, for one who only looks there. It takes a quarter of the time of ``parse``."""
    _, configurable, _ = _parts(config, defaults)
    return RunConfig(*_place(configurable))


def _parts(
    config: Mapping[str, Any] | None, defaults: Mapping[str, Any] | None
) -> tuple[Mapping[str, Any], Mapping[str, Any], int | None]:
    """A config with its defaults, and what is in it under ``configurable`` and ``recursion_limit``."""
    both: Mapping[str, Any] = merge(defaults, config) if defaults else (config or {})
    configurable = both.get("configurable") or {}
    if not isinstance(configurable, Mapping):
        raise TypeError(f'config["configurable"] must be a dict, not {type(configurable).__name__}')
    limit = both.get("recursion_limit")
    if limit is not None:
        _check(limit)
    return both, configurable, limit


def _check(limit: int) -> None:
    if limit < 1:
        raise ValueError(f"recursion_limit must be at least 1, not {limit}")


def _place(configurable: Mapping[str, Any]) -> tuple[str | None, str, str | None, Mapping[str, str]]:
    thread, get = configurable.get("thread_id"), configurable.get
    return (
        None if thread is None else thread_name(thread),
        get("checkpoint_ns") or "",
        get("checkpoint_id") or None,
        get("checkpoint_map") or {},
    )


def thread_name(thread_id: Any) -> str:
    """A thread's id as text: that of a number or a UUID is its own; TypeError for what is no name."""
    if type(thread_id) is str:
        return thread_id
    if isinstance(thread_id, _NO_NAMES):
        raise TypeError(f"thread_id must be a text, a number or a UUID, not {thread_id!r}; two of these may look alike")
    return str(thread_id)


def merge(*configs: Mapping[str, Any] | None) -> RunnableConfig:
    """One config out of several; later ones win, dicts are merged and tags joined."""
    out: dict[str, Any] = {}
    for config in configs:
        for key, value in (config or {}).items():
            if value is None:
                continue
            old = out.get(key)
            if key in ("configurable", "metadata") and isinstance(old, Mapping):
                out[key] = {**old, **value}
            elif key == "tags" and isinstance(old, Sequence):
                out[key] = [*old, *(tag for tag in value if tag not in old)]
            else:
                out[key] = dict(value) if isinstance(value, dict) else value
    return cast(RunnableConfig, out)


def address(thread_id: str | None, ns: str, checkpoint_id: str | None) -> RunnableConfig:
    """The config of one checkpoint, in its canonical form (spec 1.4)."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}}


def get_config() -> RunnableConfig:
    """The config of the node that runs in this context; ``RuntimeError`` outside of one."""
    return cast(RunnableConfig, _current("get_config").config())


def get_store() -> Any:
    """The store of the running graph; ``RuntimeError`` outside of a node."""
    return _current("get_store").runtime.store


def get_stream_writer() -> StreamWriter:
    """The function that emits to the ``custom`` stream; ``RuntimeError`` outside of a node."""
    return cast(StreamWriter, _current("get_stream_writer").runtime.stream_writer)


def _current(name: str) -> Any:
    task = CURRENT.get()
    if task is None:
        raise RuntimeError(f"{name}() belongs to a running node; there is none in this context")
    return task


__all__ = ["RunConfig", "RunnableConfig", "get_config", "get_store", "get_stream_writer", "merge", "parse"]
