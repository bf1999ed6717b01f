"""``Saver``: the public methods of our savers, both colours, over one port."""

from __future__ import annotations

import asyncio
import builtins
import os
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from threadmark import ids
from threadmark.checkpoint import history, operations, rekeying, upkeep
from threadmark.checkpoint.backlog import Backlog
from threadmark.checkpoint.base import (
    UNSET,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PruneReport,
    Retention,
    Step,
    StepWriter,
    TaskWrites,
    Unset,
)
from threadmark.checkpoint.base.retention import Age
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.codec import Codec
from threadmark.checkpoint.draft import CheckpointDraft, StepDraft, draft_step
from threadmark.checkpoint.layout import Plain
from threadmark.checkpoint.names import config_of, matcher, ref_of, scope_of, text, texts
from threadmark.checkpoint.operations import Entry
from threadmark.checkpoint.pruning import planner
from threadmark.checkpoint.records import Port, Ref, ThreadInfo
from threadmark.checkpoint.rekeying import Rekeyed
from threadmark.checkpoint.retaining import Keeper
from threadmark.colour import Worker, drive, drive_iter, running_loop, settled
from threadmark.errors import ColourError

T = TypeVar("T")
S = TypeVar("S", bound="Saver")

WORKERS: Final = 16
"""Operations of a blocking saver that an event loop may have under way at once, where they need not queue up."""


