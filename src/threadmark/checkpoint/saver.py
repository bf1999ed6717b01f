"""``Saver``: the public methods of our savers, both colours, over one port."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from threadmark import ids
from threadmark.checkpoint import finding, history, operations, rekeying, upkeep
from threadmark.checkpoint.base import (
    UNSET,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PruneReport,
    Step,
    StepWriter,
    TaskWrites,
    Unset,
)
from threadmark.checkpoint.base.retention import Age
from threadmark.checkpoint.draft import StepDraft
from threadmark.checkpoint.finding import Behind
from threadmark.checkpoint.names import config_of, matcher, ref_of, scope_of, text, texts
from threadmark.checkpoint.pruning import planner
from threadmark.checkpoint.records import ThreadInfo
from threadmark.checkpoint.rekeying import Rekeyed
from threadmark.checkpoint.running import Running, next_of
from threadmark.checkpoint.step_writer import Writer


class Saver(Running):
    """A saver over a port. A backend gives it the port and adds how to open one.

    Blocking methods run the operation where they are called. Methods whose names start with ``a`` run it in the
    saver's own thread when its port blocks, and are never abandoned half-way: a cancelled call waits for its end.
    """

    # -- reading -----------------------------------------------------------------------------------------------------

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        """The checkpoint that ``config`` names, or the newest of its thread, with all that belongs to it."""
        ref = ref_of(config)
        return self._drive(finding.find(self._port, self._codec, self._caches, ref), ref.thread_id)

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        """The checkpoint that ``config`` names, or the newest of its thread, with all that belongs to it."""
        ref, codec = ref_of(config), self._codec
        return await self._await(lambda: finding.find(self._port, codec, self._caches, ref), ref.thread_id)

    def get_partial(self, config: Any, channels: Collection[str]) -> CheckpointTuple | None:
        """``get_tuple`` with the values of these channels alone, and with every task write: for a look at a parent."""
        ref = ref_of(config)
        return self._drive(finding.find(self._port, self._codec, self._caches, ref, channels), ref.thread_id)

    async def aget_partial(self, config: Any, channels: Collection[str]) -> CheckpointTuple | None:
        """``aget_tuple`` with the values of these channels alone, and with every task write."""
        ref, codec = ref_of(config), self._codec
        return await self._await(lambda: finding.find(self._port, codec, self._caches, ref, channels), ref.thread_id)

    def get_with_parent(
        self, config: Any, sources: Collection[str], channels: Collection[str], paths: Collection[str] = ()
    ) -> tuple[CheckpointTuple | None, CheckpointTuple | Sequence[TaskWrites] | None]:
        """``get_tuple``, and of a checkpoint of one of these sources the parent, as ``get_partial`` gives it.

        In one look at the store. There is no parent for a checkpoint that says itself what its superstep wrote. Instead
        of a parent whose tasks, one at least, all have one of these ``paths``, what those tasks wrote comes alone.
        """
        ref, behind = ref_of(config), Behind(sources, channels, paths)
        return self._drive(finding.find_both(self._port, self._codec, self._caches, ref, behind), ref.thread_id)

    async def aget_with_parent(
        self, config: Any, sources: Collection[str], channels: Collection[str], paths: Collection[str] = ()
    ) -> tuple[CheckpointTuple | None, CheckpointTuple | Sequence[TaskWrites] | None]:
        """``aget_tuple``, and of a checkpoint of one of these sources the parent, as ``aget_partial`` gives it."""
        ref, behind, codec = ref_of(config), Behind(sources, channels, paths), self._codec
        return await self._await(lambda: finding.find_both(self._port, codec, self._caches, ref, behind), ref.thread_id)

    def list(
        self, config: Any, *, filter: dict[str, Any] | None = None, before: Any = None, limit: int | None = None
    ) -> Iterator[CheckpointTuple]:
        """Stored checkpoints, greatest id first (spec 11.3).

        ``config`` None means all threads; without ``checkpoint_ns`` all its namespaces. ``filter`` compares
        metadata by literal key and deep equality; None matches a present None. ``before`` is an exclusive bound.
        ValueError for a negative ``limit`` or a ``before`` that names no checkpoint.
        """
        listing = self._listing(config, filter, before, limit)
        return self._drive_iter(operations.pages(*listing), listing[3].thread_id)

    async def alist(
        self, config: Any, *, filter: dict[str, Any] | None = None, before: Any = None, limit: int | None = None
    ) -> AsyncIterator[CheckpointTuple]:
        """Stored checkpoints, greatest id first (spec 11.3); see ``list``."""
        listing = self._listing(config, filter, before, limit)
        source, thread_id = operations.scan(*listing), listing[3].thread_id
        while (item := await self._await(lambda: next_of(source), thread_id)) is not None:
            yield item

    def _listing(self, config: Any, filter: Any, before: Any, limit: int | None) -> Any:
        return self._port, self._codec, self._caches, scope_of(config, before, limit), matcher(filter), limit

    def get_delta_channel_history(self, *, config: Any, channels: Sequence[str]) -> Mapping[str, DeltaChannelHistory]:
        """What rebuilds each of these delta channels at ``config``'s checkpoint, by following parents (spec 8.10)."""
        ref = ref_of(config)
        return self._drive(history.history(self._port, self._codec, self._caches, ref, channels), ref.thread_id)

    async def aget_delta_channel_history(
        self, *, config: Any, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What rebuilds each of these delta channels at ``config``'s checkpoint, by following parents (spec 8.10)."""
        ref, codec = ref_of(config), self._codec
        return await self._await(lambda: history.history(self._port, codec, self._caches, ref, channels), ref.thread_id)

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
        return Writer(self, config)

    # -- tidying up --------------------------------------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread; nothing happens if there is none."""
        name = text(thread_id, "thread_id")
        self._forget_waiting(name)
        self._drive(upkeep.delete_thread(self._port, self._caches, name), name)

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread; nothing happens if there is none."""
        name = text(thread_id, "thread_id")
        self._forget_waiting(name)
        await self._await(lambda: upkeep.delete_thread(self._port, self._caches, name), name)

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
        self._drive(upkeep.copy_thread(self._port, self._codec, self._caches, *names), *names)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy everything of a thread under another id, which must hold nothing yet."""
        codec, names = self._codec, (text(source_thread_id, "thread_id"), text(target_thread_id, "thread_id"))
        await self._await(lambda: upkeep.copy_thread(self._port, codec, self._caches, *names), *names)

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


def _stored_as(draft: StepDraft) -> Any:
    assert draft.checkpoint is not None
    return config_of(draft.thread_id, draft.ns, draft.checkpoint.id)
