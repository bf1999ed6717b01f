"""The driver's errors, translated at one door."""

from __future__ import annotations

import re
from typing import Final

import psycopg

from threadmark.checkpoint.postgres.line import Line, Silence
from threadmark.checkpoint.records import Conflict
from threadmark.errors import DamagedRow, SaverError, Unavailable

_GONE: Final = ("08", "57P01", "57P02", "57P03", "57P05", "25P03")
"""The server ended the connection: on command, in a crash, or since it was idle."""
_AGAIN: Final = ("40", "55P03", "23505")
"""Another transaction was in the way, or made the same key in the same microsecond."""
_BUSY: Final = ("53", "57014", "58")
"""No connection, memory or room on the disk; a statement that took too long; the disk does not do its work."""
_INTERNAL: Final = "XX000"
_ABSENT: Final = ("3F000", "42P01", "42883")
_NOT_ALLOWED: Final = "42501"
_READ_ONLY: Final = "25006"
_TOO_LONG: Final = "54000"
_DAMAGED: Final = ("XX001", "XX002")
_NEVER: Final = (
    "authentication failed", "does not exist", "no password supplied", "no pg_hba.conf entry", "permission denied"
)  # fmt: skip
"""What a server says that refuses a connection and will go on doing so: libpq gives no code for it."""

_HOST: Final = re.compile(r"""host(?: name)? (?:'[^']*'|"[^"]*")""")
"""Where a password holds an @ that is not written as %40, what is taken for the host's name begins with its end."""


def is_lost(error: psycopg.Error, line: Line) -> bool:
    """Whether the connection is of no use any more."""
    if isinstance(error, Silence) or line.broken:
        return True
    return (error.sqlstate or "").startswith(_GONE)


def is_absent(error: psycopg.Error) -> bool:
    """Whether tables or functions are not there."""
    return error.sqlstate in _ABSENT


def translated(error: psycopg.Error, schema: str) -> Exception:
    """The error of ours that says what happened and what to do."""
    state, said = error.sqlstate or "", _said(error)
    if state.startswith(_AGAIN):
        return Conflict(f"PostgreSQL says: {said}")
    if state.startswith(_GONE):
        return Conflict(f"the connection was lost: {said}")
    if state.startswith(_BUSY) or (state == _INTERNAL and said.startswith("could not")):  # read, write or extend a file
        return Unavailable(f"PostgreSQL could not do it: {said}; try again when that is mended")
    if state == _NOT_ALLOWED:
        return SaverError(f"PostgreSQL does not let this role use the schema {schema!r}: {said}. Grant it the right")
    if state == _READ_ONLY or "recovery" in said:  # which is what a standby is in
        return SaverError(f"this server only reads: {said}. Connect to the primary server")
    if state == _TOO_LONG:
        return SaverError(f"a name is too long for PostgreSQL ({said}); keep ids and namespaces under 2,500 bytes")
    if state in _DAMAGED:
        return DamagedRow(f"the database is damaged ({said}); restore it from a backup")
    if is_absent(error):
        return SaverError(f"the tables of the schema {schema!r} are gone ({said}); open a new saver, or call setup()")
    return SaverError(f"PostgreSQL refused it: {said}")


def lost(error: psycopg.Error) -> Conflict:
    """The connection broke before anything was stored."""
    return Conflict(f"the connection was lost: {_said(error)}")


def unreachable(error: psycopg.Error) -> SaverError:
    """No connection could be made."""
    said = _HOST.sub("the host", _said(error))
    if any(each in said for each in _NEVER):
        return SaverError(f"PostgreSQL does not let us in: {said}")
    return Unavailable(f"PostgreSQL could not be reached: {said}; try again")


def _said(error: psycopg.Error) -> str:
    return " ".join(str(error).split()) or type(error).__name__
