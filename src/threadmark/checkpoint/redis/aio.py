"""``AsyncRedisSaver``: the same saver for programs on an event loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from redis import asyncio as driver
from redis.asyncio.retry import Retry

from threadmark.checkpoint.redis.awaited import AwaitedWire, is_cluster
from threadmark.checkpoint.redis.saver import RedisSaver, _wanted
from threadmark.checkpoint.redis.urls import DEFAULTS, TRIES, WAIT_FOR_CONNECTION, Place, backoff, check, shown
from threadmark.checkpoint.redis.wire import Wire

__all__ = ["AsyncRedisSaver"]


class AsyncRedisSaver(RedisSaver):
    """``RedisSaver`` on an event loop; ``client`` is a ``redis.asyncio.Redis`` or ``RedisCluster``.

    Blocking methods work from other threads than the event loop's only. A saver of ``from_conn_string`` connects anew
    for each event loop that uses it; a client that was handed in belongs to one.
    """

    @classmethod
    def _wire(cls, client: Any) -> Wire:
        if not isinstance(client, (driver.Redis, driver.RedisCluster)):
            raise TypeError(_wanted(cls.__name__, client, "a redis.asyncio.Redis or redis.asyncio.RedisCluster"))
        return AwaitedWire(shown(client), client=client, cluster=is_cluster(client))

    @classmethod
    def _wire_to(cls, place: Place) -> Wire:
        return AwaitedWire(place.shown, make=_maker(place), cluster=place.is_cluster, limit=place.limit)

    async def setup(self) -> None:  # type: ignore[override]
        """Nothing is left to do: there are no tables. Kept for programs that call it."""


def _maker(place: Place) -> Callable[[], Any]:
    """What makes a client of a place. ValueError for settings that it does not have."""
    settings = {"retry": Retry(backoff(), TRIES), "max_connections": place.connections, **DEFAULTS}
    if place.is_cluster:
        return lambda: driver.RedisCluster.from_url(place.url, **settings)

    def made() -> Any:
        pool = driver.BlockingConnectionPool.from_url(place.url, timeout=WAIT_FOR_CONNECTION, **settings)
        return driver.Redis.from_pool(pool)

    check(place, made().connection_pool)
    return made
