"""An empty store of each kind, and savers opened on it again and again: for tests that run on every saver."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from typing import Any, NamedTuple

import pytest

from threadmark.checkpoint.cosmosdb import CosmosDBSaverSync
from threadmark.checkpoint.mongodb import MongoDBSaver
from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.checkpoint.redis import RedisSaver
from threadmark.checkpoint.sqlite import SqliteSaver

SERVERS = ("postgres", "redis", "mongodb", "cosmosdb")
_numbers = count()


class Place(NamedTuple):
    """One store."""

    name: str
    open: Callable[..., AbstractContextManager[Any]]
    """A saver on it, with these options of its own; it remembers nothing of what others did."""


@contextmanager
def place(name: str, request: pytest.FixtureRequest) -> Iterator[Place]:
    """A store of this kind, on the server of the test session where it needs one."""
    made = f"place{os.getpid()}x{next(_numbers)}"
    if name == "sqlite":
        path = str(request.getfixturevalue("tmp_path_factory").mktemp("place") / "threads.db")
        yield Place(name, lambda **options: SqliteSaver.from_conn_string(path, **{"synchronous": "OFF", **options}))
    elif name == "postgres":
        url = request.getfixturevalue("pg_url")
        yield Place(name, lambda **options: PostgresSaver.from_conn_string(url, schema=made, **options))
    elif name == "redis":
        url = request.getfixturevalue("redis_server").url
        yield Place(name, lambda **options: RedisSaver.from_conn_string(url, prefix=made, **options))
    elif name == "mongodb":
        mongo = request.getfixturevalue("mongodb")
        with mongo.database() as database:
            yield Place(name, lambda **options: MongoDBSaver.from_conn_string(mongo.uri, database, **options))
    else:
        names = request.getfixturevalue("cosmos").names()
        yield Place(name, lambda **options: CosmosDBSaverSync(**names, **options))
