"""The ports over SQLite: opening files, and who may use a connection that was handed in."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from threadmark.checkpoint.records import Bundle, Thread
from threadmark.checkpoint.sqlite import setup
from threadmark.checkpoint.sqlite.append import append
from threadmark.checkpoint.sqlite.driver import PATIENCE, Blocking, Sql, Transaction
from threadmark.checkpoint.sqlite.errors import primary_code, translated
from threadmark.checkpoint.sqlite.rows import Rows
from threadmark.colour import drive
from threadmark.errors import ForeignDatabase

_NO_ROOM: Final = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
_READERS_CACHE: Final = 128
"""KB of pages that a reading connection keeps. A large value goes by once, and new memory for all of its pages, as with
SQLite's 2 MB, was a third of the time in which the head of a long conversation is read cold."""
_STATEMENTS: Final = 256
"""Prepared statements that a connection keeps."""


class SqlitePort:
    """Rows in one SQLite database. Readers have a connection of their own where there is a file of ours to open."""

    blocking = True
    waits = True
    grouped = True
    direct = None
    steady = False

    def __init__(self, writer: Blocking, reader: Blocking | None = None) -> None:
        self._writer, self._reader = writer, reader or writer
        self._write = Transaction(writer, "BEGIN IMMEDIATE", Rows(writer))
        self._read = Transaction(self._reader, "BEGIN", Rows(self._reader))

    def read(self) -> Transaction:
        return self._read

    def write(self) -> Transaction:
        return self._write

    def append(self, bundles: Sequence[Bundle]) -> list[Thread] | None:
        with self._writer.lock:
            return append(self._writer.conn, bundles, self._writer.file)

    async def reclaim(self) -> None:
        await reclaimed(self._writer)

    async def pause(self, seconds: float) -> None:
        await self._writer.pause(seconds)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        self._reader.close()
        self._writer.close()

    def after_fork(self) -> None:
        """Take no lock over from the parent process. A handed-in connection is used on; that is the caller's risk."""
        for sql in {self._writer, self._reader}:
            sql.renew(sql.conn)


class FilePort(SqlitePort):
    """A file that this port opens itself."""

    def __init__(self, path: str, *, synchronous: str | None = "FULL", read_only: bool = False) -> None:
        self._path, self._read_only = path, read_only
        writer = Blocking(self._connect(), path)
        try:
            if read_only:
                self._look(writer)
            else:
                drive(setup.prepare(writer, synchronous=synchronous))
            (self._synchronous,) = writer.conn.execute("PRAGMA synchronous").fetchone()
            has_file = bool(drive(setup.file_of(writer)))
            super().__init__(writer, self._reading() if has_file and not read_only else None)
        except BaseException as error:
            writer.close()
            if isinstance(error, sqlite3.Error):
                raise translated(error, path) from error
            raise

    def _look(self, sql: Blocking) -> None:
        """Find our tables, also in a folder where SQLite cannot make its files beside the database."""
        try:
            drive(_expect_ours(sql))
        except sqlite3.OperationalError as error:
            log = f"{self._path}-wal"
            if primary_code(error) not in _NO_ROOM or (os.path.exists(log) and os.path.getsize(log)):
                raise
            sql.close()
            self._path = f"file:{quote(self._path)}?immutable=1"
            sql.renew(self._connect())
            drive(_expect_ours(sql))

    @property
    def conn(self) -> sqlite3.Connection:
        """The writing connection."""
        return self._writer.conn

    def after_fork(self) -> None:
        """Open the file anew: SQLite's connections do not survive a fork. Those of the parent are left as they are."""
        if self._reader is self._writer and not self._read_only:  # in memory: the child has a copy of its own
            super().after_fork()
            return
        _left_behind.extend((self._writer.conn, self._reader.conn))
        self._writer.renew(self._connect())
        self._writer.conn.execute(f"PRAGMA synchronous = {self._synchronous}")
        if self._reader is not self._writer:
            self._reader.renew(self._reading().conn)

    def _connect(self) -> sqlite3.Connection:
        # A writer waits by itself, see ``patiently``.
        return connect(self._path, read_only=self._read_only, timeout=PATIENCE if self._read_only else 0.0)

    def _reading(self) -> Blocking:
        conn = connect(self._path, timeout=PATIENCE)
        conn.execute("PRAGMA query_only = ON")
        conn.execute(f"PRAGMA cache_size = -{_READERS_CACHE}")
        # It reads the schema now: the first reader would wait for it, which takes as long as four statements.
        conn.execute("SELECT format FROM threadmark").fetchall()
        return Blocking(conn, self._path)


