"""What rebuilds delta channels takes a fixed number of round trips on servers, at any length."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.integration.histories import grown, patched
from tests.integration.test_mongodb_rules import Commands
from tests.services.cosmosdb import Account
from tests.services.mongodb import Mongo
from tests.services.postgres import Postgres
from tests.services.redis import RedisServer
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.cosmosdb import CosmosDBSaverSync
from threadmark.checkpoint.mongodb import MongoDBSaver
from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.checkpoint.postgres.rows import Reading
from threadmark.checkpoint.redis import RedisSaver
from threadmark.checkpoint.redis.store import Store

Opened = tuple[Any, Callable[[], int]]
"""A saver, and how often it has asked its server until now."""


def counting(monkeypatch: pytest.MonkeyPatch, kind: type, name: str) -> Callable[[], int]:
    """Counts the calls of a method that is one round trip; how many there were until now."""
    plain, calls = getattr(kind, name), list[None]()

    async def counted(*arguments: Any) -> Any:
        calls.append(None)
        return await plain(*arguments)

    monkeypatch.setattr(kind, name, counted)
    return lambda: len(calls)


@pytest.fixture
def opened(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    name, found = request.param, request.getfixturevalue
    with ExitStack() as stack:
        if name == "postgres":
            server: Postgres = found("postgres_server")
            database = server.database()
            stack.callback(server.drop, database)
            saver = stack.enter_context(PostgresSaver.from_conn_string(server.url(database)))
            yield saver, counting(monkeypatch, Reading, "_ask")
        elif name == "redis":
            redis: RedisServer = found("redis_server")
            saver = stack.enter_context(RedisSaver.from_conn_string(redis.url, prefix="histories"))
            yield saver, counting(monkeypatch, Store, "look")
        elif name == "mongodb":
            mongo: Mongo = found("mongodb")
            commands, database = Commands(), stack.enter_context(mongo.database())
            saver = MongoDBSaver.from_conn_string(mongo.uri, database, event_listeners=[commands])
            yield stack.enter_context(saver), lambda: len(commands.names)
        else:
            fake: Account = found("fake")
            asked = 0

            def count() -> int:
                nonlocal asked
                asked += sum(fake.told()["asked"].values())
                return asked

            yield stack.enter_context(CosmosDBSaverSync(**fake.names())), count


def trips(opened: Opened, at: Any, channels: list[str], *, warm: bool) -> int:
    """How often a saver asks that has read the checkpoint, or one that knows nothing."""
    saver, asked = opened
    saver._caches = Caches(scale=0)
    expected = saver.get_delta_channel_history(config=at, channels=channels)
    if warm:
        saver._caches = Caches()
        assert saver.get_tuple(at) is not None
    before = asked()
    found = saver.get_delta_channel_history(config=at, channels=channels)
    took = asked() - before
    assert found == expected
    return took


@pytest.mark.parametrize(
    ("opened", "long", "warm", "cold"),
    [("postgres", 1000, 2, 3), ("redis", 1000, 2, 3), ("mongodb", 100, 5, 9), ("cosmosdb", 100, 14, 16)],
    indirect=["opened"],
)
def test_no_more_with_length(opened: Opened, long: int, warm: int, cold: int) -> None:
    """By one that has read the checkpoint, and by one that knows nothing. Cosmos DB reads packs, some ten rows each."""
    for length in (10, long):
        opened[0].delete_thread("t")
        at = grown(opened[0], length, told=True)
        assert trips(opened, at, ["d"], warm=True) <= warm
        assert trips(opened, at, ["d"], warm=False) <= cold


@pytest.mark.parametrize(
    ("opened", "most"), [("postgres", 3), ("redis", 3), ("mongodb", 5), ("cosmosdb", 9)], indirect=["opened"]
)
def test_values_that_are_patches_take_one_more(opened: Opened, most: int) -> None:
    at = patched(opened[0])
    assert trips(opened, at, ["d", "p"], warm=True) <= most
    assert trips(opened, at, ["d", "p"], warm=False) <= most
