"""What the tests of the Redis savers share: prefixes that nobody had, blocking calls, a look at what is stored."""

from __future__ import annotations

import itertools
from typing import Any

from tests.services.redis import RedisServer

_numbers = itertools.count()


def fresh() -> str:
    """A prefix that nobody had."""
    return f"own{next(_numbers)}"


def sync(target: Any, name: str, /, *args: Any, **kwargs: Any) -> Any:
    """A blocking call, as the kit of the conformance suite makes them."""
    found = getattr(target, name)(*args, **kwargs)
    return list(found) if name == "list" else found


def names_of(saver: Any, where: Any) -> list[str]:
    """The ids of listed checkpoints."""
    return [item.checkpoint["id"] for item in saver.list(where)]


def keys_below(server: RedisServer, prefix: str) -> set[str]:
    """All keys of one prefix."""
    with server.client() as client:
        return {key.decode() for key in client.scan_iter(match=f"{prefix}:*")}
