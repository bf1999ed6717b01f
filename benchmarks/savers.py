"""Opening the savers of a system the way its users do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any

from benchmarks.servers import postgres_server
from benchmarks.systems import System
from tests.services.cosmosdb import account
from tests.services.mongodb import any_mongodb
from tests.services.redis import redis_binary, running

SAVERS = {
    "sqlite": "SqliteSaver",
    "redis": "RedisSaver",
    "postgres": "PostgresSaver",
    "mongodb": "MongoDBSaver",
    "cosmosdb": "CosmosDBSaverSync",
}
KINDS = ("none", "memory", *SAVERS)


@contextmanager
def place(system: System, kind: str) -> Iterator[str]:
    """Where a saver keeps its threads: what it is opened with, while its server runs."""
    if kind == "redis":
        with running(redis_binary) as server:
            yield server.url
    elif kind == "postgres":
        yield postgres_server(system.folder).url()
    elif kind == "mongodb":
        with any_mongodb() as mongo, mongo.database() as name:
            yield str(mongo.uri).replace("/?", f"/{name}?")
    elif kind == "cosmosdb":
        with account(real=False) as found:
            yield found.conn_string()
    else:
        yield str(system.database)


@contextmanager
def saver(system: System, kind: str, where: str | None = None) -> Iterator[Any]:
    """A saver for blocking calls, or None for ``none``; in a place of its own unless one is given."""
    with ExitStack() as stack:
        if kind == "none":
            yield None
        elif kind == "memory":
            yield system.InMemorySaver()
        else:
            where = where or stack.enter_context(place(system, kind))
            opened = stack.enter_context(getattr(system, SAVERS[kind]).from_conn_string(where))
            opened.setup()
            yield opened


@asynccontextmanager
async def async_saver(system: System, kind: str) -> AsyncIterator[Any]:
    """A saver for awaited calls in a place of its own, or None for ``none``."""
    if kind == "none":
        yield None
    elif kind == "memory":
        yield system.InMemorySaver()
    else:
        kind_of_saver = getattr(system, f"Async{SAVERS[kind]}")
        with place(system, kind) as where:
            async with kind_of_saver.from_conn_string(where) as opened:
                await opened.setup()
                yield opened


@contextmanager
def pooled(system: System, where: str, size: int) -> Iterator[Any]:
    """A saver for blocking calls over a pool of connections to PostgreSQL, which both systems take."""
    from psycopg_pool import ConnectionPool

    with ConnectionPool(where, kwargs=_settings(), min_size=size, max_size=size, open=True) as pool:
        opened = system.PostgresSaver(pool)
        opened.setup()
        yield opened


@asynccontextmanager
async def async_pooled(system: System, where: str, size: int) -> AsyncIterator[Any]:
    """A saver for awaited calls over such a pool."""
    from psycopg_pool import AsyncConnectionPool

    async with AsyncConnectionPool(where, kwargs=_settings(), min_size=size, max_size=size, open=False) as pool:
        opened = system.AsyncPostgresSaver(pool)
        await opened.setup()
        yield opened


def _settings() -> dict[str, Any]:
    from psycopg.rows import dict_row

    return {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
