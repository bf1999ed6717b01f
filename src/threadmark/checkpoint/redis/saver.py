"""``RedisSaver``: threads in Redis, Valkey or a Redis Cluster, for blocking programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

try:
    import redis
except ImportError as error:
    raise ImportError("the Redis savers need redis-py: pip install 'threadmark[redis]'") from error
from redis.retry import Retry

from threadmark.checkpoint.base import Retention
from threadmark.checkpoint.redis.keys import Keys
from threadmark.checkpoint.redis.port import RedisPort
from threadmark.checkpoint.redis.store import Settings, Store
from threadmark.checkpoint.redis.urls import (
    DEFAULTS,
    TRIES,
    WAIT_FOR_CONNECTION,
    Place,
    backoff,
    check,
    place_of,
    shown,
)
from threadmark.checkpoint.redis.wire import BlockingWire, Wire
from threadmark.checkpoint.saver import Saver

S = TypeVar("S", bound="RedisSaver")

PREFIX = "threadmark"


class RedisSaver(Saver):
    """Keeps threads in Redis 7 or later, Valkey, or a Redis Cluster; no module is needed.

    Any number of threads and processes may use one server. ``client`` is a ``redis.Redis`` or ``redis.RedisCluster``,
    which stays open when the saver is closed. A superstep is one Lua script: all of it is stored, or nothing.

    Args:
        client: A ready client. ``from_conn_string`` makes one.
        serde: Turns values into bytes.
        config_keys: Keys of ``config["configurable"]`` to keep as metadata.
        retention: What to remove while graphs run; nothing by default.
        ttl: How long a thread stays after it was last written to: a ``timedelta`` or seconds. None for ever.
        refresh_on_read: Reading a thread counts as writing for its ``ttl``.
        prefix: What all keys begin with. Savers with different prefixes do not see each other.
        wait_aof: A call returns only once the server has flushed it to its disk (WAITAOF: Redis 7.2, appendonly yes).

    Raises:
        TypeError: ``client`` is not a blocking client of redis-py.
        ValueError: A ``ttl`` of nothing, or a prefix with braces.
    """

    def __init__(
        self,
        client: Any,
        *,
        serde: Any = None,
        config_keys: Sequence[str] | None = None,
        retention: Retention | None = None,
        ttl: timedelta | float | None = None,
        refresh_on_read: bool = False,
        prefix: str = PREFIX,
        wait_aof: bool = False,
    ) -> None:
        settings = _settings(ttl, refresh_on_read, wait_aof)
        self._start(self._wire(client), Keys(prefix), settings, serde, config_keys, retention)

    @classmethod
    def from_conn_string(
        cls: type[S],
        conn_string: str,
        *,
        serde: Any = None,
        config_keys: Sequence[str] | None = None,
        retention: Retention | None = None,
        ttl: timedelta | float | None = None,
        refresh_on_read: bool = False,
        prefix: str = PREFIX,
        wait_aof: bool = False,
    ) -> S:
        """A saver on the server at this URL, usable at once and a context manager that closes it.

        ``redis://USER:PASSWORD@HOST:PORT/DB``, ``rediss://`` with TLS, ``unix://PATH``; ``redis+cluster://HOST:PORT``,
        or ``?cluster=1``, for a cluster. The query may hold settings of redis-py, such as ``socket_timeout=2``, and
        ``max_connections`` (64). It connects when it is first used. ValueError for another URL.
        """
        saver = cls.__new__(cls)
        settings = _settings(ttl, refresh_on_read, wait_aof)
        saver._start(cls._wire_to(place_of(conn_string)), Keys(prefix), settings, serde, config_keys, retention)
        return saver

    @classmethod
    def open_read_only(cls: type[S], conn_string: str, *, serde: Any = None, prefix: str = PREFIX) -> S:
        """A saver that only reads, from a replica too: it stores nothing, cleans no index, prolongs no life."""
        saver = cls.__new__(cls)
        saver._start(cls._wire_to(place_of(conn_string)), Keys(prefix), Settings(read_only=True), serde, None, None)
        return saver

    def _start(
        self,
        wire: Wire,
        keys: Keys,
        settings: Settings,
        serde: Any,
        config_keys: Sequence[str] | None,
        retention: Retention | None,
    ) -> None:
        self._store = Store(wire, keys, settings)
        port = RedisPort(self._store, blocking=wire.blocking)
        Saver.__init__(self, port, serde=serde, config_keys=config_keys, retention=retention)

    @classmethod
    def _wire(cls, client: Any) -> Wire:
        if not isinstance(client, (redis.Redis, redis.RedisCluster)):
            raise TypeError(_wanted(cls.__name__, client, "a blocking redis.Redis or redis.RedisCluster"))
        return BlockingWire(shown(client), client=client, cluster=isinstance(client, redis.RedisCluster))

    @classmethod
    def _wire_to(cls, place: Place) -> Wire:
        return BlockingWire(place.shown, make=_maker(place), cluster=place.is_cluster, limit=place.limit)

    @property
    def client(self) -> Any:
        """The client of redis-py, for commands of your own; None before an event loop has used the saver's own."""
        return self._store.wire.client

    def setup(self) -> None:
        """Nothing is left to do: there are no tables. Kept for programs that call it."""


def _maker(place: Place) -> Callable[[], Any]:
    """What makes a client of a place. ValueError for settings that it does not have."""
    settings = {"retry": Retry(backoff(), TRIES), "max_connections": place.connections, **DEFAULTS}
    if place.is_cluster:
        return lambda: redis.RedisCluster.from_url(place.url, **settings)

    def made() -> Any:
        pool = redis.BlockingConnectionPool.from_url(place.url, timeout=WAIT_FOR_CONNECTION, **settings)
        return redis.Redis.from_pool(pool)

    check(place, made().connection_pool)
    return made


def _settings(ttl: timedelta | float | None, refresh_on_read: bool, wait_aof: bool) -> Settings:
    milliseconds = None
    if ttl is not None:
        milliseconds = int(ttl.total_seconds() * 1000) if isinstance(ttl, timedelta) else int(ttl * 1000)
        if milliseconds <= 0:
            raise ValueError(f"ttl must be more than nothing, not {ttl!r}; leave it out to keep threads for ever")
    return Settings(milliseconds, refresh_on_read and milliseconds is not None, wait_aof)


def _wanted(kind: str, client: Any, what: str) -> str:
    if isinstance(client, str):
        return f"{kind} takes a client, not a URL; use {kind}.from_conn_string(url)"
    return f"{kind} takes {what}, not {type(client).__module__}.{type(client).__qualname__}"