class Saver(BaseCheckpointSaver[str]):
    """A saver over a port. A backend gives it the port and adds how to open one.

    Blocking methods run the operation where they are called. Methods whose names start with ``a`` run it in the
    saver's own thread when its port blocks, and are never abandoned half-way: a cancelled call waits for its end.
    """

    finishes_writes = True
    """Tells an engine that a cancelled write is not abandoned: it need not see to that."""

    retention: Retention | None
    """What the saver removes by itself while graphs run; None for nothing."""

    _in_memory = False
    """Whether rows never leave this process, so that parts of them need no bytes."""

    def __init__(
        self,
        port: Port,
        *,
        serde: Any = None,
        config_keys: Sequence[str] | None = None,
        retention: Retention | None = None,
        caches: Caches | None = None,
    ) -> None:
        super().__init__(serde=serde, config_keys=config_keys)
        if retention is not None and not isinstance(retention, Retention):
            raise TypeError(f"retention must be a Retention, such as Retention(keep_last=50), not {retention!r}")
        self._port = port
        self.retention = retention
        self._keeper = None if retention is None else Keeper(retention)
        self._caches = caches or Caches()
        self._worker = self._new_worker()
        self._queue: deque[Entry] = deque()
        self._turn = threading.Lock()
        self._backlog = None if port.waits else Backlog(port)
        self._made: Codec | None = None
        _savers.add(self)

    # -- reading -----------------------------------------------------------------------------------------------------

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        """The checkpoint that ``config`` names, or the newest of its thread, with all that belongs to it."""
        return self._drive(operations.find(self._port, self._codec, self._caches, ref_of(config)))

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        """The checkpoint that ``config`` names, or the newest of its thread, with all that belongs to it."""
        ref, codec = ref_of(config), self._codec
        return await self._await(lambda: operations.find(self._port, codec, self._caches, ref))

    def get_partial(self, config: Any, channels: Collection[str]) -> CheckpointTuple | None:
        """``get_tuple`` with the values of these channels alone, and with every task write: for a look at a parent."""
        return self._drive(operations.find(self._port, self._codec, self._caches, ref_of(config), channels))

    async def aget_partial(self, config: Any, channels: Collection[str]) -> CheckpointTuple | None:
        """``aget_tuple`` with the values of these channels alone, and with every task write."""
        ref, codec = ref_of(config), self._codec
        return await self._await(lambda: operations.find(self._port, codec, self._caches, ref, channels))

    def list(
        self, config: Any, *, filter: dict[str, Any] | None = None, before: Any = None, limit: int | None = None
    ) -> Iterator[CheckpointTuple]:
        """Stored checkpoints, greatest id first (spec 11.3).

        ``config`` None means all threads; without ``checkpoint_ns`` all its namespaces. ``filter`` compares
        metadata by literal key and deep equality; None matches a present None. ``before`` is an exclusive bound.
        ValueError for a negative ``limit`` or a ``before`` that names no checkpoint.
        """
        return self._drive_iter(self._scan(config, filter, before, limit))

    async def alist(
        self, config: Any, *, filter: dict[str, Any] | None = None, before: Any = None, limit: int | None = None
    ) -> AsyncIterator[CheckpointTuple]:
        """Stored checkpoints, greatest id first (spec 11.3); see ``list``."""
        source = self._scan(config, filter, before, limit)
        while (item := await self._await(lambda: _next(source))) is not None:
            yield item

    def _scan(self, config: Any, filter: Any, before: Any, limit: int | None) -> AsyncIterator[CheckpointTuple]:
        scope, keep = scope_of(config, before, limit), matcher(filter)
        return operations.scan(self._port, self._codec, self._caches, scope, keep, limit)

    def get_delta_channel_history(self, *, config: Any, channels: Sequence[str]) -> Mapping[str, DeltaChannelHistory]:
        """What rebuilds each of these delta channels at ``config``'s checkpoint, by following parents (spec 8.10)."""
        return self._drive(history.history(self._port, self._codec, self._caches, ref_of(config), channels))

    async def aget_delta_channel_history(
        self, *, config: Any, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What rebuilds each of these delta channels at ``config``'s checkpoint, by following parents (spec 8.10)."""
        ref, codec = ref_of(config), self._codec
        return await self._await(lambda: history.history(self._port, codec, self._caches, ref, channels))

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
        """Store a checkpoint whose parent is the one that ``config`` names; returns the config that names it.

        ``expected_head``, if given, is the newest checkpoint id that the namespace must have, else ``HeadMoved``.
        """
        step = Step(config, checkpoint, metadata, new_versions, (), None, expected_head)
        codec = self._codec
        draft = self._draft(codec, step)
        self._commit(codec, (draft,))
        return _stored_as(draft)

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
        step = Step(config, checkpoint, metadata, new_versions, (), None, expected_head)
        codec = self._codec
        draft = self._draft(codec, step)
        await self._acommit(codec, (draft,))
        return _stored_as(draft)

    def put_writes(self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Store what one task wrote while it ran from ``config``'s checkpoint, which need not be stored yet."""
        if writes:
            codec = self._codec
            self._commit(codec, (self._draft(codec, Step(config, writes=((task_id, task_path, writes),))),))

    async def aput_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what one task wrote while it ran from ``config``'s checkpoint, which need not be stored yet."""
        if writes:
            codec = self._codec
            await self._acommit(codec, (self._draft(codec, Step(config, writes=((task_id, task_path, writes),))),))

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
        """Store task writes of ``config``'s checkpoint and the checkpoint that follows it, in one transaction.

        ``shown_writes`` is kept with the new checkpoint and comes back as an attribute of its tuple.
        """
        step = Step(config, checkpoint, metadata, new_versions, writes, shown_writes, expected_head)
        codec = self._codec
        draft = self._draft(codec, step)
        self._commit(codec, (draft,))
        return _stored_as(draft)

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
        """Store task writes of ``config``'s checkpoint and the checkpoint that follows it, in one transaction."""
        step = Step(config, checkpoint, metadata, new_versions, writes, shown_writes, expected_head)
        codec = self._codec
        draft = self._draft(codec, step)
        await self._acommit(codec, (draft,))
        return _stored_as(draft)

    def open_writer(self, config: Any) -> StepWriter:
        """A writer for the steps of one run on ``config``'s thread."""
        return _Writer(self, config)

    # -- tidying up --------------------------------------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread; nothing happens if there is none."""
        self._drive(upkeep.delete_thread(self._port, self._caches, text(thread_id, "thread_id")))

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread; nothing happens if there is none."""
        await self._await(lambda: upkeep.delete_thread(self._port, self._caches, text(thread_id, "thread_id")))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints, and their task writes, whose metadata names one of these runs."""
        self._drive(upkeep.delete_for_runs(self._port, self._codec, texts(run_ids)))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints, and their task writes, whose metadata names one of these runs."""
        codec, runs = self._codec, texts(run_ids)
        await self._await(lambda: upkeep.delete_for_runs(self._port, codec, runs))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy everything of a thread under another id, which must hold nothing yet."""
        names = text(source_thread_id, "thread_id"), text(target_thread_id, "thread_id")
        self._drive(upkeep.copy_thread(self._port, self._codec, self._caches, *names))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy everything of a thread under another id, which must hold nothing yet."""
        codec, names = self._codec, (text(source_thread_id, "thread_id"), text(target_thread_id, "thread_id"))
        await self._await(lambda: upkeep.copy_thread(self._port, codec, self._caches, *names))

    def prune(
        self,
        thread_ids: Sequence[str],
        *,
        strategy: str = "keep_latest",
        keep_last: int | None = None,
        older_than: Age | None = None,
        ns: str | None = None,
        dry_run: bool = False,
    ) -> PruneReport:
        """Remove old checkpoints of these threads, each in one transaction, and all that only they refer to.

        ``keep_latest`` keeps the newest ``keep_last`` (default 1) of each namespace, or with ``older_than`` those that
        are younger: an age as ``timedelta`` or seconds, or a ``datetime`` with its time zone. With both, a checkpoint
        goes only if both say so. ``ns`` names the one namespace that is pruned, ``""`` the graph's own. ``delete``
        removes the threads. ``dry_run`` changes nothing, and tells the same.

        Whatever is asked, the newest of each namespace stays, what a kept checkpoint needs to be read, answered or run
        again stays, and what its delta channels are rebuilt from stays unseen. What was in namespaces of the tasks of
        removed checkpoints goes with them. Idempotent; a thread that does not exist is none to prune.

        ValueError, TypeError for arguments that say nothing; ``UnfinishedPrune`` names the thread that could not be
        pruned and tells what was done before it.
        """
        plan_for = planner(strategy, keep_last, older_than, ns, datetime.now(UTC))
        threads, codec = texts(thread_ids), self._codec
        return self._drive(upkeep.prune(self._port, codec, self._caches, threads, plan_for, dry_run=dry_run))

    async def aprune(
        self,
        thread_ids: Sequence[str],
        *,
        strategy: str = "keep_latest",
        keep_last: int | None = None,
        older_than: Age | None = None,
        ns: str | None = None,
        dry_run: bool = False,
    ) -> PruneReport:
        """Remove old checkpoints of these threads, each in one transaction; see ``prune``."""
        plan_for = planner(strategy, keep_last, older_than, ns, datetime.now(UTC))
        threads, codec = texts(thread_ids), self._codec
        return await self._await(
            lambda: upkeep.prune(self._port, codec, self._caches, threads, plan_for, dry_run=dry_run)
        )

    def rekey(self, thread_id: str, *, from_plain: bool = False, dry_run: bool = False) -> Rekeyed:
        """Encrypt every row of a thread with the serializer's active key, in one transaction; safe to repeat.

        ``from_plain`` encrypts a thread that never was; ``dry_run`` reads everything and changes nothing. Raises an
        EncryptionError, and changes nothing, when a row does not open. ValueError when the serializer does not encrypt.
        """
        names = text(thread_id, "thread_id"), from_plain, dry_run
        return self._drive(rekeying.rekey(self._port, self._codec, self._caches, *names))

    async def arekey(self, thread_id: str, *, from_plain: bool = False, dry_run: bool = False) -> Rekeyed:
        """Encrypt every row of a thread with the serializer's active key, in one transaction; see ``rekey``."""
        codec, names = self._codec, (text(thread_id, "thread_id"), from_plain, dry_run)
        return await self._await(lambda: rekeying.rekey(self._port, codec, self._caches, *names))

    # -- small things ------------------------------------------------------------------------------------------------

    def get_next_version(self, current: str | int | float | None, channel: None) -> str:
        """The version after ``current``: a counter that sorts as text, and chance, so that branches differ."""
        return ids.version_after(current)

    def with_serde(self, serde: Any) -> Any:
        """This saver, on the same store, with another serializer; what is remembered of stored rows is shared."""
        clone = super().with_serde(serde)
        clone._made = None
        _savers.add(clone)
        return clone

    # -- how operations run ------------------------------------------------------------------------------------------

    @property
    def _codec(self) -> Codec:
        codec = self._made
        if codec is None or codec.serde is not self.serde or codec.config_keys is not self.config_keys:
            if codec is not None:
                self._caches.clear()
            codec = self._made = Codec(self.serde, self.config_keys, in_memory=self._in_memory)
        return codec

    def _draft(self, codec: Codec, step: Step, *, of_run: bool = False) -> StepDraft:
        ref, before = ref_of(step.config), None
        if ref.id is not None:
            parent = self._caches.parents.get(ref)
            if parent is None and self._backlog is not None and not of_run:
                # It may wait: then what this step carries over is not known yet. A run hands in all that has moved.
                self._backlog.catch_up(self._caches)
                parent = self._caches.parents.get(ref)
            before = parent.row.fields if parent is not None else None
        return draft_step(step, ref, codec.dumps, codec.config_keys, before, _Lists(self, codec, ref))

    def _stored(self, ref: Ref, channel: str) -> Plain | None:
        """What a checkpoint holds of a channel, if that is remembered."""
        parent = self._caches.parents.get(ref) if ref.id is not None else None
        at = parent.row.fields.values.get(channel) if parent is not None else None
        known = self._caches.values.get((parent.thread.key, at)) if parent is not None and type(at) is int else None
        return known.plain if known is not None else None

    def _commit(self, codec: Codec, drafts: Sequence[StepDraft]) -> None:
        self._keep(codec, drafts)
        if self._keeper is not None and (names := self._keeper.due(drafts)):
            self._drive(self._keeper.tidy(self._port, codec, names))

    async def _acommit(self, codec: Codec, drafts: Sequence[StepDraft]) -> None:
        await self._akeep(codec, drafts)
        keeper = self._keeper
        if keeper is not None and (names := keeper.due(drafts)):
            await self._await(lambda: keeper.tidy(self._port, codec, names))

    def _keep(self, codec: Codec, drafts: Sequence[StepDraft]) -> None:
        if self._backlog is not None:
            self._backlog.commit(codec, drafts, self._caches)
            return
        entry = Entry(codec, drafts)
        if not (self._port.blocking and self._port.grouped):
            self._drive(operations.store_alone(self._port, self._caches, entry))
            return
        drive(operations.prepare(self._port, self._caches, entry))
        self._queue.append(entry)
        self._drain()
        if entry.error is not None:
            raise entry.error

    async def _akeep(self, codec: Codec, drafts: Sequence[StepDraft]) -> None:
        if self._backlog is not None:
            self._backlog.commit(codec, drafts, self._caches)
            return
        entry = Entry(codec, drafts)
        if not (self._port.blocking and self._port.grouped):
            await self._await(lambda: operations.store_alone(self._port, self._caches, entry))
            return
        self._queue.append(entry)
        await settled(asyncio.wrap_future(self._worker.submit(self._drain)))
        if entry.error is not None:
            raise entry.error

    def _drain(self) -> None:
        """Store what is queued in one transaction; what came while another thread was at it included."""
        with self._turn:
            entries = [self._queue.popleft() for _ in range(len(self._queue))]
            if entries:
                drive(operations.store_all(self._port, self._caches, entries))

    def _new_worker(self) -> Worker:
        return Worker(f"threadmark-{type(self).__name__}", 1 if self._port.grouped else WORKERS)

    def _drive(self, op: Coroutine[Any, Any, T]) -> T:
        if self._backlog is not None:
            return self._backlog.run(op, self._caches)
        if self._port.blocking:
            return drive(op)
        try:
            loop = self._loop()
        except ColourError:
            op.close()
            raise
        return asyncio.run_coroutine_threadsafe(op, loop).result()

    def _drive_iter(self, source: AsyncIterator[T]) -> Iterator[T]:
        if self._port.blocking and self._backlog is None:
            yield from drive_iter(source)
            return
        while (item := self._drive(_next(source))) is not None:
            yield item

    def _loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of an async port, if this thread may wait for it."""
        loop: asyncio.AbstractEventLoop | None = getattr(self._port, "loop", None)
        if loop is None or not loop.is_running() or running_loop() is loop:
            raise ColourError(
                f"{type(self).__name__} works on an event loop: await the method whose name starts with 'a', or use "
                f"a saver that was opened without one"
            )
        return loop

    def _on_a_loop(self) -> bool:
        """Whether an async port belongs to an event loop that still runs."""
        loop: asyncio.AbstractEventLoop | None = getattr(self._port, "loop", None)
        return loop is not None and loop.is_running()

    async def _await(self, op: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self._backlog is not None:
            return self._backlog.run(op(), self._caches)
        if self._port.blocking:
            return await settled(asyncio.wrap_future(self._worker.submit(lambda: drive(op()))))
        return await settled(asyncio.ensure_future(op()))

    def thread_ids(self) -> Sequence[str]:
        """Every thread of which anything is stored, those included that have no checkpoint (yet)."""
        return self._drive(operations.thread_ids(self._port))

    async def athread_ids(self) -> Sequence[str]:
        """Every thread of which anything is stored, those included that have no checkpoint (yet)."""
        return await self._await(lambda: operations.thread_ids(self._port))

    def list_threads(self) -> Sequence[ThreadInfo]:
        """One line about each thread, the one with the newest checkpoint first."""
        return self._drive(operations.threads(self._port))

    async def alist_threads(self) -> Sequence[ThreadInfo]:
        """One line about each thread, the one with the newest checkpoint first."""
        return await self._await(lambda: operations.threads(self._port))

    def close(self) -> None:
        """Finish what was handed in and let go of the store. Idempotent."""
        self._worker.close()
        if self._port.blocking or not self._on_a_loop():
            drive(self._port.close())
        else:
            self._drive(self._port.close())

    async def aclose(self) -> None:
        """Finish what was handed in and let go of the store. Idempotent."""
        if self._port.blocking:
            self.close()
        else:
            await settled(asyncio.ensure_future(self._port.close()))

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self: S) -> S:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def _after_fork(self) -> None:
        """In a forked child: take over no lock, no thread and no connection."""
        self._worker = self._new_worker()
        self._queue, self._turn, self._caches = deque(), threading.Lock(), self._caches.emptied()
        self._backlog = self._backlog and self._backlog.after_fork()
        self._keeper = None if self.retention is None else Keeper(self.retention)
        self._port.after_fork()


_savers: weakref.WeakSet[Saver] = weakref.WeakSet()


def _after_fork() -> None:
    for saver in list(_savers):
        saver._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


async def _next(source: AsyncIterator[T]) -> T | None:
    return await anext(source, None)


class _Lists:
    """The bytes of lists, made of earlier ones: those of a checkpoint, and those that were noted since."""

    __slots__ = ("_codec", "_ref", "_saver", "_since")

    def __init__(self, saver: Saver, codec: Codec, ref: Ref) -> None:
        self._saver, self._codec, self._ref = saver, codec, ref
        self._since: dict[str, Plain] = {}

    def list_of(self, channel: str, items: Any, begins_with: Any) -> Plain | None:
        """See ``draft.Lists``."""
        earlier = self._since.get(channel)
        if earlier is None:
            earlier = self._saver._stored(self._ref, channel)
        return self._codec.dump_list(items, earlier, begins_with)

    def note(self, plains: Mapping[str, Plain], large: Set[str]) -> None:
        """These are newer."""
        self._since.update((name, plains[name]) for name in large & plains.keys())


class _Writer(StepWriter):
    """Steps drafted by one thread, stored by whichever flushes."""

    def __init__(self, saver: Saver, config: Any) -> None:
        self._saver, self._codec = saver, saver._codec
        self._ref = ref_of(config)
        self._drafts: deque[StepDraft] = deque()
        self._last: CheckpointDraft | None = None
        self._lists = _Lists(saver, self._codec, self._ref)

    def add(self, step: Step) -> None:
        named, own, last, codec = step.config["configurable"], self._ref, self._last, self._codec
        id = named.get("checkpoint_id")
        # As a rule a step follows the last one, and there is nothing to take apart.
        if (
            last is not None
            and id == last.id
            and named["thread_id"] == own.thread_id
            and named.get("checkpoint_ns") == own.ns
        ):
            ref = Ref(own.thread_id, own.ns, last.id)
            draft = draft_step(step, ref, codec.dumps, codec.config_keys, last, self._lists)
        else:
            draft = self._saver._draft(codec, step, of_run=True)
        checkpoint = draft.checkpoint
        if checkpoint is not None:
            self._last = checkpoint
            if draft.large:
                self._lists.note(checkpoint.plains, draft.large)
        self._drafts.append(draft)

    def _take(self) -> builtins.list[StepDraft]:
        drafts = self._drafts
        return [drafts.popleft()] if len(drafts) == 1 else [drafts.popleft() for _ in range(len(drafts))]

    def flush(self) -> None:
        drafts = self._take()
        if drafts:
            self._saver._commit(self._codec, drafts)

    async def aflush(self) -> None:
        drafts = self._take()
        if drafts:
            await self._saver._acommit(self._codec, drafts)


def _stored_as(draft: StepDraft) -> Any:
    assert draft.checkpoint is not None
    return config_of(draft.thread_id, draft.ns, draft.checkpoint.id)
