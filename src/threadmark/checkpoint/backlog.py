"""Steps in memory that wait until somebody reads: those of one thread are then stored in one go."""

from __future__ import annotations

import threading
from collections.abc import Collection, Coroutine, Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar

from threadmark.checkpoint.base import UNSET
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.codec import KEPT, Codec
from threadmark.checkpoint.draft import CheckpointDraft, StepDraft
from threadmark.checkpoint.facts import Constant
from threadmark.checkpoint.journal import Journal, NameTask
from threadmark.checkpoint.operations import store_all
from threadmark.checkpoint.records import Port, Ref
from threadmark.checkpoint.turns import Entry
from threadmark.colour import drive

T = TypeVar("T")

LONGEST: Final = 64
"""Drafts that wait at most."""


class _Waiting(Entry):
    """The steps of one thread that wait, none to begin with."""

    __slots__ = ("heads", "kept")

    def __init__(self, codec: Codec, thread_id: str, heads: dict[str, str | None]) -> None:
        self.codec, self.thread_id = codec, thread_id
        self.kept: list[StepDraft | Journal] = []
        self.drafts: Sequence[StepDraft] = ()
        self.prepared, self.error = None, None
        self.heads = heads
        """The newest checkpoints by namespace, where they are sure: stored or waiting. None where there is none."""

    def takes(self, codec: Codec, drafts: Sequence[StepDraft]) -> bool:
        """Add a step with which nothing can go wrong any more: it will find the head that it expects, if any."""
        if len(drafts) != 1 or codec is not self.codec:
            return False
        draft = drafts[0]
        if draft.checkpoint is not None:
            if draft.expected_head is UNSET and draft.ns:  # of a child graph, whose head only its parent moves
                self.heads.pop(draft.ns, None)
            elif draft.expected_head is UNSET or self.heads.get(draft.ns, UNSET) != draft.expected_head:
                return False
            else:
                self.heads[draft.ns] = draft.checkpoint.id
        self.kept.append(draft)
        return True

    def unfold(self) -> None:
        """Make drafts of what journals say; they are closed then."""
        drafts = list[StepDraft]()
        for each in self.kept:
            if isinstance(each, Journal):
                drafts += each.drafts()
            else:
                drafts.append(each)
        self.kept, self.drafts, self.prepared = [*drafts], drafts, None

    @property
    def journals(self) -> list[Journal]:
        """Those of its runs."""
        return [each for each in self.kept if isinstance(each, Journal)]


class Near(Port, Protocol):
    """A port to rows in memory."""

    def holds(self, thread_id: str, ns: str | None = None, id: str | None = None) -> bool:
        """Whether there is such a thread, or such a checkpoint of it."""
        ...


