"""What one look at every row of a thread tells: counts, sizes, classes, what is wrong with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from threadmark.interop.carried import Carried
from threadmark.interop.peer_values import named_in_pickle
from threadmark.interop.rows import StoredCheckpoint, StoredWrite, ThreadRows, Unreadable, same

__all__ = ["Survey", "survey"]


@dataclass(slots=True)
class Survey:
    """What is known of a thread after each of its rows has been decoded once."""

    problems: list[str] = field(default_factory=list)
    """What could not be read."""
    checkpoints: int = 0
    writes: int = 0
    values: int = 0
    carried: int = 0
    """Values that go along as bytes, because their classes are not known here."""
    classes: Counter[str] = field(default_factory=Counter)
    """Those classes, ``"module:qualname"``, and in how many values each is."""
    pickles: Counter[str] = field(default_factory=Counter)
    """What pickled values would import, and how many do."""
    sizes: Counter[str] = field(default_factory=Counter)
    """Stored bytes by channel."""
    late: Counter[str] = field(default_factory=Counter)
    """Channels whose value differs from the parent's although its version is the same."""
    sealed: int = 0
    """Rows that are encrypted."""
    plain: int = 0
    """Rows that are not."""


def survey(rows: ThreadRows) -> Survey:
    """Decode every row of a thread once, and remember what was seen, not the values."""
    found = Survey(list(rows.problems), len(rows.heads), len(rows.writes))
    found.sealed = sum(1 for problem in rows.problems if "encrypted with" in problem)
    for head in rows.heads:
        try:
            one = rows.at(head.place)
        except Unreadable as error:
            found.problems.append(f"checkpoint {head.id} in namespace {head.ns!r}: {error}")
            found.checkpoints -= 1
            found.sealed += "encrypted with" in str(error)
            continue
        if one is not None:
            _see(found, one, _parent(rows, one))
    for write in rows.writes:
        _see_write(found, write)
    return found


def _parent(rows: ThreadRows, one: StoredCheckpoint) -> StoredCheckpoint | None:
    try:
        return rows.parent(one)
    except Unreadable:  # it is told of where it stands
        return None


def _see(found: Survey, one: StoredCheckpoint, parent: StoredCheckpoint | None) -> None:
    found.sizes.update(one.sizes)
    found.sealed, found.plain = found.sealed + one.sealed, found.plain + (not one.sealed)
    for value in one.checkpoint["channel_values"].values():
        _see_value(found, value)
    if parent is not None:
        found.late.update(_changed_late(one, parent))


def _changed_late(one: StoredCheckpoint, parent: StoredCheckpoint) -> Iterator[str]:
    versions, old = one.checkpoint["channel_versions"], parent.checkpoint["channel_versions"]
    before = parent.checkpoint["channel_values"]
    for channel, value in one.checkpoint["channel_values"].items():
        if channel in before and versions.get(channel) == old.get(channel) and not same(value, before[channel]):
            yield channel


def _see_write(found: Survey, write: StoredWrite) -> None:
    found.sizes[write.channel] += write.size
    if write.sealed or write.value is not None:  # an empty value says nothing
        found.sealed, found.plain = found.sealed + write.sealed, found.plain + (not write.sealed)
    _see_value(found, write.value)


def _see_value(found: Survey, value: Any) -> None:
    found.values += 1
    if type(value) is not Carried:
        return
    found.carried += 1
    found.classes.update(value.classes)
    if value.typed[0] == "pickle":
        found.pickles[", ".join(named_in_pickle(value.typed[1])) or "plain data"] += 1
