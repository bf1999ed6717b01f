"""What the maps of a checkpoint say otherwise than a whole block, found by comparing or step by step."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple, cast

from threadmark.checkpoint.layout.columns import put_numbers, put_places, put_texts
from threadmark.checkpoint.layout.program import varint
from threadmark.checkpoint.layout.row_maps import PACKED, TEXT_ONLY, Maps, Numbers, Whole, keys_of
from threadmark.checkpoint.layout.versions import Version

__all__ = ["Changes", "Moved", "advanced", "compared", "pack_maps", "unchanged"]

_ABSENT: Final = object()
_EXACT: Final = frozenset((str, int, bytes))
_FEW: Final = 8


class Moved(NamedTuple):
    """All that may differ from another checkpoint's maps, which have no channel and no node that is gone since.

    ``channels`` have another version, or another value or none any more; ``nodes`` have seen something.
    """

    channels: Collection[str]
    nodes: Collection[str]


class Changes(NamedTuple):
    """What maps say otherwise than a whole block, by numbers (see ``Numbers``). Never changed.

    ``seen`` has names and versions by that of a node. ``gone`` are channels without a version, channels without a
    value, and nodes; ``updated`` are the maps' own.
    """

    numbers: Numbers
    versions: Mapping[str, str]
    rows: Mapping[str, int]
    kept: Mapping[str, bytes]
    seen: Mapping[str, tuple[str, str]]
    gone: tuple[str, str, str]
    updated: str | None

    def is_stale(self) -> bool:
        """Whether most versions that it adds are those of earlier rows."""
        return len(self.numbers.added) > _FEW + 2 * (len(self.versions) + len(self.seen))


def unchanged(whole: Whole) -> Changes:
    """The changes of the row that a whole block was made for."""
    numbers, updated = whole.numbers, whole.maps.updated
    told = None if updated is None else numbers.of_names(updated)
    return Changes(numbers, {}, {}, {}, {}, ("", "", ""), told)


def compared(maps: Maps, whole: Whole) -> Changes:
    """What ``maps`` say otherwise than ``whole``."""
    base, updated = whole.maps, maps.updated
    versions = _changed_versions(maps.versions, base.versions, whole.plain)
    values, old = maps.values, base.values
    rows = {name: ref for name, ref in values.items() if type(ref) is int and old.get(name) != ref}
    kept: dict[str, Any] = {name: ref for name, ref in values.items() if type(ref) is not int and old.get(name) != ref}
    seen = _changed_seen(maps.seen, base.seen, whole.plain)
    told = [*versions.values(), *chain.from_iterable([each.values() for each in seen.values()])]
    keys = keys_of(told)
    numbers = whole.numbers.including(
        (*versions, *rows, *kept, *seen, *(updated or ()), *chain.from_iterable(seen.values())), keys, told
    )
    names, of_versions = numbers.of_names, numbers.of_versions
    pairs = [(names(each), of_versions(keys_of(each.values()))) for each in seen.values()]
    gone = (_gone(base.versions, maps.versions), _gone(old, values), _gone(base.seen, maps.seen))
    return Changes(
        numbers,
        dict(zip(names(versions), of_versions(keys[: len(versions)]), strict=True)),
        dict(zip(names(rows), rows.values(), strict=True)),
        dict(zip(names(kept), kept.values(), strict=True)),
        dict(zip(names(seen), pairs, strict=True)),
        (names(gone[0]), names(gone[1]), names(gone[2])),
        None if updated is None else names(updated),
    )


def advanced(changes: Changes, whole: Whole, maps: Maps, moved: Moved) -> Changes | None:
    """``compared(maps, whole)`` from ``changes``, those of maps from which ``moved`` is all that differs.

    A superstep in a graph of 50 nodes takes a fifth of comparing all. None where it does not serve: versions that are
    no strings, or changes that add too many old ones.
    """
    channels, nodes, updated = *moved, maps.updated or ()
    if not whole.plain or changes.is_stale():
        return None
    looks = list(map(maps.seen.__getitem__, nodes))
    told = list(map(maps.versions.__getitem__, channels))
    told += chain.from_iterable([each.values() for each in looks])
    if not set(map(type, told)) <= TEXT_ONLY:
        return None
    versions = cast("list[str]", told)
    names = (*channels, *nodes, *updated, *chain.from_iterable(looks))
    numbers = changes.numbers.including(names, versions, versions)
    places = numbers.of_names(channels)
    counted, rows, kept, seen = dict(changes.versions), dict(changes.rows), dict(changes.kept), dict(changes.seen)
    counted.update(zip(places, numbers.of_versions(versions[: len(places)]), strict=True))
    missing, old, values = changes.gone[1], whole.maps.values, maps.values
    for name, place in zip(channels, places, strict=True):
        rows.pop(place, None)
        kept.pop(place, None)
        ref = values.get(name)
        if type(ref) is bytes:
            kept[place] = ref
        elif ref is not None:
            rows[place] = cast(int, ref)
        if name in old:
            missing = missing.replace(place, "") + (place if ref is None else "")
    for node, each in zip(numbers.of_names(nodes), looks, strict=True):
        seen[node] = (numbers.of_names(each), numbers.of_versions(cast("Iterable[str]", each.values())))
    gone = (changes.gone[0], missing, changes.gone[2])
    return Changes(
        numbers, counted, rows, kept, seen, gone, None if maps.updated is None else numbers.of_names(updated)
    )


def pack_maps(changes: Changes) -> bytes:
    """The block of what is said otherwise than a whole block."""
    numbers, versions, rows, kept, seen, gone, updated = changes
    seen_names, seen_versions = zip(*seen.values(), strict=True) if seen else ((), ())
    counts = [
        len(versions), len(rows), len(kept), len(seen), *map(len, gone), 0 if updated is None else len(updated) + 1,
        *map(len, kept.values()), *map(len, seen_names),
    ]  # fmt: skip
    out = bytearray()
    put_texts(out, list(numbers.names))
    out.append(PACKED)
    out += varint(len(numbers.added)) + numbers.packed
    put_numbers(out, counts)
    put_places(out, "".join([*versions, *rows, *kept, *seen, *gone, updated or "", *seen_names]))
    put_places(out, "".join([*versions.values(), *seen_versions]))
    put_numbers(out, list(rows.values()))
    return bytes(out) + b"".join(kept.values())


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
