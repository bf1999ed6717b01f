"""A saver of ours behind LangGraph's contract. Importing this module imports LangGraph."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from threadmark.checkpoint.capabilities import CAPABILITIES, COLOURS, capabilities_of
from threadmark.checkpoint.serde.types import ERROR

__all__ = ["LangGraphSaver", "adapter_class", "blocking_only"]


class LangGraphSaver(BaseCheckpointSaver[Any]):
    """What ``as_langgraph_saver`` returns. ``saver`` is the one that stores."""

    def __init__(self, saver: Any) -> None:
        super().__init__(serde=saver.serde)
        self.saver = saver

    def get_tuple(self, config: Any) -> Any:
        """The checkpoint that ``config`` names, or the newest of its thread."""
        return _theirs(self.saver.get_tuple(config))

    async def aget_tuple(self, config: Any) -> Any:
        """The checkpoint that ``config`` names, or the newest of its thread."""
        return _theirs(await self.saver.aget_tuple(config))

    def list(
        self, config: Any, *, filter: dict[str, Any] | None = None, before: Any = None, limit: int | None = None
    ) -> Iterator[Any]:
        """Stored checkpoints, greatest id first (spec 11.3)."""
        for found in self.saver.list(config, filter=filter, before=before, limit=limit):
            yield _theirs(found)

    async def alist(
        self, config: Any, *, filter: dict[str, Any] | None = None, before: Any = None, limit: int | None = None
    ) -> AsyncIterator[Any]:
        """Stored checkpoints, greatest id first (spec 11.3)."""
        async for found in self.saver.alist(config, filter=filter, before=before, limit=limit):
            yield _theirs(found)

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Store a checkpoint whose parent is the one that ``config`` names."""
        return self.saver.put(config, checkpoint, metadata, new_versions)

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Store a checkpoint whose parent is the one that ``config`` names."""
        return await self.saver.aput(config, checkpoint, metadata, new_versions)

    def put_writes(self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Store what one task wrote; the checkpoint need not be stored yet."""
        self.saver.put_writes(config, _storable(writes), task_id, task_path)

    async def aput_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what one task wrote; the checkpoint need not be stored yet."""
        await self.saver.aput_writes(config, _storable(writes), task_id, task_path)

    def delete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread."""
        self.saver.delete_thread(thread_id)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread."""
        await self.saver.adelete_thread(thread_id)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints and writes of these runs."""
        self.saver.delete_for_runs(run_ids)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints and writes of these runs."""
        await self.saver.adelete_for_runs(run_ids)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy everything of a thread under another id."""
        self.saver.copy_thread(source_thread_id, target_thread_id)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy everything of a thread under another id."""
        await self.saver.acopy_thread(source_thread_id, target_thread_id)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep the newest checkpoint of each namespace, or nothing; delta channels stay whole."""
        self.saver.prune(thread_ids, strategy=strategy)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep the newest checkpoint of each namespace, or nothing; delta channels stay whole."""
        await self.saver.aprune(thread_ids, strategy=strategy)

    def get_delta_channel_history(self, *, config: Any, channels: Sequence[str]) -> Mapping[str, Any]:
        """What rebuilds each of these delta channels (spec 8.10)."""
        found: Mapping[str, Any] = self.saver.get_delta_channel_history(config=config, channels=channels)
        return found

    async def aget_delta_channel_history(self, *, config: Any, channels: Sequence[str]) -> Mapping[str, Any]:
        """What rebuilds each of these delta channels (spec 8.10)."""
        found: Mapping[str, Any] = await self.saver.aget_delta_channel_history(config=config, channels=channels)
        return found

    def get_next_version(self, current: Any, channel: None) -> Any:
        """The version that follows ``current``."""
        return self.saver.get_next_version(current, channel)

    def with_allowlist(self, extra_allowlist: Any) -> Any:
        """This saver, on the same store, which may revive these classes as well."""
        return type(self)(self.saver.with_allowlist(extra_allowlist))


def _theirs(found: Any) -> Any:
    """Our tuple as LangGraph's: the same five fields."""
    return None if found is None else CheckpointTuple(*found)


def _storable(writes: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The writes; an error is stored as text, as every saver of LangGraph's does it."""
    return [(channel, repr(value) if channel == ERROR and _is_error(value) else value) for channel, value in writes]


def _is_error(value: Any) -> bool:
    return isinstance(value, BaseException)


def adapter_class(saver: Any) -> type[LangGraphSaver]:
    """``LangGraphSaver`` with the methods that ``saver`` can serve, since LangGraph looks at the class.

    Where it has the blocking method only, the awaited one runs that in a thread.
    """
    can = capabilities_of(saver)
    missing = frozenset(
        (each.method, colour)
        for each in CAPABILITIES
        if each.level != "own"
        for colour in COLOURS
        if not can.has(each.name, colour)
    )
    return _without(missing) if missing else LangGraphSaver


@cache
def _without(missing: frozenset[tuple[str, str]]) -> type[LangGraphSaver]:
    lent: dict[str, Any] = {}
    for method, colour in missing:
        if colour == "sync":
            lent[method] = getattr(BaseCheckpointSaver, method)
        elif (method, "sync") in missing or method == "get_delta_channel_history":
            lent["a" + method] = getattr(BaseCheckpointSaver, "a" + method)
        else:
            lent["a" + method] = _listed_in_thread if method == "list" else _in_thread(method)
    return type("LangGraphSaver", (LangGraphSaver,), lent)


def blocking_only(wrapped: LangGraphSaver) -> LangGraphSaver:
    """The same saver, whose awaited methods run the blocking ones in threads: to examine those by what only awaits."""
    kind = type(wrapped)
    methods = [each.method for each in CAPABILITIES if hasattr(kind, each.method)]
    lent = {"a" + name: _listed_in_thread if name == "list" else _in_thread(name) for name in methods
            if getattr(kind, name) is not getattr(BaseCheckpointSaver, name, None)}  # fmt: skip
    found: LangGraphSaver = type("LangGraphSaver", (kind,), lent)(wrapped.saver)
    return found


def _in_thread(method: str) -> Callable[..., Any]:
    async def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(getattr(self, method), *args, **kwargs)

    return call


async def _listed_in_thread(self: Any, config: Any, **query: Any) -> AsyncIterator[Any]:
    for found in await asyncio.to_thread(lambda: [*self.list(config, **query)]):
        yield found
