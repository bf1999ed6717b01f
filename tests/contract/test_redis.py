"""``RedisSaver`` and ``AsyncRedisSaver`` keep the contract: all of it on Redis 8, parts on Valkey and on a cluster."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest
import redis

from tests.contract.ours import OurPromises
from tests.services.redis import Cluster, RedisServer
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.capabilities import CAPABILITIES
from threadmark.checkpoint.conformance.checks import ListChecks, RaceChecks, WriteChecks
from threadmark.checkpoint.conformance.suite import (
    CopyThreadConformance,
    DeleteForRunsConformance,
    FullConformance,
    PruneConformance,
    StepConformance,
)
from threadmark.checkpoint.redis import RedisSaver
from threadmark.checkpoint.redis.aio import AsyncRedisSaver
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer

EVERYTHING = frozenset(each.name for each in CAPABILITIES)
_numbers = itertools.count()


def fresh() -> str:
    """A prefix that nobody had."""
    return f"test{next(_numbers)}"


class OnRedis:
    """On Redis 8."""

    payloads = ("own",)

    @pytest.fixture(autouse=True)
    def _on(self, redis_server: RedisServer) -> None:
        self.url = redis_server.url


class TestBlocking(OnRedis, OurPromises):
    """Both colours over a blocking client, and nothing remembered between calls."""

    def open_saver(self) -> Iterator[RedisSaver]:
        with RedisSaver.from_conn_string(self.url, prefix=fresh()) as saver:
            saver._caches = Caches(scale=0)
            yield saver


class TestAwaited(OnRedis, OurPromises):
    """Over a client of an event loop, which is what only ``a`` methods can use."""

    colours = ("async",)

    async def open_saver(self) -> AsyncIterator[AsyncRedisSaver]:
        async with AsyncRedisSaver.from_conn_string(self.url, prefix=fresh()) as saver:
            yield saver


class TestOpaque(OnRedis, FullConformance):
    """Encrypted, and of bytes in which nothing can be recognised."""

    colours = ("async",)
    payloads = ("hex",)

    def open_saver(self) -> Iterator[RedisSaver]:
        serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
        with RedisSaver.from_conn_string(self.url, prefix=fresh(), serde=serde) as saver:
            yield saver


class TestValkey(WriteChecks, PruneConformance, StepConformance):
    """Over a client that decodes what it gets, which is overruled."""

    colours = ("sync",)
    payloads = ("own",)
    not_asked = EVERYTHING

    @pytest.fixture(autouse=True)
    def _on(self, valkey_server: RedisServer) -> None:
        self.url = valkey_server.url

    def open_saver(self) -> Iterator[RedisSaver]:
        with redis.Redis.from_url(self.url, decode_responses=True) as client:
            yield RedisSaver(client, prefix=fresh())


class TestCluster(
    ListChecks, RaceChecks, CopyThreadConformance, DeleteForRunsConformance, PruneConformance, StepConformance
):
    """Three masters, from which a thread's keys never part."""

    colours = ("sync",)
    payloads = ("own",)
    not_asked = EVERYTHING

    @pytest.fixture(autouse=True)
    def _on(self, redis_cluster: Cluster) -> None:
        self.url = redis_cluster.url

    def open_saver(self) -> Iterator[RedisSaver]:
        with RedisSaver.from_conn_string(self.url, prefix=fresh()) as saver:
            yield saver


class TestAwaitedCluster(RaceChecks, CopyThreadConformance, StepConformance):
    colours = ("async",)
    payloads = ("own",)
    not_asked = EVERYTHING

    @pytest.fixture(autouse=True)
    def _on(self, redis_cluster: Cluster) -> None:
        self.url = redis_cluster.url

    async def open_saver(self) -> AsyncIterator[AsyncRedisSaver]:
        async with AsyncRedisSaver.from_conn_string(self.url, prefix=fresh()) as saver:
            yield saver
