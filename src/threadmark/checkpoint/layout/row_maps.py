"""The maps of a checkpoint as one block of columns: all of them, or what differs from a whole block."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain, count
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

from threadmark.checkpoint.layout.columns import numbers_packed, places_packed, take_numbers, take_texts, texts_packed
from threadmark.checkpoint.layout.program import take_varint, varint
from threadmark.checkpoint.layout.versions import Version, pack_version, unpack_versions

__all__ = [
    "EMPTY", "PACKED", "TEXT_ONLY", "Maps", "Numbers", "ValueRef", "Whole", "index_maps", "keys_of", "pack_whole",
    "parse_maps",
]  # fmt: skip

ValueRef: TypeAlias = "int | bytes"
"""Where a channel's value is: the id of its value row, or a tiny value itself, kept in the row."""

K = TypeVar("K", bound=Hashable)

_FIXED: Final = 8
PACKED: Final = 0
_AS_TEXT: Final = 1
_GREATEST: Final = (1 << 63) - 1
TEXT_ONLY: Final = frozenset((str,))
_FEW: Final = 8


class Maps(NamedTuple):
    """Versions, versions seen by node, values by channel, and the channels updated (None: not known)."""

    versions: Mapping[str, Version]
    seen: Mapping[str, Mapping[str, Version]]
    values: Mapping[str, ValueRef]
    updated: Sequence[str] | None = None


class Numbers(NamedTuple):
    """The numbers of a whole block's names and versions (by their keys, see ``keys_of``), each a character."""

    names: Mapping[str, str]
    versions: Mapping[Hashable, str]


class Whole:
    """Maps, and the numbers by which changes refer to their names and versions. Never changed.

    ``extra`` are the bytes that stood behind its block, the extra of the row that it was made for.
    """

    def __init__(self, maps: Maps, names: Sequence[str], versions: Sequence[Version], extra: bytes = b"") -> None:
        self.maps = maps
        self.extra = extra
        self.names = names
        self.versions = versions

    @cached_property
    def numbers(self) -> Numbers:
        """The numbers of its names and versions. Only a writer needs them."""
        return Numbers(_numbered(self.names), _numbered(keys_of(self.versions)))

    @cached_property
    def plain(self) -> bool:
        """All versions are strings, so that equal means the same."""
        return set(map(type, self.versions)) <= TEXT_ONLY


EMPTY: Final = Whole(Maps({}, {}, {}), (), ())


def pack_whole(maps: Maps, extra: bytes) -> tuple[bytes, Callable[[], Whole]]:
    """The block of everything, and what makes of it and ``extra`` what ``index_maps`` makes, in copies of its own.

    Its numbers are those of ``Whole.numbers``; each of the two texts and lists is made by few calls into C.
    """
    versions, seen, values, updated = maps
    kept: dict[str, Any] = {name: ref for name, ref in values.items() if type(ref) is not int}
    rows = {name: ref for name, ref in values.items() if type(ref) is int} if len(kept) < len(values) else {}
    names = [*versions, *rows, *kept, *seen, *(updated or ()), *chain.from_iterable(seen.values())]
    told = [*versions.values(), *chain.from_iterable([each.values() for each in seen.values()])]
    keys = keys_of(told)
    texts, by_key = list(dict.fromkeys(names)), dict(zip(keys, told, strict=True))
    known, counted = _numbered(texts), _numbered(by_key)
    counts = [
        len(versions), len(rows), len(kept), len(seen), 0, 0, 0, 0 if updated is None else len(updated) + 1,
        *map(len, kept.values()), *map(len, seen.values()),
    ]  # fmt: skip
    added = list(by_key.values())
    # As text they are read at once and compress well; packed they are short without compression.
    if len(added) > _FEW and set(map(type, added)) <= TEXT_ONLY:
        stamps = bytes((_AS_TEXT,)) + texts_packed(cast("list[str]", added))
    else:
        stamps = bytes((PACKED,)) + varint(len(added)) + b"".join(map(pack_version, added))
    parts = (
        texts_packed(texts),
        stamps,
        numbers_packed(counts),
        places_packed("".join(map(known.__getitem__, names))),
        places_packed("".join(map(counted.__getitem__, keys))),
        numbers_packed(rows.values()),
        *kept.values(),
    )

    def whole() -> Whole:
        own = Maps(dict(versions), dict(zip(seen, map(dict, seen.values()), strict=True)), dict(values), updated)
        made = Whole(own, texts, added, extra)
        made.numbers = Numbers(known, counted)
        return made

    return b"".join(parts), whole


