"""Rows in SQLite's tables: ``View`` and ``Change`` over statements."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from operator import contains
from typing import Any, Final, TypeAlias

from threadmark.checkpoint.records import (
    CheckpointRow,
    Columns,
    Foreseen,
    Head,
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
from threadmark.checkpoint.sqlite.append import ADD_SEGMENT, ADD_TASK, ADD_VALUE, NEW_THREAD, PUT_CHECKPOINT
from threadmark.checkpoint.sqlite.driver import Sql
from threadmark.checkpoint.sqlite.functions import FUNCTIONS, names
from threadmark.checkpoint.trails import linked
from threadmark.errors import DamagedRow
from threadmark.tuples import tuple_of

_ROW: Final = "SELECT ns, id, parent, source, step, run_id, ts, parents, flags, body FROM checkpoint WHERE thread = ?"
_BY_ID: Final = f"{_ROW} AND ns = ? AND id = ?"
_NEWEST: Final = f"{_ROW} AND ns = ? AND flags & 1 = 0 ORDER BY id DESC LIMIT 1"
_OF_HEAD: Final = """
    SELECT t.id, salt, EXISTS (SELECT 1 FROM task k WHERE k.thread = t.id AND k.ns = c.ns AND k.id = c.id),
        ns, c.id, parent, source, step, run_id, ts, parents, flags, body
    FROM thread t LEFT JOIN checkpoint c ON c.thread = t.id AND c.ns = ?2 AND {} WHERE thread_id = ?1"""
_HEAD_BY_ID: Final = _OF_HEAD.format("c.id = ?3")
_NEWEST_HEAD: Final = _OF_HEAD.format("flags & 1 = 0") + " ORDER BY c.id DESC LIMIT 1"
_TASK: Final = "SELECT ns, id, task_id, path, body FROM task WHERE thread = ?"
_ONE: Final = {select: f"{select} AND ns = ? AND id = ?" for select in (_ROW, _TASK)}
# UNION, not UNION ALL: it stops where a damaged file runs in a circle.
_LINEAGE: Final = """
    WITH RECURSIVE line (id, parent) AS (
        SELECT id, parent FROM checkpoint WHERE thread = ?1 AND ns = ?2 AND id = ?3
        UNION
        SELECT c.id, c.parent FROM line JOIN checkpoint c ON c.thread = ?1 AND c.ns = ?2 AND c.id = line.parent
        LIMIT ?4
    )
    SELECT 0, ns, c.id, c.parent, source, step, run_id, ts, parents, flags, body
        FROM line CROSS JOIN checkpoint c ON c.thread = ?1 AND c.ns = ?2 AND c.id = line.id
    UNION ALL
    SELECT 1, ns, t.id, task_id, path, body, 0, 0, 0, 0, 0
        FROM line CROSS JOIN task t ON t.thread = ?1 AND t.ns = ?2 AND t.id = line.id"""
# What a checkpoint's row names stands behind its first byte, see docs/explanation/storage-layout.md.
_BLOCK: Final = "substr(c.body, 2, 16)"
_KEY: Final = "(SELECT id FROM thread WHERE thread_id = ?1)"
_TRAIL: Final = f"""
    WITH RECURSIVE line (id, parent, missing) AS (
        SELECT id, parent, ?4 FROM checkpoint WHERE thread = {_KEY} AND ns = ?2 AND id = ifnull(?3, (
            SELECT id FROM checkpoint WHERE thread = {_KEY} AND ns = ?2 AND flags & 1 = 0 ORDER BY id DESC LIMIT 1
        ))
        UNION
        SELECT c.id, c.parent, {{missing}}
        FROM line CROSS JOIN checkpoint c ON c.thread = {_KEY} AND c.ns = ?2 AND c.id = line.parent
        WHERE line.missing <> '[]'
        LIMIT ?5
    )
    SELECT 0, '', '', id, salt, 0, 0, 0, 0, 0, 0 FROM thread WHERE thread_id = ?1
    UNION ALL
    SELECT 1, ns, c.id, c.parent, source, step, run_id, ts, parents, flags, body
        FROM line CROSS JOIN checkpoint c ON c.thread = {_KEY} AND c.ns = ?2 AND c.id = line.id
    UNION ALL
    SELECT 2, ns, t.id, task_id, path, body, 0, 0, 0, 0, 0
        FROM line CROSS JOIN task t ON t.thread = {_KEY} AND t.ns = ?2 AND t.id = line.id
    UNION ALL
    SELECT 3, '', '', key, data, 0, 0, 0, 0, 0, 0 FROM segment WHERE thread = {_KEY} AND key IN (
        SELECT {_BLOCK} FROM line CROSS JOIN checkpoint c ON c.thread = {_KEY} AND c.ns = ?2 AND c.id = line.id
    )"""
_TO_LIMIT: Final = _TRAIL.format(missing="?4")
_TO_VALUES: Final = _TRAIL.format(
    missing=f"""threadmark_missing(
            line.missing, c.body, (SELECT data FROM segment WHERE thread = c.thread AND key = {_BLOCK})
        )"""
)
# Keys come one after the other, as many as there are.
_PIECES: Final = """
    WITH RECURSIVE
    v (id, body) AS (
        SELECT id, body FROM value WHERE thread = ?1 AND id IN (SELECT value FROM json_each(?2))
        UNION ALL SELECT NULL, threadmark_bytes(value) FROM json_each(?4)
    ),
    named (at, keys) AS (
        SELECT 1, ?3
        UNION ALL SELECT 1, substr(body, 2, 32) FROM v
        UNION ALL SELECT 1, threadmark_keys(body,
            (SELECT data FROM segment WHERE thread = ?1 AND key = substr(body, 2, 16)),
            (SELECT data FROM segment WHERE thread = ?1 AND key = substr(body, 18, 16))
        ) FROM v
        UNION ALL SELECT at + 16, keys FROM named WHERE at + 16 < length(keys)
    )
    SELECT 0, id, body FROM v WHERE id IS NOT NULL
    UNION ALL
    SELECT 1, s.key, data FROM (SELECT DISTINCT substr(keys, at, 16) AS key FROM named) k
        CROSS JOIN segment s ON s.thread = ?1 AND s.key = k.key"""
# In the order of the keys, which come one after the other: with a list of them in ``IN`` SQLite sorts them first.
_SEGMENTS: Final = """
    WITH RECURSIVE wanted (at) AS (SELECT 1 UNION ALL SELECT at + 16 FROM wanted WHERE at + 16 < length(?2))
    SELECT key, data FROM wanted CROSS JOIN segment ON thread = ?1 AND key = substr(?2, at, 16)"""
_AT_A_TIME: Final = 8
"""Segments that are in memory before they are taken: most are some dozen kilobytes long."""
_SCOPE: Final = (("thread_id", "thread_id = ?"), ("ns", "ns = ?"), ("id", "c.id = ?"), ("before", "c.id < ?"))
# Beside max(id), the bare column ts is that of the same row.
_THREADS: Final = """
    SELECT thread_id, checkpoints, last, ts, spaces FROM (
        SELECT thread, count(*) AS checkpoints, max(id) AS last, ts, json_group_array(DISTINCT ns) AS spaces
        FROM checkpoint WHERE flags & 1 = 0 GROUP BY thread
    ) JOIN thread t ON t.id = thread ORDER BY last DESC"""
_BATCH: Final = 1 << 14
"""Keys asked for by one statement; SQLite takes 32,766."""


class Rows:
    """The rows of one file, inside whatever transaction is open."""

    __slots__ = ("_sql",)
    far = False

    def __init__(self, sql: Sql) -> None:
        self._sql = sql

    # -- reading -----------------------------------------------------------------------------------------------------

    async def thread(self, thread_id: str) -> Thread | None:
        rows = await self._sql.fetch("SELECT id, salt FROM thread WHERE thread_id = ?", (thread_id,))
        return Thread(*_checked(rows[0], _THREAD)) if rows else None

    async def checkpoint(self, thread: Thread, ns: str, id: str | None) -> CheckpointRow | None:
        if id is None:
            rows = await self._sql.fetch(_NEWEST, (thread.key, ns))
        else:
            rows = await self._sql.fetch(_BY_ID, (thread.key, ns, id))
        return _checkpoint(rows[0]) if rows else None

    async def head(self, ref: Ref, known: Thread | None) -> Head:
        if ref.id is None:
            rows = await self._sql.fetch(_NEWEST_HEAD, (ref.thread_id, ref.ns))
        else:
            rows = await self._sql.fetch(_HEAD_BY_ID, (ref.thread_id, ref.ns, ref.id))
        if not rows:
            return Head(None, None)
        row = rows[0]  # a damaged file may have two
        thread = known if known is not None and known == row[:2] else Thread(*_checked(row[:2], _THREAD))
        if row[3] is None:
            return Head(thread, None)
        found = _checkpoint(row[3:])
        return Head(thread, found, await self.tasks(thread, [(found.ns, found.id)]) if row[2] else ())

    async def checkpoints(self, thread: Thread, names: Collection[tuple[str, str]]) -> Sequence[CheckpointRow]:
        return [_checkpoint(row) for row in await self._named(_ROW, thread, names)]

    async def keys(self, scope: Scope, limit: int | None = None) -> Sequence[Ref]:
        given = [(clause, getattr(scope, name)) for name, clause in _SCOPE if getattr(scope, name) is not None]
        where = " AND ".join(("c.flags & 1 = 0", *(clause for clause, _ in given)))
        rows = await self._sql.fetch(
            f"SELECT thread_id, ns, c.id FROM checkpoint c JOIN thread t ON t.id = c.thread "
            f"WHERE {where} ORDER BY c.id DESC, thread_id, ns LIMIT ?",
            (*(value for _, value in given), -1 if limit is None else limit),
        )
        return [Ref(*_checked(row, _NAMES)) for row in rows]

    async def tasks(self, thread: Thread, names: Collection[tuple[str, str]]) -> Sequence[TaskRow]:
        return [_task(row) for row in await self._named(_TASK, thread, names)]

    async def lineage(
        self, thread: Thread, ns: str, id: str, limit: int | None
    ) -> tuple[Sequence[CheckpointRow], Sequence[TaskRow]]:
        rows = await self._sql.fetch(_LINEAGE, (thread.key, ns, id, -1 if limit is None else limit))
        by_id = {row[2]: _checkpoint(row[1:]) for row in rows if row[0] == 0}
        return linked(by_id, id), [_task(row[1:6]) for row in rows if row[0] == 1]

    async def trail(self, ref: Ref, known: Thread | None, channels: Collection[str], limit: int | None) -> Trail | None:
        await self._sql.teach(FUNCTIONS)
        most = -1 if limit is None or channels else limit
        asked = ref.thread_id, ref.ns, ref.id, names(channels) if channels else "", most
        thread, by_id, tasks, blocks = None, dict[str, CheckpointRow](), list[TaskRow](), list[Any]()
        for kind, *row in await self._sql.fetch(_TO_VALUES if channels else _TO_LIMIT, asked):
            if kind == 0:
                thread = Thread(*_checked(row[2:4], _THREAD))
            elif kind == 1:
                by_id[row[1]] = _checkpoint(row)
            elif kind == 2:
                tasks.append(_task(row[:5]))
            else:
                blocks.append(row[2:4])
        if thread is None:
            return None
        line = linked(by_id, ref.id or max(by_id, default=""))
        return Trail(thread, line, tasks, _pairs(blocks, _SEGMENT), most < 0 or len(line) < most)

    async def pieces(
        self, thread: Thread, ids: Collection[int], keys: Collection[bytes], bodies: Collection[bytes]
    ) -> Pieces:
        await self._sql.teach(FUNCTIONS)
        packed = json.dumps(list(ids)), b"".join(keys), json.dumps([body.hex() for body in bodies])
        rows = await self._sql.fetch(_PIECES, (thread.key, *packed))
        values, segments = ([row[1:] for row in rows if row[0] == kind] for kind in (0, 1))
        return Pieces(_pairs(values, _VALUE), _pairs(segments, _SEGMENT))

    async def values(self, thread: Thread, ids: Collection[int]) -> Mapping[int, bytes]:
        rows = await self._among("SELECT id, body FROM value WHERE thread = ? AND id IN", thread, ids)
        return _pairs(rows, _VALUE)

    async def segments(self, thread: Thread, keys: Collection[bytes], take: Take) -> None:
        async for rows in self._sql.some(_SEGMENTS, (thread.key, b"".join(keys)), _AT_A_TIME):
            take(_pairs(rows, _SEGMENT))

    async def _named(self, select: str, thread: Thread, names: Collection[tuple[str, str]]) -> list[Any]:
        """Rows of the checkpoints with these names. A statement for each would take half as long again."""
        if len(names) == 1:
            ((ns, id),) = names
            return await self._sql.fetch(_ONE[select], (thread.key, ns, id))
        spaces, found = dict[str, list[str]](), []
        for ns, id in names:
            spaces.setdefault(ns, []).append(id)
        for ns, ids in spaces.items():
            for some in _batches(ids):
                marks = ",".join("?" * len(some))
                found += await self._sql.fetch(f"{select} AND ns = ? AND id IN ({marks})", (thread.key, ns, *some))
        return found

    async def _among(self, select: str, thread: Thread, keys: Collection[Any]) -> list[Any]:
        found = []
        for some in _batches(keys):
            found += await self._sql.fetch(f"{select} ({','.join('?' * len(some))})", (thread.key, *some))
        return found

    async def every_checkpoint(self, thread: Thread) -> Sequence[CheckpointRow]:
        return [_checkpoint(row) for row in await self._sql.fetch(_ROW, (thread.key,))]

    async def every_task(self, thread: Thread) -> Sequence[TaskRow]:
        return [_task(row) for row in await self._sql.fetch(_TASK, (thread.key,))]

    async def every_value(self, thread: Thread) -> Mapping[int, bytes]:
        return _pairs(await self._sql.fetch("SELECT id, body FROM value WHERE thread = ?", (thread.key,)), _VALUE)

    async def every_segment(self, thread: Thread) -> Mapping[bytes, bytes]:
        return _pairs(await self._sql.fetch("SELECT key, data FROM segment WHERE thread = ?", (thread.key,)), _SEGMENT)

    async def sizes(self, thread: Thread) -> Sizes:
        values = await self._sql.fetch("SELECT id, length(body) FROM value WHERE thread = ?", (thread.key,))
        segments = await self._sql.fetch("SELECT key, length(data) FROM segment WHERE thread = ?", (thread.key,))
        return Sizes(_lengths(values, {int}), _lengths(segments, {bytes}))

    async def thread_ids_of_runs(self, run_ids: Collection[str]) -> Sequence[str]:
        found = dict[str, None]()
        for run_id in run_ids:
            rows = await self._sql.fetch(
                "SELECT DISTINCT thread_id FROM checkpoint JOIN thread t ON t.id = thread WHERE run_id = ?", (run_id,)
            )
            found.update((row[0], None) for row in rows)
        return list(found)

    async def threads(self) -> Sequence[ThreadInfo]:
        rows = await self._sql.fetch(_THREADS)
        return [_line(*_checked(row, _LINE)) for row in rows]

    async def thread_ids(self) -> Sequence[str]:
        rows = await self._sql.fetch("SELECT thread_id FROM thread ORDER BY thread_id")
        return [_checked(row, _NAMES[:1])[0] for row in rows]

    # -- changing ----------------------------------------------------------------------------------------------------

    async def foresee(self, thread_id: str, needs: Foreseen) -> None:
        """A file is near."""

    async def open_thread(self, thread_id: str, salt: bytes) -> Thread:
        found = await self.thread(thread_id)
        if found is not None:
            return found
        await self._sql.run(NEW_THREAD, (thread_id, salt))
        made = await self.thread(thread_id)
        assert made is not None
        return made

    async def body(self, thread: Thread, ns: str, id: str) -> bytes | None:
        rows = await self._sql.fetch(
            "SELECT body FROM checkpoint WHERE thread = ? AND ns = ? AND id = ?", (thread.key, ns, id)
        )
        return rows[0][0] if rows else None

    async def put_checkpoint(self, thread: Thread, row: CheckpointRow) -> None:
        await self._sql.run(
            PUT_CHECKPOINT,
            (thread.key, row.ns, row.id, *row.columns, row.flags, row.body),
        )

    async def add_task(self, thread: Thread, row: TaskRow) -> bool:
        return bool(await self._sql.run(ADD_TASK, (thread.key, *row)))

    async def task(self, thread: Thread, ns: str, id: str, task_id: str) -> TaskRow | None:
        rows = await self._sql.fetch(f"{_TASK} AND ns = ? AND id = ? AND task_id = ?", (thread.key, ns, id, task_id))
        return _task(rows[0]) if rows else None

    async def put_task(self, thread: Thread, row: TaskRow) -> None:
        await self._sql.run("INSERT OR REPLACE INTO task VALUES (?, ?, ?, ?, ?, ?)", (thread.key, *row))

    async def add_values(self, thread: Thread, rows: Collection[tuple[int, bytes]]) -> None:
        await self._sql.run_many(ADD_VALUE, [(thread.key, *row) for row in rows])

    async def add_segments(self, thread: Thread, rows: Collection[tuple[bytes, bytes]]) -> None:
        await self._sql.run_many(ADD_SEGMENT, [(thread.key, *row) for row in rows])

    async def flag(self, thread: Thread, ns: str, id: str, flags: int) -> None:
        await self._sql.run(
            "UPDATE checkpoint SET flags = ? WHERE thread = ? AND ns = ? AND id = ?", (flags, thread.key, ns, id)
        )

    async def drop(self, thread: Thread, names: Collection[tuple[str, str]]) -> None:
        for table in ("checkpoint", "task"):
            await self._sql.run_many(
                f"DELETE FROM {table} WHERE thread = ? AND ns = ? AND id = ?", [(thread.key, *name) for name in names]
            )

    async def drop_task(self, thread: Thread, row: TaskRow) -> None:
        await self._sql.run(
            "DELETE FROM task WHERE thread = ? AND ns = ? AND id = ? AND task_id = ?",
            (thread.key, row.ns, row.id, row.task_id),
        )

    async def sweep(self, thread: Thread, values: Collection[int], segments: Collection[bytes]) -> None:
        for table, column, kept in (("value", "id", set[Any](values)), ("segment", "key", set[Any](segments))):
            stored = await self._sql.fetch(f"SELECT {column} FROM {table} WHERE thread = ?", (thread.key,))
            gone = [(thread.key, key) for (key,) in stored if key not in kept]
            await self._sql.run_many(f"DELETE FROM {table} WHERE thread = ? AND {column} = ?", gone)

    async def drop_thread(self, thread_id: str) -> None:
        thread = await self.thread(thread_id)
        if thread is None:
            return
        for table in ("checkpoint", "task", "value", "segment"):
            await self._sql.run(f"DELETE FROM {table} WHERE thread = ?", (thread.key,))
        await self._sql.run("DELETE FROM thread WHERE id = ?", (thread.key,))


# A file may hold anything in any column: SQLite's types bind nobody.
_Types: TypeAlias = Sequence[Set[type[Any]]]
_NoneType: Final = type(None)
_CHECKPOINT: Final[_Types] = (
    {str}, {str}, {str, _NoneType}, {str, _NoneType}, {int, _NoneType}, {str, _NoneType}, {str}, {str, _NoneType},
    {int}, {bytes},
)  # fmt: skip
_TASK_ROW: Final[_Types] = ({str}, {str}, {str}, {str}, {bytes})
_NAMES: Final[_Types] = ({str}, {str}, {str})
_LINE: Final[_Types] = ({str}, {int}, {str}, {str}, {str})
_THREAD: Final[_Types] = ({int}, {bytes})
_VALUE: Final[_Types] = ({int}, {bytes})
_SEGMENT: Final[_Types] = ({bytes}, {bytes})


def _checked(row: Sequence[Any], types: _Types) -> Sequence[Any]:
    if not all(map(contains, types, map(type, row))):
        value = next(value for value, allowed in zip(row, types, strict=True) if type(value) not in allowed)
        raise DamagedRow(f"a row has {str(value)[:40]!r} in a column for something else; restore it from a backup")
    return row


def _checkpoint(row: Sequence[Any]) -> CheckpointRow:
    _checked(row, _CHECKPOINT)
    return tuple_of(CheckpointRow, (row[0], row[1], tuple_of(Columns, row[2:8]), row[8], row[9]))


def _line(thread_id: str, count: int, last: str, ts: str, spaces: str) -> ThreadInfo:
    return ThreadInfo(thread_id, count, last, ts, tuple(sorted(map(str, json.loads(spaces)))))


def _pairs(rows: Sequence[Any], types: _Types) -> dict[Any, bytes]:
    found = dict(rows)
    # All at once: one by one it would take as long as reading the rows.
    if not (set(map(type, found)) <= types[0] and set(map(type, found.values())) <= types[1]):
        for row in rows:
            _checked(row, types)
    return found


def _lengths(rows: Sequence[Any], keys: Set[type[Any]]) -> dict[Any, int]:
    for row in rows:
        _checked(row, (keys, {int}))
    return dict(rows)


def _task(row: Sequence[Any]) -> TaskRow:
    return tuple_of(TaskRow, _checked(row, _TASK_ROW))


def _batches(keys: Collection[Any]) -> Iterator[Sequence[Any]]:
    """Lists of few different lengths, so that there are few different statements: the last key fills them.

    Four lengths on the way to each power of two: to prepare a statement costs more the more keys it takes.
    """
    items = list(keys)
    for at in range(0, len(items), _BATCH):
        some = items[at : at + _BATCH]
        step = 1 << max(0, (len(some) - 1).bit_length() - 3)
        yield some + some[-1:] * (-len(some) % step)
