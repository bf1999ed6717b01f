"""Running a transaction, again when another writer or a lost connection was in its way."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from threadmark.checkpoint.records import Change, Conflict, Port, View
from threadmark.errors import Unavailable

T = TypeVar("T")

PATIENCE: Final = 60.0
"""Seconds that a transaction is run again and again."""
_FIRST_WAIT: Final = 0.001
_LONGEST_WAIT: Final = 0.1


async def transact(port: Port, work: Callable[[Change], Awaitable[T]]) -> T:
    """What ``work`` gives inside one transaction. It may be called several times: only the last call counts.

    ``Unavailable`` when something was in the way all the time.
    """

    async def attempt() -> T:
        async with port.write() as change:
            return await work(change)

    try:
        return await attempt()
    except Conflict:
        pass
    return await _again(port, attempt)


async def look(port: Port, work: Callable[[View], Awaitable[T]]) -> T:
    """What ``work`` finds in one view. It may be called several times: only the last call counts."""
    # The lines of the attempt once more: most looks need one, and a closure and two frames less.
    try:
        async with port.read() as view:
            return await work(view)
    except Conflict:
        pass

    async def attempt() -> T:
        async with port.read() as view:
            return await work(view)

    return await _again(port, attempt)


async def _again(port: Port, attempt: Callable[[], Awaitable[T]]) -> T:
    """Attempt what was in vain once, until it is not."""
    end, wait = time.monotonic() + PATIENCE, _FIRST_WAIT
    while True:
        await port.pause(wait * (0.5 + random.random()))
        wait = min(2 * wait, _LONGEST_WAIT)
        try:
            return await attempt()
        except Conflict as conflict:
            if time.monotonic() > end:
                what = str(conflict) or "other writers were in the way"
                raise Unavailable(f"for {PATIENCE:.0f} s, again and again: {what}; try again") from conflict
