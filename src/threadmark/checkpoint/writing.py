"""From drafts to rows: what is new is stored, what an earlier row holds is named."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final, cast

from threadmark.checkpoint.base import UNSET
from threadmark.checkpoint.caches import Caches, Parent
from threadmark.checkpoint.codec import Codec, Seal, checkpoint_place, segment_place, task_place, value_place
from threadmark.checkpoint.draft import INLINE, CheckpointDraft, StepDraft, TaskDraft
from threadmark.checkpoint.entries import merge_entries, pack_entries, unpack_entries
from threadmark.checkpoint.layout import Encoded, Known, Moved, Plain, RowFields, Segment, encode, equal, joined
from threadmark.checkpoint.reading import Shelf
from threadmark.checkpoint.records import Change, CheckpointRow, Rows, TaskRow, Thread
from threadmark.errors import HeadMoved
from threadmark.tuples import tuple_of

TINY: Final = 48
"""A value up to so many bytes stays in the checkpoint's row; measured: the smallest files on small states."""
_START: Final = "__start__"
_NO_VERSION: Final = object()
_NO_FIELDS: Final = RowFields()
_NOTHING: Final[Mapping[tuple[str, str], Parent]] = {}
_has_large: Final = attrgetter("large")


class _ValueIds:
    """Ids of value rows: rising, and never given out twice, by this process or another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def next(self) -> int:
        # Microseconds since 1970 and 11 random bits: 63 bits until the year 2112.
        fresh = time.time_ns() // 1000 << 11 | int.from_bytes(os.urandom(2), "big") & 0x7FF
        with self._lock:
            self._last = max(self._last + 1, fresh)
            return self._last


_ids = _ValueIds()


class Bases:
    """What the steps of one thread may build on: stored checkpoints and values, from memory or read.

    ``ghosts`` are remembered checkpoints that turned out to be gone: a value carried over from one of them is
    stored anew, from memory if it is still there.
    """

    __slots__ = ("ghosts", "parents", "thread", "values")

    def __init__(self, thread: Thread | None, ghosts: Mapping[tuple[str, str], Parent] = _NOTHING) -> None:
        self.thread = thread
        self.parents: dict[tuple[str, str], Parent] = {}
        self.values: dict[int, Known] = {}
        self.ghosts = ghosts

    def recall(self, caches: Caches, thread_id: str, drafts: Sequence[StepDraft]) -> bool:
        """Take what is remembered; whether that is everything."""
        complete, thread = True, self.thread
        if thread is None:
            return complete
        for name in _parents_wanted(drafts):
            parent = caches.parents.get((thread_id, *name))
            if parent is None or (parent.thread is not thread and parent.thread != thread):
                complete = False
            else:
                self.parents[name] = parent
        for ref in self._values_wanted(drafts) if any(map(_has_large, drafts)) else ():
            known = caches.values.get((thread.key, ref))
            if known is None:
                complete = False
            else:
                self.values[ref] = known
        return complete

    async def read(self, shelf: Shelf, drafts: Sequence[StepDraft]) -> None:
        """Read what was not remembered."""
        for ns, id in _parents_wanted(drafts):
            if (ns, id) not in self.parents:
                parent = await shelf.parent(ns, id)
                if parent is not None:
                    self.parents[ns, id] = parent
        wanted = self._values_wanted(drafts)
        self.values |= await shelf.values(wanted - self.values.keys())

    def _values_wanted(self, drafts: Sequence[StepDraft]) -> set[int]:
        """Ids of the values that large new ones may share bytes with, as far as the parents say."""
        wanted = set[int]()
        if not self.parents:
            return wanted
        for draft in drafts:
            if draft.large:
                channels = (*draft.large, _START)
                for parent in self.parents.values():
                    refs = map(parent.row.fields.values.get, channels)
                    wanted.update(ref for ref in refs if isinstance(ref, int))
        return wanted


def _parents_wanted(drafts: Sequence[StepDraft]) -> list[tuple[str, str]]:
    """Names of the checkpoints that steps build on, but those of these steps. Small task writes build on none."""
    if len(drafts) == 1:  # as a rule
        (only,) = drafts
        return [] if only.at is None or (only.checkpoint is None and not only.large) else [(only.ns, only.at)]
    made, wanted = set[tuple[str, str]](), list[tuple[str, str]]()
    for draft in drafts:
        checkpoint = draft.checkpoint
        if draft.at is not None and (checkpoint is not None or draft.large):
            name = (draft.ns, draft.at)
            if name not in made:
                wanted.append(name)
        if checkpoint is not None:
            made.add((draft.ns, checkpoint.id))
    return wanted


class Prepared:
    """Steps of one thread as rows.

    ``bases`` are the stored bodies that the rows were made against: they must still be there, byte for byte, in
    the transaction that stores the rows. Every value and segment that the rows refer to belongs to one of them.
    """

    __slots__ = (
        "_bases", "_codec", "_hash_key", "_seal", "bases", "parents", "replaced", "rows", "salt", "thread", "values"
    )  # fmt: skip

    def __init__(self, codec: Codec, thread_id: str, salt: bytes, bases: Bases, drafts: Sequence[StepDraft]) -> None:
        self.thread = bases.thread
        self.salt = salt
        self.bases = {name: parent.body for name, parent in bases.parents.items()}
        self.parents: dict[tuple[str, str], Parent] = {}
        self.values: dict[int, Known] = {}
        self.replaced: list[int] = []
        """Ids of values that a newer one of the same channel follows, or none: nobody builds on them soon."""
        self._codec, self._bases = codec, bases
        self._seal = codec.seal(thread_id)
        self._hash_key = codec.hash_key(thread_id, salt)
        self.rows = [self._step(draft) for draft in drafts]

    def _step(self, draft: StepDraft) -> Rows:
        rows = Rows()
        name = (draft.ns, draft.at or "")
        parent = self.parents.get(name) or self._bases.parents.get(name)
        written: dict[str, list[Known]] = {}
        for task in draft.tasks:
            rows.tasks.append(self._task(draft, task, parent, rows, written))
        if draft.checkpoint is not None:
            rows.checkpoint = self._checkpoint(draft.ns, draft.checkpoint, parent, rows, written)
        return rows

    def _task(
        self, draft: StepDraft, task: TaskDraft, parent: Parent | None, rows: Rows, written: dict[str, list[Known]]
    ) -> TaskRow:
        packed = [
            (at, channel, b"\0" + plain)
            if len(plain) <= INLINE
            else (at, channel, self._write(channel, plain, parent, rows, written))
            for at, channel, plain in task.entries
        ]
        row = tuple_of(TaskRow, (draft.ns, draft.at or "", task.task_id, task.path, pack_entries(packed)))
        return row if self._seal is None else row._replace(body=self._seal.seal(task_place(row), row.body))

    def _write(
        self, channel: str, plain: Plain, parent: Parent | None, rows: Rows, written: dict[str, list[Known]]
    ) -> bytes:
        """The body of a large write."""
        base = self._base_of_write(parent, channel, plain)
        if len(plain) <= self._codec.policy.aside and base is not None and len(base.plain) >= 4 * len(plain):
            return b"\0" + joined(plain)
        encoded = self._encode(plain, base, rows)
        written.setdefault(channel, []).append(encoded.known)
        return encoded.body

    def _base_of_write(self, parent: Parent | None, channel: str, plain: Plain) -> Known | None:
        """The channel's value, or the graph's input when it may hold the write whole."""
        if parent is None:
            return None
        refs = parent.row.fields.values
        start = self._known(refs.get(_START))
        if start is not None and len(start.plain) >= len(plain):
            return start
        return self._known(refs.get(channel))

    def _known(self, ref: int | bytes | None) -> Known | None:
        if not isinstance(ref, int):
            return None
        return self.values.get(ref) or self._bases.values.get(ref)

    def _encode(self, plain: Plain, base: Known | None, rows: Rows, also: Sequence[Known] = ()) -> Encoded:
        encoded = encode(plain, base, salt=self._hash_key, also=also, policy=self._codec.policy)
        self._segments(encoded.segments, rows)
        return encoded

    def _segments(self, segments: Sequence[Segment], rows: Rows) -> None:
        seal = self._seal
        for segment in segments:
            data = segment.data
            rows.segments[segment.key] = data if seal is None else seal.seal(segment_place(segment.key), data)

    def _checkpoint(
        self, ns: str, draft: CheckpointDraft, parent: Parent | None, rows: Rows, written: Mapping[str, list[Known]]
    ) -> CheckpointRow:
        before = parent.row.fields if parent is not None else _NO_FIELDS
        old_names = before.values
        follows = draft.since is before.versions and (draft.surely or old_names.keys() <= draft.versions.keys())
        if follows:
            names = dict(old_names)
            for channel in draft.emptied:
                ref = names.pop(channel, None)
                if type(ref) is int:
                    self.replaced.append(ref)
        else:
            names = _names_kept(draft, before)
        for channel, plain in draft.plains.items():
            if len(plain) <= TINY:
                names[channel] = plain  # type: ignore[assignment]  # what lies in pieces is long
            else:
                names[channel] = self._value(plain, old_names.get(channel), rows, written.get(channel, ()))
        if not draft.carried.keys() <= names.keys():
            self._carry(ns, draft, rows, names)
            follows = False
        facts, codec = draft.facts, self._codec
        if facts.asides:
            for name, plain in facts.asides.items():
                names[name] = self._value(plain, old_names.get(name), rows, self._largest(parent, written))
        if not follows:
            used = set(names.values())
            self.replaced += [ref for ref in old_names.values() if isinstance(ref, int) and ref not in used]
        fields = tuple_of(RowFields, (draft.versions, draft.seen, names, draft.updated, facts.extra))
        base = parent.row if parent is not None else None
        maps, moved = codec.maps, None
        if follows and maps.compares and draft.looked is not None and not facts.asides:
            moved = tuple_of(Moved, ((*draft.plains, *draft.emptied), draft.looked, draft.surely))
        _, segments, known = maps.encode(fields, base, self._hash_key, codec.policy, moved)
        if segments:
            self._segments(segments, rows)
        row = tuple_of(CheckpointRow, (ns, draft.id, facts.columns, 0, known.body))
        if self._seal is not None:
            row = row._replace(body=self._seal.seal(checkpoint_place(row), row.body))
        self.parents[ns, draft.id] = tuple_of(Parent, (self.thread or Thread(None, self.salt), known, row.body))
        return row

    def _value(self, plain: Plain, ref: int | bytes | None, rows: Rows, written: Sequence[Known]) -> int:
        """The id of a value row with this value: the parent's if it is equal, else a new one."""
        base = next((known for known in written if equal(known.plain, plain)), None)
        if base is None:
            base = self._known(ref)
            if base is not None and isinstance(ref, int) and equal(base.plain, plain):
                return ref
            if base is None and written:
                base, written = written[-1], written[:-1]
        encoded = self._encode(plain, base, rows, written)
        if isinstance(ref, int):
            self.replaced.append(ref)
        id = _ids.next()
        rows.values.append((id, encoded.body if self._seal is None else self._seal.seal(value_place(id), encoded.body)))
        self.values[id] = encoded.known
        return id

    def _largest(self, parent: Parent | None, written: Mapping[str, list[Known]]) -> list[Known]:
        """What a record of writes most likely holds: the largest write, or else the largest value."""
        found = [known for each in written.values() for known in each]
        if not found and parent is not None:
            found = [known for ref in parent.row.fields.values.values() if (known := self._known(ref)) is not None]
        return sorted(found, key=lambda known: len(known.plain))[-1:]

    def _carry(self, ns: str, draft: CheckpointDraft, rows: Rows, names: dict[str, int | bytes]) -> None:
        """Store what the parent had when the step was drafted, and what is not there to be named any more."""
        ghost = self._bases.ghosts.get((ns, draft.facts.columns.parent or ""))
        refs: Mapping[str, int | bytes] = ghost.row.fields.values if ghost is not None else {}
        for channel in draft.carried.keys() - names.keys():
            ref = refs.get(channel)
            known = self._known(ref)
            plain: Plain
            if isinstance(ref, bytes):
                plain = ref
            else:
                plain = known.plain if known is not None else self._codec.dumps(draft.carried[channel])
            if len(plain) <= TINY and type(plain) is bytes:
                names[channel] = plain
            else:
                names[channel] = self._value(plain, None, rows, ())


