"""The writes of one task as entries, and the body of their row. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import ormsgpack

from threadmark.errors import DamagedRow

Entry: TypeAlias = tuple[int, str, bytes]
"""One write of a task: place, channel, value."""


def merge_entries(old: Sequence[Entry], new: Sequence[Entry]) -> list[Entry]:
    """The writes of a task after one more call: a regular write stays, a special one gives way (spec 1.8)."""
    kept = {entry[0]: entry for entry in old}
    for entry in new:
        if entry[0] < 0 or entry[0] not in kept:
            kept[entry[0]] = entry
    return [kept[place] for place in sorted(kept)]


def pack_entries(entries: Sequence[Sequence[Any]]) -> bytes:
    """The body of a task row: its entries, one msgpack array."""
    try:
        return ormsgpack.packb(entries)
    except TypeError:  # a channel whose name msgpack does not take as text
        return ormsgpack.packb([(at, name.encode("utf-8", "surrogatepass"), body) for at, name, body in entries])


def unpack_entries(data: bytes) -> list[Entry]:
    """The inverse of ``pack_entries``."""
    entries = unpacked(data)
    if any(type(entry[1]) is bytes for entry in entries):
        return [
            (at, name.decode("utf-8", "surrogatepass") if type(name) is bytes else name, body)
            for at, name, body in entries
        ]
    return entries  # type: ignore[no-any-return]


def unpacked(data: bytes) -> Any:
    """What ``ormsgpack.packb`` made of our own lists; ``DamagedRow`` for anything else."""
    try:
        return ormsgpack.unpackb(data)
    except ValueError as error:
        raise DamagedRow(f"a stored row is no list of ours ({error}); restore the database from a backup") from error