class Backlog:
    """What an in-memory saver was given and has not made rows of yet: that spares a third of what a step costs.

    Nobody can tell. Whatever else is done with the port comes after what waits (``run``), a step that could be refused
    does not wait, and a crash takes all memory anyway.
    """

    def __init__(self, port: Near, waiting: Iterable[_Waiting] = ()) -> None:
        self._port = port
        self._waiting = {entry.thread_id: entry for entry in waiting}
        self._drafted: dict[str, int] = {}
        """How many drafts wait of threads. Journals are so small that any number of them may."""
        # The same thread may come again: what is read may run code of the user's.
        self._turn = threading.RLock()
        self._in_child: Backlog | None = None

    def commit(self, codec: Codec, drafts: Sequence[StepDraft], caches: Caches) -> None:
        """Store steps of one thread, now or later. Raises what storing them now raised."""
        thread_id = drafts[0].thread_id
        with self._turn:
            waiting, first = self._waiting.get(thread_id), False
            if waiting is None and codec.maps is KEPT:
                if drafts[0].ns:
                    waiting = _Waiting(codec, thread_id, {})
                elif not self._port.holds(thread_id):
                    waiting, first = _Waiting(codec, thread_id, {"": None}), True
            if waiting is None or not waiting.takes(codec, drafts):
                self._store(Entry(codec, drafts), caches)
                return
            self._waiting[thread_id] = waiting
            if first and not drafts[0].large:  # as long as rows would be
                return
            self._drafted[thread_id] = self._drafted.get(thread_id, 0) + 1
            if sum(self._drafted.values()) >= LONGEST:
                self._catch_up(caches, self._drafted)

    def journal(
        self, codec: Codec, ref: Ref, base: CheckpointDraft, constant: Constant, name: NameTask
    ) -> Journal | None:
        """A journal of what follows ``base``, which ``ref`` names if nothing but what is noted in it may follow.

        None where it is not sure that nothing can go wrong.
        """
        with self._turn:
            waiting = self._waiting.get(ref.thread_id)
            if waiting is None or waiting.codec is not codec:
                return None
            if ref.id is not None and waiting.heads.get(ref.ns) != ref.id:
                return None
            journal = Journal(self._turn, waiting.heads, codec, ref, base, constant, name)
            waiting.kept.append(journal)
            return journal

    def unfold(self, journal: Journal) -> CheckpointDraft:
        """Close a journal; the last checkpoint in it."""
        with self._turn:
            waiting = self._waiting.get(journal.thread_id)
            if waiting is not None and journal in waiting.kept:
                waiting.unfold()
                self._drafted[journal.thread_id] = len(waiting.kept)
            return journal.last

    def catch_up(self, caches: Caches, thread_id: str) -> None:
        """Store what waits of a thread."""
        with self._turn:
            self._catch_up(caches, (thread_id,))

    def discard(self, thread_id: str) -> None:
        """Forget what waits of a thread that is about to be deleted."""
        with self._turn:
            waiting = self._waiting.pop(thread_id, None)
            self._drafted.pop(thread_id, None)
            for journal in waiting.journals if waiting is not None else ():
                journal.closed = True

    def run(self, operation: Coroutine[Any, Any, T], caches: Caches, thread_ids: Collection[str] | None) -> T:
        """Do something with the port once everything is stored of the threads that it is about, None for all."""
        with self._turn:
            try:
                self._catch_up(caches, self._waiting if thread_ids is None else thread_ids)
            except BaseException:
                operation.close()
                raise
            return drive(operation)

    def after_fork(self) -> Backlog:
        """The same in a forked child, without locks; one for all savers that have this one."""
        if self._in_child is None:
            for waiting in self._waiting.values():
                for journal in waiting.journals:
                    journal.after_fork()
            self._in_child = Backlog(self._port, list(self._waiting.values()))
        return self._in_child

    def _store(self, entry: Entry, caches: Caches) -> None:
        before = self._waiting.get(entry.thread_id)
        heads = {} if before is None else before.heads
        self._catch_up(caches, (entry.thread_id,))
        self._store_one(entry, caches)
        for draft in entry.drafts:
            if draft.checkpoint is not None and draft.expected_head is not UNSET:
                heads[draft.ns] = draft.checkpoint.id
            elif draft.checkpoint is not None:
                heads.pop(draft.ns, None)
        if heads and entry.codec.maps is KEPT:
            self._waiting[entry.thread_id] = _Waiting(entry.codec, entry.thread_id, heads)

    def _catch_up(self, caches: Caches, thread_ids: Collection[str]) -> None:
        """Store what waits of these threads, each by itself: rows in memory are not taken back."""
        failed: Exception | None = None
        for thread_id in [*thread_ids]:
            waiting = self._waiting.get(thread_id)
            if waiting is None:
                continue
            try:
                if waiting.kept:
                    waiting.unfold()
                    self._store_one(waiting, caches)
                del self._waiting[thread_id]
                self._drafted.pop(thread_id, None)
            except BaseException as error:  # whatever stops somebody who reads must not cost what counts as stored
                waiting.error = None
                waiting.kept = [draft for draft in waiting.kept if not self._is_stored(draft)]
                if not isinstance(error, Exception):
                    raise
                failed = failed or error
        if failed is not None:
            raise failed

    def _is_stored(self, kept: StepDraft | Journal) -> bool:
        """Whether a draft has become rows whole: its checkpoint is the last of them."""
        if isinstance(kept, Journal) or kept.checkpoint is None:
            return False
        return self._port.holds(kept.thread_id, kept.ns, kept.checkpoint.id)

    def _store_one(self, entry: Entry, caches: Caches) -> None:
        drive(store_all(self._port, caches, [entry]))
        if entry.error is not None:
            raise entry.error
