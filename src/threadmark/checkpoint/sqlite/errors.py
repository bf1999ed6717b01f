"""The driver's errors, translated at one door."""

from __future__ import annotations

import sqlite3

from threadmark.errors import DamagedRow, ForeignDatabase, SaverError, Unavailable

_BUSY, _LOCKED = sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED

_DAMAGED = ("Could not decode to UTF-8", "JSON cannot hold BLOB")
"""What is said of a column that holds what was never written to it."""
_OTHER_TABLES = ("no such table", "no such column", "has no column named")


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection was in the way, so that the same statement may succeed in a moment."""
    return primary_code(error) in (_BUSY, _LOCKED)


def primary_code(error: sqlite3.Error) -> int:
    """SQLite's result code without its extension; -1 for an error of the driver's own."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return -1 if code is None else code & 0xFF


def closed(file: str) -> SaverError:
    """What a closed saver says, and one whose connection somebody else closed."""
    return SaverError(f"the saver on {file} is closed, or the connection that it was given is; open a new one")


def translated(error: sqlite3.Error, file: str) -> Exception:
    """The error of ours that says what happened and what to do; the driver's own where it says it better."""
    code = primary_code(error)
    if code in (_BUSY, _LOCKED):
        return Unavailable(f"{file} stayed locked by another program; try again, or find what holds it open ({error})")
    if code == sqlite3.SQLITE_NOTADB:
        return ForeignDatabase(f"{file} is not a SQLite database; nothing was written to it. Name another file")
    if code == sqlite3.SQLITE_CORRUPT or any(part in str(error) for part in _DAMAGED):
        return DamagedRow(f"{file} is damaged ({error}); restore it from a backup")
    if any(part in str(error) for part in _OTHER_TABLES):
        return DamagedRow(
            f"{file} has lost a part of the tables that were made in it ({error}); restore it from a backup, or name "
            f"another file"
        )
    if code == sqlite3.SQLITE_READONLY:
        return SaverError(f"{file} cannot be written: it was opened read-only, or its folder does not let us ({error})")
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN):
        return Unavailable(
            f"{file} could not be used: {error}. Look at its path, its folder's rights and the free space"
        )
    if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
        return closed(file)
    return error
