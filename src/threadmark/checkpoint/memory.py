"""``InMemorySaver``: everything in dicts, for tests and short-lived programs. What it does defines what savers do."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from threadmark.checkpoint.base import Retention
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.records import (
    HIDDEN,
    CheckpointRow,
    Foreseen,
    Ref,
    Scope,
    Sizes,
    Take,
    TaskRow,
    Thread,
    ThreadInfo,
)
from threadmark.checkpoint.saver import Saver
from threadmark.checkpoint.trails import OneByOne

__all__ = ["InMemorySaver", "MemorySaver"]


@dataclass(slots=True)
class _Shelf:
    """What is stored of one thread."""

    thread: Thread
    checkpoints: dict[str, dict[str, CheckpointRow]] = field(default_factory=dict)
    order: dict[str, list[str]] = field(default_factory=dict)
    """Ids of a namespace's checkpoints, rising."""
    tasks: dict[tuple[str, str], dict[str, TaskRow]] = field(default_factory=dict)
    values: dict[int, bytes] = field(default_factory=dict)
    segments: dict[bytes, bytes] = field(default_factory=dict)


def _shown(shelf: _Shelf, ns: str, scope: Scope) -> Iterator[str]:
    """Ids of a namespace's checkpoints that are in scope and not hidden, the greatest first."""
    rows, order = shelf.checkpoints[ns], shelf.order[ns]
    end = len(order) if scope.before is None else bisect_left(order, scope.before)
    ids = (order[at] for at in range(end - 1, -1, -1))
    if scope.id is not None:
        ids = (id for id in (scope.id,) if id in rows and (scope.before is None or id < scope.before))
    return (id for id in ids if (row := rows.get(id)) is not None and not row.flags & HIDDEN)