_left_behind: list[sqlite3.Connection] = []
"""Connections of a parent process: closing them here would let go of locks and files that it still uses."""


def connect(path: str, *, read_only: bool = False, timeout: float = 0.0) -> sqlite3.Connection:
    """A connection that any thread may use, in autocommit mode, to a path, a ``file:`` URI or ``:memory:``.

    ``timeout`` is SQLite's own waiting, in seconds.
    """
    uri = path.startswith("file:")
    if read_only and not uri:
        path, uri = f"file:{quote(path)}?mode=ro", True
    try:
        return sqlite3.connect(
            path, timeout, uri=uri, check_same_thread=False, isolation_level=None, cached_statements=_STATEMENTS
        )
    except sqlite3.Error as error:
        raise translated(error, path) from error


def is_thread_bound(conn: sqlite3.Connection) -> bool:
    """Whether only the thread that opened a connection may use it."""
    refused: list[bool] = []

    def look() -> None:
        try:
            conn.cursor().close()
            refused.append(False)
        except sqlite3.ProgrammingError:
            refused.append(True)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    return refused[0]


def port_for(conn: sqlite3.Connection) -> SqlitePort:
    """A port over a connection that was handed in; over its file when only its own thread may use it."""
    sql = Blocking(conn, "the database of this connection")
    try:
        path = drive(setup.file_of(sql))
    except sqlite3.Error as error:  # it is closed, as a rule
        raise translated(error, sql.file) from error
    if is_thread_bound(conn):
        if not path:
            raise ValueError(
                "this in-memory connection may only be used by the thread that opened it, and nodes run in others; "
                'open it with sqlite3.connect(":memory:", check_same_thread=False), or use '
                'SqliteSaver.from_conn_string(":memory:")'
            )
        if _is_read_only(conn):
            return FilePort(path, read_only=True)
        (level,) = conn.execute("PRAGMA synchronous").fetchone()
        return FilePort(path, synchronous=setup.SYNCHRONOUS[level])
    sql.file = path or ":memory:"
    try:
        drive(setup.prepare(sql, synchronous=None))
    except sqlite3.Error as error:
        raise translated(error, sql.file) from error
    return SqlitePort(sql)


def _is_read_only(conn: sqlite3.Connection) -> bool:
    """Whether a connection was opened, or set, not to write: then a saver over its file must not either."""
    refused = False
    if not conn.in_transaction:
        conn.execute("BEGIN")
        try:
            conn.execute("CREATE TABLE threadmark_probe (x)")  # nothing of it reaches the file
        except sqlite3.OperationalError as error:
            refused = primary_code(error) == sqlite3.SQLITE_READONLY
        conn.execute("ROLLBACK")
    return refused


async def reclaimed(sql: Sql) -> None:
    """Shorten the file by what deletions freed."""
    await sql.enter()
    try:
        await setup.reclaim(sql)
    except sqlite3.Error as error:
        raise translated(error, sql.file) from error
    finally:
        sql.leave()


async def _expect_ours(sql: Blocking) -> None:
    if await setup.stored_format(sql) == 0:
        raise ForeignDatabase(f"{sql.file} is empty: no thread was ever saved in it")
