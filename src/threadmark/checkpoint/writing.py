"""From drafts to rows: what is new is stored, what an earlier row holds is named."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import ormsgpack

from threadmark.checkpoint.base import Unset
from threadmark.checkpoint.caches import Caches, Parent
from threadmark.checkpoint.codec import Codec, Seal, checkpoint_place, segment_place, task_place, value_place
from threadmark.checkpoint.draft import CheckpointDraft, StepDraft, TaskDraft, merge_entries, unpacked
from threadmark.checkpoint.layout import Encoded, Known, RowFields, Segment, encode, encode_row
from threadmark.checkpoint.plain import join
from threadmark.checkpoint.records import Change, CheckpointRow, TaskRow, Thread
from threadmark.errors import HeadMoved

TINY: Final = 48
"""A value up to so many bytes stays in the checkpoint's row; measured: the smallest files on small states."""
_START: Final = "__start__"
_NO_VERSION: Final = object()


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


class Rows:
    """What one step adds, ready to store once its base is found unchanged."""

    __slots__ = ("checkpoint", "draft", "segments", "tasks", "values")

    def __init__(self, draft: StepDraft) -> None:
        self.draft = draft
        self.tasks: list[TaskRow] = []
        self.values: list[tuple[int, bytes]] = []
        self.segments: dict[bytes, bytes] = {}
        self.checkpoint: CheckpointRow | None = None


class Prepared:
    """Steps of one thread as rows.

    ``bases`` are the stored bodies that the rows were made against: they must still be there, byte for byte, in
    the transaction that stores the rows. Every value and segment that the rows refer to belongs to one of them.
    """

    def __init__(self, thread: Thread | None, salt: bytes) -> None:
        self.thread = thread
        self.salt = salt
        self.bases: dict[tuple[str, str], bytes] = {}
        self.rows: list[Rows] = []
        self.parents: dict[tuple[str, str], Parent] = {}
        self.values: dict[int, Known] = {}


class Source(Protocol):
    """Where bases that are not remembered are read from."""

    async def parent(self, ns: str, id: str) -> Parent | None: ...

    async def value(self, id: int) -> Known | None: ...


