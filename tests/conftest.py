"""What every test may use: both colours of a call, and quiet, repeatable surroundings."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Iterator
from itertools import count
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings

from tests.services import cosmosdb
from tests.services import redis as redis_services
from tests.services.postgres import OLDER, Postgres, postgres

# A slow machine is not a failure, and a failing example must be repeatable from the log alone.
settings.register_profile("threadmark", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("threadmark")


class Call:
    """Calls ``target.name`` or its ``a`` twin and hands back a plain value; iterators become lists."""

    def __init__(self, colour: str, runner: asyncio.Runner) -> None:
        self.colour = colour
        self._prefix = "a" if colour == "async" else ""
        self.runner = runner

    def __call__(self, target: object, name: str, /, *args: Any, **kwargs: Any) -> Any:
        result = getattr(target, self._prefix + name)(*args, **kwargs)
        if isinstance(result, AsyncIterator):
            return self.runner.run(_collected(result))
        if inspect.isawaitable(result):
            return self.runner.run(_awaited(result))
        return list(result) if isinstance(result, Iterator) else result


async def _collected(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


async def _awaited(result: Awaitable[Any]) -> Any:
    return await result


@pytest.fixture(params=["sync", "async"])
def call(request: pytest.FixtureRequest) -> Iterator[Call]:
    """Runs the test once with the blocking methods and once with their async twins, on one event loop."""
    with asyncio.Runner() as runner:
        yield Call(request.param, runner)


@pytest.fixture(autouse=True)
def _no_keys_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """An encryption key in the developer's environment must not change what a test stores."""
    for name in ("LANGGRAPH_AES_KEY", "THREADMARK_AES_KEY", "LANGGRAPH_STRICT_MSGPACK"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def cosmos() -> Iterator[cosmosdb.Account]:
    """A Cosmos DB account: our fake, or the one of ``COSMOS_ENDPOINT``."""
    with cosmosdb.account() as account:
        yield account


@pytest.fixture(scope="session")
def fake(cosmos: cosmosdb.Account) -> Iterator[cosmosdb.Account]:
    """Our fake of Cosmos DB, whatever the environment says: for tests that arrange for trouble, or count."""
    if cosmos.fake:
        yield cosmos
    else:
        with cosmosdb.account(real=False) as account:
            yield account


@pytest.fixture(scope="session")
def redis_server() -> Iterator[redis_services.RedisServer]:
    """Redis 8."""
    with redis_services.running(redis_services.redis_binary) as server:
        yield server


@pytest.fixture(scope="session")
def redis_with_json() -> Iterator[redis_services.RedisServer]:
    """Redis 8 with the module RedisJSON."""
    with redis_services.running(redis_services.redis_binary, *redis_services.json_module()) as server:
        yield server


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[redis_services.RedisServer]:
    """Valkey."""
    with redis_services.running(redis_services.valkey_binary) as server:
        yield server


@pytest.fixture(scope="session")
def redis_cluster() -> Iterator[redis_services.Cluster]:
    """Three masters."""
    with redis_services.cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def mongodb() -> Iterator[Any]:
    """A server that speaks MongoDB's protocol."""
    from tests.services.mongodb import any_mongodb

    with any_mongodb() as mongo:
        yield mongo


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """PostgreSQL 18, which does not wait for the disk."""
    with postgres() as server:
        yield server


@pytest.fixture(scope="session")
def older_postgres() -> Iterator[Postgres]:
    """PostgreSQL 17."""
    with postgres(OLDER) as server:
        yield server


@pytest.fixture(scope="session")
def pg_url(postgres_server: Postgres) -> str:
    """The URL of a database that many tests share, each with a schema of its own."""
    return postgres_server.url(postgres_server.database())


_schemas = count()


@pytest.fixture
def pg_schema() -> str:
    """The name of a schema that is not there yet."""
    return f"t{next(_schemas)}"


class Database(NamedTuple):
    """A database of a test's own."""

    url: str


@pytest.fixture
def pg_database(postgres_server: Postgres) -> Iterator[Database]:
    """A new and empty database on PostgreSQL 18."""
    name = postgres_server.database()
    yield Database(postgres_server.url(name))
    postgres_server.drop(name)
