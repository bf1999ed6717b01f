"""The tables of a Threadmark file, and whose file it is."""

from __future__ import annotations

import sqlite3
from typing import Final

from threadmark.errors import ForeignDatabase

APPLICATION_ID: Final = 0x54684D6B  # "ThMk"
FORMAT: Final = 1

TABLES: Final = (
    "CREATE TABLE threadmark (format INTEGER NOT NULL)",
    f"INSERT INTO threadmark VALUES ({FORMAT})",
    "CREATE TABLE thread (id INTEGER PRIMARY KEY AUTOINCREMENT, thread_id TEXT NOT NULL UNIQUE)",
    """CREATE TABLE checkpoint (
        thread INTEGER NOT NULL, ns TEXT NOT NULL, id TEXT NOT NULL,
        parent TEXT, source TEXT, step INTEGER, run_id TEXT, ts TEXT NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY (thread, ns, id)) WITHOUT ROWID""",
    """CREATE TABLE task (
        thread INTEGER NOT NULL, ns TEXT NOT NULL, id TEXT NOT NULL, task_id TEXT NOT NULL,
        path TEXT NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY (thread, ns, id, task_id)) WITHOUT ROWID""",
    "CREATE TABLE value (id INTEGER PRIMARY KEY, thread INTEGER NOT NULL, body BLOB NOT NULL)",
    "CREATE INDEX value_thread ON value (thread)",
    """CREATE VIEW checkpoints AS
        SELECT thread.thread_id AS thread_id, ns AS checkpoint_ns, checkpoint.id AS checkpoint_id,
               parent AS parent_checkpoint_id, source, step, run_id, ts
        FROM checkpoint JOIN thread ON thread.id = checkpoint.thread""",
    f"PRAGMA application_id = {APPLICATION_ID}",
)


def is_ours(conn: sqlite3.Connection) -> bool:
    """Whether the file has our tables; False when it is empty; ``ForeignDatabase`` when it is another's."""
    tables = {name for (name,) in conn.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")}
    if not tables:
        return False
    if "threadmark" not in tables:
        raise ForeignDatabase(
            f"this SQLite file was not made by Threadmark (it holds {', '.join(sorted(tables)[:4])}); "
            f"nothing was written to it. Name another file"
        )
    return True


def create(conn: sqlite3.Connection) -> None:
    """Make the tables unless they are there; safe when several processes do it at once."""
    if is_ours(conn):
        return
    conn.execute("BEGIN IMMEDIATE")
    try:
        if not is_ours(conn):
            for statement in TABLES:
                conn.execute(statement)
        conn.execute("COMMIT")
    except BaseException:
        conn.execute("ROLLBACK")
        raise
