"""From rows to values: what has to be fetched, in a bounded number of queries however many rows are read."""

from __future__ import annotations

import builtins
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from threadmark.checkpoint.base import CheckpointTuple, PendingWrite, TaskWrites
from threadmark.checkpoint.caches import Caches, Parent
from threadmark.checkpoint.codec import Codec, Seal, checkpoint_place, segment_place, task_place, value_place
from threadmark.checkpoint.entries import unpack_entries
from threadmark.checkpoint.facts import ASIDES, METADATA, MORE, SHOWN, metadata_of, unpack_extra
from threadmark.checkpoint.layout import (
    Assembly,
    Known,
    KnownRow,
    Plain,
    Program,
    assemble,
    frames_wanted,
    inline_value,
    open_segments,
    parted_values,
    reachable,
    read_programs,
    segments_wanted,
)
from threadmark.checkpoint.names import config_of
from threadmark.checkpoint.opened import Opened, OpenedTask, in_order
from threadmark.checkpoint.records import ORPHANED, CheckpointRow, Take, TaskRow, Thread, View
from threadmark.checkpoint.serde.errors import DeserializationError
from threadmark.errors import DamagedRow
from threadmark.tuples import tuple_of

_UNREAD: Final[Any] = object()
_ATOMS: Final = frozenset((str, int, float, bool, bytes, type(None)))
"""Classes of values that nobody can change, so that two checkpoints may show the same object."""


