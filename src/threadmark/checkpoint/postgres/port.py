"""The port over PostgreSQL: transactions, what is known when one is lost, and connections that died."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Final, TypeVar

import psycopg
from psycopg import pq

from threadmark.checkpoint.postgres import setup
from threadmark.checkpoint.postgres.connections import Connections
from threadmark.checkpoint.postgres.driver import Driver
from threadmark.checkpoint.postgres.errors import is_absent, is_lost, lost, translated
from threadmark.checkpoint.postgres.rows import Adding, Change, Reading
from threadmark.checkpoint.postgres.statements import (
    BEGIN_READING,
    BEGIN_WRITING,
    COMMIT,
    NUMBER,
    OUTCOME,
    ROLLBACK,
    Statements,
)
from threadmark.checkpoint.postgres.wire import Rows, Sent, Silence
from threadmark.checkpoint.records import Conflict
from threadmark.errors import SaverError, Unavailable

_IDLE: Final = pq.TransactionStatus.IDLE
_OPEN: Final = pq.TransactionStatus.INTRANS
_FAILED: Final = pq.TransactionStatus.INERROR
_UTF8: Final = b"UTF8"
_WAITS: Final = (0.01, 0.05, 0.2, 1.0, 3.0)
"""Seconds between attempts to find out what became of a commit."""

T = TypeVar("T")


class Lost(Conflict):
    """The connection broke."""

    def __init__(self, cause: psycopg.Error) -> None:
        super().__init__(*lost(cause).args)


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
        self.alone = True
        """Whether one statement may be a transaction: what the server begins by itself sees what others committed."""
        self._ready = False

    def read(self) -> Transaction:
        return Transaction(self, BEGIN_READING)

    def write(self) -> Writing:
        if self.read_only:
            raise SaverError("this saver was opened to read only; open it with from_conn_string() to change anything")
        return Writing(self)

    async def take(self) -> Any:
        """A connection at rest, to a schema with our tables."""
        conn = await self.connections.take()
        if not self._ready:
            try:
                await self._prepare(conn)
                self._ready = True
            except BaseException as error:
                await self.connections.give(conn, keep=False)
                if isinstance(error, psycopg.Error):
                    raise translated(error, self.sql.schema) from error
                raise
        return conn

    async def _prepare(self, conn: Any) -> None:
        async def ask(*sent: Sent) -> list[Rows]:
            return await self.driver.converse(conn, sent)

        encoding = conn.pgconn.parameter_status(b"client_encoding") or b""  # a pooler says it as the client wrote it
        if encoding.upper().replace(b"-", b"") != _UTF8:
            raise SaverError("the connection's client_encoding must be UTF8; set it when you connect")
        await self.rest(conn)
        await setup.prepare(ask, self.sql.schema, read_only=self.read_only)

    async def rest(self, conn: Any) -> None:
        """Commit what the owner of a handed-in connection left open on it; what has failed is rolled back."""
        status = conn.pgconn.transaction_status
        if status in (_OPEN, _FAILED):
            await self.driver.converse(conn, [COMMIT if status == _OPEN else ROLLBACK])

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


class Transaction:
    """``async with`` block: one transaction, begun with the first question on a connection taken for it."""

    __slots__ = ("_begin", "_begun", "_conn", "_port")

    def __init__(self, port: PostgresPort, *begin: Sent) -> None:
        self._port, self._begin = port, begin
        self._conn: Any = None
        self._begun = False

    async def __aenter__(self) -> Reading:
        return Reading(self, self._port.sql)

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            await self._undo(error)
        elif self._conn is not None:
            await self._end(COMMIT)

    async def ask(self, *sent: Sent) -> list[Rows]:
        """One round trip. ``Lost`` when the connection broke; the driver's other errors translated."""
        port = self._port
        begin = () if self._begun else self._begin
        is_new = self._conn is None
        if is_new:
            self._conn = await port.take()
        try:
            if is_new:
                await port.rest(self._conn)
            self._begun = True
            answers = await port.driver.converse(self._conn, (*begin, *sent))
        except psycopg.Error as error:
            broken = is_lost(error, self._conn)
            await self._give(keep=False) if broken else None
            if is_absent(error):
                port.forget_tables()
            if isinstance(error, Silence):
                raise Unavailable(f"{error}; whether it did what it was asked is not known. Try again") from error
            raise (Lost(error) if broken else translated(error, port.sql.schema)) from error
        except BaseException:  # cancelled, or interrupted: nobody knows what is still on its way
            await self._give(keep=False)
            raise
        return answers[len(begin) :]

    async def _end(self, *sent: Sent) -> list[Rows]:
        """Send the last statements."""
        try:
            answers = await self.ask(*sent)
        except BaseException as error:
            await self._undo(error)
            raise
        await self._give(keep=True)
        return answers

    async def _undo(self, error: BaseException) -> None:
        if self._conn is None:
            return
        if self._conn.pgconn.transaction_status == _IDLE:
            await self._give(keep=True)
        elif isinstance(error, Exception):
            try:
                await self.ask(ROLLBACK)
            except Exception:
                await self._give(keep=False)
            else:
                await self._give(keep=True)
        else:
            await self._give(keep=False)

    async def _give(self, *, keep: bool) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            await self._port.connections.give(conn, keep=keep)


