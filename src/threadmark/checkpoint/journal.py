"""Supersteps of a run in memory, said as briefly as can be: checkpoints are made of them when somebody reads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from operator import itemgetter
from types import NoneType
from typing import Any, Final, TypeAlias

from threadmark import ids
from threadmark.checkpoint.base import UNSET, NextStep
from threadmark.checkpoint.codec import Codec
from threadmark.checkpoint.draft import INLINE, CheckpointDraft, StepDraft, draft_next
from threadmark.checkpoint.facts import Constant
from threadmark.checkpoint.records import Ref
from threadmark.checkpoint.serde.errors import SerializationError

MOST: Final = 1024
"""Supersteps that wait at most: 40 ms for whoever reads then."""
_FIXED: Final = frozenset((NoneType, bool, int, float))
"""Types of short values that nobody can change, so that they need not be bytes yet."""
_value: Final = itemgetter(1)
_SHORT: Final = INLINE // 4
"""A text up to this long is at most ``INLINE`` bytes."""

NameTask: TypeAlias = Callable[[str, int, str, Sequence[str]], str]
"""The id of a task: of its checkpoint's id, its step, its node and its triggers."""
Pairs: TypeAlias = Sequence[tuple[str, Any]]


class Journal:
    """The supersteps of one run that follow a checkpoint of which there is a draft.

    Maps and metadata of their checkpoints follow from what is noted. Of a superstep one tuple of texts, numbers and
    such tuples is kept: the garbage collector forgets it soon, and it takes a tenth of the memory of the maps of 50
    channels.
    """

    __slots__ = (
        "_base", "_codec", "_constant", "_guarded", "_heads", "_name", "_newest", "_notes", "_ref", "_turn", "closed",
        "last", "refused",
    )  # fmt: skip

    def __init__(
        self,
        turn: threading.RLock,
        heads: dict[str, str | None],
        codec: Codec,
        ref: Ref,
        base: CheckpointDraft,
        constant: Constant,
        name: NameTask,
    ) -> None:
        self._turn, self._codec, self._constant, self._name, self._ref = turn, codec, constant, name, ref
        self._heads, self._guarded = heads, ref.id is not None
        """The newest checkpoints of the thread by namespace, where they are sure; whether this one's has to be."""
        self._notes: list[tuple[Any, ...]] = []
        self._newest = base.id
        # Its maps and nothing else: a thread that nobody reads must not keep the objects of its state.
        self._base = self.last = base._replace(plains={}, carried={})
        """The newest checkpoint that there is a draft of."""
        self.closed = False
        """Whether it takes no more: there are drafts of all that it has."""
        self.refused = False
        """Whether it was given what is too long for it."""

    @property
    def thread_id(self) -> str:
        """The thread that it is about."""
        return self._ref.thread_id

    def note(
        self,
        id: str,
        moment: int,
        step: int,
        node: str,
        path: str,
        triggers: Sequence[str],
        version: Any,
        updated: Collection[str],
        writes: Pairs,
        moved: Pairs,
        emptied: Collection[str],
    ) -> bool:
        """Keep the superstep of one task, whose checkpoint ``id`` is made at ``moment`` (ns since 1970).

        ``moved`` are the channels that have ``version`` now, with their values; ``emptied`` those that have none.
        False, and nothing is kept, where a value is not small, and where somebody has read or stored something in
        between: then it is to be stored as any step.
        """
        pairs = (*writes, *moved)
        if not _FIXED.issuperset(map(type, map(_value, pairs))):
            small = self._small(pairs)
            if small is None:
                self.refused = True
                return False
            pairs = small
        with self._turn:
            heads, ns, notes = self._heads, self._ref[1], self._notes
            if self.closed or len(notes) >= MOST:
                return False
            if not self._guarded:
                heads.pop(ns, None)
            elif heads.get(ns) == self._newest:
                heads[ns] = id
            else:
                return False
            self._newest = id
            notes.append(
                (id, moment, step, node, path, triggers, version, tuple(updated), len(writes), pairs, tuple(emptied))
            )
        return True

    def _small(self, pairs: Pairs) -> tuple[tuple[str, Any], ...] | None:
        """The same with values that nobody can change: bytes are what a value is stored as. None if one is long."""
        small: list[tuple[str, Any]] = []
        known: Any = small  # what has no bytes yet is no bytes
        packed = b""
        for name, value in pairs:
            kind = type(value)
            if kind in _FIXED or (kind is str and len(value) <= _SHORT):
                small.append((name, value))
                continue
            if value is not known:
                if kind in (str, list, dict) and len(value) > _SHORT:
                    return None
                try:
                    packed = self._codec.dumps(value)
                except SerializationError:  # which a step that is stored now tells better
                    return None
                if len(packed) > INLINE:
                    return None
                known = value
            small.append((name, packed))
        return tuple(small)

    def drafts(self) -> list[StepDraft]:
        """Its supersteps as drafts. It takes no more then."""
        self.closed = True
        made, last = list[StepDraft](), self._base
        for note in self._notes:
            draft = self._draft(last, note)
            assert draft.checkpoint is not None
            made.append(draft)
            last = draft.checkpoint
        self.last = last
        return made

    def after_fork(self) -> None:
        """In a forked child it takes no more: whoever held the lock is not there."""
        self.closed, self._turn = True, threading.RLock()

    def _draft(self, before: CheckpointDraft, note: tuple[Any, ...]) -> StepDraft:
        """A superstep as the engine would have handed it in."""
        id, moment, number, node, path, triggers, version, updated, writes, pairs, emptied = note
        values = dict(pairs[writes:])
        new_versions = dict.fromkeys((*values, *emptied), version)
        looked_at = {name: before.versions[name] for name in triggers if name in before.versions}
        thread_id, ns, _ = self._ref
        step = NextStep(
            id,
            moment,
            number,
            writes=((self._name(before.id, number, node, triggers), path, pairs[:writes]),),
            new_versions=new_versions,
            versions={**before.versions, **new_versions},
            seen={**before.seen, node: {**before.seen.get(node, {}), **looked_at}},
            values=values,
            updated=sorted(updated),
            looked=(node,),
            lengthened={},
            expected_head=before.id if self._guarded else UNSET,
        )
        facts = self._constant.facts(before.id, number, ids.timestamp(moment), self._codec.dumps)
        return draft_next(Ref(thread_id, ns, before.id), before, facts, step, self._dumps, None, None)

    def _dumps(self, value: Any) -> bytes:
        return value if type(value) is bytes else self._codec.dumps(value)
