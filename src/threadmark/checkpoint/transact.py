"""Running a transaction, again when another writer was in its way."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from threadmark.checkpoint.records import Change, Conflict, Port
from threadmark.errors import Unavailable

T = TypeVar("T")

PATIENCE: Final = 60.0
"""Seconds that a transaction is run again and again because of other writers."""
_FIRST_WAIT: Final = 0.001
_LONGEST_WAIT: Final = 0.1


async def transact(port: Port, work: Callable[[Change], Awaitable[T]]) -> T:
    """What ``work`` gives inside one transaction. It may be called several times: only the last call counts.

    ``Unavailable`` when other writers were in the way all the time.
    """
    end, wait = 0.0, _FIRST_WAIT
    while True:
        try:
            async with port.write() as change:
                return await work(change)
        except Conflict as conflict:
            now = time.monotonic()
            end = end or now + PATIENCE
            if now > end:
                raise Unavailable(f"other writers were in the way for {PATIENCE:.0f} s; try again") from conflict
        await port.pause(wait * (0.5 + random.random()))
        wait = min(2 * wait, _LONGEST_WAIT)
