"""Whose schema it is, and making our tables in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from threadmark.checkpoint.postgres.statements import BEGIN_WRITING, COMMIT, quoted
from threadmark.checkpoint.postgres.wire import BOOL, INT, TEXT, Query, Rows, Sent
from threadmark.checkpoint.sql.migrations import pending, scripts, statements
from threadmark.errors import ForeignDatabase, SaverError

Ask = Callable[..., Awaitable[list[Rows]]]

_PACKAGE: Final = "threadmark.checkpoint.postgres"
_LOOK: Final = Query(
    """SELECT current_setting('server_encoding'), current_database(),
        EXISTS (SELECT FROM pg_namespace WHERE nspname = $1),
        (SELECT relname FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)
            AND relkind IN ('r', 'v', 'p', 'm', 'f') ORDER BY relname <> 'threadmark', relname LIMIT 1)""",
    (TEXT,),
    (TEXT, TEXT, BOOL, TEXT),
)
# One at a time makes or changes tables, whichever schema they are in.
_HOLD: Final = Query("SELECT pg_advisory_xact_lock(1416129867)")


async def stored_format(ask: Ask, schema: str) -> tuple[int, bool]:
    """The format of our tables, 0 for a schema that is empty or not there, and whether it is there.

    ``ForeignDatabase`` for one with tables that are not ours, or of a later version; nothing is written.
    """
    ((found,),) = await ask(_LOOK(schema))
    encoding, database, exists, table = found
    if encoding != "UTF8":
        raise SaverError(
            f"the database {database!r} has the encoding {encoding}, which cannot hold every text; create one with "
            f"ENCODING 'UTF8'"
        )
    if table is None:
        return 0, exists
    if table != "threadmark":
        raise ForeignDatabase(
            f"the schema {schema!r} of the database {database!r} was not made by Threadmark: it holds {table}. Nothing "
            f"was written to it; name another with schema=..."
        )
    (rows,) = await ask(Query(f"SELECT format::bigint FROM {quoted(schema)}.threadmark", (), (INT,))())
    if len(rows) != 1:
        raise ForeignDatabase(f"the schema {schema!r} has a table named threadmark that is not ours; name another")
    stored: int = rows[0][0]
    pending(_PACKAGE, stored)
    return stored, exists


async def prepare(ask: Ask, schema: str, *, read_only: bool = False) -> None:
    """Make our tables unless they are there; safe when several processes do it at once."""
    stored, _ = await stored_format(ask, schema)
    if not pending(_PACKAGE, stored):
        return
    if read_only:
        if stored:  # the tables of every format so far are read in one way
            return
        raise ForeignDatabase(f"no thread was ever saved in the schema {schema!r}")
    await ask(BEGIN_WRITING, _HOLD())
    stored, exists = await stored_format(ask, schema)  # another process may have been quicker
    sent = list[Sent]() if exists else [Query(f"CREATE SCHEMA {quoted(schema)}")()]
    for script in pending(_PACKAGE, stored):
        sent += [Query(one.replace("{schema}", quoted(schema)))() for one in statements(script)]
    table = f"{quoted(schema)}.threadmark"
    sent += [Query(f"DELETE FROM {table}")(), Query(f"INSERT INTO {table} VALUES ({len(scripts(_PACKAGE))})")(), COMMIT]
    await ask(*sent)
