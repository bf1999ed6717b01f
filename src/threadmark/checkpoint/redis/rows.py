"""Rows of threads in Redis: ``View``. What is read of one thread is of one moment as far as it matters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from threadmark.checkpoint.records import (
    HIDDEN,
    CheckpointRow,
    Conflict,
    Pieces,
    Ref,
    Scope,
    Sizes,
    Take,
    TaskRow,
    Thread,
    ThreadInfo,
    Trail,
)
from threadmark.checkpoint.redis.keys import (
    BETWEEN,
    CHECKPOINT,
    FORMAT,
    NOTHING,
    SEGMENT,
    STAMP,
    TASK,
    TASKS,
    VALUE,
    ThreadKey,
    encoded,
    listed,
    name_of,
    salt_of,
    token_of,
    value_field,
)
from threadmark.checkpoint.redis.packing import (
    ordered,
    pairs,
    segments_of,
    split_name,
    unpack_checkpoint,
    unpack_line,
    unpack_task,
)
from threadmark.checkpoint.redis.store import Listed, Store
from threadmark.checkpoint.trails import OneByOne
from threadmark.errors import ForeignDatabase

UNASKED: Final = object()


class Sheet:
    """What is known of one thread.

    ``identity`` is what is stored of who it is, None for no thread; ``removal`` and ``last`` are the stamps of the last
    removal and of the last change of any kind. ``changed`` is what a change has made of it so far, None for a field
    that it removed.
    """

    __slots__ = ("changed", "fields", "head", "identity", "last", "latest", "removal", "tasks", "whole")

    def __init__(self, identity: bytes | None, removal: bytes, last: bytes) -> None:
        self.identity, self.removal, self.last = identity, removal, last
        self.latest = last
        """The stamp of the last change when it was last asked for."""
        self.fields: dict[bytes, bytes | None] = {}
        self.head: Any = UNASKED
        """The newest checkpoint of the root namespace, if it was asked for: name, row, tasks; None for none."""
        self.tasks: dict[bytes, dict[bytes, bytes]] = {}
        """Of a checkpoint by its name: the task rows by task id."""
        self.changed: dict[bytes, bytes | None] = {}
        self.whole = False

    def is_of(self, thread: Thread) -> bool:
        """Whether the thread is still there."""
        return self.identity is not None and token_of(self.identity) == thread.key.token

    def knows(self, field: bytes) -> bool:
        return self.whole or field in self.changed or field in self.fields

    def get(self, field: bytes) -> bytes | None:
        """What a known field holds now."""
        return self.changed[field] if field in self.changed else self.fields.get(field)

    def starting(self, kind: bytes) -> dict[bytes, bytes]:
        """Of a thread that is known whole: what its fields of one kind hold, by the rest of their names."""
        merged = {**self.fields, **self.changed}
        return {
            field[1:]: data
            for field, data in merged.items()
            if data is not None and len(field) > 1 and field[:1] == kind
        }


class Rows(OneByOne):
    """What is stored. ``Conflict`` when rows were removed, or a thread replaced, between two questions about it."""

    far = True

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sheets: dict[str, Sheet] = {}

    # -- asking ------------------------------------------------------------------------------------------------------

    async def _ask(self, thread_id: str, *questions: Any) -> tuple[Sheet, list[Any] | None]:
        """What is known of a thread, and answers to questions about it; None when there is no such thread."""
        reply = await self._store.look(thread_id, questions)
        identity, removal, last = reply[:3] if reply else (None, b"", b"")
        return self._met(thread_id, identity, removal, last), reply[3:] if reply else None

    def _met(self, thread_id: str, identity: bytes | None, removal: bytes, last: bytes) -> Sheet:
        """The sheet of a thread that was just asked, which must not have lost rows since it was asked before."""
        if identity is not None:
            if identity[: len(FORMAT)] != FORMAT:
                raise ForeignDatabase(
                    f"thread {thread_id!r} was stored by another version of Threadmark, in format "
                    f"{identity[: len(FORMAT)].hex()!r}; this one reads format {FORMAT.hex()!r}"
                )
            self._store.note_removal(ThreadKey(thread_id, token_of(identity)), removal)
        sheet = self._sheets.get(thread_id)
        if sheet is None:
            sheet = self._sheets[thread_id] = Sheet(identity, removal, last)
        elif (sheet.identity, sheet.removal) != (identity, removal):
            raise Conflict("rows were removed meanwhile")
        sheet.latest = last
        return sheet

    async def _known(self, thread_id: str) -> Sheet:
        """What is known of a thread: at least whether it is there."""
        return self._sheets.get(thread_id) or (await self._ask(thread_id))[0]

    async def _fields(self, thread: Thread, wanted: Collection[bytes]) -> dict[bytes, bytes]:
        """Those of a thread's fields that exist."""
        thread_id = thread.key.thread_id
        sheet = self._sheets.get(thread_id)
        if sheet is not None and not sheet.is_of(thread):
            return {}
        missing = [field for field in wanted if sheet is None or not sheet.knows(field)]
        if missing:
            sheet, answers = await self._ask(thread_id, "fields", len(missing), *missing)
            if answers is not None:
                sheet.fields.update(zip(missing, answers[0], strict=True))
        if sheet is None or not sheet.is_of(thread):
            return {}
        return {field: data for field in wanted if (data := sheet.get(field)) is not None}

    async def _everything(self, thread: Thread) -> Sheet | None:
        """All of a thread; None when it is gone."""
        thread_id = thread.key.thread_id
        sheet = self._sheets.get(thread_id)
        if sheet is None or (sheet.is_of(thread) and not sheet.whole):
            fields = await self._store.everything(thread_id)
            stamps = fields.get(b"l", b"")
            sheet = self._met(thread_id, fields.get(b"k"), fields.get(b"g", b""), stamps[:STAMP])
            sheet.fields, sheet.whole = dict(fields), True
        return sheet if sheet.is_of(thread) else None

    # -- one thread --------------------------------------------------------------------------------------------------

    async def thread(self, thread_id: str) -> Thread | None:
        """The thread; what is asked next as a rule, its newest checkpoint, comes with the answer."""
        sheet = self._sheets.get(thread_id)
        if sheet is None:
            sheet, answers = await self._ask(thread_id, "head", b"")
            if answers is not None:
                sheet.head = answers[0]
        return thread_of(thread_id, sheet)

    async def checkpoint(self, thread: Thread, ns: str, id: str | None) -> CheckpointRow | None:
        if id is None:
            return await self._newest(thread, ns)
        name = name_of(ns, id)
        thread_id, sheet = thread.key.thread_id, self._sheets.get(thread.key.thread_id)
        if sheet is None or (sheet.is_of(thread) and not sheet.knows(CHECKPOINT + name)):
            sheet, answers = await self._ask(thread_id, "fields", 1, CHECKPOINT + name, "tasks", name)
            if answers is not None:
                ((sheet.fields[CHECKPOINT + name],), tasks) = answers
                sheet.tasks[name] = pairs(tasks)
        data = sheet.get(CHECKPOINT + name) if sheet.is_of(thread) else None
        return None if data is None else unpack_checkpoint(name, data)

    async def _newest(self, thread: Thread, ns: str) -> CheckpointRow | None:
        known = self._sheets.get(thread.key.thread_id)
        if known is not None and known.head is not UNASKED and not ns:
            sheet, head = known, known.head
        else:
            sheet, answers = await self._ask(thread.key.thread_id, "head", encoded(ns))
            head = answers[0] if answers is not None else None
        if head is None or not sheet.is_of(thread):
            return None
        name, data, tasks = head
        sheet.tasks[name] = pairs(tasks)
        return unpack_checkpoint(name, ordered(name, data))

    async def checkpoints(self, thread: Thread, names: Collection[tuple[str, str]]) -> Sequence[CheckpointRow]:
        wanted = {CHECKPOINT + name_of(*name): name for name in names}
        found = await self._fields(thread, wanted)
        return [unpack_checkpoint(field[1:], data) for field, data in found.items()]

    async def tasks(self, thread: Thread, names: Collection[tuple[str, str]]) -> Sequence[TaskRow]:
        wanted = [name_of(*name) for name in names]
        sheet = self._sheets.get(thread.key.thread_id)
        if sheet is not None and not sheet.is_of(thread):
            return []
        missing = [name for name in wanted if sheet is None or not (sheet.whole or name in sheet.tasks)]
        if missing:
            sheet, answers = await self._ask(
                thread.key.thread_id, *(part for name in missing for part in ("tasks", name))
            )
            for name, flat in zip(missing, answers or (), strict=answers is not None):
                sheet.tasks[name] = pairs(flat)
        if sheet is None or not sheet.is_of(thread):
            return []
        return [row for name in wanted for row in self._tasks_of(sheet, name)]

    def _tasks_of(self, sheet: Sheet, name: bytes) -> list[TaskRow]:
        """The tasks of a checkpoint whose tasks are known."""
        found = dict(sheet.tasks.get(name, {}))
        if sheet.whole:
            ids = (sheet.fields.get(TASKS + name) or b"").split(BETWEEN)[:-1]
            found = {id: sheet.fields.get(TASK + name + BETWEEN + id) or b"" for id in ids}
        start = TASK + name + BETWEEN
        for field, data in sheet.changed.items():
            if field.startswith(start):
                found.pop(field[len(start) :], None)
                if data is not None:
                    found[field[len(start) :]] = data
        return [unpack_task(name + BETWEEN + id, data) for id, data in found.items()]

    async def lineage(
        self, thread: Thread, ns: str, id: str, limit: int | None
    ) -> tuple[Sequence[CheckpointRow], Sequence[TaskRow]]:
        _, answers = await self._ask(
            thread.key.thread_id, "lineage", encoded(ns), encoded(id), -1 if limit is None else limit
        )
        if answers is None or not self._sheets[thread.key.thread_id].is_of(thread):
            return [], []
        return unpack_line(answers[0])

    async def trail(self, ref: Ref, known: Thread | None, channels: Collection[str], limit: int | None) -> Trail | None:
        id, most = NOTHING if ref.id is None else encoded(ref.id), -1 if limit is None else limit
        sheet, answers = await self._ask(ref.thread_id, "trail", encoded(ref.ns), id, most)
        thread = thread_of(ref.thread_id, sheet)
        if answers is None or thread is None:
            return None
        found, blocks = answers[0] or ((), ())
        rows, tasks = unpack_line(found)
        return Trail(thread, rows, tasks, segments_of(blocks), limit is None or len(rows) < limit)

    async def pieces(
        self, thread: Thread, ids: Collection[int], keys: Collection[bytes], bodies: Collection[bytes]
    ) -> Pieces:
        values, segments = {value_field(id): id for id in ids}, {SEGMENT + key: key for key in keys}
        fields = [*values, *segments]
        sheet, answers = await self._ask(thread.key.thread_id, "pieces", len(fields), *fields)
        if answers is None or not sheet.is_of(thread):
            return Pieces({}, {})
        told, more = answers[0]
        found = {field: data for field, data in zip(fields, told, strict=True) if data is not None}
        return Pieces(
            {id: found[field] for field, id in values.items() if field in found},
            {key: found[field] for field, key in segments.items() if field in found} | segments_of(more),
        )

    async def values(self, thread: Thread, ids: Collection[int]) -> Mapping[int, bytes]:
        wanted = {value_field(id): id for id in ids}
        return {wanted[field]: data for field, data in (await self._fields(thread, wanted)).items()}

    async def segments(self, thread: Thread, keys: Collection[bytes], take: Take) -> None:
        found = await self._fields(thread, [SEGMENT + key for key in keys])
        take({field[1:]: data for field, data in found.items()})

    async def every_checkpoint(self, thread: Thread) -> Sequence[CheckpointRow]:
        sheet = await self._everything(thread)
        return [unpack_checkpoint(*item) for item in sheet.starting(CHECKPOINT).items()] if sheet is not None else []

    async def every_task(self, thread: Thread) -> Sequence[TaskRow]:
        sheet = await self._everything(thread)
        return [unpack_task(*item) for item in sheet.starting(TASK).items()] if sheet is not None else []

    async def every_value(self, thread: Thread) -> Mapping[int, bytes]:
        sheet = await self._everything(thread)
        rows = sheet.starting(VALUE) if sheet is not None else {}
        return {int.from_bytes(id, "big"): body for id, body in rows.items()}

    async def every_segment(self, thread: Thread) -> Mapping[bytes, bytes]:
        sheet = await self._everything(thread)
        return sheet.starting(SEGMENT) if sheet is not None else {}

    async def sizes(self, thread: Thread) -> Sizes:
        known = self._sheets.get(thread.key.thread_id)
        if known is not None and known.whole:
            lengths = {field: len(data) for field, data in known.fields.items() if data is not None}
            sheet = known
        else:
            sheet, answers = await self._ask(thread.key.thread_id, "sizes")
            (flat,) = answers if answers is not None and sheet.is_of(thread) else ((),)
            lengths = dict(zip(flat[::2], flat[1::2], strict=True))
        for field, data in sheet.changed.items():
            lengths.pop(field, None)
            if data is not None:
                lengths[field] = len(data)
        lengths = {field: size for field, size in lengths.items() if len(field) > 1}
        return Sizes(
            {int.from_bytes(field[1:], "big"): size for field, size in lengths.items() if field[:1] == VALUE},
            {field[1:]: size for field, size in lengths.items() if field[:1] == SEGMENT},
        )

    # -- many threads ------------------------------------------------------------------------------------------------

    async def keys(self, scope: Scope, limit: int | None = None) -> Sequence[Ref]:
        if scope.before is not None and scope.id is not None and not scope.id < scope.before:
            return []
        question = _names_wanted(scope, limit)
        if scope.thread_id is not None:
            reply = await self._store.look(scope.thread_id, question)
            answers = {scope.thread_id: reply} if reply else {}
        else:
            answers = await self._of_all_threads(question)
        found = (
            ref for thread_id, reply in answers.items() for ref in (Ref(thread_id, *split_name(n)) for n in reply[3])
        )
        refs = [
            ref
            for ref in found
            if (scope.before is None or (ref.id or "") < scope.before) and (scope.id is None or ref.id == scope.id)
        ]
        refs.sort(key=lambda ref: (ref.thread_id, ref.ns))
        refs.sort(key=lambda ref: ref.id or "", reverse=True)
        return refs[:limit]

    async def thread_ids_of_runs(self, run_ids: Collection[str]) -> Sequence[str]:
        if not self._store.settings.lists_runs:
            wanted = {encoded(run_id) for run_id in run_ids}
            return [id for id, reply in (await self._of_all_threads(("runs",))).items() if wanted & set(reply[3])]
        entries = await self._store.listed([self._store.keys.run(run_id) for run_id in dict.fromkeys(run_ids)])
        return list(await self._alive(entries, ()))

    async def threads(self) -> Sequence[ThreadInfo]:
        lines = []
        for thread_id, reply in (await self._of_all_threads(("summary",))).items():
            spaces = [(unpack_checkpoint(name, ordered(name, row)), count) for name, count, row in reply[3]]
            if spaces:
                last = max((row for row, _ in spaces), key=lambda row: row.id)
                names = tuple(sorted(row.ns for row, _ in spaces))
                lines.append(ThreadInfo(thread_id, sum(count for _, count in spaces), last.id, last.columns.ts, names))
        return sorted(lines, key=lambda line: line.last_id, reverse=True)

    async def thread_ids(self) -> Sequence[str]:
        return sorted(await self._of_all_threads(()))

    async def _of_all_threads(self, questions: Sequence[Any]) -> dict[str, list[Any]]:
        """The answers of every thread."""
        return await self._alive(await self._store.listed(self._store.keys.threads()), questions)

    async def _alive(self, entries: Sequence[Listed], questions: Sequence[Any]) -> dict[str, list[Any]]:
        """The answers of the listed threads that exist; entries of others are cleaned away."""
        threads = [listed(each.entry.member) for each in entries]
        ids = list(dict.fromkeys(thread.thread_id for thread in threads))
        found = dict(zip(ids, await self._store.look_all(ids, questions), strict=True))
        stale = []
        for each, thread in zip(entries, threads, strict=True):
            reply = found[thread.thread_id]
            # A thread that is not there may be about to be made; one that is another now will never be this again.
            if (reply and token_of(reply[0]) != thread.token) or (not reply and each.settled):
                stale.append(each)
        await self._store.strike(stale)
        return {thread_id: reply for thread_id, reply in found.items() if reply}


def thread_of(thread_id: str, sheet: Sheet) -> Thread | None:
    """The thread that a sheet is about."""
    identity = sheet.identity
    return None if identity is None else Thread(ThreadKey(thread_id, token_of(identity)), salt_of(identity))


def is_seen(row: CheckpointRow) -> bool:
    """Whether a checkpoint is shown."""
    return not row.flags & HIDDEN


def _names_wanted(scope: Scope, limit: int | None) -> tuple[Any, ...]:
    """The question for names of checkpoints in scope; what it cannot say is left to be sifted."""
    if scope.ns is None:
        return ("names", "+", "-", -1)
    start = encoded(scope.ns) + BETWEEN
    if scope.id is not None:
        name = b"[" + start + encoded(scope.id)
        return ("names", name, name, 1)
    upper = BETWEEN if scope.before is None else encoded(scope.before)
    return ("names", b"(" + start + upper, b"[" + start, -1 if limit is None else limit)
