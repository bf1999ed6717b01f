"""The saver as the loop sees it: one set of awaitables, whatever colour the run and the saver have (house 5)."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import suppress
from copy import copy
from typing import Any, Protocol

from threadmark.checkpoint.base import (
    UNSET,
    BaseCheckpointSaver,
    Step,
    parents_supported,
    partial_reads_supported,
    steps_supported,
)
from threadmark.colour import running_loop, settled
from threadmark.errors import ColourError
from threadmark.later import asyncio

Saver = Any  # anything that keeps the contract, LangGraph's own savers included


class Writer(Protocol):
    """Takes supersteps and commits them in order."""

    def add(self, step: Step) -> None: ...


class SaverPort:
    """What the engine asks of a saver. A method that the colour cannot give is found out before anything runs."""

    def __init__(self, saver: Saver) -> None:
        self.saver = saver
        self._own = _is_own(saver)
        self.grouped = steps_supported(saver)
        """Whether a superstep can be stored in one go."""
        self.instant = self.grouped and bool(getattr(saver, "instant", False))
        """Whether storing waits for nothing, so that there is nothing to do in the background."""
        self.shares = self._own or not self.grouped
        """Whether a run and its children can have writers that store together (``beside``)."""
        self.reads_parts = partial_reads_supported(saver)
        """Whether a checkpoint can be read without values that are not wanted."""
        self.reads_parents = parents_supported(saver)
        """Whether one look finds a checkpoint and what its parent's tasks wrote."""
        self._guards = {name: _has_parameter(saver, name, "expected_head") for name in _STORING}
        self._takes_path = {name: _has_parameter(saver, name, "task_path") for name in ("put_writes", "aput_writes")}

    async def get_tuple(self, config: Any) -> Any:
        """The checkpoint that ``config`` names, or the newest."""
        raise NotImplementedError

    async def get_partial(self, config: Any, channels: Collection[str]) -> Any:
        """The same with the values of these channels at least, and every task write."""
        return await self.get_tuple(config)

    async def get_with_parent(
        self, config: Any, sources: Collection[str], channels: Collection[str], paths: Collection[str]
    ) -> Any:
        """A checkpoint and, of these sources and where one look finds both, its parent as ``get_partial`` gives it.

        Or a list of what the parent's tasks wrote, if all of them have one of these paths.
        """
        return await self.get_tuple(config), None

    def list(self, config: Any, **query: Any) -> AsyncIterator[Any]:
        """Checkpoints, newest first."""
        raise NotImplementedError

    async def delta_history(self, config: Any, channels: Sequence[str]) -> Any:
        """What rebuilds delta channels at a checkpoint."""
        raise NotImplementedError

    async def put_step(self, step: Step) -> None:
        """Store task writes and the checkpoint that supersedes them; in this order when not in one transaction."""
        raise NotImplementedError

    async def flush(self, writer: Any) -> None:
        """Commit what ``writer`` was given."""
        raise NotImplementedError

    def open_writer(self, config: Any) -> Any:
        """A writer that encodes at once, or else one that copies."""
        return self.saver.open_writer(config) if self.grouped else CopyingWriter()

    async def _in_turn(self, step: Step, put_writes: Callable[..., Any], put: Callable[..., Any], name: str) -> None:
        """For a saver without ``put_step``: writes first, so that a crash in between loses nothing finished."""
        for task_id, path, writes in step.writes:
            args = (step.config, list(writes), task_id)
            await put_writes(*args, path) if self._takes_path[name] else await put_writes(*args)
        if step.checkpoint is not None:
            guard = self._guard(step, name.replace("_writes", ""))
            await put(step.config, step.checkpoint, step.metadata, dict(step.new_versions), **guard)

    def _guard(self, step: Step, name: str) -> dict[str, Any]:
        """The head that the thread must have, for a saver that can compare it when it stores."""
        return {"expected_head": step.expected_head} if step.expected_head is not UNSET and self._guards[name] else {}