def _numbered(keys: Iterable[K]) -> dict[K, str]:
    return dict(zip(keys, map(chr, count()), strict=False))


def keys_of(versions: Collection[Version]) -> Sequence[Hashable]:
    """What stands for versions in a table: by kind and value, not by equality, since 1 and True are two versions."""
    if set(map(type, versions)) <= TEXT_ONLY:
        return list(cast("Collection[str]", versions))
    return [version if type(version) is str else pack_version(version) for version in versions]


def index_maps(data: bytes) -> Whole:
    """A whole block with its numbers and what is behind it. Raises as ``parse_maps`` does."""
    maps, names, versions, at = _parse(data, 0, EMPTY)
    return Whole(maps, names, versions, data[at:])


def parse_maps(data: bytes, at: int, whole: Whole = EMPTY) -> tuple[Maps, int]:
    """The maps of a block at ``at``, given the whole block that it was packed against, and the end of it.

    IndexError, KeyError, ValueError or struct.error when the bytes are no such block.
    """
    maps, _, _, at = _parse(data, at, whole)
    return maps, at


def _parse(data: bytes, at: int, whole: Whole) -> tuple[Maps, list[str], list[Version], int]:
    texts, at = take_texts(data, at)
    names = [*whole.names, *texts]
    added, at = _take_versions(data, at)
    versions = [*whole.versions, *added]
    counts, at = take_numbers(data, at)
    numbers, at = take_numbers(data, at)
    named = list(map(names.__getitem__, numbers))
    numbers, at = take_numbers(data, at)
    valued = list(map(versions.__getitem__, numbers))
    ids, at = take_numbers(data, at)
    if ids and max(ids) > _GREATEST:
        raise ValueError("value ids end at 2**63-1")
    changed, rows, kept, nodes, *gone, updated = counts[:_FIXED]
    sizes, node_sizes = counts[_FIXED : _FIXED + kept], counts[_FIXED + kept :]
    groups = _Groups(named)
    new_versions = {**whole.maps.versions, **dict(zip(groups.take(changed), valued[:changed], strict=True))}
    values = {**whole.maps.values, **dict(zip(groups.take(rows), ids, strict=True))}
    for name, size in zip(groups.take(kept), sizes, strict=True):
        values[name] = data[at : at + size]
        at += size
    node_names = groups.take(nodes)
    seen = dict(whole.maps.seen)
    mappings: tuple[dict[str, Any], ...] = (new_versions, values, seen)
    for mapping, missing in zip(mappings, gone, strict=True):
        for name in groups.take(missing):
            del mapping[name]
    updated_names = groups.take(updated - 1) if updated else None
    pairs = list(zip(groups.take(len(named) - groups.at), valued[changed:], strict=True))
    seen.update(_grouped(node_names, node_sizes, pairs))
    if at > len(data):
        raise IndexError
    return Maps(new_versions, seen, values, updated_names), names, versions, at


class _Groups:
    """Takes runs of names off one list."""

    def __init__(self, names: list[str]) -> None:
        self._names, self.at = names, 0

    def take(self, count: int) -> list[str]:
        """The next ``count`` names."""
        taken = self._names[self.at : self.at + count]
        if len(taken) != count:
            raise IndexError
        self.at += count
        return taken


def _grouped(nodes: list[str], sizes: Sequence[int], pairs: list[tuple[str, Version]]) -> dict[str, dict[str, Version]]:
    seen, at = dict[str, dict[str, Version]](), 0
    for node, size in zip(nodes, sizes, strict=True):
        seen[node] = dict(pairs[at : at + size])
        at += size
    if at != len(pairs):
        raise ValueError("versions seen are not as many as it says")
    return seen


def _take_versions(data: bytes, at: int) -> tuple[Sequence[Version], int]:
    if data[at] == _AS_TEXT:
        return take_texts(data, at + 1)
    if data[at] != PACKED:
        raise ValueError("versions of an unknown form")
    count, at = take_varint(data, at + 1)
    return unpack_versions(data, at, count)