class Writing(Transaction):
    """A transaction that changes something, and settles what became of it when its commit is lost."""

    __slots__ = ("_change", "_number")

    def __init__(self, port: PostgresPort) -> None:
        super().__init__(port, BEGIN_WRITING)
        self._change = Change(self, port.sql, careful=port.careful)
        self._number: int | None = None

    async def __aenter__(self) -> Change:
        return self._change

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: TracebackType | None) -> None:
        believed = self._change.believed
        if error is not None:
            if believed is not None and isinstance(error, Conflict):
                self._port.careful.add(believed)
            await self._undo(error)
        elif believed is not None:
            await self._store(believed)
        else:
            await self._commit()

    async def ask(self, *sent: Sent) -> list[Rows]:
        if self._begun or self._change.believed is not None:
            return await super().ask(*sent)
        (number,), *answers = await super().ask(NUMBER, *sent)  # by it a lost commit is found again
        (self._number,) = number
        return answers

    async def _store(self, thread_id: str) -> None:
        """The whole transaction in one round trip; ``Conflict`` unless all was as believed."""
        sent, adding = self._change.ending(), self._change.marks()
        if adding is None:
            return
        try:
            stored = await self._called(sent)
        except Lost as error:
            if await self._is_there(thread_id, adding, error):
                return
            self._port.careful.add(thread_id)
            raise
        if not stored:
            self._port.careful.add(thread_id)
            raise Conflict("another writer was on the same thread")

    async def _called(self, sent: Sequence[Sent]) -> bool:
        """What the call says. Alone it is a transaction, unless the server begins one of another kind by itself."""
        port = self._port
        if port.alone:
            self._begun = True
            (((stored,),),) = await self._end(*sent)
            if stored is not None:
                return bool(stored)
            port.alone = self._begun = False
        (((stored,),), _) = await self._end(*sent, COMMIT)
        return bool(stored)

    async def _commit(self) -> None:
        sent = self._change.ending()
        if self._conn is None and not sent:
            return
        try:
            await self._end(*sent, COMMIT)
        except Lost as error:
            if self._number is not None and await self._outcome(self._number, error) == "committed":
                return
            raise
        self._port.careful.difference_update(self._change.held)

    async def _is_there(self, thread_id: str, adding: Adding, error: Lost) -> bool:
        """Whether rows whose commit was lost are stored. Holding the thread waits for the server to be done with it."""

        async def found() -> bool:
            async with Writing(self._port) as change:
                thread = await change.thread(thread_id)
                return thread is not None and await _are_stored(change, adding)

        return await self._settled(found, error)

    async def _outcome(self, number: int, error: Lost) -> str:
        """What became of a transaction: "committed" or "aborted"."""

        async def found() -> str:
            again = Transaction(self._port, BEGIN_READING)
            async with again:
                ((outcome,),) = (await again.ask(OUTCOME(number)))[0]
            if outcome == "in progress":
                raise Conflict("the server has not noticed that the connection is gone")
            return str(outcome)

        return await self._settled(found, error)

    async def _settled(self, find: Callable[[], Awaitable[T]], error: Lost) -> T:
        """What can be found out after a commit was lost, on another connection; ``Unavailable`` if nothing."""
        for wait in _WAITS:
            try:
                return await find()
            except Conflict:
                await self._port.pause(wait)
            except SaverError as unknown:
                raise _unknown(error) from unknown
        raise _unknown(error)


def _unknown(error: Lost) -> Unavailable:
    return Unavailable(
        f"{error} while it committed, and the server cannot be asked whether it did; try again: nothing is half stored"
    )


async def _are_stored(change: Change, adding: Adding) -> bool:
    """Whether rows are stored as they were to be: checkpoints if there are any, else what tasks wrote."""
    if adding.checkpoints:
        rows = await change.checkpoints(adding.thread, adding.checkpoints)
        bodies = {(row.ns, row.id): row.body for row in rows}
        return all(bodies.get(name) == row.body for name, row in adding.checkpoints.items())
    tasks: Sequence[Any] = await change.tasks(adding.thread, {name[:2] for name in adding.tasks})
    found = {(row.ns, row.id, row.task_id): row.body for row in tasks}
    return all(found.get(name) == row.body for name, row in adding.tasks.items())
