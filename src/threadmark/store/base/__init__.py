"""The store contract: memory that outlives threads (spec 15).

A store keeps dicts under a namespace and a key, independent of checkpoints: forking or replaying a thread does not
undo what its nodes stored. A backend writes ``batch`` and ``abatch``; everything else is made of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

from threadmark.store.base.embed import Embeddings, ensure_embeddings, get_text_at_path, tokenize_path
from threadmark.store.base.items import (
    GetOp,
    IndexConfig,
    InvalidFilterError,
    InvalidItemError,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    NamespaceMatchType,
    NamespacePath,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    StoreError,
    TTLConfig,
    check_item,
    check_labels,
    check_namespace,
)

# Stored values and error reports name these by the module that people import them from.
for _kind in (Item, SearchItem, GetOp, SearchOp, PutOp, ListNamespacesOp, MatchCondition, InvalidNamespaceError):
    _kind.__module__ = __name__


class NotProvided:
    """The type of ``NOT_PROVIDED``: a time to live that the caller left to the store."""

    def __repr__(self) -> str:
        return "NOT_PROVIDED"

    def __bool__(self) -> bool:
        return False


NOT_PROVIDED = NotProvided()


class BaseStore(ABC):
    """Long-term memory: dicts by namespace and key. Methods whose name starts with ``a`` are for event loops."""

    supports_ttl: bool = False
    """Whether items can expire."""
    ttl_config: TTLConfig | None = None

    @abstractmethod
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several operations; one result each, in order.

        What they read is the store as it was before any of them wrote; of several writes to one key the last counts.
        """

    @abstractmethod
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The same as ``batch`` on the running event loop."""

    async def _aone(self, op: Op) -> Result:
        return (await self.abatch([op]))[0]

    # -- one item ----------------------------------------------------------------------------------------------------

    def get(self, namespace: tuple[str, ...], key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        """The item at an address, or None.

        ``refresh_ttl``: whether this starts its time to live anew; None for what the store is set to.
        """
        return cast("Item | None", self.batch([self._get(namespace, key, refresh_ttl)])[0])

    async def aget(self, namespace: tuple[str, ...], key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        """The same as ``get`` on the running event loop."""
        return cast("Item | None", await self._aone(self._get(namespace, key, refresh_ttl)))

    def put(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | None | NotProvided = NOT_PROVIDED,
    ) -> None:
        """Write an item, over an older one if there is one.

        Args:
            namespace: Where; at least one label.
            key: Its name there.
            value: A dict with text keys.
            index: Paths to make searchable; by default the store's own, False for none.
            ttl: Minutes until it expires; None for never; by default what the store is set to.

        Raises:
            InvalidNamespaceError: for a namespace that is empty or has an empty label or one with a period.
            InvalidItemError: for a key or value of another kind.
            NotImplementedError: for a ``ttl`` in a store whose items do not expire.
        """
        self.batch([self._put(namespace, key, value, index, ttl)])

    async def aput(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | None | NotProvided = NOT_PROVIDED,
    ) -> None:
        """The same as ``put`` on the running event loop."""
        await self._aone(self._put(namespace, key, value, index, ttl))

    def delete(self, namespace: tuple[str, ...], key: str) -> None:
        """Delete an item; nothing happens when there is none."""
        self.batch([PutOp(check_labels(namespace), key, None)])

    async def adelete(self, namespace: tuple[str, ...], key: str) -> None:
        """The same as ``delete`` on the running event loop."""
        await self._aone(PutOp(check_labels(namespace), key, None))

    # -- many --------------------------------------------------------------------------------------------------------

    def search(
        self,
        namespace_prefix: tuple[str, ...],
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """Items under a prefix, ``()`` for all.

        Args:
            namespace_prefix: The first labels of their namespaces.
            query: Order by likeness to this text, best first, where the store has an index; items that are not in it
                come last, without a score.
            filter: Key -> what it must equal, or ``{"$gt": 3}``; $eq, $ne, $gt, $gte, $lt, $lte. All must hold.
            limit: At most so many.
            offset: Leave out the first so many.
            refresh_ttl: As for ``get``.

        Raises:
            InvalidFilterError: for an operator that does not exist.
        """
        op = self._search(namespace_prefix, query, filter, limit, offset, refresh_ttl)
        return cast("list[SearchItem]", self.batch([op])[0])

    async def asearch(
        self,
        namespace_prefix: tuple[str, ...],
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """The same as ``search`` on the running event loop."""
        op = self._search(namespace_prefix, query, filter, limit, offset, refresh_ttl)
        return cast("list[SearchItem]", await self._aone(op))

    def list_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[tuple[str, ...]]:
        """The namespaces that hold something, in order.

        Args:
            prefix: What they begin with; ``"*"`` stands for any one label.
            suffix: What they end with.
            max_depth: Cut them to so many labels.
            limit: At most so many.
            offset: Leave out the first so many.
        """
        op = _listing(prefix, suffix, max_depth, limit, offset)
        return cast("list[tuple[str, ...]]", self.batch([op])[0])

    async def alist_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[tuple[str, ...]]:
        """The same as ``list_namespaces`` on the running event loop."""
        op = _listing(prefix, suffix, max_depth, limit, offset)
        return cast("list[tuple[str, ...]]", await self._aone(op))

    # -- calls to operations -----------------------------------------------------------------------------------------

    def _get(self, namespace: tuple[str, ...], key: str, refresh_ttl: bool | None) -> GetOp:
        return GetOp(check_labels(namespace), key, self._refreshes(refresh_ttl))

    def _put(self, namespace: tuple[str, ...], key: str, value: Mapping[str, Any], index: Any, ttl: Any) -> PutOp:
        check_item(key, value)
        minutes = (self.ttl_config or {}).get("default_ttl") if isinstance(ttl, NotProvided) else ttl
        if minutes is not None and not self.supports_ttl:
            raise NotImplementedError(f"items of {type(self).__name__} do not expire; leave ttl out")
        return PutOp(check_namespace(namespace), key, value, index=index, ttl=minutes)

    def _search(
        self,
        prefix: tuple[str, ...],
        query: str | None,
        filter: dict[str, Any] | None,
        limit: int,
        offset: int,
        refresh_ttl: bool | None,
    ) -> SearchOp:
        return SearchOp(check_labels(prefix), filter, limit, offset, query, self._refreshes(refresh_ttl))

    def _refreshes(self, asked: bool | None) -> bool:
        return (self.ttl_config or {}).get("refresh_on_read", True) if asked is None else asked


def _listing(prefix: Any, suffix: Any, max_depth: int | None, limit: int, offset: int) -> ListNamespacesOp:
    conditions = [MatchCondition("prefix", tuple(prefix))] if prefix else []
    if suffix:
        conditions.append(MatchCondition("suffix", tuple(suffix)))
    return ListNamespacesOp(tuple(conditions), max_depth, limit, offset)


__all__ = [
    "NOT_PROVIDED",
    "BaseStore",
    "Embeddings",
    "GetOp",
    "IndexConfig",
    "InvalidFilterError",
    "InvalidItemError",
    "InvalidNamespaceError",
    "Item",
    "ListNamespacesOp",
    "MatchCondition",
    "NamespaceMatchType",
    "NamespacePath",
    "NotProvided",
    "Op",
    "PutOp",
    "Result",
    "SearchItem",
    "SearchOp",
    "StoreError",
    "TTLConfig",
    "ensure_embeddings",
    "get_text_at_path",
    "tokenize_path",
]
