"""The maps of a checkpoint as one block of columns: all of them, or what differs from a whole block."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Final, TypeAlias, cast

from threadmark.checkpoint.layout.columns import put_numbers, put_texts, take_numbers, take_texts
from threadmark.checkpoint.layout.program import put_varint, take_varint
from threadmark.checkpoint.layout.versions import Version, pack_version, unpack_versions

__all__ = ["EMPTY", "Maps", "ValueRef", "Whole", "index_maps", "pack_maps", "pack_whole", "parse_maps"]

ValueRef: TypeAlias = "int | bytes"
"""Where a channel's value is: the id of its value row, or a tiny value itself, kept in the row."""

_FIXED: Final = 8
_GREATEST: Final = (1 << 63) - 1
_ABSENT: Final = object()
_TEXT_ONLY: Final = frozenset((str,))
_FEW: Final = 8
_EXACT: Final = frozenset((str, int, bytes))


@dataclass(frozen=True, slots=True)
class Maps:
    """Versions, versions seen by node, values by channel, and the channels updated (None: not known)."""

    versions: Mapping[str, Version]
    seen: Mapping[str, Mapping[str, Version]]
    values: Mapping[str, ValueRef]
    updated: Sequence[str] | None = None


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
    def name_index(self) -> dict[str, int]:
        """Name -> number. Only a writer needs it."""
        return {name: number for number, name in enumerate(self.names)}

    @cached_property
    def version_index(self) -> dict[Hashable, int]:
        """Version -> number; one that is no string by its bytes."""
        return {_key(version): number for number, version in enumerate(self.versions)}

    @cached_property
    def plain(self) -> bool:
        """All versions are strings, so that equal means the same."""
        return set(map(type, self.versions)) <= _TEXT_ONLY


EMPTY: Final = Whole(Maps({}, {}, {}), (), ())


def pack_maps(maps: Maps, whole: Whole = EMPTY) -> bytes:
    """The block of what ``maps`` says otherwise than ``whole``; with the empty whole: of everything."""
    return _pack(maps, whole)[0]


def pack_whole(maps: Maps, extra: bytes) -> tuple[bytes, Whole]:
    """The block of everything, and what ``index_maps`` makes of it and ``extra``, in copies of its own."""
    block, names, versions = _pack(maps, EMPTY)
    seen = {node: dict(versions) for node, versions in maps.seen.items()}
    own = Maps(dict(maps.versions), seen, dict(maps.values), maps.updated)
    return block, Whole(own, names, versions, extra)


def _pack(maps: Maps, whole: Whole) -> tuple[bytes, list[str], list[Version]]:
    """The block, and the names and versions that it adds to the whole one's.

    One list of all names and one of all versions, so that each is numbered by a single call into C.
    """
    base = whole.maps
    versions = _changed_versions(maps.versions, base.versions, whole.plain)
    values, old = maps.values, base.values
    rows = {name: ref for name, ref in values.items() if type(ref) is int and old.get(name) != ref}
    kept: dict[str, Any] = {name: ref for name, ref in values.items() if type(ref) is not int and old.get(name) != ref}
    seen = _changed_seen(maps.seen, base.seen, whole.plain)
    pairs = [pair for versions in seen.values() for pair in versions.items()]
    gone = [_gone(base.versions, maps.versions), _gone(old, values), _gone(base.seen, maps.seen)]
    updated = maps.updated
    counts = [len(versions), len(rows), len(kept), len(seen), *map(len, gone)]
    counts.append(0 if updated is None else len(updated) + 1)
    counts += map(len, kept.values())
    counts += map(len, seen.values())
    names = [*versions, *rows, *kept, *seen, *chain.from_iterable(gone), *(updated or ())]
    names += [name for name, _ in pairs]
    name_numbers, new_names = _numbered_names(names, whole)
    version_numbers, new_versions = _numbered_versions([*versions.values(), *(version for _, version in pairs)], whole)
    out = bytearray()
    put_texts(out, new_names)
    _put_versions(out, new_versions, as_text=whole is EMPTY)
    for numbers in (counts, name_numbers, version_numbers, list(rows.values())):
        put_numbers(out, numbers)
    return bytes(out) + b"".join(kept.values()), new_names, new_versions


def _changed_versions(new: Mapping[str, Version], old: Mapping[str, Version], plain: bool) -> Mapping[str, Version]:
    if not old:
        return new
    if plain:
        return {name: version for name, version in new.items() if old.get(name, _ABSENT) != version}
    return {name: version for name, version in new.items() if not _same(old.get(name, _ABSENT), version)}


def _changed_seen(
    new: Mapping[str, Mapping[str, Version]], old: Mapping[str, Mapping[str, Version]], plain: bool
) -> Mapping[str, Mapping[str, Version]]:
    changed = {node: seen for node, seen in new.items() if old.get(node) != seen}
    if not plain:
        for node in new.keys() - changed.keys():
            before = old[node]
            if not all(_same(before[name], version) for name, version in new[node].items()):
                changed[node] = new[node]
    return changed


def _same(old: object, new: object) -> bool:
    # 1, 1.0 and True are equal, 0.0 and -0.0 too; each has to come back as itself.
    return old is new or (type(old) is type(new) and type(new) in _EXACT and old == new)


def _gone(old: Mapping[str, object], new: Mapping[str, object]) -> Collection[str]:
    return () if old.keys() <= new.keys() else old.keys() - new.keys()


def _numbered_names(names: list[str], whole: Whole) -> tuple[list[int], list[str]]:
    known = whole.name_index
    try:
        return list(map(known.__getitem__, names)), []
    except KeyError:
        own = [name for name in dict.fromkeys(names) if name not in known]
        index = {name: len(known) + number for number, name in enumerate(own)}
        return [known[name] if name in known else index[name] for name in names], own


def _numbered_versions(versions: list[Version], whole: Whole) -> tuple[list[int], list[Version]]:
    # By kind and value, not by equality: 1 and True are two versions.
    keys: list[Any] = versions
    if not set(map(type, versions)) <= _TEXT_ONLY:
        keys = list(map(_key, versions))
    known, own = whole.version_index, list[Version]()
    numbering = dict[object, int]()
    for key, version in dict(zip(keys, versions, strict=True)).items():
        number = known.get(key)
        if number is None:
            number = len(known) + len(own)
            own.append(version)
        numbering[key] = number
    return list(map(numbering.__getitem__, keys)), own


def _key(version: Version) -> Hashable:
    return version if type(version) is str else pack_version(version)


def _put_versions(out: bytearray, versions: list[Version], *, as_text: bool) -> None:
    # As text they are read at once and compress well; packed they are short without compression.
    if as_text and len(versions) > _FEW and set(map(type, versions)) <= _TEXT_ONLY:
        out.append(1)
        put_texts(out, cast("list[str]", versions))
        return
    out.append(0)
    put_varint(out, len(versions))
    out += b"".join(map(pack_version, versions))


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
    for mapping, count in zip(mappings, gone, strict=True):
        for name in groups.take(count):
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
    if data[at] == 1:
        return take_texts(data, at + 1)
    if data[at]:
        raise ValueError("versions of an unknown form")
    count, at = take_varint(data, at + 1)
    return unpack_versions(data, at, count)
