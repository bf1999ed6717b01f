"""From a URL to a client, and what a client is called in messages. Pure, but for making clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from redis.backoff import ExponentialBackoff
from redis.exceptions import ConnectionError, TimeoutError

from threadmark.checkpoint.names import without_secrets

CLUSTER: Final = "+cluster"
SCHEMES: Final = ("redis", "rediss", "unix", "redis+cluster", "rediss+cluster")
TRIES: Final = 3
"""How often a command is sent again whose connection was lost: every one may be."""
DEFAULTS: Final[Mapping[str, Any]] = {
    "socket_connect_timeout": 5.0,
    "socket_timeout": 10.0,
    "retry_on_error": [ConnectionError, TimeoutError],
}
"""What clients are made with unless the URL's query says otherwise. Seconds."""
MOST_CONNECTIONS: Final = 64
"""Connections that a client makes; more calls at once wait for one."""
WAIT_FOR_CONNECTION: Final = 60.0


class Place(NamedTuple):
    """Where a URL points: one for the driver, and whether it is a cluster."""

    url: str
    is_cluster: bool
    shown: str
    """The URL as messages show it."""
    connections: int

    @property
    def limit(self) -> int | None:
        """How many calls may be under way at once where no pool lets the others wait."""
        return self.connections if self.is_cluster else None


def place_of(url: str) -> Place:
    """``redis://``, ``rediss://`` and ``unix://`` as the driver knows them; ``?cluster=1`` or ``+cluster`` too.

    ValueError for another scheme.
    """
    scheme, separator, _ = url.partition("://")
    if not separator or scheme not in SCHEMES:
        raise ValueError(
            f"a URL for Redis begins with {', '.join(f'{each}://' for each in SCHEMES)}; "
            f"write redis://localhost:6379/0, not {without_secrets(url)!r}"
        )
    parts = _parts(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    is_cluster = query.pop("cluster", "").lower() in ("1", "true", "yes") or scheme.endswith(CLUSTER)
    try:
        connections = int(query.pop("max_connections", MOST_CONNECTIONS))
    except ValueError:
        raise ValueError("max_connections in the URL must be a whole number") from None
    plain = url.partition("?")[0].removeprefix(scheme).partition("#")[0]
    plain = f"{scheme.removesuffix(CLUSTER)}{plain}{'?' if query else ''}{urlencode(query)}"
    return Place(plain, is_cluster, without_secrets(url), connections)


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:  # its message may hold a part of the password
        raise ValueError(
            f"the URL {without_secrets(url)!r} cannot be read; write redis://USER:PASSWORD@HOST:PORT/DB, and "
            f"%2F, %3A, %40 for /, :, @ in the password"
        ) from None
    return parts


def check(place: Place, pool: Any) -> None:
    """ValueError unless a pool's settings make a connection; none is opened."""
    try:
        pool.connection_class(**pool.connection_kwargs)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the URL {place.shown!r} has settings that redis-py does not know: {error}") from None


def backoff() -> ExponentialBackoff:
    """How long to wait before a command is sent again."""
    return ExponentialBackoff(cap=0.5, base=0.02)


def shown(client: Any) -> str:
    """What messages call the server of a ready client."""
    pool = getattr(client, "connection_pool", None)
    if pool is not None:
        known = pool.connection_kwargs
    else:
        nodes = list(getattr(getattr(client, "nodes_manager", None), "startup_nodes", {}).values())
        known = {"host": nodes[0].host, "port": nodes[0].port} if nodes else {}
    path = known.get("path")
    return f"unix://{path}" if path else f"redis://{known.get('host', 'localhost')}:{known.get('port', 6379)}"
