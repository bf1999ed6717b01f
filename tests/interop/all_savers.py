"""Prints what LangGraph's own conformance package says of every saver, in both colours, on servers of the tests:

    python -m tests.interop.all_savers
    python -m tests.interop.all_savers redis mongodb

The exit status is 1 unless everything passes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from tests.services import cosmosdb, redis
from tests.services.mongodb import any_mongodb
from tests.services.postgres import postgres
from threadmark.interop.conformance import main as examine


def _mere(name: str) -> Callable[[], AbstractContextManager[str]]:
    @contextmanager
    def store() -> Iterator[str]:
        yield name

    return store


@contextmanager
def _postgres() -> Iterator[str]:
    with postgres() as server:
        yield server.url(server.database())


@contextmanager
def _redis() -> Iterator[str]:
    with redis.running(redis.redis_binary) as server:
        yield server.url


@contextmanager
def _mongodb() -> Iterator[str]:
    with any_mongodb() as mongo, mongo.database() as database:
        yield mongo.uri.replace("/?", f"/{database}?")


@contextmanager
def _cosmosdb() -> Iterator[str]:
    with cosmosdb.account() as account:
        yield url_of(account)


def url_of(account: cosmosdb.Account) -> str:
    """The URL of a container that is not there yet."""
    scheme, _, place = account.endpoint.rstrip("/").partition("://")
    names = account.names()
    prefix = "cosmosdb+http" if scheme == "http" else "cosmosdb"
    return f"{prefix}://{place}/{names['database_name']}/{names['container_name']}?key={account.key}"


STORES: Final = {
    "memory": _mere("memory"), "sqlite": _mere(":memory:"), "postgres": _postgres, "redis": _redis,
    "mongodb": _mongodb, "cosmosdb": _cosmosdb,
}  # fmt: skip


def main(names: Sequence[str]) -> int:
    """Run the command for these savers, or for all of them."""
    status = 0
    for name in names or STORES:
        with STORES[name]() as store:
            status = max(status, examine([store]))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
