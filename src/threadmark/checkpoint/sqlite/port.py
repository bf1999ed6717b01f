"""Rows in a SQLite file."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager

from threadmark.checkpoint.records import CheckpointRow, Ref, Scope, TaskRow, ThreadInfo


class SqlitePort:
    """One connection behind one lock."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn
        self._lock = threading.RLock()
        self._threads: dict[str, int] = {}

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[SqlitePort, None]:
        with self._lock:
            yield self

    @asynccontextmanager
    async def write(self) -> AsyncGenerator[SqlitePort, None]:
        with self._lock:
            self.conn.execute("BEGIN IMMEDIATE")
            try:
                yield self
                self.conn.execute("COMMIT")
            except BaseException:
                self._threads.clear()
                if self.conn.in_transaction:
                    self.conn.execute("ROLLBACK")
                raise

    def _thread(self, thread_id: str) -> int:
        row = self.conn.execute("SELECT id FROM thread WHERE thread_id = ?", (thread_id,)).fetchone()
        return row[0] if row else 0

    def _thread_for_writing(self, thread_id: str) -> int:
        known = self._thread(thread_id)
        if not known:
            known = self.conn.execute("INSERT INTO thread (thread_id) VALUES (?)", (thread_id,)).lastrowid or 0
        return known

    async def checkpoint(self, ref: Ref) -> CheckpointRow | None:
        thread = self._thread(ref.thread_id)
        sql = "SELECT ns, id, parent, source, step, run_id, ts, body FROM checkpoint WHERE thread = ? AND ns = ?"
        if ref.id is not None:
            row = self.conn.execute(f"{sql} AND id = ?", (thread, ref.ns, ref.id)).fetchone()
        else:
            row = self.conn.execute(f"{sql} ORDER BY id DESC LIMIT 1", (thread, ref.ns)).fetchone()
        return CheckpointRow(ref.thread_id, *row) if row else None

    async def keys(self, scope: Scope) -> Sequence[Ref]:
        where, args = ["1"], list[object]()
        for clause, value in (
            ("thread_id = ?", scope.thread_id),
            ("ns = ?", scope.ns),
            ("checkpoint.id = ?", scope.id),
            ("checkpoint.id < ?", scope.before),
        ):
            if value is not None:
                where.append(clause)
                args.append(value)
        rows = self.conn.execute(
            "SELECT thread_id, ns, checkpoint.id FROM checkpoint JOIN thread ON thread.id = thread "
            f"WHERE {' AND '.join(where)} ORDER BY checkpoint.id DESC, thread_id, ns",
            args,
        ).fetchall()
        return [Ref(*row) for row in rows]

    async def tasks(self, ref: Ref) -> Sequence[TaskRow]:
        sql = "SELECT ns, id, task_id, path, body FROM task WHERE thread = ? AND ns = ? AND id = ?"
        rows = self.conn.execute(sql, (self._thread(ref.thread_id), ref.ns, ref.id)).fetchall()
        return [TaskRow(*row) for row in rows]

    async def values(self, thread_id: str, ids: Sequence[int]) -> Mapping[int, bytes]:
        marks = ",".join("?" * len(ids))
        sql = f"SELECT id, body FROM value WHERE id IN ({marks}) AND thread = ?"
        return dict(self.conn.execute(sql, (*ids, self._thread(thread_id))).fetchall())

    async def threads(self) -> Sequence[ThreadInfo]:
        return []

    async def put_checkpoint(self, row: CheckpointRow) -> None:
        self.conn.execute(
            "INSERT OR REPLACE INTO checkpoint VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (self._thread_for_writing(row.thread_id), *row[1:]),
        )

    async def add_task(self, thread_id: str, row: TaskRow) -> TaskRow | None:
        thread = self._thread_for_writing(thread_id)
        done = self.conn.execute("INSERT OR IGNORE INTO task VALUES (?, ?, ?, ?, ?, ?)", (thread, *row))
        if done.rowcount:
            return None
        sql = "SELECT ns, id, task_id, path, body FROM task WHERE thread = ? AND ns = ? AND id = ? AND task_id = ?"
        return TaskRow(*self.conn.execute(sql, (thread, row.ns, row.id, row.task_id)).fetchone())

    async def set_task(self, thread_id: str, row: TaskRow) -> None:
        thread = self._thread_for_writing(thread_id)
        self.conn.execute("INSERT OR REPLACE INTO task VALUES (?, ?, ?, ?, ?, ?)", (thread, *row))

    async def add_values(self, thread_id: str, bodies: Mapping[int, bytes]) -> None:
        thread = self._thread_for_writing(thread_id)
        self.conn.executemany("INSERT INTO value VALUES (?, ?, ?)", [(id, thread, b) for id, b in bodies.items()])

    async def drop(self, refs: Sequence[Ref]) -> None:
        for ref in refs:
            args = (self._thread(ref.thread_id), ref.ns, ref.id)
            self.conn.execute("DELETE FROM checkpoint WHERE thread = ? AND ns = ? AND id = ?", args)
            self.conn.execute("DELETE FROM task WHERE thread = ? AND ns = ? AND id = ?", args)

    async def drop_thread(self, thread_id: str) -> None:
        thread = self._thread(thread_id)
        for table in ("checkpoint", "task", "value"):
            self.conn.execute(f"DELETE FROM {table} WHERE thread = ?", (thread,))
        self.conn.execute("DELETE FROM thread WHERE id = ?", (thread,))

    async def copy_thread(self, source: str, target: str) -> None:
        raise NotImplementedError

    async def sweep(self, thread_id: str, keep: Collection[int]) -> None:
        raise NotImplementedError
