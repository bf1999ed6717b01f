"""What every store of ours does with operations, over a port that only keeps rows.

A batch is done in two halves: first vectors are made, which may take long and may wait; then, in one piece and
without waiting, rows are read and written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

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
)
from threadmark.store.base.match import listed, matches

Namespace = tuple[str, ...]
Address = tuple[Namespace, str]


@dataclass(slots=True)
class Entry:
    """One stored item."""

    value: dict[str, Any]
    created: datetime
    updated: datetime
    vectors: Sequence[Vector] = ()
    """Of length 1; one for each text that it can be found by."""
    ttl: float | None = None
    """Minutes."""
    expires: float | None = None
    """Seconds on the store's clock."""


class Rows(Protocol):
    """Where entries are kept. Nothing here waits; the caller has it for itself."""

    def get(self, namespace: Namespace, key: str) -> Entry | None: ...

    def under(self, prefix: Namespace) -> Iterable[tuple[Namespace, str, Entry]]:
        """The entries at and below a prefix, in the order of their first writing inside each namespace."""
        ...

    def namespaces(self) -> Iterable[Namespace]: ...

    def put(self, namespace: Namespace, key: str, entry: Entry) -> None: ...

    def touch(self, namespace: Namespace, key: str, expires: float) -> None:
        """Let an entry live until then."""
        ...

    def drop(self, namespace: Namespace, key: str) -> None: ...

    def sweep(self, now: float) -> int:
        """Drop what has expired; how many entries that were."""
        ...

    def given(self, value: dict[str, Any]) -> dict[str, Any]:
        """A value as the caller may keep and change it."""
        ...


class Embedder(Protocol):
    """How vectors are made, in the caller's colour."""

    async def documents(self, texts: list[str]) -> list[Vector]: ...

    async def query(self, text: str) -> Vector: ...


class Blocking:
    """For blocking callers; it never waits."""

    def __init__(self, embeddings: Any) -> None:
        self._embeddings = embeddings

    async def documents(self, texts: list[str]) -> list[Vector]:
        return list(self._embeddings.embed_documents(texts))

    async def query(self, text: str) -> Vector:
        return list(self._embeddings.embed_query(text))


class OnLoop:
    """For callers on an event loop."""

    def __init__(self, embeddings: Any) -> None:
        self._embeddings = embeddings

    async def documents(self, texts: list[str]) -> list[Vector]:
        return list(await self._embeddings.aembed_documents(texts))

    async def query(self, text: str) -> Vector:
        return list(await self._embeddings.aembed_query(text))


@dataclass(slots=True)
class Prepared:
    """A batch whose vectors are made."""

    ops: list[Op]
    puts: dict[Address, PutOp]
    """The last write to each address."""
    vectors: dict[Address, list[Vector]] = field(default_factory=dict)
    queries: dict[str, Vector] = field(default_factory=dict)


class Index:
    """What makes items searchable by meaning, from an index config; None for a store without."""

    def __init__(self, config: IndexConfig | None) -> None:
        self.embeddings = ensure_embeddings(config.get("embed")) if config else None
        self._fields = (config.get("fields") or ["$"]) if config else []
        self._dims = config.get("dims") if config else None

    async def prepare(self, ops: Iterable[Op], embedder: Callable[[Any], Embedder]) -> Prepared:
        """Make the vectors of what is put and of what is asked; ``StoreError`` for what is no operation."""
        batch = list(ops)
        unknown = next((op for op in batch if not isinstance(op, (PutOp, *READS))), None)
        if unknown is not None:
            raise StoreError(f"{unknown!r} is no operation of a store")
        prepared = Prepared(batch, {(tuple(op.namespace), op.key): op for op in batch if isinstance(op, PutOp)})
        if self.embeddings is not None:
            port = embedder(self.embeddings)
            await self._embed_values(prepared, port)
            for text in {op.query for op in batch if isinstance(op, SearchOp) and op.query}:
                prepared.queries[text] = unit(await port.query(text), self._dims)
        return prepared

    async def _embed_values(self, prepared: Prepared, port: Embedder) -> None:
        wanted = [(address, text) for address, op in prepared.puts.items() for text in self._texts(op)]
        made = await port.documents([text for _, text in wanted]) if wanted else []
        for (address, _), vector in zip(wanted, made, strict=True):
            prepared.vectors.setdefault(address, []).append(unit(vector, self._dims))

    def _texts(self, op: PutOp) -> Iterator[str]:
        if op.value is not None and op.index is not False:
            for path in self._fields if op.index is None else op.index:
                yield from get_text_at_path(dict(op.value), path)