class BlockingPort(SaverPort):
    """For a blocking caller: never suspends."""

    async def get_tuple(self, config: Any) -> Any:
        return self.saver.get_tuple(config)

    async def get_partial(self, config: Any, channels: Collection[str]) -> Any:
        return self.saver.get_partial(config, channels) if self.reads_parts else self.saver.get_tuple(config)

    async def get_with_parent(
        self, config: Any, sources: Collection[str], channels: Collection[str], paths: Collection[str]
    ) -> Any:
        if self.reads_parents:
            return self.saver.get_with_parent(config, sources, channels, paths)
        return self.saver.get_tuple(config), None

    async def delta_history(self, config: Any, channels: Sequence[str]) -> Any:
        return self.saver.get_delta_channel_history(config=config, channels=channels)

    async def list(self, config: Any, **query: Any) -> AsyncIterator[Any]:
        found: Iterator[Any] = self.saver.list(config, **query)
        for item in found if self._own else [*found]:
            yield item

    async def put_step(self, step: Step) -> None:
        if self.grouped:
            extra: dict[str, Any] = {} if step.shown_writes is None else {"shown_writes": step.shown_writes}
            extra.update(self._guard(step, "put_step"))
            if step.checkpoint is None:
                writer = self.saver.open_writer(step.config)
                writer.add(step)
                writer.flush()
            else:
                self.saver.put_step(
                    step.config, step.checkpoint, step.metadata, step.new_versions, step.writes, **extra
                )
            return
        await self._in_turn(step, _blocking(self.saver.put_writes), _blocking(self.saver.put), "put_writes")

    async def flush(self, writer: Any) -> None:
        if self.grouped:
            writer.flush()
        else:
            for step in writer.take():
                await self.put_step(step)


class LoopPort(SaverPort):
    """For a caller on an event loop: awaits the saver's ``a`` methods, or sends its blocking ones to a thread."""

    def __init__(self, saver: Saver) -> None:
        super().__init__(saver)
        self._get_tuple = _a_method(saver, "get_tuple")
        self._put, self._put_writes = (_to_its_end(saver, _a_method(saver, name)) for name in ("put", "put_writes"))
        if self.grouped:
            self._put_step = _to_its_end(saver, saver.aput_step)

    async def get_tuple(self, config: Any) -> Any:
        return await self._get_tuple(config)

    async def get_partial(self, config: Any, channels: Collection[str]) -> Any:
        if self.reads_parts:
            return await self.saver.aget_partial(config, channels)
        return await self._get_tuple(config)

    async def get_with_parent(
        self, config: Any, sources: Collection[str], channels: Collection[str], paths: Collection[str]
    ) -> Any:
        if self.reads_parents:
            return await self.saver.aget_with_parent(config, sources, channels, paths)
        return await self._get_tuple(config), None

    async def delta_history(self, config: Any, channels: Sequence[str]) -> Any:
        if _has(self.saver, "aget_tuple"):
            with suppress(NotImplementedError):
                return await self.saver.aget_delta_channel_history(config=config, channels=channels)
        return await asyncio.to_thread(self.saver.get_delta_channel_history, config=config, channels=channels)

    async def list(self, config: Any, **query: Any) -> AsyncIterator[Any]:
        if self._own:
            async for item in self.saver.alist(config, **query):
                yield item
            return
        for item in await self._listed(config, **query):
            yield item

    async def _listed(self, config: Any, **query: Any) -> builtins.list[Any]:
        """All at once: LangGraph's savers hold their lock while they list, and what is listed is looked up further."""
        if _has(self.saver, "alist"):
            with suppress(NotImplementedError):
                return [item async for item in self.saver.alist(config, **query)]
        return await asyncio.to_thread(lambda: [*self.saver.list(config, **query)])

    async def put_step(self, step: Step) -> None:
        if not self.grouped:
            await self._in_turn(step, self._put_writes, self._put, "aput_writes")
        elif step.checkpoint is None:
            writer = self.saver.open_writer(step.config)
            writer.add(step)
            await _to_its_end(self.saver, writer.aflush)()
        else:
            extra: dict[str, Any] = {} if step.shown_writes is None else {"shown_writes": step.shown_writes}
            extra.update(self._guard(step, "aput_step"))
            await self._put_step(step.config, step.checkpoint, step.metadata, step.new_versions, step.writes, **extra)

    async def flush(self, writer: Any) -> None:
        if self.grouped:
            await _to_its_end(self.saver, writer.aflush)()
        else:
            for step in writer.take():
                await self.put_step(step)


