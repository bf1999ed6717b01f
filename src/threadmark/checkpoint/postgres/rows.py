"""Rows in PostgreSQL's tables: ``View`` and ``Change`` over round trips."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from threadmark.checkpoint.postgres.call import values_of
from threadmark.checkpoint.postgres.statements import Statements
from threadmark.checkpoint.postgres.wire import Rows, Sent
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
from threadmark.checkpoint.trails import linked


class Trips(Protocol):
    """The round trips of one transaction."""

    async def ask(self, *sent: Sent) -> list[Rows]:
        """Send statements at once; the rows of each."""
        ...


class Reading:
    """What is stored, as the first question found it."""

    __slots__ = ("_sql", "_trips")

    def __init__(self, trips: Trips, sql: Statements) -> None:
        self._trips, self._sql = trips, sql

    async def _ask(self, *sent: Sent) -> list[Rows]:
        return await self._trips.ask(*sent)

    async def _rows(self, sent: Sent) -> Rows:
        (rows,) = await self._ask(sent)
        return rows

    async def thread(self, thread_id: str) -> Thread | None:
        rows = await self._rows(self._sql.thread(thread_id))
        return Thread(*rows[0]) if rows else None

    async def checkpoint(self, thread: Thread, ns: str, id: str | None) -> CheckpointRow | None:
        sql = self._sql
        rows = await self._rows(sql.newest(thread.key, ns) if id is None else sql.by_id(thread.key, ns, id))
        return _checkpoint(rows[0]) if rows else None

    async def head(self, ref: Ref, known: Thread | None) -> Head:
        sql = self._sql
        if ref.id is None:
            sent = [query(ref.thread_id, ref.ns) for query in sql.newest_of]
        else:
            sent = [query(*ref) for query in sql.by_id_of]
        threads, rows, tasks = await self._ask(sql.thread(ref.thread_id), *sent)
        thread = Thread(*threads[0]) if threads else None
        return Head(thread, _checkpoint(rows[0]) if rows else None, [TaskRow(*row) for row in tasks])

    async def checkpoints(self, thread: Thread, names: Collection[tuple[str, str]]) -> Sequence[CheckpointRow]:
        if not names:
            return []
        return [_checkpoint(row) for row in await self._rows(self._sql.by_names(thread.key, *_columns(names)))]

    async def keys(self, scope: Scope, limit: int | None = None) -> Sequence[Ref]:
        return [Ref(*row) for row in await self._rows(self._sql.keys(*scope, limit))]

    async def tasks(self, thread: Thread, names: Collection[tuple[str, str]]) -> Sequence[TaskRow]:
        if not names:
            return []
        return [TaskRow(*row) for row in await self._rows(self._sql.tasks(thread.key, *_columns(names)))]

    async def lineage(
        self, thread: Thread, ns: str, id: str, limit: int | None
    ) -> tuple[Sequence[CheckpointRow], Sequence[TaskRow]]:
        asked = thread.key, ns, id, limit
        rows, tasks = await self._ask(self._sql.line(*asked), self._sql.tasks_of_line(*asked))
        return linked({row[1]: _checkpoint(row) for row in rows}, id), [TaskRow(*row) for row in tasks]

    async def trail(self, ref: Ref, known: Thread | None, channels: Collection[str], limit: int | None) -> Trail | None:
        trail = self._sql.trail
        threads, rows, tasks, blocks = await self._ask(
            self._sql.thread(ref.thread_id), *(part(ref.thread_id, ref.ns, ref.id, limit) for part in trail)
        )
        if not threads:
            return None
        by_id = {row[1]: _checkpoint(row) for row in rows}
        line = linked(by_id, ref.id or max(by_id, default=""))
        ended = limit is None or len(line) < limit
        return Trail(Thread(*threads[0]), line, [TaskRow(*row) for row in tasks], dict(blocks), ended)

    async def pieces(
        self, thread: Thread, ids: Collection[int], keys: Collection[bytes], bodies: Collection[bytes]
    ) -> Pieces:
        values, segments = await self._ask(
            self._sql.values(thread.key, ids), self._sql.first_segments(thread.key, keys, ids)
        )
        return Pieces(dict(values), dict(segments))

    async def values(self, thread: Thread, ids: Collection[int]) -> Mapping[int, bytes]:
        return dict(await self._rows(self._sql.values(thread.key, ids))) if ids else {}

    async def segments(self, thread: Thread, keys: Collection[bytes], take: Take) -> None:
        take(dict(await self._rows(self._sql.segments(thread.key, keys))))

    async def every_checkpoint(self, thread: Thread) -> Sequence[CheckpointRow]:
        return [_checkpoint(row) for row in await self._rows(self._sql.every_checkpoint(thread.key))]

    async def every_task(self, thread: Thread) -> Sequence[TaskRow]:
        return [TaskRow(*row) for row in await self._rows(self._sql.every_task(thread.key))]

    async def every_value(self, thread: Thread) -> Mapping[int, bytes]:
        return dict(await self._rows(self._sql.every_value(thread.key)))

    async def every_segment(self, thread: Thread) -> Mapping[bytes, bytes]:
        return dict(await self._rows(self._sql.every_segment(thread.key)))

    async def sizes(self, thread: Thread) -> Sizes:
        values: dict[int, int] = dict(await self._rows(self._sql.value_sizes(thread.key)))
        return Sizes(values, dict(await self._rows(self._sql.segment_sizes(thread.key))))

    async def thread_ids_of_runs(self, run_ids: Collection[str]) -> Sequence[str]:
        return [thread_id for (thread_id,) in await self._rows(self._sql.runs(run_ids))]

    async def threads(self) -> Sequence[ThreadInfo]:
        rows = await self._rows(self._sql.threads())
        return [
            ThreadInfo(thread_id, count, last, ts, tuple(sorted(spaces)))
            for thread_id, _, count, last, ts, spaces in rows
        ]

    async def thread_ids(self) -> Sequence[str]:
        return [thread_id for (thread_id,) in await self._rows(self._sql.thread_ids())]


class Change(Reading):
    """A transaction that changes rows: what it adds is kept here and sent with the commit.

    What a writer foresees is asked in one round trip, with the thread held.
    """

    __slots__ = ("_adding", "_bodies", "_heads", "_known", "_tasks", "held")
    far = True

    def __init__(self, trips: Trips, sql: Statements) -> None:
        super().__init__(trips, sql)
        self._adding: Adding | None = None
        self.held = set[str]()
        """The threads that are held until the transaction ends."""
        self._known: dict[str, Thread | None] = {}
        self._heads: dict[str, CheckpointRow | None] = {}
        self._bodies: dict[tuple[str, str], bytes | None] = {}
        self._tasks: dict[tuple[str, str, str], TaskRow | None] = {}

    # -- what is known ------------------------------------------------------------------------------------------------

    async def foresee(self, thread_id: str, needs: Foreseen) -> None:
        sql = self._sql
        self._heads.clear()
        self._bodies.clear()
        self._tasks.clear()
        _, threads, heads, bodies, tasks = await self._trips.ask(
            sql.hold(thread_id),
            sql.thread(thread_id),
            sql.heads(thread_id, needs.heads),
            sql.bodies(thread_id, *_columns(needs.checkpoints)),
            sql.named_tasks(thread_id, *_columns(needs.tasks, 3)),
        )
        self.held.add(thread_id)
        self._known[thread_id] = Thread(*threads[0]) if threads else None
        self._heads.update(dict.fromkeys(needs.heads))
        self._heads.update((row[0], _checkpoint(row)) for row in heads)
        self._bodies.update(dict.fromkeys(needs.checkpoints))
        self._bodies.update(((ns, id), body) for ns, id, body in bodies)
        self._tasks.update(dict.fromkeys(needs.tasks))
        self._tasks.update((row[:3], TaskRow(*row)) for row in tasks)

    async def _ask(self, *sent: Sent) -> list[Rows]:
        """Ask, once what was added has been sent."""
        found = await self._trips.ask(*self.ending(), *sent)
        return found[-len(sent) :] if sent else []

    def ending(self) -> list[Sent]:
        """What was added, as a statement; it is forgotten here."""
        adding, self._adding = self._adding, None
        self._heads.clear()
        self._bodies.clear()
        return [adding.stored(self._sql)] if adding is not None else []

    # -- asking ------------------------------------------------------------------------------------------------------

    async def thread(self, thread_id: str) -> Thread | None:
        if thread_id not in self._known:
            _, rows = await self._ask(self._sql.hold(thread_id), self._sql.thread(thread_id))
            self.held.add(thread_id)
            self._known[thread_id] = Thread(*rows[0]) if rows else None
        return self._known[thread_id]

    async def open_thread(self, thread_id: str, salt: bytes) -> Thread:
        known = await self.thread(thread_id)
        if known is None:
            known = self._known[thread_id] = Thread(new_key(), salt)
            await self._ask(self._sql.make_thread(thread_id, known.key, salt))
        return known

    async def checkpoint(self, thread: Thread, ns: str, id: str | None) -> CheckpointRow | None:
        if id is None and ns in self._heads:
            return self._heads[ns]
        return await super().checkpoint(thread, ns, id)

    async def body(self, thread: Thread, ns: str, id: str) -> bytes | None:
        if (ns, id) in self._bodies:
            return self._bodies[ns, id]
        row = await self.checkpoint(thread, ns, id)
        return row.body if row is not None else None

    async def task(self, thread: Thread, ns: str, id: str, task_id: str) -> TaskRow | None:
        name = ns, id, task_id
        if name not in self._tasks:
            rows = await self._rows(self._sql.task(thread.key, *name))
            self._tasks[name] = TaskRow(*rows[0]) if rows else None
        return self._tasks[name]

    # -- changing ----------------------------------------------------------------------------------------------------

    async def _add_to(self, thread: Thread) -> Adding:
        if self._adding is not None and self._adding.thread.key != thread.key:
            await self._ask()
        if self._adding is None:
            self._adding = Adding(thread)
        return self._adding

    async def put_checkpoint(self, thread: Thread, row: CheckpointRow) -> None:
        self._heads.clear()
        self._bodies.pop((row.ns, row.id), None)
        (await self._add_to(thread)).checkpoints[row.ns, row.id] = row

    async def add_task(self, thread: Thread, row: TaskRow) -> bool:
        if await self.task(thread, row.ns, row.id, row.task_id) is not None:
            return False
        await self.put_task(thread, row)
        return True

    async def put_task(self, thread: Thread, row: TaskRow) -> None:
        name = row.ns, row.id, row.task_id
        self._tasks[name] = row
        (await self._add_to(thread)).tasks[name] = row

    async def add_values(self, thread: Thread, rows: Collection[tuple[int, bytes]]) -> None:
        (await self._add_to(thread)).values.extend(rows)

    async def add_segments(self, thread: Thread, rows: Collection[tuple[bytes, bytes]]) -> None:
        (await self._add_to(thread)).segments.extend(rows)

    async def flag(self, thread: Thread, ns: str, id: str, flags: int) -> None:
        await self._ask(self._sql.flag(thread.key, ns, id, flags))

    async def drop(self, thread: Thread, names: Collection[tuple[str, str]]) -> None:
        if names:
            self._tasks.clear()
            columns = _columns(names)
            await self._ask(*(drop(thread.key, *columns) for drop in self._sql.drops))

    async def drop_task(self, thread: Thread, row: TaskRow) -> None:
        self._tasks.pop((row.ns, row.id, row.task_id), None)
        await self._ask(self._sql.drop_task(thread.key, row.ns, row.id, row.task_id))

    async def sweep(self, thread: Thread, values: Collection[int], segments: Collection[bytes]) -> None:
        sql = self._sql
        await self._ask(sql.sweep_values(thread.key, values), sql.sweep_segments(thread.key, segments))

    async def drop_thread(self, thread_id: str) -> None:
        thread = await self.thread(thread_id)
        if thread is not None:
            self._known[thread_id] = None
            self._tasks.clear()
            await self._ask(*(drop(thread.key) for drop in self._sql.drop_all))


class Adding:
    """Rows of one thread that are about to be stored."""

    __slots__ = ("checkpoints", "segments", "tasks", "thread", "values")

    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self.checkpoints: dict[tuple[str, str], CheckpointRow] = {}
        self.tasks: dict[tuple[str, str, str], TaskRow] = {}
        self.values: list[tuple[int, bytes]] = []
        self.segments: list[tuple[bytes, bytes]] = []

    def stored(self, sql: Statements) -> Sent:
        """The call that stores them."""
        return sql.store.sent(
            values_of(self.thread.key, None, self.segments, self.values, self.tasks.values(), self.checkpoints.values())
        )


def new_key() -> int:
    """A thread's key: never given out twice, by this process or another, and rising with time."""
    # Microseconds since 1970 and 11 random bits: 63 bits until the year 2112.
    return time.time_ns() // 1000 << 11 | int.from_bytes(os.urandom(2), "big") & 0x7FF


def _columns(rows: Collection[Sequence[Any]], count: int = 2) -> Sequence[Sequence[Any]]:
    return list(zip(*rows, strict=True)) if rows else [()] * count


def _checkpoint(row: Sequence[Any]) -> CheckpointRow:
    return CheckpointRow(row[0], row[1], Columns(*row[2:8]), row[8], row[9])