def execute(batch: Prepared, rows: Rows, now: float) -> list[Result]:
    """The second half of a batch: all reads, then all writes."""
    results: list[Result] = [
        None if isinstance(op, PutOp) else READS[type(op)](op, rows, batch.queries, now) for op in batch.ops
    ]
    for address, op in batch.puts.items():
        _put(address, op, batch.vectors.get(address, []), rows, now)
    return results


def _alive(entry: Entry | None, now: float) -> bool:
    return entry is not None and (entry.expires is None or entry.expires > now)


def _refresh(namespace: Namespace, key: str, entry: Entry, rows: Rows, now: float) -> None:
    if entry.ttl is not None:
        rows.touch(namespace, key, now + entry.ttl * 60)


def _get(op: GetOp, rows: Rows, queries: Mapping[str, Vector], now: float) -> Item | None:
    namespace = tuple(op.namespace)
    entry = rows.get(namespace, op.key)
    if entry is None or not _alive(entry, now):
        return None
    if op.refresh_ttl:
        _refresh(namespace, op.key, entry, rows, now)
    return Item(
        value=rows.given(entry.value),
        key=op.key,
        namespace=namespace,
        created_at=entry.created,
        updated_at=entry.updated,
    )


def _search(op: SearchOp, rows: Rows, queries: Mapping[str, Vector], now: float) -> list[SearchItem]:
    below = rows.under(tuple(op.namespace_prefix))
    found = [one for one in below if _alive(one[2], now) and matches(one[2].value, op.filter)]
    query = queries.get(op.query) if op.query else None
    scores: list[float | None] = [None if query is None else _score(query, one[2].vectors) for one in found]
    order = list(range(len(found)))
    if query is not None:
        order.sort(key=lambda at: (scores[at] is None, -(scores[at] or 0.0)))
    page = [(scores[at], *found[at]) for at in order[op.offset : op.offset + op.limit]]
    if op.refresh_ttl:
        for _, namespace, key, entry in page:
            _refresh(namespace, key, entry, rows, now)
    return [
        SearchItem(namespace, key, rows.given(entry.value), entry.created, entry.updated, score)
        for score, namespace, key, entry in page
    ]


def _score(query: Vector, vectors: Iterable[Vector]) -> float | None:
    """The likeness of the item's best text; None for an item without any."""
    return max((likeness(query, vector) for vector in vectors), default=None)


def _list(op: ListNamespacesOp, rows: Rows, queries: Mapping[str, Vector], now: float) -> list[Namespace]:
    rows.sweep(now)
    return listed(rows.namespaces(), op)


def _put(address: Address, op: PutOp, vectors: list[Vector], rows: Rows, now: float) -> None:
    namespace, key = address
    if op.value is None:
        rows.drop(namespace, key)
        return
    before = rows.get(namespace, key)
    written = datetime.now(UTC)
    entry = Entry(
        value=dict(op.value),
        created=before.created if before is not None and _alive(before, now) else written,
        updated=written,
        vectors=vectors,
        ttl=op.ttl,
        expires=None if op.ttl is None else now + op.ttl * 60,
    )
    rows.put(namespace, key, entry)


READS: dict[type, Callable[..., Result]] = {GetOp: _get, SearchOp: _search, ListNamespacesOp: _list}

__all__ = ["Blocking", "Entry", "Index", "Namespace", "OnLoop", "Prepared", "Rows", "execute"]
