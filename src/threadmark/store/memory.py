"""A store in this process's memory: for tests, and for programs that need none after they end."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from threadmark.colour import drive
from threadmark.store.base import BaseStore
from threadmark.store.base.items import IndexConfig, Op, Result, TTLConfig
from threadmark.store.base.match import under
from threadmark.store.base.work import Blocking, Entry, Index, Namespace, OnLoop, Prepared, execute

_SWEEP_EVERY = 256
"""Writes between two looks for expired items that nobody reads any more."""


class InMemoryStore(BaseStore):
    """Keeps copies of what it is given and gives out copies; safe to share between threads and event loops.

    Args:
        index: Makes items searchable by meaning: ``{"dims": 3, "embed": function, "fields": ["text"]}``.
        ttl: Default time to live and whether reads refresh it. An expired item is never seen again.
        clock: Seconds; for tests.
    """

    supports_ttl = True

    def __init__(
        self,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.index_config = index
        self.ttl_config = ttl
        self._index = Index(index)
        self._clock = clock
        self._lock = threading.Lock()
        self._rows = _Rows()
        self._writes = 0

    @property
    def embeddings(self) -> Any:
        """What makes vectors; None without an index."""
        return self._index.embeddings

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return self._execute(drive(self._index.prepare(ops, Blocking)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return self._execute(await self._index.prepare(ops, OnLoop))

    def sweep_ttl(self) -> int:
        """Delete what has expired; how many items that were."""
        with self._lock:
            return self._rows.sweep(self._clock())

    async def asweep_ttl(self) -> int:
        """The same as ``sweep_ttl``."""
        return self.sweep_ttl()

    def _execute(self, batch: Prepared) -> list[Result]:
        with self._lock:
            now = self._clock()
            results = execute(batch, self._rows, now)
            self._writes += len(batch.puts)
            if self._writes >= _SWEEP_EVERY:
                self._writes = 0
                self._rows.sweep(now)
        return results


class _Rows:
    """Entries in dicts, by namespace and key; values are copied on their way in and out."""

    def __init__(self) -> None:
        self._data: dict[Namespace, dict[str, Entry]] = {}

    def get(self, namespace: Namespace, key: str) -> Entry | None:
        return self._data.get(namespace, {}).get(key)

    def under(self, prefix: Namespace) -> Iterator[tuple[Namespace, str, Entry]]:
        for namespace, held in self._data.items():
            if under(namespace, prefix):
                yield from ((namespace, key, entry) for key, entry in held.items())

    def namespaces(self) -> Iterable[Namespace]:
        return self._data

    def put(self, namespace: Namespace, key: str, entry: Entry) -> None:
        entry.value = self.given(entry.value)
        self._data.setdefault(namespace, {})[key] = entry

    def touch(self, namespace: Namespace, key: str, expires: float) -> None:
        self._data[namespace][key].expires = expires

    def drop(self, namespace: Namespace, key: str) -> None:
        held = self._data.get(namespace)
        if held is not None:
            held.pop(key, None)
            if not held:
                del self._data[namespace]

    def sweep(self, now: float) -> int:
        gone = [
            (namespace, key)
            for namespace, held in self._data.items()
            for key, entry in held.items()
            if entry.expires is not None and entry.expires <= now
        ]
        for namespace, key in gone:
            self.drop(namespace, key)
        return len(gone)

    def given(self, value: dict[str, Any]) -> dict[str, Any]:
        return copy.deepcopy(value)


__all__ = ["InMemoryStore"]