class DictPort(OneByOne):
    """Rows in dicts, behind one lock: the port, and the view and the change that it opens."""

    blocking = True
    waits = False
    grouped = True
    direct = None
    steady = False
    far = False

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._shelves: dict[str, _Shelf] = {}
        self._by_key: dict[int, _Shelf] = {}
        self._made = 0

    def read(self) -> DictPort:
        return self

    def write(self) -> DictPort:
        return self

    async def __aenter__(self) -> DictPort:
        self._lock.acquire()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._lock.release()

    async def reclaim(self) -> None:
        """Python does that."""

    async def pause(self, seconds: float) -> None:
        """Nobody is ever in the way: there is one lock."""

    async def close(self) -> None:
        """Nothing to close."""

    def after_fork(self) -> None:
        """The child has a copy of its own."""
        self._lock = threading.RLock()

    def holds(self, thread_id: str, ns: str | None = None, id: str | None = None) -> bool:
        """Whether there is such a thread, or such a checkpoint of it."""
        shelf = self._shelves.get(thread_id)
        return shelf is not None and (ns is None or id in shelf.checkpoints.get(ns, ()))

    # -- reading -----------------------------------------------------------------------------------------------------

    async def thread(self, thread_id: str) -> Thread | None:
        shelf = self._shelves.get(thread_id)
        return shelf.thread if shelf is not None else None

    async def checkpoint(self, thread: Thread, ns: str, id: str | None) -> CheckpointRow | None:
        shelf = self._by_key.get(thread.key)
        rows = shelf.checkpoints.get(ns) if shelf is not None else None
        if shelf is None or not rows:
            return None
        if id is not None:
            return rows.get(id)
        found = map(rows.get, reversed(shelf.order[ns]))
        return next((row for row in found if row is not None and not row.flags & HIDDEN), None)

    async def checkpoints(self, thread: Thread, names: Collection[tuple[str, str]]) -> Sequence[CheckpointRow]:
        found = [await self.checkpoint(thread, ns, id) for ns, id in names]
        return [row for row in found if row is not None]

    async def keys(self, scope: Scope, limit: int | None = None) -> Sequence[Ref]:
        found: list[Ref] = []
        for thread_id, shelf in self._shelves.items():
            if scope.thread_id is None or scope.thread_id == thread_id:
                for ns in shelf.checkpoints:
                    if scope.ns is None or scope.ns == ns:
                        found += [Ref(thread_id, ns, id) for id in islice(_shown(shelf, ns, scope), limit)]
        found.sort(key=lambda ref: (ref.thread_id, ref.ns))
        found.sort(key=lambda ref: ref.id or "", reverse=True)
        return found[:limit]

    async def tasks(self, thread: Thread, names: Collection[tuple[str, str]]) -> Sequence[TaskRow]:
        shelf = self._by_key.get(thread.key)
        return [row for name in names for row in shelf.tasks.get(name, {}).values()] if shelf is not None else []

    async def lineage(
        self, thread: Thread, ns: str, id: str, limit: int | None
    ) -> tuple[Sequence[CheckpointRow], Sequence[TaskRow]]:
        found, cursor = dict[str, CheckpointRow](), id if limit != 0 else None
        while cursor is not None and cursor not in found:
            row = await self.checkpoint(thread, ns, cursor)
            if row is None:
                break
            found[cursor] = row
            cursor = row.columns.parent if limit is None or len(found) < limit else None
        return list(found.values()), await self.tasks(thread, [(ns, id) for id in found])

    async def values(self, thread: Thread, ids: Collection[int]) -> Mapping[int, bytes]:
        rows = await self.every_value(thread)
        return {id: rows[id] for id in ids if id in rows}

    async def segments(self, thread: Thread, keys: Collection[bytes], take: Take) -> None:
        rows = await self.every_segment(thread)
        take({key: rows[key] for key in keys if key in rows})

    async def every_checkpoint(self, thread: Thread) -> Sequence[CheckpointRow]:
        return [row for rows in self._by_key[thread.key].checkpoints.values() for row in rows.values()]

    async def every_task(self, thread: Thread) -> Sequence[TaskRow]:
        return [row for rows in self._by_key[thread.key].tasks.values() for row in rows.values()]

    async def every_value(self, thread: Thread) -> Mapping[int, bytes]:
        return self._by_key[thread.key].values

    async def every_segment(self, thread: Thread) -> Mapping[bytes, bytes]:
        return self._by_key[thread.key].segments

    async def sizes(self, thread: Thread) -> Sizes:
        shelf = self._by_key[thread.key]
        values = {id: len(body) for id, body in shelf.values.items()}
        return Sizes(values, {key: len(data) for key, data in shelf.segments.items()})

    async def thread_ids_of_runs(self, run_ids: Collection[str]) -> Sequence[str]:
        return [
            thread_id
            for thread_id, shelf in self._shelves.items()
            if any(row.columns.run_id in run_ids for row in await self.every_checkpoint(shelf.thread))
        ]

    async def threads(self) -> Sequence[ThreadInfo]:
        lines = []
        for thread_id, shelf in self._shelves.items():
            rows = [row for row in await self.every_checkpoint(shelf.thread) if not row.flags & HIDDEN]
            if rows:
                last = max(rows, key=lambda row: row.id)
                spaces = tuple(sorted({row.ns for row in rows}))
                lines.append(ThreadInfo(thread_id, len(rows), last.id, last.columns.ts, spaces))
        return sorted(lines, key=lambda line: line.last_id, reverse=True)

    async def thread_ids(self) -> Sequence[str]:
        return sorted(self._shelves)

    # -- changing ----------------------------------------------------------------------------------------------------

    async def foresee(self, thread_id: str, needs: Foreseen) -> None:
        """Everything is near."""

    async def open_thread(self, thread_id: str, salt: bytes) -> Thread:
        shelf = self._shelves.get(thread_id)
        if shelf is None:
            self._made += 1
            shelf = self._shelves[thread_id] = self._by_key[self._made] = _Shelf(Thread(self._made, salt))
        return shelf.thread

    async def body(self, thread: Thread, ns: str, id: str) -> bytes | None:
        row = await self.checkpoint(thread, ns, id)
        return row.body if row is not None else None

    async def put_checkpoint(self, thread: Thread, row: CheckpointRow) -> None:
        shelf = self._by_key[thread.key]
        order, id = shelf.order.setdefault(row.ns, []), row.id
        at = bisect_left(order, id)
        if order[at : at + 1] != [id]:  # whoever was stopped between these two does both again
            order.insert(at, id)
        shelf.checkpoints.setdefault(row.ns, {})[id] = row

    async def add_task(self, thread: Thread, row: TaskRow) -> bool:
        rows = self._by_key[thread.key].tasks.setdefault((row.ns, row.id), {})
        return rows.setdefault(row.task_id, row) is row

    async def task(self, thread: Thread, ns: str, id: str, task_id: str) -> TaskRow | None:
        return self._by_key[thread.key].tasks.get((ns, id), {}).get(task_id)

    async def put_task(self, thread: Thread, row: TaskRow) -> None:
        self._by_key[thread.key].tasks.setdefault((row.ns, row.id), {})[row.task_id] = row

    async def add_values(self, thread: Thread, rows: Collection[tuple[int, bytes]]) -> None:
        self._by_key[thread.key].values.update(rows)

    async def add_segments(self, thread: Thread, rows: Collection[tuple[bytes, bytes]]) -> None:
        for key, data in rows:
            self._by_key[thread.key].segments.setdefault(key, data)

    async def flag(self, thread: Thread, ns: str, id: str, flags: int) -> None:
        rows = self._by_key[thread.key].checkpoints[ns]
        rows[id] = rows[id]._replace(flags=flags)

    async def drop(self, thread: Thread, names: Collection[tuple[str, str]]) -> None:
        shelf = self._by_key[thread.key]
        for ns, id in names:
            shelf.tasks.pop((ns, id), None)
            if shelf.checkpoints.get(ns, {}).pop(id, None) is not None:
                shelf.order[ns].remove(id)

    async def drop_task(self, thread: Thread, row: TaskRow) -> None:
        self._by_key[thread.key].tasks.get((row.ns, row.id), {}).pop(row.task_id, None)

    async def sweep(self, thread: Thread, values: Collection[int], segments: Collection[bytes]) -> None:
        shelf = self._by_key[thread.key]
        shelf.values = {id: body for id, body in shelf.values.items() if id in values}
        shelf.segments = {key: data for key, data in shelf.segments.items() if key in segments}

    async def drop_thread(self, thread_id: str) -> None:
        shelf = self._shelves.pop(thread_id, None)
        if shelf is not None:
            del self._by_key[shelf.thread.key]


class InMemorySaver(Saver):
    """Keeps everything in this process; gone when it ends. Serves both colours and any number of threads.

    Values are serialized as they would be on a disk, so a program meets the same limits and the same copies.
    """

    instant = True
    _in_memory = True

    def __init__(
        self, *, serde: Any = None, config_keys: Sequence[str] | None = None, retention: Retention | None = None
    ) -> None:
        # What is in memory anyway need not be remembered at length.
        caches = Caches(scale=1 / 8)
        super().__init__(DictPort(), serde=serde, config_keys=config_keys, caches=caches, retention=retention)


MemorySaver = InMemorySaver
