"""Opening SQLite files: whose they are, which settings they get, and the port over them."""

from __future__ import annotations

import sqlite3
import threading
from typing import Any, Final
from urllib.parse import quote

from threadmark.checkpoint.sql.migrations import pending, scripts, statements
from threadmark.checkpoint.sqlite.driver import PATIENCE, Blocking, Transaction, patiently
from threadmark.checkpoint.sqlite.errors import translated
from threadmark.checkpoint.sqlite.rows import Rows
from threadmark.errors import ForeignDatabase

APPLICATION_ID: Final = 0x54684D6B
"""Stands in the header of our files: "ThMk"."""
_PACKAGE: Final = "threadmark.checkpoint.sqlite"


class SqlitePort:
    """Rows in one SQLite file, or in memory. Readers have a connection of their own where there is a file."""

    blocking = True

    def __init__(self, writer: Blocking, reader: Blocking | None = None) -> None:
        self._writer = writer
        self._reader = reader or writer
        self._write = Transaction(writer, "BEGIN IMMEDIATE", Rows(writer))
        self._read = Transaction(self._reader, "BEGIN", Rows(self._reader))
        self.waits = True

    def read(self) -> Transaction:
        return self._read

    def write(self) -> Transaction:
        return self._write

    def close(self) -> None:
        """Close the connections. Idempotent."""
        for sql in {self._writer, self._reader}:
            with sql.lock:
                sql.conn.close()


def connect(path: str, *, read_only: bool = False, timeout: float = 0.0) -> sqlite3.Connection:
    """A connection that any thread may use, in autocommit mode, to a path, a ``file:`` URI or ``:memory:``.

    ``timeout`` is SQLite's own waiting, in seconds; a writer does without, ``patiently`` is quicker.
    """
    uri = path.startswith("file:")
    if read_only and not uri:
        path, uri = f"file:{quote(path)}?mode=ro", True
    try:
        return sqlite3.connect(
            path, timeout, uri=uri, check_same_thread=False, isolation_level=None, cached_statements=256
        )
    except sqlite3.Error as error:
        raise translated(error, path) from error


def path_of(conn: sqlite3.Connection) -> str:
    """The file that a connection is open on; empty for one in memory."""
    return next((str(path or "") for _, name, path in conn.execute("PRAGMA database_list") if name == "main"), "")


def is_thread_bound(conn: sqlite3.Connection) -> bool:
    """Whether only the thread that opened a connection may use it."""
    refused: list[bool] = []

    def look() -> None:
        try:
            _ = conn.total_changes
            refused.append(False)
        except sqlite3.ProgrammingError:
            refused.append(True)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return refused[0]


def prepare(conn: sqlite3.Connection, file: str, synchronous: str | None) -> None:
    """Make our tables unless they are there; safe when several processes do it at once.

    Raises ``ForeignDatabase`` before anything is written when the file holds what we did not make.
    """
    try:
        stored = patiently(lambda: stored_format(conn, file))
        if path_of(conn):
            patiently(lambda: conn.execute("PRAGMA journal_mode = WAL"))
        if synchronous is not None:
            conn.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[synchronous.upper()]}")
        if pending(_PACKAGE, stored):
            patiently(lambda: _migrate(conn, file))
    except sqlite3.Error as error:
        raise translated(error, file) from error


_SYNCHRONOUS: Final = {"OFF": 0, "NORMAL": 1, "FULL": 2, "EXTRA": 3, "0": 0, "1": 1, "2": 2, "3": 3}


def stored_format(conn: sqlite3.Connection, file: str) -> int:
    """The format of our tables; 0 when the file is empty; ``ForeignDatabase`` when it is somebody else's."""
    tables = {name for (name,) in conn.execute("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")}
    if not tables:
        return 0
    if "threadmark" not in tables:
        hint = " LangGraph's savers make such tables." if {"checkpoints", "writes"} <= tables else ""
        raise ForeignDatabase(
            f"{file} was not made by Threadmark: it holds {', '.join(sorted(tables)[:4])}.{hint} "
            f"Nothing was written to it; name another file"
        )
    rows = conn.execute("SELECT format FROM threadmark").fetchall()
    if len(rows) != 1 or not isinstance(rows[0][0], int):
        raise ForeignDatabase(f"{file} has a table named threadmark that is not ours; name another file")
    stored: int = rows[0][0]
    pending(_PACKAGE, stored)
    return stored


def _migrate(conn: sqlite3.Connection, file: str) -> None:
    conn.execute("BEGIN IMMEDIATE")
    try:
        for script in pending(_PACKAGE, stored_format(conn, file)):  # another process may have been quicker
            for statement in statements(script):
                conn.execute(statement)
        conn.execute("DELETE FROM threadmark")
        conn.execute("INSERT INTO threadmark VALUES (?)", (len(scripts(_PACKAGE)),))
        conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        conn.execute("COMMIT")
    except BaseException:
        if conn.in_transaction:
            conn.execute("ROLLBACK")
        raise


def open_port(path: str, *, synchronous: str | None = "FULL", read_only: bool = False) -> tuple[SqlitePort, Any]:
    """A port over a path, and its writing connection."""
    conn = connect(path, read_only=read_only, timeout=PATIENCE if read_only else 0.0)
    file = path_of(conn) or path
    try:
        if read_only:
            _expect_ours(conn, file)
        else:
            prepare(conn, file, synchronous)
        reader = None
        if path_of(conn) and not read_only:
            reader = Blocking(connect(path, timeout=PATIENCE), file)
            reader.conn.execute("PRAGMA query_only = ON")
    except BaseException:
        conn.close()
        raise
    return SqlitePort(Blocking(conn, file), reader), conn


def _expect_ours(conn: sqlite3.Connection, file: str) -> None:
    try:
        stored = stored_format(conn, file)
    except sqlite3.Error as error:
        raise translated(error, file) from error
    if stored == 0:
        raise ForeignDatabase(f"{file} is empty: no thread was ever saved in it")
