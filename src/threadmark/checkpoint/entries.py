"""The writes of one task as entries, and the body of their row. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias, cast

import ormsgpack

from threadmark.errors import DamagedRow

Entry: TypeAlias = tuple[int, str, bytes]
"""One write of a task: place, channel, value."""
_TYPES: Final = [int, str, bytes]


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
    """The inverse of ``pack_entries``; ``DamagedRow`` for anything else."""
    found = unpacked(data)
    if type(found) is list:
        entries = [item if type(item) is list and [*map(type, item)] == _TYPES else _entry(item) for item in found]
        if None not in entries:
            return cast("list[Entry]", entries)
    raise DamagedRow("a task's row is no list of its writes; restore the database from a backup")


def _entry(item: Any) -> Entry | None:
    """An entry whose channel's name msgpack does not take as text; None for what is no entry."""
    if type(item) is not list or [*map(type, item)] != [int, bytes, bytes]:
        return None
    at, name, body = item
    try:
        return at, name.decode("utf-8", "surrogatepass"), body
    except UnicodeDecodeError:
        return None


def unpacked(data: bytes) -> Any:
    """What ``ormsgpack.packb`` made of our own lists; ``DamagedRow`` for anything else."""
    try:
        return ormsgpack.unpackb(data)
    except ValueError as error:
        raise DamagedRow(
            f"a stored row is no list of ours ({error}); if it is encrypted, put its key into THREADMARK_AES_KEY or "
            f"give it to the saver, else restore the database from a backup"
        ) from error
