"""LangGraph's SQLite files, read-only (spec 13.1)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final

from threadmark.checkpoint.sqlite.errors import translated
from threadmark.cli.traceless import size_of, way_into
from threadmark.errors import ForeignDatabase, SaverError, ThreadmarkError
from threadmark.interop.peer_values import PeerValues
from threadmark.interop.resting import Resting
from threadmark.interop.rows import Head, StoredCheckpoint, StoredWrite, ThreadRows, Unreadable

__all__ = ["PeerSqlite", "check_peers_file", "is_peers_file", "told_of_file"]

_THREADS: Final = "SELECT thread_id FROM checkpoints UNION SELECT thread_id FROM writes ORDER BY thread_id"
_HEADS: Final = "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, {size} FROM checkpoints WHERE thread_id = ?"
_CHECKPOINT: Final = (
    "SELECT type, checkpoint, metadata FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
)
_WRITES: Final = (
    "SELECT checkpoint_ns, checkpoint_id, task_id, {path}, idx, channel, type, value FROM writes "
    "WHERE thread_id = ? ORDER BY checkpoint_id, checkpoint_ns, task_id, idx"
)
_SIZED: Final = (
    "thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "type", "checkpoint", "metadata",
)  # fmt: skip
_COLUMNS: Final = {"thread_id", "checkpoint_id", "checkpoint", "metadata"}


def is_peers_file(path: str | Path) -> bool:
    """Whether a file is a SQLite database with LangGraph's tables; False for one that cannot be read."""
    if not Path(path).is_file():
        return False
    try:
        with told_of_file(path), _opened(path) as conn:
            return _is_peers(conn)
    except SaverError:
        return False


def check_peers_file(path: str | Path, *, empty: bool = False) -> None:
    """``ForeignDatabase`` for an existing file that is not LangGraph's; nothing is changed.

    With ``empty`` a file will do in which LangGraph could make its tables: any that is not ours.
    """
    with told_of_file(path), _opened(path) as conn:
        tables = _tables(conn)
        if "threadmark" in tables:
            raise ForeignDatabase(
                f"{path} is a file of Threadmark's, not of LangGraph's; nothing was written to it. "
                f"{'Name another file' if empty else 'Name it without langgraph+ in front'}"
            )
        if not empty and not _is_peers(conn):
            raise ForeignDatabase(f"{path} holds no tables of LangGraph's; name a file that its SqliteSaver wrote")


def _is_peers(conn: sqlite3.Connection) -> bool:
    found = {name for _, name, *_ in conn.execute("PRAGMA table_info(checkpoints)")}
    return {"checkpoints", "writes"} <= _tables(conn) and found >= _COLUMNS


def _tables(conn: sqlite3.Connection) -> set[str]:
    return {name for (name,) in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


@contextmanager
def told_of_file(path: str | Path) -> Iterator[None]:
    """The driver's errors as ours, which name the file and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        made = translated(error, str(path))
        if isinstance(made, ThreadmarkError):
            raise made from error
        raise SaverError(f"{path} could not be used: {error}") from error


@contextmanager
def _opened(path: str | Path) -> Iterator[sqlite3.Connection]:
    with way_into(Path(path)) as way, closing(sqlite3.connect(way.uri, uri=True)) as conn:
        yield conn


class PeerSqlite:
    """A file that LangGraph's SqliteSaver wrote."""

    def __init__(self, path: str | Path, values: PeerValues) -> None:
        self.name = str(path)
        self._path, self._values = Path(path), values
        self._file, self._opened = Resting(path), ExitStack()
        self._open()

    def _open(self) -> None:
        self._opened.close()
        with told_of_file(self._path):
            self._conn = self._opened.enter_context(
                closing(sqlite3.connect(self._file.open(), uri=True, isolation_level=None))
            )
            columns = {name for _, name, *_ in self._conn.execute("PRAGMA table_info(writes)")}
        self._writes = _WRITES.format(path="task_path" if "task_path" in columns else "''")
        self._heads = _HEADS.format(size=" + ".join(f"coalesce(length(CAST({name} AS BLOB)), 0)" for name in _SIZED))

    def thread_ids(self) -> list[str]:
        """Every thread of which anything is stored."""
        with told_of_file(self._path):
            return [str(thread_id) for (thread_id,) in self._conn.execute(_THREADS)]

    def thread(self, thread_id: str) -> ThreadRows:
        """All rows of a thread, as they are at this moment, until the next one is asked for."""
        if self._file.has_changed():
            self._open()
        with told_of_file(self._path), self._file.steady():
            if self._conn.in_transaction:
                self._conn.execute("ROLLBACK")
            self._conn.execute("BEGIN")
            stored = self._conn.execute(self._heads, (thread_id,)).fetchall()
            heads = [Head(ns, id, parent or None) for ns, id, parent, _ in stored]
            rows = ThreadRows(thread_id, heads, (), lambda head: self._checkpoint(thread_id, head))
            rows.size = sum(size for *_, size in stored)
            self._add_writes(rows)
        return rows

    def _checkpoint(self, thread_id: str, head: Head) -> StoredCheckpoint:
        with told_of_file(self._path), self._file.steady():
            found = self._conn.execute(_CHECKPOINT, (thread_id, head.ns, head.id)).fetchone()
        if found is None:
            raise Unreadable("it is gone")
        tag, data, metadata = found
        made, sizes, sealed = self._values.checkpoint(tag, _bytes(data))
        if made["id"] != head.id:
            raise Unreadable(f"it is the checkpoint {made['id']}, put into another place")
        about = self._values.metadata(tag, metadata)
        return StoredCheckpoint(head.ns, head.id, head.parent, made, about, sizes, sealed)

    def _add_writes(self, rows: ThreadRows) -> None:
        for ns, id, task_id, path, place, channel, tag, data in self._conn.execute(self._writes, (rows.thread_id,)):
            rows.size += _length(rows.thread_id, ns, id, task_id, path, channel, tag, data) + 4
            try:
                value, sealed = self._values.value(tag, None if data is None else _bytes(data))
            except Unreadable as error:
                rows.problems.append(f"write {channel!r} of task {task_id} at checkpoint {id}: {error}")
                continue
            size = len(data or b"")
            rows.writes.append(StoredWrite(ns, id, task_id, path, place, channel, value, size, sealed))

    def size(self) -> int | None:
        """Bytes of the file, and of the log beside it."""
        return size_of(self._path)

    def close(self) -> None:
        """Let go of the file."""
        self._opened.close()
        self._file.close()


def _bytes(data: Any) -> bytes:
    return data.encode() if isinstance(data, str) else bytes(data)


def _length(*columns: Any) -> int:
    return sum(len(column) for column in columns if column is not None)
