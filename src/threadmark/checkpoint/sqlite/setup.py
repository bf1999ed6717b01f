"""Whose file it is, and making our tables in it."""

from __future__ import annotations

from typing import Final

from threadmark.checkpoint.sql.migrations import pending, scripts, statements
from threadmark.checkpoint.sqlite.driver import Sql, patiently, until_free
from threadmark.errors import ForeignDatabase

APPLICATION_ID: Final = 0x54684D6B
"""Stands in the header of our files: "ThMk"."""
SYNCHRONOUS: Final = ("OFF", "NORMAL", "FULL", "EXTRA")
"""SQLite's settings, by their numbers."""
_INCREMENTAL: Final = 2
_PAGES: Final = 2000
_PACKAGE: Final = "threadmark.checkpoint.sqlite"


async def file_of(sql: Sql) -> str:
    """The path of the file that a connection is open on; empty for a database in memory."""
    rows = await sql.fetch("PRAGMA database_list")
    return next((str(path or "") for _, name, path in rows if name == "main"), "")


async def stored_format(sql: Sql) -> int:
    """The format of our tables; 0 when the file is empty; ``ForeignDatabase`` when it is somebody else's."""
    tables = {
        name for (name,) in await sql.fetch("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite~_%' ESCAPE '~'")
    }
    if not tables:
        return 0
    if "threadmark" not in tables:
        hint = " LangGraph's savers make such tables." if {"checkpoints", "writes"} <= tables else ""
        raise ForeignDatabase(
            f"{sql.file} was not made by Threadmark: it holds {', '.join(sorted(tables)[:4])}.{hint} "
            f"Nothing was written to it; name another file"
        )
    rows = [row for row in await sql.fetch("SELECT * FROM threadmark") if len(row) == 1 and isinstance(row[0], int)]
    if len(rows) != 1:
        raise ForeignDatabase(f"{sql.file} has a table named threadmark that is not ours; name another file")
    stored: int = rows[0][0]
    pending(_PACKAGE, stored)
    return stored


async def prepare(sql: Sql, *, synchronous: str | None) -> None:
    """Make our tables unless they are there; safe when several processes do it at once.

    Raises ``ForeignDatabase``, before anything is written, when the file holds what we did not make.
    """
    stored = await until_free(sql, lambda: stored_format(sql))
    if await file_of(sql):
        if not stored:  # takes effect before the first table only
            await patiently(sql, "PRAGMA auto_vacuum = INCREMENTAL")
        await patiently(sql, "PRAGMA journal_mode = WAL")
    if synchronous is not None:
        await sql.fetch(f"PRAGMA synchronous = {SYNCHRONOUS.index(synchronous.upper())}")
    if pending(_PACKAGE, stored):
        await _migrate(sql)


async def _migrate(sql: Sql) -> None:
    await patiently(sql, "BEGIN IMMEDIATE")
    try:
        for script in pending(_PACKAGE, await stored_format(sql)):  # another process may have been quicker
            for statement in statements(script):
                await sql.run(statement)
        await sql.run("DELETE FROM threadmark")
        await sql.run("INSERT INTO threadmark VALUES (?)", (len(scripts(_PACKAGE)),))
        await sql.fetch(f"PRAGMA application_id = {APPLICATION_ID}")
        await sql.run("COMMIT")
    except BaseException:
        if sql.in_transaction():
            await sql.run("ROLLBACK")
        raise


async def reclaim(sql: Sql) -> None:
    """Give the pages that deletions freed back to the file system, some at a time so that others may write between."""
    while (await sql.fetch("PRAGMA auto_vacuum"))[0][0] == _INCREMENTAL:
        (free,) = (await sql.fetch("PRAGMA freelist_count"))[0]
        if not free:
            return
        await until_free(sql, lambda: sql.run_to_end(f"PRAGMA incremental_vacuum({_PAGES})"))
