"""Lines of an event loop: one reader that stays registered, and a task that is woken by what it reads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from contextvars import Context
from typing import Any

import psycopg

from threadmark.checkpoint.postgres.line import CANCELLING, Line, Silence, Talk
from threadmark.checkpoint.postgres.wire import Rows, Sent
from threadmark.colour import running_loop

__all__ = ["AwaitedLine", "Bell"]


class Bell:
    """What one task waits for, time after time, on one event loop: to be woken by a callback of the loop's.

    It is a future as far as a task can tell. One of asyncio's would wake its task in another turn of the loop, which
    asks the system for events once more, and would be made anew for each wait.
    """

    __slots__ = ("_asyncio_future_blocking", "_context", "_error", "_loop", "_wake")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._asyncio_future_blocking = False
        self._wake: Callable[[Any], object] | None = None
        self._context: Context | None = None
        self._error: BaseException | None = None

    def __await__(self) -> Generator[Any, None, None]:
        self._asyncio_future_blocking = True
        try:
            yield self
        finally:
            error, self._wake, self._context, self._error = self._error, None, None, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # it names this frame

    def ring(self, error: BaseException | None = None) -> None:
        """Wake the task, with an error for it. Only for callbacks of the loop; nothing happens if nobody waits."""
        wake, context = self._wake, self._context
        if wake is not None and context is not None:
            self._wake, self._error = None, error
            context.run(wake, self)

    # What a task does with what it waits for.

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def add_done_callback(self, wake: Callable[[Any], object], *, context: Context) -> None:
        self._wake, self._context = wake, context

    def result(self) -> None:
        """The error, if there is one, is raised where it is waited for."""

    def cancelled(self) -> bool:
        return False

    def cancel(self, msg: Any = None) -> bool:
        wake, context = self._wake, self._context
        if wake is None or context is None:
            return False
        self._wake, self._error = None, asyncio.CancelledError(*(() if msg is None else (msg,)))
        self._loop.call_soon(wake, self, context=context)
        return True


class AwaitedLine(Line):
    """Over ``psycopg.AsyncConnection``.

    Its reader stays with the event loop while the line is idle, and a timer looks now and then whether the server has
    been silent for too long: to begin and end both with each round trip takes 800 interpreter steps and two calls of
    the system. What comes while nobody waits ends the reader; whoever takes the line next finds out what it was.
    """

    __slots__ = ("_bell", "_heard", "_loop", "_socket", "_talk", "_watch")

    def __init__(self, conn: Any, patience: float) -> None:
        super().__init__(conn, patience)
        self._socket: int = self.pgconn.socket
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bell: Bell
        self._talk: Talk | None = None
        """What is under way."""
        self._heard = 0.0
        """When something was sent or read."""
        self._watch: asyncio.TimerHandle | None = None

    async def ask(self, *sent: Sent) -> list[Rows]:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._move_to(loop)
        talk = Talk(self.pgconn, sent)
        self._talk, self._heard = talk, time.monotonic()
        if self._watch is None:
            self._watch = loop.call_later(self.patience, self._look, context=Context())
        try:
            if self.pgconn.flush():  # it did not fit into the system's buffer
                await self._write(loop)
            if self._talk is talk:
                await self._bell
        finally:
            self._talk = None
        return talk.rows()

    async def interrupt(self) -> None:
        with suppress(psycopg.Error):
            await self.conn.cancel_safe(timeout=CANCELLING)

    def let_go(self) -> None:
        loop, watch = self._loop, self._watch
        self._loop = self._watch = None
        if loop is None or loop.is_closed():
            return
        if loop.is_running() and running_loop() is not loop:
            with suppress(RuntimeError):  # it has just been closed
                loop.call_soon_threadsafe(self._leave, loop, watch)
        else:
            self._leave(loop, watch)

    def close(self) -> None:
        loop = self._loop
        if loop is not None and loop.is_running() and running_loop() is not loop:
            with suppress(RuntimeError):  # it has just been closed
                # There first: a reader of a number that soon means another connection would be in the way of that one.
                loop.call_soon_threadsafe(super().close)
                return
        super().close()

    # -- on the loop ---------------------------------------------------------------------------------------------------

    def _move_to(self, loop: asyncio.AbstractEventLoop) -> None:
        self.let_go()
        self._loop, self._bell = loop, Bell(loop)
        # A reader that stays is nobody's: it keeps nothing of the context in which it is made.
        Context().run(loop.add_reader, self._socket, self._read, loop)

    def _leave(self, loop: asyncio.AbstractEventLoop, watch: asyncio.TimerHandle | None) -> None:
        if watch is not None:
            watch.cancel()
        if self._loop is not loop:
            loop.remove_reader(self._socket)

    async def _write(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send what is left. Meanwhile the reader reads: the server may want to say something before it reads on."""
        loop.add_writer(self._socket, self._bell.ring)
        try:
            while self._talk is not None and self.pgconn.flush():
                await self._bell
        finally:
            loop.remove_writer(self._socket)

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        talk = self._talk
        if loop is not self._loop:  # it has moved to another
            loop.remove_reader(self._socket)
            return
        if talk is None:
            self.let_go()
            return
        try:
            self.pgconn.consume_input()
            complete = talk.is_complete()
        except psycopg.Error as error:
            self._end(error)
            return
        if complete:
            self._end(None)
        else:
            self._heard = time.monotonic()

    def _look(self) -> None:
        loop, self._watch = self._loop, None
        if self._talk is None or loop is None:
            return
        left = self._heard + self.patience - time.monotonic()
        if left > 0:
            self._watch = loop.call_later(left, self._look, context=Context())
        else:
            self._end(Silence(self.patience))

    def _end(self, error: BaseException | None) -> None:
        self._talk = None
        self._bell.ring(error)
