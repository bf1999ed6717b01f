"""A cache in this process's memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from threadmark.cache.base import BaseCache, Encoded, FullKey, Namespace, ValueT, expiry
from threadmark.checkpoint.serde.base import SerializerProtocol

_SWEEP_EVERY = 256
"""Entries set between two looks for expired ones that nobody asks for any more."""


class InMemoryCache(BaseCache[ValueT]):
    """Safe to share between threads and event loops.

    Args:
        serde: As for ``BaseCache``.
        clock: Seconds; for tests.
    """

    def __init__(self, *, serde: SerializerProtocol | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(serde=serde)
        self._entries = _Entries(clock)

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        return self._decoded(self._entries.get(keys))

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        return self.get(keys)

    def set(self, pairs: Mapping[FullKey, tuple[ValueT, int | None]]) -> None:
        self._entries.set(self._encoded(pairs))

    async def aset(self, pairs: Mapping[FullKey, tuple[ValueT, int | None]]) -> None:
        self.set(pairs)

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        self._entries.clear(namespaces)

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        self.clear(namespaces)


class _Entries:
    """What a cache and its copies with other serializers share."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._data: dict[Namespace, dict[str, tuple[Encoded, float | None]]] = {}
        self._count = 0

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, Encoded]:
        found: dict[FullKey, Encoded] = {}
        with self._lock:
            now = self._clock()
            for namespace, key in keys:
                held = self._data.get(namespace, {})
                entry = held.get(key)
                if entry is None:
                    continue
                if entry[1] is not None and entry[1] <= now:
                    del held[key]
                else:
                    found[(namespace, key)] = entry[0]
        return found

    def set(self, entries: Sequence[tuple[FullKey, Encoded, int | None]]) -> None:
        with self._lock:
            now = self._clock()
            for (namespace, key), encoded, ttl in entries:
                self._data.setdefault(namespace, {})[key] = (encoded, expiry(now, ttl))
            self._count += len(entries)
            if self._count >= _SWEEP_EVERY:
                self._count = 0
                self._sweep(now)

    def clear(self, namespaces: Sequence[Namespace] | None) -> None:
        with self._lock:
            if namespaces is None:
                self._data.clear()
            for namespace in namespaces or ():
                self._data.pop(tuple(namespace), None)

    def _sweep(self, now: float) -> None:
        for namespace, held in list(self._data.items()):
            kept = {key: entry for key, entry in held.items() if entry[1] is None or entry[1] > now}
            if kept:
                self._data[namespace] = kept
            else:
                del self._data[namespace]


__all__ = ["InMemoryCache"]
