"""A store in this process's memory: for tests, and for programs that need none after they end."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from threadmark.colour import drive
from threadmark.store.base import BaseStore
from threadmark.store.base.embed import Vector, ensure_embeddings, get_text_at_path, likeness, unit
from threadmark.store.base.items import (
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    StoreError,
    TTLConfig,
)
from threadmark.store.base.match import listed, matches, under

_SWEEP_EVERY = 256
"""Writes between two looks for expired items that nobody reads any more."""

Address = tuple[tuple[str, ...], str]


@dataclass(slots=True)
class _Entry:
    value: dict[str, Any]
    created: datetime
    updated: datetime
    vectors: list[Vector]
    ttl: float | None
    expires: float | None
    """Seconds on the store's clock."""


class _Embedder(Protocol):
    """How vectors are made, in the caller's colour."""

    async def documents(self, texts: list[str]) -> list[Vector]: ...

    async def query(self, text: str) -> Vector: ...


class _Blocking:
    def __init__(self, embeddings: Any) -> None:
        self._embeddings = embeddings

    async def documents(self, texts: list[str]) -> list[Vector]:
        return list(self._embeddings.embed_documents(texts))

    async def query(self, text: str) -> Vector:
        return list(self._embeddings.embed_query(text))


class _OnLoop:
    def __init__(self, embeddings: Any) -> None:
        self._embeddings = embeddings

    async def documents(self, texts: list[str]) -> list[Vector]:
        return list(await self._embeddings.aembed_documents(texts))

    async def query(self, text: str) -> Vector:
        return list(await self._embeddings.aembed_query(text))


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
        self.embeddings = ensure_embeddings(index.get("embed")) if index else None
        self._fields = (index.get("fields") or ["$"]) if index else []
        self._dims = index.get("dims") if index else None
        self._clock = clock
        self._lock = threading.Lock()
        self._data: dict[tuple[str, ...], dict[str, _Entry]] = {}
        self._writes = 0

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return drive(self._batch(list(ops), _Blocking(self.embeddings)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await self._batch(list(ops), _OnLoop(self.embeddings))

    def sweep_ttl(self) -> int:
        """Delete what has expired; how many items that were."""
        with self._lock:
            return self._sweep(self._clock())

    async def asweep_ttl(self) -> int:
        """The same as ``sweep_ttl``."""
        return self.sweep_ttl()

    async def _batch(self, ops: list[Op], embedder: _Embedder) -> list[Result]:
        unknown = next((op for op in ops if type(op) not in _READS and not isinstance(op, PutOp)), None)
        if unknown is not None:
            raise StoreError(f"{unknown!r} is no operation of a store")
        puts: dict[Address, PutOp] = {(tuple(op.namespace), op.key): op for op in ops if isinstance(op, PutOp)}
        vectors = await self._embedded(puts, embedder)
        queries = await self._queries(ops, embedder)
        with self._lock:  # never held while vectors are made
            now = self._clock()
            results = [None if isinstance(op, PutOp) else _READS[type(op)](self, op, queries, now) for op in ops]
            for address, op in puts.items():
                self._put_entry(address, op, vectors.get(address, []), now)
            self._writes += len(puts)
            if self._writes >= _SWEEP_EVERY:
                self._writes = 0
                self._sweep(now)
        return results

    # -- vectors -----------------------------------------------------------------------------------------------------

    async def _embedded(self, puts: Mapping[Address, PutOp], embedder: _Embedder) -> dict[Address, list[Vector]]:
        """The vectors of what is put: one for each text that its paths lead to."""
        if self.embeddings is None:
            return {}
        wanted: list[tuple[Address, str]] = []
        for address, op in puts.items():
            if op.value is not None and op.index is not False:
                paths = self._fields if op.index is None else op.index
                wanted.extend((address, text) for path in paths for text in get_text_at_path(dict(op.value), path))
        if not wanted:
            return {}
        made = await embedder.documents([text for _, text in wanted])
        out: dict[Address, list[Vector]] = {}
        for (address, _), vector in zip(wanted, made, strict=True):
            out.setdefault(address, []).append(unit(vector, self._dims))
        return out

    async def _queries(self, ops: Iterable[Op], embedder: _Embedder) -> dict[str, Vector]:
        if self.embeddings is None:
            return {}
        texts = {op.query for op in ops if isinstance(op, SearchOp) and op.query}
        return {text: unit(await embedder.query(text), self._dims) for text in texts}

    # -- under the lock ----------------------------------------------------------------------------------------------

    def _live(self, namespace: tuple[str, ...], key: str, now: float, *, refresh: bool) -> _Entry | None:
        entry = self._data.get(namespace, {}).get(key)
        if entry is None:
            return None
        if entry.expires is not None and entry.expires <= now:
            self._drop(namespace, key)
            return None
        if refresh:
            _refresh(entry, now)
        return entry

    def _drop(self, namespace: tuple[str, ...], key: str) -> None:
        held = self._data.get(namespace)
        if held is not None:
            held.pop(key, None)
            if not held:
                del self._data[namespace]

    def _sweep(self, now: float) -> int:
        gone = [
            (namespace, key)
            for namespace, held in self._data.items()
            for key, entry in held.items()
            if entry.expires is not None and entry.expires <= now
        ]
        for namespace, key in gone:
            self._drop(namespace, key)
        return len(gone)

    def _get_item(self, op: GetOp, queries: Mapping[str, Vector], now: float) -> Item | None:
        namespace = tuple(op.namespace)
        entry = self._live(namespace, op.key, now, refresh=op.refresh_ttl)
        if entry is None:
            return None
        return Item(
            value=copy.deepcopy(entry.value),
            key=op.key,
            namespace=namespace,
            created_at=entry.created,
            updated_at=entry.updated,
        )

    def _search_items(self, op: SearchOp, queries: Mapping[str, Vector], now: float) -> list[SearchItem]:
        self._sweep(now)
        found = [
            (namespace, key, entry)
            for namespace, held in self._data.items()
            if under(namespace, op.namespace_prefix)
            for key, entry in held.items()
            if matches(entry.value, op.filter)
        ]
        query = queries.get(op.query) if op.query else None
        ranked: list[tuple[float | None, tuple[tuple[str, ...], str, _Entry]]]
        if query is None:
            ranked = [(None, item) for item in found]
        else:
            ranked = [(_score(query, item[2].vectors), item) for item in found]
            ranked.sort(key=lambda pair: (pair[0] is None, -(pair[0] or 0.0)))
        page = ranked[op.offset : op.offset + op.limit]
        if op.refresh_ttl:
            for _, (_, _, entry) in page:
                _refresh(entry, now)
        return [
            SearchItem(namespace, key, copy.deepcopy(entry.value), entry.created, entry.updated, score)
            for score, (namespace, key, entry) in page
        ]

    def _list(self, op: ListNamespacesOp, queries: Mapping[str, Vector], now: float) -> list[tuple[str, ...]]:
        self._sweep(now)
        return listed(self._data, op)

    def _put_entry(self, address: Address, op: PutOp, vectors: list[Vector], now: float) -> None:
        namespace, key = address
        if op.value is None:
            self._drop(namespace, key)
            return
        before = self._live(namespace, key, now, refresh=False)
        written = datetime.now(UTC)
        entry = _Entry(
            value=copy.deepcopy(dict(op.value)),
            created=written if before is None else before.created,
            updated=written,
            vectors=vectors,
            ttl=op.ttl,
            expires=None,
        )
        _refresh(entry, now)
        self._data.setdefault(namespace, {})[key] = entry


def _refresh(entry: _Entry, now: float) -> None:
    entry.expires = None if entry.ttl is None else now + entry.ttl * 60


def _score(query: Vector, vectors: list[Vector]) -> float | None:
    """The likeness of the item's best text; None for an item without any."""
    return max((likeness(query, vector) for vector in vectors), default=None)


_READS: dict[type, Callable[..., Result]] = {
    GetOp: InMemoryStore._get_item,
    SearchOp: InMemoryStore._search_items,
    ListNamespacesOp: InMemoryStore._list,
}

__all__ = ["InMemoryStore"]