class RemotePort(LoopPort):
    """For a blocking caller in a thread under a loop, with a saver that only that loop can drive."""

    def __init__(self, saver: Saver, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(saver)
        self._loop = loop

    def _there(self, operation: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(operation, self._loop).result()

    async def get_tuple(self, config: Any) -> Any:
        return self._there(super().get_tuple(config))

    async def get_partial(self, config: Any, channels: Collection[str]) -> Any:
        return self._there(super().get_partial(config, channels))

    async def get_with_parent(
        self, config: Any, sources: Collection[str], channels: Collection[str], paths: Collection[str]
    ) -> Any:
        return self._there(super().get_with_parent(config, sources, channels, paths))

    async def list(self, config: Any, **query: Any) -> AsyncIterator[Any]:
        async def gather() -> list[Any]:
            return [item async for item in LoopPort.list(self, config, **query)]

        for item in self._there(gather()):
            yield item

    async def delta_history(self, config: Any, channels: Sequence[str]) -> Any:
        return self._there(super().delta_history(config, channels))

    async def put_step(self, step: Step) -> None:
        self._there(super().put_step(step))

    async def flush(self, writer: Any) -> None:
        if self.grouped:
            self._there(super().flush(writer))
        else:
            for step in writer.take():
                await self.put_step(step)


class CopyingWriter:
    """Keeps steps for a saver that cannot encode ahead; containers are copied one level (house 6)."""

    def __init__(self) -> None:
        self._steps: list[Step] = []

    def add(self, step: Step) -> None:
        """Keep a step with copies of the lists, dicts and sets in it."""
        checkpoint = step.checkpoint
        if checkpoint is not None:
            values = {name: _one_level(value) for name, value in checkpoint["channel_values"].items()}
            checkpoint = {**checkpoint, "channel_values": values}
        writes = [
            (task_id, path, [(channel, _one_level(value)) for channel, value in pairs])
            for task_id, path, pairs in step.writes
        ]
        self._steps.append(step._replace(checkpoint=checkpoint, writes=writes))

    def beside(self, config: Any) -> CopyingWriter:
        """A writer whose steps are stored with these."""
        return self

    def take(self) -> list[Step]:
        """The steps kept so far, which are forgotten here."""
        taken, self._steps = self._steps, []
        return taken


def port_of(saver: Saver, *, on_loop: bool, loop: asyncio.AbstractEventLoop | None = None) -> SaverPort:
    """The port for a run; ``loop`` is that of an enclosing async run.

    Raises ``ColourError`` when a blocking run is given a saver that only an event loop can drive.
    """
    if on_loop:
        return LoopPort(saver)
    if _has(saver, "get_tuple") and not (loop is not None and getattr(saver, "loop", None) is loop):
        return BlockingPort(saver)
    if loop is not None and running_loop() is not loop:
        return RemotePort(saver, loop)
    raise ColourError(
        f"{type(saver).__name__} serves event loops only; call the graph's method whose name starts with 'a' "
        f"(ainvoke, astream, aget_state), or use a saver with blocking methods"
    )


def _has(saver: Saver, method: str) -> bool:
    """Whether a saver's class defines a method that the base class leaves open."""
    own = getattr(type(saver), method, None)
    return own is not None and own is not getattr(BaseCheckpointSaver, method, None) and not _is_peer_base(own)


def _is_peer_base(method: Any) -> bool:
    return getattr(method, "__qualname__", "").startswith("BaseCheckpointSaver.")


def _is_own(saver: Saver) -> bool:
    """Whether a saver is one of ours, which promise more than the contract does."""
    return bool(getattr(saver, "finishes_writes", False))


def _a_method(saver: Saver, name: str) -> Callable[..., Any]:
    """A saver's awaited method; its blocking one in a thread where it has none, or one that only refuses."""
    blocking = getattr(saver, name, None)
    if blocking is None:
        return getattr(saver, "a" + name)  # type: ignore[no-any-return]

    async def in_thread(*args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(blocking, *args, **kwargs)

    if not _has(saver, "a" + name):
        return in_thread
    awaited = getattr(saver, "a" + name)
    if _is_own(saver) or not _has(saver, name):
        return awaited  # type: ignore[no-any-return]

    async def either(*args: Any, **kwargs: Any) -> Any:
        try:
            return await awaited(*args, **kwargs)
        except NotImplementedError:  # as LangGraph's SqliteSaver does
            return await in_thread(*args, **kwargs)

    return either


def _to_its_end(saver: Saver, method: Callable[..., Any]) -> Callable[..., Any]:
    """A write that is not abandoned half done when its caller is cancelled; our own savers see to that themselves."""
    if _is_own(saver):
        return method

    async def finished(*args: Any, **kwargs: Any) -> Any:
        return await settled(asyncio.ensure_future(method(*args, **kwargs)))

    return finished


def _blocking(method: Callable[..., Any]) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    return call


_STORING = ("put", "aput", "put_step", "aput_step")


def _has_parameter(saver: Saver, name: str, parameter: str) -> bool:
    """Whether a saver's own method takes this; older ones do not (spec 9)."""
    method = getattr(saver, name, None)
    try:
        return method is not None and parameter in inspect.signature(method).parameters
    except (TypeError, ValueError):
        return False


def _one_level(value: Any) -> Any:
    return copy(value) if isinstance(value, (list, dict, set)) else value


__all__ = ["CopyingWriter", "SaverPort", "port_of"]
