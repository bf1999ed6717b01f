"""``InMemorySaver``: everything in dicts, for tests and short-lived programs. What it does defines what savers do."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from threadmark.checkpoint.records import CheckpointRow, Ref, Scope, TaskRow, ThreadInfo
from threadmark.checkpoint.saver import Saver

__all__ = ["InMemorySaver", "MemorySaver"]


class DictPort:
    """Rows in dicts, behind one lock."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._checkpoints: dict[Ref, CheckpointRow] = {}
        self._tasks: dict[Ref, dict[str, TaskRow]] = {}
        self._values: dict[str, dict[int, bytes]] = {}

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[DictPort, None]:
        with self._lock:
            yield self

    @asynccontextmanager
    async def write(self) -> AsyncGenerator[DictPort, None]:
        with self._lock:
            yield self

    async def checkpoint(self, ref: Ref) -> CheckpointRow | None:
        if ref.id is not None:
            return self._checkpoints.get(ref)
        ids = [k.id for k in self._checkpoints if k.thread_id == ref.thread_id and k.ns == ref.ns and k.id is not None]
        return self._checkpoints[Ref(ref.thread_id, ref.ns, max(ids))] if ids else None

    async def keys(self, scope: Scope) -> Sequence[Ref]:
        found = [
            k
            for k in self._checkpoints
            if (scope.thread_id is None or k.thread_id == scope.thread_id)
            and (scope.ns is None or k.ns == scope.ns)
            and (scope.id is None or k.id == scope.id)
            and (scope.before is None or (k.id or "") < scope.before)
        ]
        found.sort(key=lambda k: (k.thread_id, k.ns))
        return sorted(found, key=lambda k: k.id or "", reverse=True)

    async def tasks(self, ref: Ref) -> Sequence[TaskRow]:
        return list(self._tasks.get(ref, {}).values())

    async def values(self, thread_id: str, ids: Sequence[int]) -> Mapping[int, bytes]:
        rows = self._values.get(thread_id, {})
        return {id: rows[id] for id in ids if id in rows}

    async def threads(self) -> Sequence[ThreadInfo]:
        return []

    async def put_checkpoint(self, row: CheckpointRow) -> None:
        self._checkpoints[Ref(row.thread_id, row.ns, row.id)] = row

    async def add_task(self, thread_id: str, row: TaskRow) -> TaskRow | None:
        rows = self._tasks.setdefault(Ref(thread_id, row.ns, row.id), {})
        old = rows.get(row.task_id)
        if old is None:
            rows[row.task_id] = row
        return old

    async def set_task(self, thread_id: str, row: TaskRow) -> None:
        self._tasks[Ref(thread_id, row.ns, row.id)][row.task_id] = row

    async def add_values(self, thread_id: str, bodies: Mapping[int, bytes]) -> None:
        self._values.setdefault(thread_id, {}).update(bodies)

    async def drop(self, refs: Sequence[Ref]) -> None:
        for ref in refs:
            self._checkpoints.pop(ref, None)
            self._tasks.pop(ref, None)

    async def drop_thread(self, thread_id: str) -> None:
        self._checkpoints = {k: v for k, v in self._checkpoints.items() if k.thread_id != thread_id}
        self._tasks = {k: v for k, v in self._tasks.items() if k.thread_id != thread_id}
        self._values.pop(thread_id, None)

    async def copy_thread(self, source: str, target: str) -> None:
        raise NotImplementedError

    async def sweep(self, thread_id: str, keep: Collection[int]) -> None:
        rows = self._values.get(thread_id, {})
        self._values[thread_id] = {id: rows[id] for id in rows if id in keep}


class InMemorySaver(Saver):
    """Keeps everything in this process; gone when it ends. Serves both colours and any number of threads."""

    def __init__(self, *, serde: Any = None, config_keys: Sequence[str] | None = None) -> None:
        super().__init__(DictPort(), serde=serde, config_keys=config_keys)

    async def _run(self, op: Any) -> Any:
        return await op()


MemorySaver = InMemorySaver
