"""Opening the savers of a system the way its users do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from benchmarks.servers import postgres_server
from benchmarks.systems import System
from tests.services.redis import redis_binary, running

KINDS = ("none", "memory", "sqlite", "redis", "postgres")


@contextmanager
def saver(system: System, kind: str) -> Iterator[Any]:
    """A saver for blocking calls, or None for ``none``."""
    if kind == "none":
        yield None
    elif kind == "memory":
        yield system.InMemorySaver()
    elif kind == "redis":
        with running(redis_binary) as server, system.RedisSaver.from_conn_string(server.url) as opened:
            yield opened
    elif kind == "postgres":
        with system.PostgresSaver.from_conn_string(postgres_server(system.folder).url()) as opened:
            opened.setup()
            yield opened
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
    elif kind == "redis":
        with running(redis_binary) as server:
            async with system.AsyncRedisSaver.from_conn_string(server.url) as opened:
                yield opened
    elif kind == "postgres":
        async with system.AsyncPostgresSaver.from_conn_string(postgres_server(system.folder).url()) as opened:
            await opened.setup()
            yield opened
    else:
        async with system.AsyncSqliteSaver.from_conn_string(str(system.database)) as opened:
            await opened.setup()
            yield opened
