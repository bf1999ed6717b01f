"""``Retention`` at write time, and ``threadmark prune`` behind a URL, on every kind of server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.acceptance.test_cli import run
from tests.services.places import SERVERS, Place, place
from tests.unit.checkpoint.test_retaining import graph_over, left, put, spaces
from threadmark import ids
from threadmark.checkpoint.base import Retention
from threadmark.checkpoint.conformance.calls import Caller
from threadmark.checkpoint.conformance.kit import checkpoint, config, filled
from threadmark.checkpoint.cosmosdb import CosmosDBSaver
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.mongodb import AsyncMongoDBSaver
from threadmark.checkpoint.open import open_saver
from threadmark.checkpoint.postgres.aio import AsyncPostgresSaver
from threadmark.checkpoint.redis.aio import AsyncRedisSaver
from threadmark.types import Command

CALL = Caller("sync", lambda _: None)


@pytest.fixture(params=SERVERS)
def store(request: pytest.FixtureRequest) -> Iterator[Place]:
    with place(request.param, request) as found:
        yield found


@pytest.mark.parametrize(("awaited", "durability"), [(False, "sync"), (True, "async"), (False, "exit")])
def test_a_run_ends_as_it_would_without_and_the_thread_stays_small(
    store: Place, awaited: bool, durability: Any
) -> None:
    def ended(saver: Any) -> Any:
        graph, options = graph_over(saver, 8), {"durability": durability, "recursion_limit": 60}
        for entered in ({"log": ["in"]}, Command(resume="one"), Command(resume="two"), {"log": ["more"]}):
            if awaited:
                told = asyncio.run(graph.ainvoke(entered, config(), **options))
            else:
                told = graph.invoke(entered, config(), **options)
        state = graph.get_state(config())
        return told["log"], state.next, [one.value for one in state.interrupts]

    with store.open(retention=Retention(keep_last=2)) as tidy:
        assert ended(tidy) == ended(InMemorySaver())
        assert all(count <= 2 * 2 + 3 for count in spaces(tidy).values()), spaces(tidy)


def test_by_age(store: Place) -> None:
    with store.open(retention=Retention(older_than=timedelta(hours=1), keep_last=3)) as saver:
        at, start = config(), datetime.now(UTC) - timedelta(hours=2)
        for number in range(24):  # the first 16 are two hours old, by their ids too
            made = start + timedelta(seconds=number) if number < 16 else datetime.now(UTC)
            id = f"{ids.first_at(made.timestamp())}-8001-{number:012x}"
            at = put(saver, at, number, id=id, ts=made.isoformat())
        assert 8 <= left(saver) < 16
        for item in saver.list(config()):
            assert item.checkpoint["channel_values"] == {"n": item.metadata["step"]}


@pytest.fixture(params=SERVERS)
def awaited(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A saver for an event loop that keeps two checkpoints."""
    found, keep = request.getfixturevalue, Retention(keep_last=2)
    if request.param == "postgres":
        yield AsyncPostgresSaver.from_conn_string(found("pg_url"), schema="keeps", retention=keep)
    elif request.param == "redis":
        yield AsyncRedisSaver.from_conn_string(found("redis_server").url, prefix="keeps", retention=keep)
    elif request.param == "mongodb":
        with found("mongodb").database() as database:
            yield AsyncMongoDBSaver.from_conn_string(found("mongodb").uri, database, retention=keep)
    else:
        yield CosmosDBSaver(**found("cosmos").names(), retention=keep)


def test_savers_of_an_event_loop(awaited: Any) -> None:
    async def counted() -> int:
        async with awaited as saver:
            at = config()
            for number in range(12):
                versions = {"n": number + 1}
                at = await saver.aput(at, checkpoint({"n": number}, versions), {"step": number}, versions)
            return len([item async for item in saver.alist(config())])

    assert 2 <= asyncio.run(counted()) <= 4


@pytest.fixture(params=SERVERS)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of an empty store."""
    found = request.getfixturevalue
    if request.param == "postgres":
        server = found("postgres_server")
        database = server.database()
        yield server.url(database)
        server.drop(database)
    elif request.param == "redis":
        yield f"{found('redis_server').url}/9"
    elif request.param == "mongodb":
        with found("mongodb").database() as database:
            yield found("mongodb").uri.replace("/?", f"/{database}?")
    else:
        account = found("cosmos")
        scheme = "cosmosdb" if account.endpoint.startswith("https") else "cosmosdb+http"
        host, names = account.endpoint.partition("://")[2].strip("/"), account.names()
        key = account.key.replace("=", "%3D")
        yield f"{scheme}://{host}/{names['database_name']}/{names['container_name']}?key={key}"


def test_the_command(url: str) -> None:
    with open_saver(url) as saver:
        for name, count in (("user-1", 7), ("user-2", 6), ("job", 3)):
            filled(saver, CALL, name, count=count)
        whole = {name: list(saver.list(config(name))) for name in ("user-1", "user-2", "job")}
    assert all(len(item.checkpoint["channel_values"]) > 0 for items in whole.values() for item in items)
    forecast = json.loads(run("prune", url, "--keep-last", 3, "--dry-run", "--json").stdout)
    told = json.loads(run("prune", url, "--keep-last", 3, "--json").stdout)
    assert told["threads"] == forecast["threads"]
    assert {one["thread_id"]: one["checkpoints"] for one in told["threads"]} == {"user-1": 4, "user-2": 3, "job": 0}
    again = json.loads(run("prune", url, "--keep-last", 3, "--json").stdout)
    assert {one["checkpoints"] + one["values"] + one["segments"] for one in again["threads"]} == {0}
    with open_saver(url) as saver:
        for name, items in whole.items():
            left = list(saver.list(config(name)))
            assert [(item.checkpoint, item.pending_writes) for item in left] == [
                (item.checkpoint, item.pending_writes) for item in items[:3]
            ]
    assert run("prune", url, "--older-than", "0s", "--thread", "user-*").returncode == 0
    assert run("prune", url, "--strategy", "delete", "--thread", "job").returncode == 0
    with open_saver(url) as saver:
        assert [len(list(saver.list(config(name)))) for name in whole] == [1, 1, 0]
