"""LangGraph's SQLite files, read-only (spec 13.1)."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from threadmark.checkpoint.sqlite.errors import translated
from threadmark.errors import ForeignDatabase, SaverError, ThreadmarkError
from threadmark.interop.peer_values import PeerValues, Unreadable
from threadmark.interop.rows import StoredCheckpoint, StoredWrite, ThreadRows

__all__ = ["PeerSqlite", "check_peers_file", "is_peers_file", "told_of_file"]

_THREADS: Final = "SELECT thread_id FROM checkpoints UNION SELECT thread_id FROM writes ORDER BY thread_id"
_CHECKPOINTS: Final = (
    "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata FROM checkpoints "
    "WHERE thread_id = ? ORDER BY checkpoint_id, checkpoint_ns"
)
_WRITES: Final = (
    "SELECT checkpoint_ns, checkpoint_id, task_id, {path}, idx, channel, type, value FROM writes "
    "WHERE thread_id = ? ORDER BY checkpoint_id, checkpoint_ns, task_id, idx"
)


_COLUMNS: Final = {"thread_id", "checkpoint_id", "checkpoint", "metadata"}


def is_peers_file(path: str | Path) -> bool:
    """Whether a file is a SQLite database with LangGraph's tables; False for one that cannot be read."""
    if not Path(path).is_file():
        return False
    try:
        with told_of_file(path), closing(_opened(path)) as conn:
            return _is_peers(conn)
    except SaverError:
        return False


def check_peers_file(path: str | Path, *, empty: bool = False) -> None:
    """``ForeignDatabase`` for an existing file that is not LangGraph's; nothing is changed.

    With ``empty`` a file will do in which LangGraph could make its tables: any that is not ours.
    """
    with told_of_file(path), closing(_opened(path)) as conn:
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
    return {"checkpoints", "writes"} <= _tables(conn) and {
        "thread_id",
        "checkpoint_id",
        "checkpoint",
        "metadata",
    } <= found


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


def _opened(path: str | Path) -> sqlite3.Connection:
    """A connection that changes nothing and makes no file: one that nobody writes is read as it lies."""
    log = Path(f"{path}-wal")
    still = "&immutable=1" if not log.exists() or log.stat().st_size == 0 else ""
    return sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode=ro{still}", uri=True)


class PeerSqlite:
    """A file that LangGraph's SqliteSaver wrote."""

    def __init__(self, path: str | Path, values: PeerValues) -> None:
        self.name = str(path)
        self._path, self._values = Path(path), values
        with told_of_file(path):
            self._conn = _opened(path)
            columns = {name for _, name, *_ in self._conn.execute("PRAGMA table_info(writes)")}
        self._writes = _WRITES.format(path="task_path" if "task_path" in columns else "''")

    def thread_ids(self) -> list[str]:
        """Every thread of which anything is stored."""
        with told_of_file(self._path):
            return [str(thread_id) for (thread_id,) in self._conn.execute(_THREADS)]

    def thread(self, thread_id: str) -> ThreadRows:
        """All rows of a thread."""
        with told_of_file(self._path):
            return self._rows(thread_id)

    def _rows(self, thread_id: str) -> ThreadRows:
        rows = ThreadRows(thread_id)
        for ns, id, parent, tag, data, metadata in self._conn.execute(_CHECKPOINTS, (thread_id,)):
            rows.size += _length(thread_id, ns, id, parent, tag, data, metadata)
            try:
                made, sizes, sealed = self._values.checkpoint(tag, _bytes(data))
                if made["id"] != id:
                    raise Unreadable(f"it is the checkpoint {made['id']}, put into another place")
                about = self._values.metadata(tag, metadata)
            except Unreadable as error:
                rows.problems.append(f"checkpoint {id} in namespace {ns!r}: {error}")
                continue
            rows.checkpoints.append(StoredCheckpoint(ns, id, parent or None, made, about, sizes, sealed))
        for ns, id, task_id, path, place, channel, tag, data in self._conn.execute(self._writes, (thread_id,)):
            rows.size += _length(thread_id, ns, id, task_id, path, channel, tag, data) + 4
            try:
                value, sealed = self._values.value(tag, None if data is None else _bytes(data))
            except Unreadable as error:
                rows.problems.append(f"write {channel!r} of task {task_id} at checkpoint {id}: {error}")
                continue
            size = len(data or b"")
            rows.writes.append(StoredWrite(ns, id, task_id, path, place, channel, value, size, sealed))
        return rows

    def size(self) -> int | None:
        """Bytes of the file, and of the log beside it."""
        return sum(part.stat().st_size for part in _parts(self._path))

    def close(self) -> None:
        """Let go of the file."""
        self._conn.close()


def _parts(path: Path) -> Iterator[Path]:
    yield path
    log = Path(f"{path}-wal")
    if log.exists():
        yield log


def _bytes(data: Any) -> bytes:
    return data.encode() if isinstance(data, str) else bytes(data)


def _length(*columns: Any) -> int:
    return sum(len(column) for column in columns if column is not None)