def _names_kept(draft: CheckpointDraft, before: RowFields) -> dict[str, int | bytes]:
    """Where the values are that a checkpoint has from its parent; some of those it gets anew may be among them."""
    versions, old = draft.versions, before.values
    known, again = before.versions.get, draft.plains.keys() | draft.emptied
    return {
        channel: ref
        for channel, ref in old.items()
        if channel not in again and versions.get(channel, _NO_VERSION) == known(channel)
    }


async def store_rows(change: Change, thread: Thread, rows: Rows, seal: Seal | None) -> None:
    """Store the rows of one step."""
    if rows.segments:
        await change.add_segments(thread, list(rows.segments.items()))
    if rows.values:
        await change.add_values(thread, rows.values)
    for task in rows.tasks:
        if not await change.add_task(thread, task):
            old = await change.task(thread, task.ns, task.id, task.task_id)
            await change.put_task(thread, task if old is None else merged(old, task, seal))
    if rows.checkpoint is not None:
        await change.put_checkpoint(thread, rows.checkpoint)


def merged(old: TaskRow, new: TaskRow, seal: Seal | None) -> TaskRow:
    """What a task wrote in two calls."""
    bodies = [row.body if seal is None else seal.open(task_place(row), row.body) for row in (old, new)]
    entries = merge_entries(*(unpack_entries(body) for body in bodies))
    row = TaskRow(new.ns, new.id, new.task_id, new.path or old.path, pack_entries(entries))
    return row if seal is None else row._replace(body=seal.seal(task_place(row), row.body))


async def check_heads(
    change: Change, thread_id: str, thread: Thread, drafts: Sequence[StepDraft], heads: dict[str, str | None]
) -> None:
    """``HeadMoved`` unless each step finds the newest checkpoint of its namespace that it expects.

    ``heads`` are those already read, by namespace. Nothing of these steps is stored yet: what a later one finds is what
    the earlier ones are about to store.
    """
    for draft in drafts:
        if draft.expected_head is not UNSET and draft.ns not in heads:
            head = await change.checkpoint(thread, draft.ns, None)
            heads[draft.ns] = head.id if head is not None else None
        follow_head(thread_id, draft, heads)


def follow_head(thread_id: str, draft: StepDraft, heads: dict[str, str | None]) -> None:
    """``HeadMoved`` unless a step finds the head that it expects among ``heads``, which are then as it leaves them."""
    ns, expected, checkpoint = draft.ns, draft.expected_head, draft.checkpoint
    if expected is not UNSET and heads[ns] != expected:
        raise HeadMoved(thread_id, ns, cast("str | None", expected), heads[ns])
    if checkpoint is not None and ns in heads:
        found = heads[ns]
        if found is None or checkpoint.id > found:
            heads[ns] = checkpoint.id