class Preparer:
    """Makes rows of drafts for one thread.

    ``ghosts`` are remembered checkpoints that turned out to be gone: a value carried over from one of them is
    stored anew, from memory if it is still there.
    """

    def __init__(
        self,
        codec: Codec,
        caches: Caches,
        thread_id: str,
        out: Prepared,
        source: Source,
        ghosts: Mapping[tuple[str, str], Parent],
    ) -> None:
        self.codec, self.caches, self.thread_id, self.out = codec, caches, thread_id, out
        self.source, self.ghosts = source, ghosts
        self.seal: Seal | None = codec.seal(thread_id)
        self._hash_key = codec.hash_key(thread_id, out.salt)

    async def step(self, draft: StepDraft) -> None:
        """Add the rows of one step."""
        rows = Rows(draft)
        parent = await self._parent(draft.ns, draft.at) if self._wants_parent(draft) else None
        written: dict[str, list[Encoded]] = {}
        for task in draft.tasks:
            rows.tasks.append(await self._task(draft, task, parent, rows, written))
        if draft.checkpoint is not None:
            rows.checkpoint = await self._checkpoint(draft.ns, draft.checkpoint, parent, rows, written)
        self.out.rows.append(rows)

    def _wants_parent(self, draft: StepDraft) -> bool:
        """Whether anything of a step may build on an earlier row: task writes that are small do not."""
        inline = self.codec.policy.inline
        return draft.checkpoint is not None or any(
            len(plain) > inline for task in draft.tasks for _, _, plain in task.entries
        )

    async def _parent(self, ns: str, id: str | None) -> Parent | None:
        """The checkpoint that a step builds on: of this flush, remembered, or read."""
        if id is None:
            return None
        fresh = self.out.parents.get((ns, id))
        if fresh is not None:
            return fresh
        if self.out.thread is None:
            return None
        parent = self.caches.parents.get((self.thread_id, ns, id))
        if parent is None or parent.thread != self.out.thread:
            parent = await self.source.parent(ns, id)
        if parent is not None:
            self.out.bases[ns, id] = parent.body
        return parent

    async def _task(
        self, draft: StepDraft, task: TaskDraft, parent: Parent | None, rows: Rows, written: dict[str, list[Encoded]]
    ) -> TaskRow:
        packed = []
        for at, channel, plain in task.entries:
            if len(plain) <= self.codec.policy.inline:
                packed.append((at, channel, b"\0" + plain))
                continue
            encoded = self._encode(plain, await self._base_of_write(parent, channel, plain), rows)
            written.setdefault(channel, []).append(encoded)
            packed.append((at, channel, encoded.body))
        row = TaskRow(draft.ns, draft.at or "", task.task_id, task.path, ormsgpack.packb(packed))
        return row if self.seal is None else row._replace(body=self.seal.seal(task_place(row), row.body))

    async def _base_of_write(self, parent: Parent | None, channel: str, plain: bytes) -> Known | None:
        """The channel's value, or the graph's input when it may hold the write whole."""
        if parent is None:
            return None
        refs = parent.row.fields.values
        start = refs.get(_START)
        if isinstance(start, int):
            known = await self._value(start)
            if known is not None and len(known.plain) >= len(plain):
                return known
        return await self._value(refs.get(channel))

    async def _value(self, ref: Any) -> Known | None:
        if not isinstance(ref, int):
            return None
        fresh = self.out.values.get(ref)
        if fresh is not None or self.out.thread is None:
            return fresh
        known = self.caches.values.get((self.out.thread.key, ref))
        return known if known is not None else await self.source.value(ref)

    def _encode(self, plain: bytes, base: Known | None, rows: Rows) -> Encoded:
        encoded = encode(plain, base, salt=self._hash_key, policy=self.codec.policy)
        for segment in encoded.segments:
            self._segment(segment, rows)
        return encoded

    def _segment(self, segment: Segment, rows: Rows) -> None:
        key, data = segment.key, segment.data
        rows.segments[key] = data if self.seal is None else self.seal.seal(segment_place(key), data)

    async def _checkpoint(
        self, ns: str, draft: CheckpointDraft, parent: Parent | None, rows: Rows, written: Mapping[str, list[Encoded]]
    ) -> CheckpointRow:
        names: dict[str, int | bytes] = {}
        before = parent.row.fields if parent is not None else RowFields()
        for channel, version in draft.versions.items():
            plain = draft.plains.get(channel)
            if plain is None:
                if channel in before.values and before.versions.get(channel, _NO_VERSION) == version:
                    names[channel] = before.values[channel]
                    continue
                if channel not in draft.carried:
                    continue
                plain = self._carried(ns, draft, channel)
            if len(plain) <= TINY:
                names[channel] = plain
            else:
                names[channel] = await self._store(plain, before.values.get(channel), rows, written.get(channel, ()))
        fields = RowFields(
            versions=draft.versions, seen=draft.seen, values=names, updated=draft.updated, extra=draft.extra
        )
        encoded = encode_row(fields, parent.row if parent else None, salt=self._hash_key, policy=self.codec.policy)
        for segment in encoded.segments:
            self._segment(segment, rows)
        row = CheckpointRow(ns, draft.id, draft.columns, 0, encoded.body)
        if self.seal is not None:
            row = row._replace(body=self.seal.seal(checkpoint_place(row), row.body))
        self.out.parents[ns, draft.id] = Parent(self.out.thread or Thread(None, self.out.salt), encoded.known, row.body)
        return row

    async def _store(self, plain: bytes, ref: int | bytes | None, rows: Rows, written: Sequence[Encoded]) -> int:
        """The id of a value row with this value: the parent's if it is equal, else a new one."""
        encoded = next((write for write in written if write.known.plain == plain), None)
        if encoded is None:
            base = await self._value(ref)
            encoded = self._encode(plain, base or (written[-1].known if written else None), rows)
            if encoded.unchanged and isinstance(ref, int) and base is not None:
                return ref
        id = _ids.next()
        rows.values.append((id, encoded.body if self.seal is None else self.seal.seal(value_place(id), encoded.body)))
        self.out.values[id] = encoded.known
        return id

    def _carried(self, ns: str, draft: CheckpointDraft, channel: str) -> bytes:
        """A value that the parent had when the step was drafted, and that is not there to be named any more."""
        ghost = self.ghosts.get((ns, draft.columns.parent or ""))
        ref = ghost.row.fields.values.get(channel) if ghost is not None else None
        if isinstance(ref, bytes):
            return ref
        if ghost is not None and ref is not None:
            known = self.caches.values.get((ghost.thread.key, ref))
            if known is not None:
                return known.plain
        return join(self.codec.dumps(draft.carried[channel]))


async def store_rows(change: Change, thread: Thread, rows: Rows, seal: Seal | None) -> None:
    """Store the rows of one step."""
    if rows.segments:
        await change.add_segments(thread, list(rows.segments.items()))
    if rows.values:
        await change.add_values(thread, rows.values)
    for task in rows.tasks:
        if not await change.add_task(thread, task):
            old = await change.task(thread, task.ns, task.id, task.task_id)
            await change.put_task(thread, task if old is None else _merged(old, task, seal))
    if rows.checkpoint is not None:
        await change.put_checkpoint(thread, rows.checkpoint)


def _merged(old: TaskRow, new: TaskRow, seal: Seal | None) -> TaskRow:
    bodies = [row.body if seal is None else seal.open(task_place(row), row.body) for row in (old, new)]
    entries = merge_entries(*(unpacked(body) for body in bodies))
    row = TaskRow(new.ns, new.id, new.task_id, new.path or old.path, ormsgpack.packb(entries))
    return row if seal is None else row._replace(body=seal.seal(task_place(row), row.body))


async def check_head(change: Change, thread_id: str, thread: Thread, draft: StepDraft) -> None:
    """``HeadMoved`` unless the newest checkpoint of the namespace is the one that the step expects."""
    if isinstance(draft.expected_head, Unset):
        return
    head = await change.checkpoint(thread, draft.ns, None)
    found = head.id if head is not None else None
    if found != draft.expected_head:
        raise HeadMoved(thread_id, draft.ns, draft.expected_head, found)
