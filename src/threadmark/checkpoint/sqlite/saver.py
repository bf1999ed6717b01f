"""``SqliteSaver``: threads in one SQLite file, for blocking programs and event loops alike."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from threadmark.checkpoint.saver import Saver
from threadmark.checkpoint.sqlite import schema
from threadmark.checkpoint.sqlite.port import SqlitePort


class SqliteSaver(Saver):
    """Keeps threads in a SQLite file."""

    def __init__(self, conn: sqlite3.Connection, *, serde: Any = None, config_keys: Sequence[str] | None = None) -> None:
        path = _file_of(conn)
        if path:
            conn = sqlite3.connect(path, check_same_thread=False)
        conn.isolation_level = None
        if path:
            conn.execute("PRAGMA busy_timeout = 20000")
            schema.is_ours(conn)
            conn.execute("PRAGMA journal_mode = WAL")
            conn.execute("PRAGMA synchronous = FULL")
        schema.create(conn)
        self.conn = conn
        super().__init__(SqlitePort(conn), serde=serde, config_keys=config_keys)

    @classmethod
    def from_conn_string(cls, conn_string: str, *, serde: Any = None) -> SqliteSaver:
        """A saver on the file that ``conn_string`` names, usable at once or as a context manager."""
        return cls(sqlite3.connect(conn_string, check_same_thread=False), serde=serde)

    def setup(self) -> None:
        """Nothing to do: the tables are there."""

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._worker.close()
        self.conn.close()

    def __enter__(self) -> SqliteSaver:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self) -> SqliteSaver:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()


def _file_of(conn: sqlite3.Connection) -> str:
    for _, name, path in conn.execute("PRAGMA database_list"):
        if name == "main":
            return str(path or "")
    return ""