class Shelf:
    """One thread's rows as one operation sees them."""

    __slots__ = ("bodies", "caches", "codec", "found", "programs", "seal", "thread", "thread_id", "view")

    def __init__(self, view: View, codec: Codec, caches: Caches, thread_id: str, thread: Thread) -> None:
        self.view, self.codec, self.caches = view, codec, caches
        self.thread_id, self.thread = thread_id, thread
        self.seal: Seal | None = codec.seal(thread_id)
        self.found: dict[bytes, bytes] = {}
        """Segment rows that came along with others."""
        self.bodies: dict[int, bytes] = {}
        """Value rows that came along."""
        self.programs: dict[bytes, Program | None] = {}
        """Of bodies that were read before."""

    async def take(self, row: CheckpointRow, *, keep: bool = False) -> Opened:
        """Take a checkpoint row apart. ``keep`` remembers it for the writer of the next one."""
        body = row.body if self.seal is None else self.seal.open(checkpoint_place(row), row.body)
        head = self._remembered(row)
        known = self.caches.decoded.get(body) if head is None else head.row
        if known is None:
            (known,) = await self._maps((body,))
        if keep and head is None:
            self.caches.parents.set((self.thread_id, row.ns, row.id), Parent(self.thread, known, row.body))
        return tuple_of(Opened, (row, known, unpack_extra(known.fields.extra), ()))

    def tasks_of(self, row: CheckpointRow, tasks: Iterable[TaskRow]) -> list[OpenedTask]:
        """A checkpoint's own among these task rows, taken apart."""
        id, ns = row.id, row.ns
        return self.in_order(task for task in tasks if task.id == id and task.ns == ns)

    def in_order(self, tasks: Iterable[TaskRow]) -> list[OpenedTask]:
        """Task rows of one checkpoint taken apart, by path and id."""
        return in_order([self.open_task(task) for task in tasks])

    async def open(self, rows: Sequence[CheckpointRow], tasks: Iterable[TaskRow] = ()) -> list[Opened]:
        """Take checkpoint rows apart, each with its own among these task rows."""
        bodies = [row.body if self.seal is None else self.seal.open(checkpoint_place(row), row.body) for row in rows]
        maps = await self._maps(bodies)
        by_name: dict[tuple[str, str], list[OpenedTask]] = {}
        for task in tasks:
            by_name.setdefault((task.ns, task.id), []).append(self.open_task(task))
        return [
            Opened(row, known, unpack_extra(known.fields.extra), in_order(by_name.get((row.ns, row.id), [])))
            for row, known in zip(rows, maps, strict=True)
        ]

    def _remembered(self, row: CheckpointRow) -> Parent | None:
        """A checkpoint that was written or read here, if it is stored as it was: half of reading a head is its maps."""
        parent = self.caches.parents.get((self.thread_id, row.ns, row.id))
        return parent if parent is not None and parent.body == row.body and parent.thread == self.thread else None

    async def _maps(self, bodies: Sequence[bytes]) -> Sequence[KnownRow]:
        """What the bodies of checkpoint rows say, from memory where it is there."""
        codec, decoded = self.codec.maps, self.caches.decoded
        if codec.kept:
            return [codec.decode(body, {}) for body in bodies]
        found = {body: known for body in bodies if (known := decoded.get(body)) is not None}
        missing = [body for body in bodies if body not in found]
        if missing:
            frames = await self._segments(codec.frames(missing))
            for body in missing:
                found[body] = codec.decode(body, frames)
                decoded.set(body, found[body])
        return [found[body] for body in bodies]

    def open_task(self, row: TaskRow) -> OpenedTask:
        """Take a task row apart."""
        body = row.body if self.seal is None else self.seal.open(task_place(row), row.body)
        return tuple_of(OpenedTask, (row.task_id, row.path, unpack_entries(body)))

    async def parent(self, ns: str, id: str) -> Parent | None:
        """A checkpoint as the base of the next one; None if it is not stored."""
        row = await self.view.checkpoint(self.thread, ns, id)
        return None if row is None else Parent(self.thread, (await self.take(row, keep=True)).known, row.body)

    async def materials(self, opened: Sequence[Opened | Sequence[OpenedTask]], *, once: bool = False) -> Materials:
        """Everything that these checkpoints' values and task writes, or these tasks' alone, are made of.

        ``once``: see ``Materials``.
        """
        ids, bodies = set[int](), list[bytes]()
        for item in opened:
            if isinstance(item, Opened):
                ids.update(ref for ref in item.known.fields.values.values() if isinstance(ref, int))
            tasks = item.tasks if isinstance(item, Opened) else item
            bodies += [body for task in tasks for _, _, body in task.entries]
        return await self.gathered(ids, bodies, once=once)

    async def look_up(self, ids: Collection[int], bodies: Iterable[bytes]) -> None:
        """Fetch value rows, and what they and these bodies of task writes are made of: all that one query can give."""
        cached = self.caches
        ids = [id for id in ids if cached.values.get((self.thread.key, id)) is None]
        parted = parted_values(bodies)
        framed = [body for body in parted if frames_wanted((body,))]
        alone = list(set(parted).difference(framed))
        self.programs.update(zip(alone, read_programs(alone, {}), strict=True))
        keys = frames_wanted(framed) | segments_wanted(self.programs.values())
        keys = {key for key in keys if cached.segments.get((self.thread.key, key)) is None}
        if ids or keys:
            pieces = await self.view.pieces(self.thread, ids, keys, framed)
            self.bodies.update(pieces.values)
            self.found.update(pieces.segments)

    async def gathered(self, ids: Collection[int], bodies: Iterable[bytes], *, once: bool = False) -> Materials:
        """Everything that these values, from memory where they are there, and bodies of task writes are made of."""
        found, key, remembered = Materials(self, once=once), self.thread.key, self.caches.values.get
        found.values = {id: known for id in ids if (known := remembered((key, id))) is not None}
        missing = [id for id in ids if id not in found.values] if len(found.values) < len(ids) else []
        parted = parted_values(bodies)
        if missing or parted:
            await found.fetch(missing, parted)
        return found

    async def values(self, ids: Collection[int]) -> dict[int, Known]:
        """Stored values as bases; those whose rows are gone are left out."""
        found = Materials(self)
        await found.fetch(ids, ())
        return {id: found.known(id, keep=True) for id in found.bodies}

    async def reachable(self, bodies: Sequence[bytes], rows: Sequence[bytes]) -> set[bytes]:
        """Keys of all segments that these bodies of values and writes, and of checkpoint rows, depend on."""
        frames = await self._segments(frames_wanted(bodies))
        return reachable(bodies, frames) | set(self.codec.maps.frames(rows))

    async def _segments(self, keys: Collection[bytes]) -> dict[bytes, bytes]:
        """Plaintext of segments, from memory where it is there."""
        found, missing = dict[bytes, bytes](), list[bytes]()
        for key in keys:
            plain = self.caches.segments.get((self.thread.key, key))
            if plain is None:
                missing.append(key)
            else:
                found[key] = plain

        def take(rows: Mapping[bytes, bytes]) -> None:
            for key, plain in open_segments(rows).items():
                self.caches.segments.set((self.thread.key, key), plain)
                found[key] = plain

        if missing:
            await self.some_segments(missing, take)
        return found

    async def some_segments(self, keys: Collection[bytes], take: Take) -> None:
        """Hand segments to ``take`` as the layout packed them, some at a time and in any order."""
        seal, found = self.seal, self.found

        def opened(rows: Mapping[bytes, bytes]) -> None:
            assert seal is not None
            take({key: seal.open(segment_place(key), data) for key, data in rows.items()})

        given = take if seal is None else opened
        if found:
            given({key: found[key] for key in keys if key in found})
            keys = [key for key in keys if key not in found]
        if keys:
            await self.view.segments(self.thread, keys, given)


