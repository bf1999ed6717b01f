"""Copying threads from one store to another, one at a time, each compared value by value afterwards.

A thread is either whole in the target or it is made anew: a migration that was killed is simply started again. So no
notes are kept of what was done; what is there is compared with the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

from threadmark.errors import ThreadmarkError
from threadmark.interop.carried import Carried
from threadmark.interop.rows import Source, ThreadRows, same

__all__ = ["Outcome", "chosen", "migrate", "settle"]

State = Literal["copied", "there already", "would be copied", "failed"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one thread."""

    thread_id: str
    state: State
    checkpoints: int = 0
    writes: int = 0
    values: int = 0
    """Values that were compared, writes included."""
    carried: int = 0
    """Values that went along as bytes, because their classes are not known here."""
    classes: tuple[str, ...] = ()
    """Those classes, ``"module:qualname"``."""
    orphans: int = 0
    """Writes of checkpoints that are not there; they stay behind."""
    problems: tuple[str, ...] = field(default=())


def chosen(thread_ids: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """The threads that match one of these shell patterns; all of them without any."""
    wanted = list(patterns)
    return [one for one in thread_ids if not wanted or any(fnmatchcase(one, pattern) for pattern in wanted)]


def migrate(
    source: Source, target: Any, thread_ids: Iterable[str], *, dry_run: bool = False, replace: bool = False
) -> Iterator[Outcome]:
    """Copy these threads, and say of each what became of it. ``dry_run`` reads everything and stores nothing.

    A thread that the target has with other content is left alone unless ``replace`` says otherwise.
    """
    for thread_id in thread_ids:
        try:
            yield settle(source.thread(thread_id), target, dry_run, replace)
        except (ThreadmarkError, ValueError, TypeError, NotImplementedError) as error:
            yield Outcome(thread_id, "failed", problems=(f"{type(error).__name__}: {error}",))


def settle(rows: ThreadRows, target: Any, dry_run: bool = False, replace: bool = False) -> Outcome:
    """Store one thread, or find it stored; what is stored is compared with it."""
    if rows.problems:
        return _outcome(rows, "failed", rows.problems)
    expected = _content(target.expected(rows) if hasattr(target, "expected") else rows)
    found = _content(target.thread(rows.thread_id)) if target.has(rows.thread_id) else {}
    if found and not _differences(expected, found):
        return _outcome(rows, "there already")
    if found and not replace and not _is_part(found, expected):
        return _outcome(rows, "failed", ["the target has a thread of this name with other content; see --replace"])
    if dry_run:
        return _outcome(rows, "would be copied")
    if found:
        target.delete(rows.thread_id)
    target.write(rows)
    wrong = _differences(expected, _content(target.thread(rows.thread_id)))
    if wrong:
        target.delete(rows.thread_id)
        return _outcome(rows, "failed", [f"not the same after copying: {', '.join(wrong[:5])}; removed again"])
    return _outcome(rows, "copied")


def _outcome(rows: ThreadRows, state: State, problems: Iterable[str] = ()) -> Outcome:
    values = [value for one in rows.checkpoints for value in one.checkpoint["channel_values"].values()]
    values += [write.value for write in rows.writes]
    carried = [value for value in values if type(value) is Carried]
    classes = sorted({name for value in carried for name in value.classes})
    return Outcome(
        rows.thread_id,
        state,
        len(rows.checkpoints),
        len(rows.writes),
        len(values),
        len(carried),
        tuple(classes),
        len(rows.orphans()),
        tuple(problems),
    )


def _content(rows: ThreadRows) -> dict[str, Any]:
    """Everything that must be equal, by where it stands."""
    found: dict[str, Any] = {}
    there = set()
    for one in rows.checkpoints:
        where = f"{one.ns!r} {one.id}"
        there.add((one.ns, one.id))
        rest = {key: value for key, value in one.checkpoint.items() if key != "channel_values"}
        found[where] = (one.parent, rest, one.metadata)
        versions = one.checkpoint["channel_versions"]
        for channel, value in one.checkpoint["channel_values"].items():
            if channel in versions:
                found[f"{where} {channel}"] = value
    for place, writes in rows.by_place().items():
        if place in there:
            counts: dict[str, int] = {}
            for write in writes:
                number = counts[write.task_id] = counts.get(write.task_id, -1) + 1
                found[f"{place[0]!r} {place[1]} {write.task_id} {number}"] = (write.path, write.channel, write.value)
    return found


def _differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Where two threads differ; a value that is only in one of them counts."""
    return [
        where
        for where in sorted(one.keys() | other.keys())
        if where not in one or where not in other or not same(one[where], other[where])
    ]


def _is_part(part: Mapping[str, Any], whole: Mapping[str, Any]) -> bool:
    return all(where in whole and same(value, whole[where]) for where, value in part.items())
