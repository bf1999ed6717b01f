"""Opening the savers of a system the way its users do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from benchmarks.systems import System

KINDS = ("none", "memory", "sqlite")


@contextmanager
def saver(system: System, kind: str) -> Iterator[Any]:
    """A saver for blocking calls, or None for ``none``."""
    if kind == "none":
        yield None
    elif kind == "memory":
        yield system.InMemorySaver()
    else:
        with system.SqliteSaver.from_conn_string(str(system.database)) as opened:
            opened.setup()
            yield opened


@asynccontextmanager
async def async_saver(system: System, kind: str) -> AsyncIterator[Any]:
    """A saver for awaited calls, or None for ``none``."""
    if kind == "none":
        yield None
    elif kind == "memory":
        yield system.InMemorySaver()
    else:
        async with system.AsyncSqliteSaver.from_conn_string(str(system.database)) as opened:
            await opened.setup()
            yield opened