class Materials:
    """Rows and segments that values are assembled from, one by one, when they are asked for.

    ``once`` puts values together while their segments come in and remembers no segment, only the values: the quicker
    way for the first checkpoint that is read of a thread, and the slower one for further checkpoints of it.
    """

    __slots__ = ("assembly", "atoms", "bodies", "once", "programs", "segments", "shelf", "values")

    def __init__(self, shelf: Shelf, *, once: bool = False) -> None:
        self.shelf, self.once = shelf, once
        self.atoms: dict[Any, Any] = {**shelf.codec.atoms}
        """Values that nobody can change, by the ids of their rows, or by their bytes. Neighbours share most of them:
        read once they take half of the time that a checkpoint of small values takes.
        """
        self.values: dict[int, Known] = {}
        self.bodies: dict[int, bytes] = {}
        self.programs: dict[bytes, Program | None] = {}
        self.segments: Mapping[bytes, bytes] = {}
        """Their plaintext, unless ``once``."""
        self.assembly: Assembly | None = None
        """Puts their values together, if ``once``."""

    async def fetch(self, ids: Collection[int], bodies: Iterable[bytes]) -> None:
        """Fetch value rows, and what they and these bodies of task writes are made of: three queries at most."""
        shelf = self.shelf
        if ids:
            rows = {id: shelf.bodies[id] for id in ids if id in shelf.bodies}
            if len(rows) < len(ids):
                rows.update(await shelf.view.values(shelf.thread, [id for id in ids if id not in rows]))
            seal = shelf.seal
            self.bodies = rows if seal is None else {i: seal.open(value_place(i), b) for i, b in rows.items()}
        every = parted_values((*self.bodies.values(), *bodies))
        if every:
            self.programs = {body: shelf.programs[body] for body in every if body in shelf.programs}
            new = [body for body in every if body not in self.programs]
            frames = await shelf._segments(frames_wanted(new))
            self.programs.update(zip(new, read_programs(new, frames), strict=True))
            keys = segments_wanted(self.programs.values())
            if self.once:
                self.assembly = Assembly(self.programs)
                await shelf.some_segments(keys, self.assembly.take)
            elif keys:
                self.segments = await shelf._segments(keys)

    def known(self, id: int, *, keep: bool) -> Known:
        """The value of a value row. ``keep`` remembers it as the base of a later one."""
        known = self.values.get(id)
        if known is None:
            body = self.bodies.get(id)
            if body is None:
                raise DamagedRow(
                    f"thread {self.shelf.thread_id!r} has lost the value row {id}; restore the database from a backup "
                    f"or go on from an earlier checkpoint"
                )
            known = self._assembled(body)
            if keep:
                self.shelf.caches.values.set((self.shelf.thread.key, id), known)
        return known

    def _assembled(self, body: bytes) -> Known:
        program = self.programs.get(body)
        if program is None or self.assembly is None:
            return assemble(body, program, self.segments)
        return self.assembly.known(body)

    def value(
        self, opened: Opened, channel: str, *, keep: bool = False, long_lists: dict[str, Plain] | None = None
    ) -> Any:
        """What a channel holds at a checkpoint. ``long_lists`` takes what is known of a long list's bytes."""
        ref = opened.known.fields.values[channel]
        value = self.atoms.get(ref, _UNREAD)
        if value is _UNREAD:
            plain = ref if isinstance(ref, bytes) else self.known(ref, keep=keep).plain
            value = self._load(plain, channel, opened.row, long_lists)
            if type(value) in _ATOMS:
                self.atoms[ref] = value
        return value

    def _load(
        self,
        plain: Plain,
        channel: str,
        row: CheckpointRow | OpenedTask,
        long_lists: dict[str, Plain] | None = None,
    ) -> Any:
        try:
            if long_lists is None:
                return self.shelf.codec.load(plain)
            value, long_list = self.shelf.codec.load_list(plain)
            if long_list is not None:
                long_lists[channel] = long_list
            return value
        except DeserializationError as error:
            where = f"checkpoint {row.id}" if isinstance(row, CheckpointRow) else f"task {row.task_id}"
            raise type(error)(
                f"{error} (channel {channel!r}, {where}, thread {self.shelf.thread_id!r})", class_name=error.class_name
            ) from error

    def tuple(self, opened: Opened, *, keep: bool) -> CheckpointTuple:
        """A checkpoint as people see it."""
        thread_id, atoms = self.shelf.thread_id, self.atoms
        (ns, id, columns, flags, _), known, extra, tasks = opened
        versions, seen, refs, updated, _ = known.fields
        long_lists: dict[str, Plain] | None = {} if keep else None
        values = {
            channel: atoms[ref] if ref in atoms else self.value(opened, channel, keep=keep, long_lists=long_lists)
            for channel, ref in refs.items()
            if channel not in ASIDES
        }
        checkpoint: Any = {
            "v": extra.v,
            "ts": columns.ts,
            "id": id,
            "channel_values": values,
            "channel_versions": dict(versions),
            "versions_seen": {node: dict(versions) for node, versions in seen.items()},
            "updated_channels": None if updated is None else list(updated),
        }
        if extra.more is not None or MORE in refs:
            self._add_more(opened, checkpoint)
        parent = columns.parent if not flags & ORPHANED else None
        found = CheckpointTuple(
            config_of(thread_id, ns, id),
            checkpoint,
            self.metadata(opened),
            config_of(thread_id, ns, parent) if parent else None,
            self.writes(tasks) if tasks else [],
        )
        if extra.shown is not None or SHOWN in refs:
            found.shown_writes = self.part(opened, extra.shown, SHOWN)
        if long_lists:
            found.long_lists = long_lists
        return found

    def _add_more(self, opened: Opened, checkpoint: dict[str, Any]) -> None:
        """Add what a checkpoint has beside the usual keys, and take away the one that it has not."""
        more = self._mapping(opened, self.part(opened, opened.extra.more, MORE))
        if "updated_channels" in more:
            del checkpoint["updated_channels"]
            del more["updated_channels"]
        checkpoint.update(more)

    def metadata(self, opened: Opened) -> Any:
        """What is known about a checkpoint."""
        small = opened.extra.metadata
        if small is True:
            return metadata_of(opened.row.columns)
        return self._mapping(opened, self.part(opened, cast("bytes | None", small), METADATA))

    def _mapping(self, opened: Opened, part: Any) -> dict[str, Any]:
        if not isinstance(part, dict):
            raise DamagedRow(
                f"what checkpoint {opened.row.id!r} of thread {self.shelf.thread_id!r} says about itself cannot be "
                f"read; restore it from a backup"
            )
        return part

    def part(self, opened: Opened, small: bytes | None, name: str) -> Any:
        """A part of a checkpoint, wherever it is; None if it has none."""
        if small is not None:
            return self.shelf.codec.load(small)
        return self.value(opened, name) if name in opened.known.fields.values else None

    def writes(self, tasks: Iterable[OpenedTask]) -> builtins.list[PendingWrite]:
        """Pending writes by task path, task id and place (spec 1.8)."""
        return [self.write(task, channel, body) for task in tasks for _, channel, body in task.entries]

    def left_by(self, tasks: Iterable[OpenedTask]) -> builtins.list[TaskWrites]:
        """What each task wrote, by place."""
        return [
            (task.task_id, task.path, [self.write(task, channel, body)[1:] for _, channel, body in task.entries])
            for task in tasks
        ]

    def write(self, task: OpenedTask, channel: str, body: bytes) -> PendingWrite:
        """One write of a task."""
        plain = inline_value(body)
        if plain is None:
            return task.task_id, channel, self._load(self._assembled(body).plain, channel, task)
        value = self.atoms.get(plain, _UNREAD)
        if value is _UNREAD:
            value = self._load(plain, channel, task)
            if type(value) in _ATOMS:
                self.atoms[plain] = value
        return task.task_id, channel, value
