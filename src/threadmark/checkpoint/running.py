"""How operations of a saver run: where they are called or in its own thread, in turn, and after a fork."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Sequence
from typing import Any, Final, TypeVar, cast

from threadmark.checkpoint import operations
from threadmark.checkpoint.backlog import Backlog, Near
from threadmark.checkpoint.base import BaseCheckpointSaver, Retention, Step
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.codec import Codec
from threadmark.checkpoint.draft import CheckpointDraft, Held, StepDraft, draft_step
from threadmark.checkpoint.facts import Constant
from threadmark.checkpoint.journal import Journal, NameTask
from threadmark.checkpoint.layout import DEFAULT, Plain
from threadmark.checkpoint.names import ref_of
from threadmark.checkpoint.records import Port, Ref
from threadmark.checkpoint.retaining import Keeper
from threadmark.checkpoint.step_writer import Lists
from threadmark.checkpoint.turns import Entry, LateEntry
from threadmark.colour import Worker, drive, drive_iter, offload, running_loop, settled, whole
from threadmark.errors import ColourError
from threadmark.later import asyncio

T = TypeVar("T")
S = TypeVar("S", bound="Running")

WORKERS: Final = 16
"""Operations of a blocking saver that an event loop may have under way at once, where they need not queue up."""


class Running(BaseCheckpointSaver[str]):
    """A saver over a port, without its public methods but those that end it."""

    finishes_writes = True
    """Tells an engine that a cancelled write is not abandoned: it need not see to that."""

    retention: Retention | None
    """What the saver removes by itself while graphs run; None for nothing."""

    _in_memory = False
    """Whether rows never leave this process, so that parts of them need no bytes."""
    _policy = DEFAULT
    """How its rows are cut and packed."""

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
        self._backlog = None if port.waits else Backlog(cast(Near, port))
        self._appends = hasattr(port, "append")
        self._made: Codec | None = None
        _savers.add(self)

    def with_serde(self, serde: Any) -> Any:
        """This saver, on the same store, with another serializer; what is remembered of stored rows is shared."""
        clone = super().with_serde(serde)
        clone._made = None
        _savers.add(clone)
        return clone

    # -- storing ------------------------------------------------------------------------------------------------------

    @property
    def _codec(self) -> Codec:
        codec = self._made
        if codec is None or codec.serde is not self.serde or codec.config_keys is not self.config_keys:
            if codec is not None:
                self._caches.clear()
            codec = self._made = Codec(self.serde, self.config_keys, in_memory=self._in_memory, policy=self._policy)
        return codec

    def _draft(self, codec: Codec, step: Step, *, of_run: bool = False, held: Held | None = None) -> StepDraft:
        ref, before = ref_of(step.config), None
        if ref.id is not None:
            parent = self._caches.parents.get(ref)
            if parent is None and self._backlog is not None and not of_run:
                # It may wait: then what this step carries over is not known yet. A run hands in all that has moved.
                self._backlog.catch_up(self._caches, ref.thread_id)
                parent = self._caches.parents.get(ref)
            before = parent.row.fields if parent is not None else None
        return draft_step(step, ref, codec.dumps, codec.config_keys, before, Lists(self, codec, ref), held)

    def _stored(self, ref: Ref, channel: str) -> Plain | None:
        """What a checkpoint holds of a channel, if that is remembered."""
        parent = self._caches.parents.get(ref) if ref.id is not None else None
        at = parent.row.fields.values.get(channel) if parent is not None else None
        known = self._caches.values.get((parent.thread.key, at)) if parent is not None and type(at) is int else None
        return known.plain if known is not None else None

    def _new_journal(
        self, codec: Codec, ref: Ref, base: CheckpointDraft, constant: Constant, name: NameTask
    ) -> Journal | None:
        """A journal of what follows a step that was handed in; None for a saver that has to know each step."""
        if self._backlog is None or self._keeper is not None:
            return None
        return self._backlog.journal(codec, ref, base, constant, name)

    def _forget_waiting(self, thread_id: str) -> None:
        """What has not been made rows of yet of a thread that is about to be deleted is of no use any more."""
        if self._backlog is not None:
            self._backlog.discard(thread_id)

    def _unfolded(self, journal: Journal) -> CheckpointDraft:
        """Close a journal; the last checkpoint in it."""
        assert self._backlog is not None
        return self._backlog.unfold(journal)

    def _commit(self, codec: Codec, drafts: Sequence[StepDraft]) -> None:
        self._keep(codec, drafts)
        if self._keeper is not None and (names := self._keeper.due(drafts)):
            self._drive(self._keeper.tidy(self._port, codec, names))

    async def _acommit(self, codec: Codec, drafts: Sequence[StepDraft]) -> None:
        await self._akeep(codec, drafts)
        await self._atidy(codec, drafts)

    async def _aflush(self, codec: Codec, take: Callable[[], Sequence[StepDraft]]) -> None:
        """Store what ``take`` gives, which is asked when its turn has come."""
        if self._backlog is not None or not (self._port.blocking and self._port.grouped):
            await self._acommit(codec, take())
            return
        entry = LateEntry(codec, take)
        await self._aqueue(entry)
        await self._atidy(codec, entry.drafts)

    async def _atidy(self, codec: Codec, drafts: Sequence[StepDraft]) -> None:
        keeper = self._keeper
        if keeper is not None and drafts and (names := keeper.due(drafts)):
            await self._await(lambda: keeper.tidy(self._port, codec, names))

    def _keep(self, codec: Codec, drafts: Sequence[StepDraft]) -> None:
        if self._backlog is not None:
            self._backlog.commit(codec, drafts, self._caches)
            return
        entry = Entry(codec, drafts)
        if not (self._port.blocking and self._port.grouped):
            self._drive(operations.store_alone(self._port, self._caches, entry))
            return
        if not operations.prepared_from_memory(self._caches, entry):
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
        else:
            await self._aqueue(entry)

    async def _aqueue(self, entry: Entry) -> None:
        self._queue.append(entry)
        await self._worker.run(self._drain)
        if entry.error is not None:
            raise entry.error

    def _drain(self) -> None:
        """Store what is queued in one transaction; what came while another thread was at it included."""
        with self._turn:
            queued = [self._queue.popleft() for _ in range(len(self._queue))]
            entries = [entry for entry in queued if entry.is_ready()]
            if entries and not (self._appends and operations.append(self._port, self._caches, entries)):
                drive(operations.store_all(self._port, self._caches, entries))

    # -- running an operation -----------------------------------------------------------------------------------------

    def _new_worker(self) -> Worker:
        return Worker(f"threadmark-{type(self).__name__}", 1 if self._port.grouped else WORKERS)

    def _drive(self, op: Coroutine[Any, Any, T], *thread_ids: str | None) -> T:
        """``thread_ids``: the only threads that the operation is about; none, or None for one, if it is about all."""
        if self._backlog is not None:
            return self._backlog.run(op, self._caches, _known(thread_ids))
        if self._port.blocking:
            return drive(op)
        try:
            loop = self._loop()
        except ColourError:
            op.close()
            raise
        return asyncio.run_coroutine_threadsafe(op, loop).result()

    def _drive_iter(
        self, source: AsyncIterator[Sequence[Callable[[], T]]], thread_id: str | None = None
    ) -> Iterator[T]:
        """What a source gives in pages, each thing made when it is wanted."""
        if self._port.blocking and self._backlog is None:
            pages = drive_iter(source)
        else:
            pages = iter(lambda: self._drive(next_of(source), thread_id), None)
        for page in pages:
            for make in page:
                yield make()

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

    async def _await(self, op: Callable[[], Coroutine[Any, Any, T]], *thread_ids: str | None) -> T:
        if self._backlog is not None:
            return self._backlog.run(op(), self._caches, _known(thread_ids))
        if self._port.blocking:
            return await offload(self._worker, op)
        if self._port.steady:
            return await whole(op())
        return await settled(asyncio.ensure_future(op()))

    # -- its end ------------------------------------------------------------------------------------------------------

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


_savers: weakref.WeakSet[Running] = weakref.WeakSet()


def _after_fork() -> None:
    for saver in list(_savers):
        saver._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _known(thread_ids: tuple[str | None, ...]) -> Collection[str] | None:
    """The threads that are named; None where all are meant."""
    named = [each for each in thread_ids if each is not None]
    return named if named and len(named) == len(thread_ids) else None


async def next_of(source: AsyncIterator[T]) -> T | None:
    """The next item; None at the end."""
    return await anext(source, None)
