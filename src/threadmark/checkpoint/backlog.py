"""Steps in memory that wait until somebody reads: those of one thread are then stored in one go."""

from __future__ import annotations

import threading
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final, TypeVar

from threadmark.checkpoint.base import UNSET
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.codec import KEPT, Codec
from threadmark.checkpoint.draft import StepDraft
from threadmark.checkpoint.operations import store_all
from threadmark.checkpoint.records import Port
from threadmark.checkpoint.turns import Entry
from threadmark.colour import drive

T = TypeVar("T")

LONGEST: Final = 64
"""Steps that wait at most."""


class _Waiting(Entry):
    """The steps of one thread that wait, none to begin with."""

    __slots__ = ("heads",)

    def __init__(self, codec: Codec, thread_id: str, heads: dict[str, str]) -> None:
        self.codec, self.thread_id = codec, thread_id
        self.drafts: list[StepDraft] = []
        self.prepared, self.error = None, None
        self.heads = heads
        """The newest checkpoints by namespace, where they are sure: stored or waiting."""

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
        self.drafts.append(draft)
        return True


class Backlog:
    """What an in-memory saver was given and has not made rows of yet: that spares a third of what a step costs.

    Nobody can tell. Whatever else is done with the port comes after what waits (``run``), a step that could be refused
    does not wait, and a crash takes all memory anyway.
    """

    def __init__(self, port: Port, waiting: Iterable[_Waiting] = ()) -> None:
        self._port = port
        self._waiting = {entry.thread_id: entry for entry in waiting}
        self._length = 0
        # The same thread may come again: what is read may run code of the user's.
        self._turn = threading.RLock()

    def commit(self, codec: Codec, drafts: Sequence[StepDraft], caches: Caches) -> None:
        """Store steps of one thread, now or later. Raises what storing them now raised."""
        thread_id = drafts[0].thread_id
        with self._turn:
            waiting = self._waiting.get(thread_id)
            if waiting is None and drafts[0].ns and codec.maps is KEPT:
                waiting = _Waiting(codec, thread_id, {})
            if waiting is None or not waiting.takes(codec, drafts):
                self._store(Entry(codec, drafts), caches)
                return
            self._waiting[thread_id] = waiting
            self._length += 1
            if self._length >= LONGEST:
                self._catch_up(caches)

    def catch_up(self, caches: Caches) -> None:
        """Store what waits."""
        with self._turn:
            self._catch_up(caches)

    def run(self, operation: Coroutine[Any, Any, T], caches: Caches) -> T:
        """Do something with the port once everything is stored; nothing waits while it is done."""
        with self._turn:
            try:
                self._catch_up(caches)
            except BaseException:
                operation.close()
                raise
            return drive(operation)

    def after_fork(self) -> Backlog:
        """The same in a forked child, without locks."""
        return Backlog(self._port, list(self._waiting.values()))

    def _store(self, entry: Entry, caches: Caches) -> None:
        before = self._waiting.pop(entry.thread_id, None)
        heads = {} if before is None else before.heads
        if before is not None and before.drafts:
            self._store_all([before], caches)
        self._store_all([entry], caches)
        for draft in entry.drafts:
            if draft.checkpoint is not None and draft.expected_head is not UNSET:
                heads[draft.ns] = draft.checkpoint.id
            elif draft.checkpoint is not None:
                heads.pop(draft.ns, None)
        if heads and entry.codec.maps is KEPT:
            self._waiting[entry.thread_id] = _Waiting(entry.codec, entry.thread_id, heads)

    def _catch_up(self, caches: Caches) -> None:
        waiting, self._waiting, self._length = self._waiting, {}, 0
        entries = [entry for entry in waiting.values() if entry.drafts]
        if entries:
            try:
                self._store_all(entries, caches)
            except Exception:
                raise
            except BaseException:  # Ctrl-C while somebody reads must not cost what counts as stored
                for entry in entries:
                    entry.error = None
                self._waiting = waiting
                raise

    def _store_all(self, entries: Sequence[Entry], caches: Caches) -> None:
        drive(store_all(self._port, caches, entries))
        for entry in entries:
            if entry.error is not None:
                raise entry.error
