"""What the maps of a checkpoint say otherwise than a whole block, found by comparing or step by step."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from threadmark.checkpoint.layout.columns import numbers_packed, places_packed, texts_packed
from threadmark.checkpoint.layout.program import varint
from threadmark.checkpoint.layout.row_maps import PACKED, Maps, Whole, keys_of
from threadmark.checkpoint.layout.versions import Version, pack_version

__all__ = ["Changes", "Moved", "compared"]

_ABSENT: Final = object()
_EXACT: Final = frozenset((str, int, bytes))
_FEW: Final = 8
_PACKED: Final = bytes((PACKED,))


class Moved(NamedTuple):
    """All that may differ from another checkpoint's maps, which have no channel and no node that is gone since.

    ``channels`` have another version, or another value or none any more; ``nodes`` have seen something. ``surely``:
    nothing can be gone.
    """

    channels: Collection[str]
    nodes: Collection[str]
    surely: bool = False


class Changes:
    """What maps say otherwise than a whole block. ``advance`` turns it into what later maps say, in place.

    Names and versions are told by numbers: those of the whole block, and own ones behind them. A number is a character
    and a list of numbers a string, since Python joins, copies and packs strings in one call.
    """

    __slots__ = (
        "_added", "_gone", "_kept", "_packed", "_places", "_rows", "_seen", "_stamps", "_texts", "_updated",
        "_versions", "_whole",
    )  # fmt: skip

    def __init__(self, whole: Whole) -> None:
        self._whole = whole
        self._places = dict(whole.numbers.names)
        """The numbers of names."""
        self._stamps: dict[Any, str] = dict(whole.numbers.versions)
        """The numbers of versions by their keys, see ``keys_of``."""
        self._texts: list[str] = []
        """Its own names, in order."""
        self._added = 0
        """How many versions are its own."""
        self._packed = bytearray()
        """These as bytes."""
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
        versions, seen = self._versions, self._seen
        if not self._whole.plain or self._added > _FEW + 2 * (len(versions) + len(seen)):
            return False
        rows, kept, old = self._rows, self._kept, self._whole.maps.values
        place_of, stamp_of, told, ref_of = self._places.get, self._stamps.get, maps.versions, maps.values.get
        try:
            for channel in moved.channels:
                place = place_of(channel) or self._name(channel)
                versions[place] = stamp_of(version := told[channel]) or self._stamp(version)
                ref = ref_of(channel)
                if type(ref) is bytes:
                    kept[place] = ref
                elif place in kept:
                    del kept[place]
                if type(ref) is int:
                    rows[place] = ref
                elif place in rows:
                    del rows[place]
                if channel in old:
                    missing = self._gone[1].replace(place, "")
                    self._gone[1] = missing + place if ref is None else missing
            for node in moved.nodes:
                each = maps.seen[node]
                names = [place_of(name) or self._name(name) for name in each]
                stamps = [stamp_of(version) or self._stamp(version) for version in each.values()]
                seen[place_of(node) or self._name(node)] = "".join(names), "".join(stamps)
        except TypeError:  # a version that is no string
            return False
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
        return b"".join(
            (
                texts_packed(self._texts),
                _PACKED,
                varint(self._added),
                self._packed,
                numbers_packed(counts),
                places_packed("".join([*versions, *rows, *kept, *seen, *gone, updated or "", *names])),
                places_packed("".join([*versions.values(), *stamps])),
                numbers_packed(rows.values()),
                *kept.values(),
            )
        )

    def _of_names(self, names: Iterable[str]) -> str:
        place_of = self._places.get
        return "".join([place_of(name) or self._name(name) for name in names])

    def _name(self, name: str) -> str:
        """A number for a new name."""
        place = self._places[name] = chr(len(self._places))
        self._texts.append(name)
        return place

    def _stamp(self, version: Version) -> str:
        """A number for a new version; TypeError for one that is no string."""
        if type(version) is not str:
            raise TypeError
        return self._stamp_as(version, version)

    def _stamp_as(self, key: Hashable, version: Version) -> str:
        self._packed += pack_version(version)
        self._added += 1
        number = self._stamps[key] = chr(len(self._stamps))
        return number

    def _of_versions(self, told: Collection[Version]) -> str:
        stamp_of = self._stamps.get
        pairs = zip(keys_of(told), told, strict=True)
        return "".join([stamp_of(key) or self._stamp_as(key, version) for key, version in pairs])

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
