"""What a store holds and is asked: items, operations and the conditions in them (spec 15)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict

from threadmark.errors import ThreadmarkError

NamespaceMatchType: TypeAlias = Literal["prefix", "suffix"]
NamespacePath: TypeAlias = tuple[str, ...]
"""Labels; ``"*"`` stands for any one label."""

RESERVED_ROOT = "langgraph"
"""No namespace of a user's may begin with it."""


class StoreError(ThreadmarkError):
    """Base of what stores raise."""


class InvalidNamespaceError(StoreError, ValueError):
    """A namespace is a non-empty tuple of non-empty texts without periods."""


class InvalidItemError(StoreError, TypeError):
    """An item's key is a text, and its value a dict with text keys."""


class InvalidFilterError(StoreError, ValueError):
    """A filter or a namespace condition that no store knows."""


@dataclass(init=False, eq=False, repr=False)
class Item:
    """One stored value with its address. Equal to another with the same content; hashed by address.

    ``created_at`` and ``updated_at`` are aware datetimes (or their ISO texts); the first survives updates.
    """

    __slots__ = ("created_at", "key", "namespace", "updated_at", "value")

    value: dict[str, Any]
    key: str
    namespace: tuple[str, ...]
    created_at: datetime
    updated_at: datetime

    def __init__(
        self,
        *,
        value: dict[str, Any],
        key: str,
        namespace: tuple[str, ...],
        created_at: datetime | str,
        updated_at: datetime | str,
    ) -> None:
        self.value = value
        self.key = key
        self.namespace = tuple(namespace)
        self.created_at = _time(created_at)
        self.updated_at = _time(updated_at)

    def dict(self) -> dict[str, Any]:
        """The item as plain JSON values."""
        return {
            "namespace": list(self.namespace),
            "key": self.key,
            "value": self.value,
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Item) and self.dict() == other.dict()

    def __hash__(self) -> int:
        return hash((self.namespace, self.key))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.dict().items())})"


@dataclass(init=False, eq=False, repr=False)
class SearchItem(Item):
    """An item as a search found it. ``score`` is the likeness to the query, 1 at best; None without one."""

    __slots__ = ("score",)

    score: float | None

    def __init__(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: dict[str, Any],
        created_at: datetime | str,
        updated_at: datetime | str,
        score: float | None = None,
    ) -> None:
        super().__init__(value=value, key=key, namespace=namespace, created_at=created_at, updated_at=updated_at)
        self.score = score

    def dict(self) -> dict[str, Any]:
        return {**super().dict(), "score": self.score}


def _time(value: datetime | str) -> datetime:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


class GetOp(NamedTuple):
    """Read one item."""

    namespace: tuple[str, ...]
    key: str
    refresh_ttl: bool = True
    """Whether reading starts its time to live anew."""


class SearchOp(NamedTuple):
    """Find items under a prefix."""

    namespace_prefix: tuple[str, ...]
    filter: dict[str, Any] | None = None
    """Key of the value -> what it must equal, or ``{"$gt": 3, ...}`` with $eq $ne $gt $gte $lt $lte."""
    limit: int = 10
    offset: int = 0
    query: str | None = None
    """Order by likeness to this text, where the store has an index."""
    refresh_ttl: bool = True


class MatchCondition(NamedTuple):
    """What a namespace must begin or end with; ``"*"`` stands for any one label."""

    match_type: NamespaceMatchType
    path: NamespacePath


class ListNamespacesOp(NamedTuple):
    """List the namespaces that hold something, in order."""

    match_conditions: tuple[MatchCondition, ...] | None = None
    """All of them must hold."""
    max_depth: int | None = None
    """Cut namespaces to so many labels; each is listed once."""
    limit: int = 100
    offset: int = 0


class PutOp(NamedTuple):
    """Write one item, or delete it with ``value=None``."""

    namespace: tuple[str, ...]
    key: str
    value: Mapping[str, Any] | None
    index: Literal[False] | list[str] | None = None  # type: ignore[assignment]
    """Paths of the value to make searchable; None for the store's own, False for none."""
    ttl: float | None = None
    """Minutes until it expires; None for never."""


Op: TypeAlias = GetOp | SearchOp | PutOp | ListNamespacesOp
Result: TypeAlias = Item | list[Item] | list[SearchItem] | list[tuple[str, ...]] | None


class TTLConfig(TypedDict, total=False):
    """How long items live. Times are in minutes."""

    default_ttl: float | None
    """For items put without a ``ttl``; None for ever."""
    refresh_on_read: bool
    """Whether reading an item starts its time anew; True by default."""
    sweep_interval_minutes: int | None
    """How often expired items are deleted, in stores that do so by themselves."""
    omit_expired: bool
    """Whether reads leave expired items out before they are deleted."""


class IndexConfig(TypedDict, total=False):
    """How items become searchable by meaning."""

    dims: int
    """Length of the vectors."""
    embed: Any
    """An object with ``embed_documents`` and ``embed_query``; a function (or async one) from texts to vectors; or the
    name of a model, ``"provider:model"``, which needs LangChain."""
    fields: list[str] | None
    """Paths of the texts in a value, such as ``"title"`` or ``"parts[*].text"``; by default all of it, as JSON."""


def check_labels(namespace: Any) -> tuple[str, ...]:
    """The namespace as a tuple; ``InvalidNamespaceError`` names the label that does not do."""
    if not isinstance(namespace, (tuple, list)):
        raise InvalidNamespaceError(f"a namespace is a tuple of texts, not {namespace!r}; write ({namespace!r},)")
    for label in namespace:
        if not isinstance(label, str):
            raise InvalidNamespaceError(f"{label!r} in namespace {namespace!r} is no text")
        if not label:
            raise InvalidNamespaceError(f"namespace {namespace!r} has an empty label")
        if "." in label:
            raise InvalidNamespaceError(f"label {label!r} of namespace {namespace!r} has a period; use another mark")
    return tuple(namespace)


def check_namespace(namespace: Sequence[str]) -> tuple[str, ...]:
    """The same for a namespace that is written to: it has a label, and is not one of the reserved ones."""
    labels = check_labels(namespace)
    if not labels:
        raise InvalidNamespaceError("an item needs a namespace with at least one label")
    if labels[0] == RESERVED_ROOT:
        raise InvalidNamespaceError(f"namespaces that begin with {RESERVED_ROOT!r} are reserved: {labels!r}")
    return labels


def check_item(key: Any, value: Any) -> None:
    """Raise ``InvalidItemError`` for a key or value of the wrong kind."""
    if not isinstance(key, str):
        raise InvalidItemError(f"a key is a text, not {key!r}")
    if value is not None and (not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value)):
        raise InvalidItemError(f"a value is a dict with text keys, not {value!r}; put it under a key of a dict")
