"""What the maps of a checkpoint say otherwise than a whole block, found by comparing or step by step."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from threadmark.checkpoint.layout.columns import put_numbers, put_places, put_texts
from threadmark.checkpoint.layout.program import varint
from threadmark.checkpoint.layout.row_maps import PACKED, Maps, Whole, keys_of
from threadmark.checkpoint.layout.versions import Version, pack_version

__all__ = ["Changes", "Moved", "compared"]

_ABSENT: Final = object()
_EXACT: Final = frozenset((str, int, bytes))
_FEW: Final = 8


class Moved(NamedTuple):
    """All that may differ from another checkpoint's maps, which have no channel and no node that is gone since.

    ``channels`` have another version, or another value or none any more; ``nodes`` have seen something.
    """

    channels: Collection[str]
    nodes: Collection[str]


class Changes:
    """What maps say otherwise than a whole block. ``advance`` turns it into what later maps say, in place.

    Names and versions are told by numbers: those of the whole block, and own ones behind them. A number is a character
    and a list of numbers a string, since Python joins, copies and packs strings in one call.
    """

    __slots__ = ("_counted", "_gone", "_kept", "_names", "_packed", "_rows", "_seen", "_updated", "_versions", "_whole")

    def __init__(self, whole: Whole) -> None:
        self._whole = whole
        self._names: dict[str, str] = {}
        """Its own names, in order, with their numbers."""
        self._counted: dict[Hashable, str] = {}
        """Its own versions by their keys (see ``keys_of``), in order."""
        self._packed = bytearray()
        """The same as bytes."""
        self._versions: dict[str, str] = {}
        self._rows: dict[str, int] = {}
        self._kept: dict[str, bytes] = {}
        self._seen: dict[str, tuple[str, str]] = {}
        """Names and versions by that of a node."""
        self._gone = ["", "", ""]
        """Channels without a version, channels without a value, and nodes."""
        updated = whole.maps.updated
        self._updated: str | None = None if updated is None else self._of_names(updated)

    def advance(self, maps: Maps, moved: Moved) -> bool:
        """Go on to ``maps``, from which nothing differs but what has ``moved``: for 50 nodes a tenth of comparing.

        False where that does not serve, and then this is of no use any more: versions that are no strings, or too many
        old ones that it would carry along.
        """
        whole, own, counted, told = self._whole, self._names, self._counted, maps.versions
        if not whole.plain or len(counted) > _FEW + 2 * (len(self._versions) + len(self._seen)):
            return False
        known, stamps, values, old = whole.numbers.names, whole.numbers.versions, maps.values, whole.maps.values
        versions, rows, kept = self._versions, self._rows, self._kept
        for channel in moved.channels:
            version, ref = told[channel], values.get(channel)
            if type(version) is not str:
                return False
            place = own.get(channel) or known.get(channel) or self._name(channel)
            versions[place] = counted.get(version) or stamps.get(version) or self._count(version)
            if type(ref) is bytes:
                kept[place] = ref
                rows.pop(place, None)
            elif ref is not None:
                rows[place] = ref  # type: ignore[assignment]  # an int
                kept.pop(place, None)
            else:
                rows.pop(place, None)
                kept.pop(place, None)
            if channel in old:
                missing = self._gone[1].replace(place, "")
                self._gone[1] = missing + place if ref is None else missing
        for node in moved.nodes:
            names, stamped = "", ""
            for channel, version in maps.seen[node].items():
                if type(version) is not str:
                    return False
                names += own.get(channel) or known.get(channel) or self._name(channel)
                stamped += counted.get(version) or stamps.get(version) or self._count(version)
            self._seen[own.get(node) or known.get(node) or self._name(node)] = names, stamped
        self._updated = None if maps.updated is None else self._of_names(maps.updated)
        return True

    def packed(self) -> bytes:
        """The block of what is said otherwise than the whole block."""
        versions, rows, kept, seen, gone, updated = (
            self._versions, self._rows, self._kept, self._seen, self._gone, self._updated
        )  # fmt: skip
        names, stamps = zip(*seen.values(), strict=True) if seen else ((), ())
        counts = [
            len(versions), len(rows), len(kept), len(seen), *map(len, gone), 0 if updated is None else len(updated) + 1,
            *map(len, kept.values()), *map(len, names),
        ]  # fmt: skip
        out = bytearray()
        put_texts(out, self._names)
        out.append(PACKED)
        out += varint(len(self._counted))
        out += self._packed
        put_numbers(out, counts)
        put_places(out, "".join([*versions, *rows, *kept, *seen, *gone, updated or "", *names]))
        put_places(out, "".join([*versions.values(), *stamps]))
        put_numbers(out, rows.values())
        out += b"".join(kept.values())
        return bytes(out)

    def _of_names(self, names: Iterable[str]) -> str:
        own, known = self._names, self._whole.numbers.names
        return "".join([own.get(name) or known.get(name) or self._name(name) for name in names])

    def _name(self, name: str) -> str:
        own = self._names
        place = own[name] = chr(len(self._whole.numbers.names) + len(own))
        return place

    def _count(self, version: Version, key: Hashable = None) -> str:
        """A number for a version; ``key`` stands for one that is no string."""
        counted = self._counted
        self._packed += pack_version(version)
        number = counted[version if key is None else key] = chr(len(self._whole.numbers.versions) + len(counted))  # type: ignore[index]
        return number

    def _of_versions(self, told: Collection[Version]) -> str:
        counted, stamps = self._counted, self._whole.numbers.versions
        return "".join(
            [
                counted.get(key) or stamps.get(key) or self._count(version, key)
                for key, version in zip(keys_of(told), told, strict=True)
            ]
        )

    def take_differences(self, maps: Maps) -> None:
        """See ``compared``."""
        whole, names = self._whole, self._of_names
        base, values, old = whole.maps, maps.values, whole.maps.values
        versions = _changed_versions(maps.versions, base.versions, whole.plain)
        self._versions = dict(zip(names(versions), self._of_versions(versions.values()), strict=True))
        for name, ref in values.items():
            if old.get(name) != ref:
                if type(ref) is int:
                    self._rows[names((name,))] = ref
                else:
                    self._kept[names((name,))] = ref  # type: ignore[assignment]  # bytes
        for node, each in _changed_seen(maps.seen, base.seen, whole.plain).items():
            self._seen[names((node,))] = names(each), self._of_versions(each.values())
        pairs: tuple[tuple[Mapping[str, Any], Mapping[str, Any]], ...] = (
            (base.versions, maps.versions), (old, values), (base.seen, maps.seen)
        )  # fmt: skip
        self._gone = [
            names(() if before.keys() <= after.keys() else before.keys() - after.keys()) for before, after in pairs
        ]
        self._updated = None if maps.updated is None else names(maps.updated)


def compared(maps: Maps, whole: Whole) -> Changes:
    """What ``maps`` say otherwise than ``whole``."""
    changes = Changes(whole)
    changes.take_differences(maps)
    return changes


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
