"""``Saver``: the public methods of our savers, both colours, over one port."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

from threadmark.checkpoint import operations
from threadmark.checkpoint.base import (
    UNSET,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    Step,
    StepWriter,
    TaskWrites,
    Unset,
    get_checkpoint_id,
    get_thread_id,
)
from threadmark.checkpoint.codec import Codec, config_of
from threadmark.checkpoint.records import Port, Ref, Scope
from threadmark.colour import Worker, drive, drive_iter, offload

T = TypeVar("T")


class Saver(BaseCheckpointSaver[str]):
    """A saver over a port. Backends give it a port and add how to open one."""

    def __init__(self, port: Port, *, serde: Any = None, config_keys: Sequence[str] | None = None) -> None:
        super().__init__(serde=serde, config_keys=config_keys)
        self._port = port
        self._recent = operations.Recent()
        self._worker = Worker(f"threadmark-{type(self).__name__}")

    @property
    def _codec(self) -> Codec:
        return Codec(self.serde, self.config_keys)

    def _ref(self, config: Any) -> Ref:
        thread_id = get_thread_id(config)
        return Ref(thread_id, str(config["configurable"].get("checkpoint_ns") or ""), get_checkpoint_id(config))

    async def _run(self, op: Callable[[], Awaitable[T]]) -> T:
        return await offload(self._worker, op)

    # -- reading -----------------------------------------------------------------------------------------------------

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        """The checkpoint that ``config`` names, or the newest of its thread, with all that belongs to it."""
        return drive(operations.find(self._port, self._codec, self._recent, self._ref(config)))

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        """The checkpoint that ``config`` names, or the newest of its thread, with all that belongs to it."""
        ref, codec = self._ref(config), self._codec
        return await self._run(lambda: operations.find(self._port, codec, self._recent, ref))

    def _scan(self, config: Any, filter: Any, before: Any, limit: int | None) -> AsyncIterator[CheckpointTuple]:
        return operations.scan(self._port, self._codec, _scope(config, before), _matcher(filter), limit)

    def list(
        self, config: Any, *, filter: dict[str, Any] | None = None, before: Any = None, limit: int | None = None
    ) -> Iterator[CheckpointTuple]:
        """Stored checkpoints, greatest id first (spec 11.3)."""
        _check(before, limit)
        return drive_iter(self._scan(config, filter, before, limit))

    async def alist(
        self, config: Any, *, filter: dict[str, Any] | None = None, before: Any = None, limit: int | None = None
    ) -> AsyncIterator[CheckpointTuple]:
        """Stored checkpoints, greatest id first (spec 11.3)."""
        _check(before, limit)
        source = self._scan(config, filter, before, limit)

        async def following() -> CheckpointTuple | None:
            return await anext(source, None)

        while (item := await self._run(following)) is not None:
            yield item

    # -- writing -----------------------------------------------------------------------------------------------------

    def put(
        self,
        config: Any,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
        *,
        expected_head: str | None | Unset = UNSET,
    ) -> Any:
        """Store a checkpoint whose parent is the one that ``config`` names; returns the config that names it."""
        return self.put_step(config, checkpoint, metadata, new_versions, (), expected_head=expected_head)

    async def aput(
        self,
        config: Any,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
        *,
        expected_head: str | None | Unset = UNSET,
    ) -> Any:
        """Store a checkpoint whose parent is the one that ``config`` names; returns the config that names it."""
        return await self.aput_step(config, checkpoint, metadata, new_versions, (), expected_head=expected_head)

    def put_writes(self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Store what one task wrote while it ran from ``config``'s checkpoint, which need not be stored yet."""
        writer = self.open_writer(config)
        writer.add(Step(config, writes=((task_id, task_path, writes),)))
        writer.flush()

    async def aput_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what one task wrote while it ran from ``config``'s checkpoint, which need not be stored yet."""
        writer = self.open_writer(config)
        writer.add(Step(config, writes=((task_id, task_path, writes),)))
        await writer.aflush()

    def put_step(
        self,
        config: Any,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
        writes: Sequence[TaskWrites],
        *,
        shown_writes: Any = None,
        expected_head: str | None | Unset = UNSET,
    ) -> Any:
        """Store the task writes of ``config``'s checkpoint and the checkpoint that follows it in one transaction."""
        writer = self.open_writer(config)
        writer.add(Step(config, checkpoint, metadata, new_versions, writes, shown_writes, expected_head))
        writer.flush()
        ref = self._ref(config)
        return config_of(ref.thread_id, ref.ns, checkpoint["id"])

    async def aput_step(
        self,
        config: Any,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
        writes: Sequence[TaskWrites],
        *,
        shown_writes: Any = None,
        expected_head: str | None | Unset = UNSET,
    ) -> Any:
        """Store the task writes of ``config``'s checkpoint and the checkpoint that follows it in one transaction."""
        writer = self.open_writer(config)
        writer.add(Step(config, checkpoint, metadata, new_versions, writes, shown_writes, expected_head))
        await writer.aflush()
        ref = self._ref(config)
        return config_of(ref.thread_id, ref.ns, checkpoint["id"])

    def open_writer(self, config: Any) -> StepWriter:
        """A writer for the steps of one run on ``config``'s thread."""
        return _Writer(self)

    # -- tidying up --------------------------------------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread; nothing happens if there is none."""
        drive(operations.delete_thread(self._port, self._recent, str(thread_id)))

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread; nothing happens if there is none."""
        await self._run(lambda: operations.delete_thread(self._port, self._recent, str(thread_id)))

    # -- small things ------------------------------------------------------------------------------------------------

    def get_next_version(self, current: str | int | None, channel: None) -> str:
        """The version after ``current``: a counter that sorts as text, and chance, so that branches differ."""
        return next_version(current)


class _Writer(StepWriter):
    def __init__(self, saver: Saver) -> None:
        self._saver = saver
        self._steps: list[operations.Encoded] = []

    def add(self, step: Step) -> None:
        self._steps.append(operations.Encoded(self._saver._codec, step))

    def _take(self) -> list[operations.Encoded]:
        steps, self._steps = self._steps, []
        return steps

    def flush(self) -> None:
        saver = self._saver
        drive(operations.store(saver._port, saver._codec, saver._recent, self._take()))

    async def aflush(self) -> None:
        saver, steps = self._saver, self._take()
        await saver._run(lambda: operations.store(saver._port, saver._codec, saver._recent, steps))


def next_version(current: str | int | None) -> str:
    """A 32-digit counter, a dot, and a random fraction (spec 1.6)."""
    import random

    if current is None:
        count = 1
    elif isinstance(current, int):
        count = current + 1
    else:
        count = int(current.partition(".")[0]) + 1
    return f"{count:032}.{random.random():016}"


def _check(before: Any, limit: int | None) -> None:
    if limit is not None and limit < 0:
        raise ValueError(f"limit must be 0 or more, not {limit}")
    if before is not None and get_checkpoint_id(before) is None:
        raise ValueError('before must name a checkpoint: {"configurable": {"checkpoint_id": "..."}}')


def _scope(config: Any, before: Any) -> Scope:
    bound = get_checkpoint_id(before) if before is not None else None
    if config is None:
        return Scope(before=bound)
    named = config.get("configurable") or {}
    thread_id, ns = named.get("thread_id"), named.get("checkpoint_ns")
    return Scope(None if thread_id is None else str(thread_id), ns, get_checkpoint_id(config), bound)


def _matcher(filter: dict[str, Any] | None) -> Callable[[Any], bool] | None:
    if not filter:
        return None
    return lambda metadata: all(key in metadata and metadata[key] == value for key, value in filter.items())
