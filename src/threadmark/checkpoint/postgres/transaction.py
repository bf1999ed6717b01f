"""Transactions over connections, and what is known of one when its connection is lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg

from threadmark.checkpoint.postgres.errors import lost
from threadmark.checkpoint.postgres.line import Line
from threadmark.checkpoint.postgres.rows import Change, Reading
from threadmark.checkpoint.postgres.statements import BEGIN_READING, BEGIN_WRITING, COMMIT, NUMBER, OUTCOME, ROLLBACK
from threadmark.checkpoint.postgres.wire import Rows, Sent
from threadmark.checkpoint.records import Conflict
from threadmark.errors import SaverError, Unavailable

if TYPE_CHECKING:
    from threadmark.checkpoint.postgres.port import PostgresPort

_WAITS: Final = (0.01, 0.05, 0.2, 1.0, 3.0)
"""Seconds between attempts to find out what became of a commit."""

T = TypeVar("T")


class Lost(Conflict):
    """The connection broke."""

    def __init__(self, cause: psycopg.Error) -> None:
        super().__init__(*lost(cause).args)


class Transaction:
    """``async with`` block: one transaction, begun with the first question on a connection taken for it."""

    __slots__ = ("_begin", "_begun", "_line", "_port")

    def __init__(self, port: PostgresPort, *begin: Sent) -> None:
        self._port, self._begin = port, begin
        self._line: Line | None = None
        self._begun = False

    async def __aenter__(self) -> Reading:
        return Reading(self, self._port.sql)

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            await self._undo(error)
        elif self._line is not None:
            await self.end(COMMIT)

    async def ask(self, *sent: Sent) -> list[Rows]:
        """One round trip, as ``PostgresPort.trip`` makes it."""
        begin = () if self._begun else self._begin
        line = self._line
        if line is None:
            line = self._line = await self._port.take()
        self._begun = True
        try:
            answers = await self._port.trip(line, *begin, *sent)
        except BaseException:
            if line.broken:
                await self._give(keep=False)
            raise
        return answers[len(begin) :]

    async def end(self, *sent: Sent) -> list[Rows]:
        """Send the last statements, and give the connection back."""
        try:
            answers = await self.ask(*sent)
        except BaseException as error:
            await self._undo(error)
            raise
        await self._give(keep=True)
        return answers

    async def _undo(self, error: BaseException) -> None:
        if self._line is None:
            return
        keep = self._line.at_rest
        if not keep and isinstance(error, Exception):
            try:
                await self.ask(ROLLBACK)
            except Exception:
                keep = False
            else:
                keep = True
        await self._give(keep=keep)

    async def _give(self, *, keep: bool) -> None:
        line, self._line = self._line, None
        if line is not None:
            await self._port.connections.give(line, keep=keep)


class Writing(Transaction):
    """A transaction that changes something, and settles what became of it when its commit is lost."""

    __slots__ = ("_change", "_number")

    def __init__(self, port: PostgresPort) -> None:
        super().__init__(port, BEGIN_WRITING)
        self._change = Change(self, port.sql)
        self._number: int | None = None

    async def __aenter__(self) -> Change:
        return self._change

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            await self._undo(error)
        else:
            await self._commit()

    async def ask(self, *sent: Sent) -> list[Rows]:
        if self._begun:
            return await super().ask(*sent)
        (number,), *answers = await super().ask(NUMBER, *sent)  # by it a lost commit is found again
        (self._number,) = number
        return answers

    async def _commit(self) -> None:
        sent = self._change.ending()
        if self._line is None and not sent:
            return
        try:
            await self.end(*sent, COMMIT)
        except Lost as error:
            if self._number is not None and await self._outcome(self._number, error) == "committed":
                return
            raise
        self._port.careful.difference_update(self._change.held)

    async def _outcome(self, number: int, error: Lost) -> str:
        """What became of a transaction: "committed" or "aborted"."""

        async def found() -> str:
            again = Transaction(self._port, BEGIN_READING)
            async with again:
                ((outcome,),) = (await again.ask(OUTCOME(number)))[0]
            if outcome == "in progress":
                raise Conflict("the server has not noticed that the connection is gone")
            return str(outcome)

        return await settled(self._port, found, error)


async def settled(port: PostgresPort, find: Callable[[], Awaitable[T]], error: Lost) -> T:
    """What can be found out after a commit was lost, on another connection; ``Unavailable`` if nothing."""
    for wait in _WAITS:
        try:
            return await find()
        except Conflict:
            await port.pause(wait)
        except SaverError as unknown:
            raise _unknown(error) from unknown
    raise _unknown(error)


def _unknown(error: Lost) -> Unavailable:
    return Unavailable(
        f"{error} while it committed, and the server cannot be asked whether it did; try again: nothing is half stored"
    )
