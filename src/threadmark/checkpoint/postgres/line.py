"""A connection of psycopg's below its cursors: statements go out at once, and what comes back is read as it arrives.

There are two reasons not to use cursors. Several statements share one round trip at a fraction of the cost, and none is
ever prepared on the server under a name, which a pooler between here and there would not bear.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Any, Final

import psycopg
from psycopg import DatabaseError, OperationalError, errors, pq
from psycopg.waiting import Ready, Wait

from threadmark.checkpoint.postgres.wire import BINARY, Rows, Sent

__all__ = ["CANCELLING", "BlockingLine", "Line", "Silence", "Talk"]

_IDLE: Final = pq.TransactionStatus.IDLE
_ACTIVE: Final = (pq.TransactionStatus.ACTIVE, pq.TransactionStatus.UNKNOWN)
_OK: Final = pq.ConnStatus.OK
_BAD: Final = pq.ConnStatus.BAD
_FAILED: Final = pq.ExecStatus.FATAL_ERROR
_ROWS: Final = pq.ExecStatus.TUPLES_OK
_SYNC: Final = pq.ExecStatus.PIPELINE_SYNC
_STATE: Final = pq.DiagnosticField.SQLSTATE
_MESSAGE: Final = pq.DiagnosticField.MESSAGE_PRIMARY
CANCELLING: Final = 5.0
"""Seconds in which the server may take note that nobody waits for a statement any more."""
_LONGEST: Final = 0x7FFFFFFF
_SLICE: Final = 0.1


class Silence(OperationalError):
    """The server did not answer in time."""

    def __init__(self, patience: float) -> None:
        super().__init__(f"the server did not answer for {patience:.0f} s")


class Talk:
    """Statements that were sent on a connection at rest, and the answers so far. It never waits."""

    __slots__ = ("_alone", "_answers", "_conn", "_failed", "_sent")

    def __init__(self, conn: pq.abc.PGconn, sent: Sequence[Sent]) -> None:
        self._conn, self._sent = conn, sent
        self._answers: list[Rows] = []
        self._failed: DatabaseError | None = None
        self._alone = len(sent) == 1  # then there is nothing to line up behind it
        if self._alone:
            conn.send_query_params(*sent[0].request, BINARY)
            return
        conn.enter_pipeline_mode()
        for one in sent:
            conn.send_query_params(*one.request, BINARY)
        conn.pipeline_sync()

    def is_complete(self) -> bool:
        """Take what has been read; whether that is all, so that the connection is at rest again.

        An error of psycopg's when the connection was lost.
        """
        conn, answers = self._conn, self._answers
        while not conn.is_busy():
            result = conn.get_result()
            if result is None:
                if conn.status == _BAD:
                    raise self._failed or OperationalError("the connection was lost")
                if self._alone:
                    return True
                continue
            status = result.status
            if status == _SYNC:
                conn.exit_pipeline_mode()
                return True
            if status == _ROWS:
                answers.append(_rows(result, self._sent[len(answers)].takes))
            else:
                answers.append([])
                if status == _FAILED and self._failed is None:
                    self._failed = _error(result)
        return False

    def rows(self) -> list[Rows]:
        """The rows of each statement; or the first error, once all is complete."""
        failed, self._failed = self._failed, None
        if failed is None:
            return self._answers
        try:
            raise failed
        finally:
            del failed  # it names this frame


class Line:
    """A connection for one task at a time."""

    __slots__ = ("_ready", "conn", "patience", "pgconn")

    def __init__(self, conn: Any, patience: float) -> None:
        self.conn, self.pgconn = conn, conn.pgconn
        self.patience = patience
        """Seconds that the server may be silent."""
        self._ready = _readable(self.pgconn.socket)

    async def ask(self, *sent: Sent) -> list[Rows]:
        """One round trip on a connection at rest: the rows of each statement.

        The first error of the server's is raised when all has been read, so that the connection is at rest again.
        ``Silence`` when nothing was heard for too long.
        """
        raise NotImplementedError

    async def interrupt(self) -> None:
        """Tell the server that nobody waits for its answer any more, as psycopg does when it is interrupted."""
        raise NotImplementedError

    @property
    def at_rest(self) -> bool:
        """Whether no transaction is open, and nothing is on its way."""
        return bool(self.pgconn.transaction_status == _IDLE)

    @property
    def broken(self) -> bool:
        """Whether it is of no use any more."""
        return bool(self.pgconn.status == _BAD)

    def is_quiet(self) -> bool:
        """Whether a connection that was at rest is alive, as far as can be told without asking the server.

        A server that ends a connection says so or closes it: either way there is something to be read.
        """
        return not self._ready(0)

    def is_fresh(self) -> bool:
        """The same of a connection that others have used."""
        pgconn = self.pgconn
        return pgconn.status == _OK and pgconn.transaction_status not in _ACTIVE and self.is_quiet()

    def let_go(self) -> None:
        """Leave the connection to others."""

    def close(self) -> None:
        """End the connection without a word that has to be awaited. Idempotent."""
        self.let_go()
        self.pgconn.finish()


class BlockingLine(Line):
    """Over ``psycopg.Connection``. The thread waits in a single call of the system, which Ctrl-C ends as well."""

    __slots__ = ()

    async def ask(self, *sent: Sent) -> list[Rows]:
        pgconn, wait = self.pgconn, min(int(self.patience * 1000) + 1, _LONGEST)
        talk = Talk(pgconn, sent)
        if pgconn.flush():  # it did not fit into the system's buffer
            self.conn.wait(_writing(pgconn, self.patience))
        while True:
            if not self._ready(wait):
                raise Silence(self.patience)
            pgconn.consume_input()
            if talk.is_complete():
                return talk.rows()

    async def interrupt(self) -> None:
        with suppress(psycopg.Error):
            self.conn.cancel_safe(timeout=CANCELLING)


def _writing(conn: pq.abc.PGconn, patience: float) -> Generator[Wait, Ready | None, None]:
    """Send what is left, and read meanwhile: the server may want to say something before it reads on."""
    end = time.monotonic() + patience
    while conn.flush():
        ready = yield Wait.RW
        if ready and ready & Ready.R:
            conn.consume_input()
        elif not ready and time.monotonic() > end:
            raise Silence(patience)


def _readable(fd: int) -> Callable[[int], Any]:
    """What says within so many milliseconds whether there is something to read, or an end of the connection."""
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(fd, select.POLLIN | select.POLLPRI)
        return poll.poll

    def ready(milliseconds: int) -> Any:  # Windows, where a wait does not end with Ctrl-C
        end = time.monotonic() + milliseconds / 1000
        while not (found := select.select([fd], [], [], min(_SLICE, max(0, end - time.monotonic())))[0]):
            if time.monotonic() >= end:
                break
        return found

    return ready


def _rows(result: pq.abc.PGresult, takes: Sequence[Callable[[bytes], Any]]) -> Rows:
    get = result.get_value
    if len(takes) == 1:
        (take,) = takes
        return [(None if (data := get(row, 0)) is None else take(data),) for row in range(result.ntuples)]
    columns = list(enumerate(takes))
    return [
        tuple([None if (data := get(row, column)) is None else take(data) for column, take in columns])
        for row in range(result.ntuples)
    ]


def _error(result: pq.abc.PGresult) -> DatabaseError:
    """The error of a failed statement, as psycopg would raise it."""
    state = (result.error_field(_STATE) or b"").decode()
    message = (result.error_field(_MESSAGE) or b"the statement failed").decode(errors="replace")
    try:
        kind: type[Any] = errors.lookup(state)
    except KeyError:
        kind = DatabaseError
    error: DatabaseError = kind(message)
    error.sqlstate = state or None
    return error
