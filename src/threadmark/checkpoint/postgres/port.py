"""The port over PostgreSQL: connections with our tables behind them, and round trips on them."""

from __future__ import annotations

from functools import partial
from typing import Final

import psycopg
from psycopg import pq

from threadmark.checkpoint.postgres import setup
from threadmark.checkpoint.postgres.connections import Connections
from threadmark.checkpoint.postgres.direct import Calls
from threadmark.checkpoint.postgres.driver import Driver
from threadmark.checkpoint.postgres.errors import is_absent, is_lost, translated
from threadmark.checkpoint.postgres.line import Line, Silence
from threadmark.checkpoint.postgres.statements import BEGIN_READING, COMMIT, ROLLBACK, Statements
from threadmark.checkpoint.postgres.transaction import Lost, Transaction, Writing
from threadmark.checkpoint.postgres.wire import Rows, Sent
from threadmark.errors import SaverError, Unavailable

_OPEN: Final = pq.TransactionStatus.INTRANS
_FAILED: Final = pq.TransactionStatus.INERROR
_UTF8: Final = b"UTF8"


class PostgresPort:
    """Rows in one schema of one database. ``blocking`` is the colour of the driver."""

    waits = True
    grouped = False

    def __init__(
        self, driver: Driver, connections: Connections, schema: str, *, blocking: bool, read_only: bool = False
    ) -> None:
        self.driver, self.connections, self.sql = driver, connections, Statements(schema)
        self.blocking, self.read_only = blocking, read_only
        self.careful = set[str]()
        """Threads that others changed while this port's last transaction was on its way."""
        self.steady = connections.steady
        self.direct = None if read_only else Calls(self)
        self._ready = False

    def read(self) -> Transaction:
        return Transaction(self, BEGIN_READING)

    def write(self) -> Writing:
        if self.read_only:
            raise SaverError("this saver was opened to read only; open it with from_conn_string() to change anything")
        return Writing(self)

    async def take(self) -> Line:
        """A connection at rest, to a schema with our tables."""
        line = await self.connections.take()
        if self._ready and not self.connections.foreign:
            return line
        try:
            if not self._ready:
                await self._prepare(line)
                self._ready = True
            await self._rest(line)
        except BaseException:
            await self.connections.give(line, keep=line.at_rest)
            raise
        return line

    async def trip(self, line: Line, *sent: Sent) -> list[Rows]:
        """One round trip. ``Lost`` when the connection broke; the driver's other errors translated.

        A connection of which nobody knows what is still on its way is closed.
        """
        try:
            return await line.ask(*sent)
        except psycopg.Error as error:
            broken = is_lost(error, line)
            if broken:
                line.close()
            if is_absent(error):
                self.forget_tables()
            if isinstance(error, Silence):
                raise Unavailable(f"{error}; whether it did what it was asked is not known. Try again") from error
            raise (Lost(error) if broken else translated(error, self.sql.schema)) from error
        except BaseException:  # cancelled, or interrupted
            try:
                await line.interrupt()
            finally:
                line.close()
            raise

    async def _prepare(self, line: Line) -> None:
        encoding = line.pgconn.parameter_status(b"client_encoding") or b""  # a pooler says it as the client wrote it
        if encoding.upper().replace(b"-", b"") != _UTF8:
            raise SaverError("the connection's client_encoding must be UTF8; set it when you connect")
        await self._rest(line)
        await setup.prepare(partial(self.trip, line), self.sql.schema, read_only=self.read_only)

    async def _rest(self, line: Line) -> None:
        """Commit what the owner of a handed-in connection left open on it; what has failed is rolled back."""
        status = line.pgconn.transaction_status
        if status in (_OPEN, _FAILED):
            await self.trip(line, COMMIT if status == _OPEN else ROLLBACK)

    async def prepare(self) -> None:
        """Make the tables unless they are there."""
        self._ready = False
        await self.connections.give(await self.take(), keep=True)

    def forget_tables(self) -> None:
        """Look for the tables again before the next transaction."""
        self._ready = False

    async def pause(self, seconds: float) -> None:
        await self.driver.pause(seconds)

    async def reclaim(self) -> None:
        """PostgreSQL's vacuum does that."""

    async def close(self) -> None:
        await self.connections.close()

    def after_fork(self) -> None:
        self.connections.after_fork()
