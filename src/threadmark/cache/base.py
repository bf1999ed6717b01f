"""The cache contract: values by namespace and key, each for some time (spec 15).

A cache may forget anything at any time. What it gives back is equal to what it was given and never the same object.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Self, TypeAlias, TypeVar

from threadmark.checkpoint.serde.base import SerializerProtocol
from threadmark.checkpoint.serde.errors import DeserializationError
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.errors import ThreadmarkError

ValueT = TypeVar("ValueT")
Namespace: TypeAlias = tuple[str, ...]
FullKey: TypeAlias = tuple[Namespace, str]
"""A namespace and a key in it."""
Encoded: TypeAlias = tuple[str, bytes]
"""A value as the serializer wrote it: tag and bytes."""


class CacheError(ThreadmarkError):
    """A cache that cannot be opened or written."""


class BaseCache(ABC, Generic[ValueT]):
    """Keeps values as bytes. Methods whose name starts with ``a`` are for event loops and do the same as their twins.

    ``serde``: what makes bytes of values; by default one that writes and loads no pickles.
    """

    serde: SerializerProtocol

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        self.serde = JsonPlusSerializer(pickle_fallback=False) if serde is None else serde

    @abstractmethod
    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """The values of those keys that are there."""

    @abstractmethod
    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """The same as ``get`` on the running event loop."""

    @abstractmethod
    def set(self, pairs: Mapping[FullKey, tuple[ValueT, int | None]]) -> None:
        """Keep values: key -> value and seconds to live, None for ever.

        Raises ``SerializationError`` for a value that the serializer cannot write; nothing is kept then.
        """

    @abstractmethod
    async def aset(self, pairs: Mapping[FullKey, tuple[ValueT, int | None]]) -> None:
        """The same as ``set`` on the running event loop."""

    @abstractmethod
    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Forget everything in these namespaces (and not in those below them); None for everything there is."""

    @abstractmethod
    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """The same as ``clear`` on the running event loop."""

    def with_allowlist(self, extra: Any) -> Self:
        """The same cache, whose serializer also takes the classes of ``extra``; this one stays as it is."""
        extend = getattr(self.serde, "with_allowlist", None)
        if extend is None:
            return self
        clone = copy.copy(self)
        clone.serde = extend(extra)
        return clone

    def _encoded(self, pairs: Mapping[FullKey, tuple[ValueT, int | None]]) -> list[tuple[FullKey, Encoded, int | None]]:
        return [(key, self.serde.dumps_typed(value), ttl) for key, (value, ttl) in pairs.items()]

    def _decoded(self, found: Mapping[FullKey, Encoded]) -> dict[FullKey, ValueT]:
        """The values; one that cannot be made again is as good as forgotten."""
        out: dict[FullKey, ValueT] = {}
        for key, encoded in found.items():
            try:
                out[key] = self.serde.loads_typed(encoded)
            except DeserializationError:
                continue
        return out


def expiry(now: float, ttl: int | None) -> float | None:
    """When an entry expires, on the clock that ``now`` is from."""
    return None if ttl is None else now + ttl


__all__ = ["BaseCache", "CacheError", "FullKey", "Namespace", "ValueT"]
