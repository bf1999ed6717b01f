"""Copying threads from one store to another, one at a time, each compared value by value afterwards.

A thread is either whole in the target or it is made anew: a migration that was killed is simply started again. So no
notes are kept of what was done; what is there is compared with the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeVar

from threadmark.errors import ThreadmarkError
from threadmark.interop.rows import Changed, Place, Source, StoredCheckpoint, StoredWrite, ThreadRows, same
from threadmark.interop.survey import Survey, survey

__all__ = ["Outcome", "migrate", "settle", "steadily"]

T = TypeVar("T")
ATTEMPTS: Final = 3
"""How often a thread is read anew because another process began to write to its store meanwhile."""

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


def migrate(
    source: Source, target: Any, thread_ids: Iterable[str], *, dry_run: bool = False, replace: bool = False
) -> Iterator[Outcome]:
    """Copy these threads, and say of each what became of it. ``dry_run`` reads everything and stores nothing.

    A thread that the target has with other content is left alone unless ``replace`` says otherwise.
    """
    for thread_id in thread_ids:
        try:
            yield steadily(source, thread_id, lambda rows: settle(rows, target, survey(rows), dry_run, replace))
        except (ThreadmarkError, ValueError, TypeError, NotImplementedError) as error:
            yield Outcome(thread_id, "failed", problems=(f"{type(error).__name__}: {error}",))


def steadily(source: Source, thread_id: str, look: Callable[[ThreadRows], T]) -> T:
    """What ``look`` makes of a thread, from the beginning if the source changed meanwhile."""
    for _ in range(ATTEMPTS - 1):
        try:
            return look(source.thread(thread_id))
        except Changed:
            continue
    return look(source.thread(thread_id))


def settle(rows: ThreadRows, target: Any, seen: Survey, dry_run: bool = False, replace: bool = False) -> Outcome:
    """Store one thread, or find it stored; what is stored is compared with it. ``seen`` is the survey of it."""
    if seen.problems:
        return _outcome(rows, seen, "failed", seen.problems)
    expected = target.expected(rows) if hasattr(target, "expected") else rows
    there = target.has(rows.thread_id)
    if there:
        found = _compared(expected, target.thread(rows.thread_id))
        if not found.missing and not found.wrong:
            return _outcome(rows, seen, "there already")
        if found.wrong and not replace:
            told = "the target has a thread of this name with other content; see --replace"
            return _outcome(rows, seen, "failed", [told])
    if dry_run:
        return _outcome(rows, seen, "would be copied")
    if there:
        target.delete(rows.thread_id)
    target.write(rows)
    missing, wrong = _compared(expected, target.thread(rows.thread_id))
    if missing or wrong:
        target.delete(rows.thread_id)
        told = f"not the same after copying: {', '.join((*wrong, *missing)[:5])}; removed again"
        return _outcome(rows, seen, "failed", [told])
    return _outcome(rows, seen, "copied")


def _outcome(rows: ThreadRows, seen: Survey, state: State, problems: Iterable[str] = ()) -> Outcome:
    return Outcome(
        rows.thread_id,
        state,
        seen.checkpoints,
        seen.writes,
        seen.values,
        seen.carried,
        tuple(sorted(seen.classes)),
        len(rows.orphans()),
        tuple(problems),
    )


class _Compared(NamedTuple):
    """Where one thread differs from another that should be the same."""

    missing: list[str]
    """What is in the first one only."""
    wrong: list[str]
    """What is another one in the second, or in that one only."""


def _compared(expected: ThreadRows, found: ThreadRows) -> _Compared:
    """Two threads compared, checkpoint after checkpoint. Values of channels that have no version do not count."""
    told = _Compared([], [f"problem: {problem}" for problem in found.problems])
    _note(told, _written(expected), _written(found))
    for head in found.heads:
        if not expected.has(head.place):
            told.wrong.append(_name(head.place))
    for head in expected.heads:
        one, other = expected.at(head.place), found.at(head.place)
        assert one is not None
        _note(told, _content(one), {} if other is None else _content(other))
        if other is not None and one.hidden != other.hidden:  # stored, and stopped before it was hidden
            (told.missing if one.hidden else told.wrong).append(f"{_name(head.place)} hidden")
    return told


def _note(told: _Compared, one: dict[str, Any], other: dict[str, Any]) -> None:
    for where in sorted(one.keys() | other.keys()):
        if where not in other:
            told.missing.append(where)
        elif where not in one or not same(one[where], other[where]):
            told.wrong.append(where)


def _name(place: Place) -> str:
    return f"{place[0]!r} {place[1]}"


def _content(one: StoredCheckpoint) -> dict[str, Any]:
    """Everything of a checkpoint that must be equal, by where it stands."""
    where, versions = _name(one.place), one.checkpoint["channel_versions"]
    rest = {key: value for key, value in one.checkpoint.items() if key != "channel_values"}
    values = one.checkpoint["channel_values"].items()
    found = {f"{where} {channel}": value for channel, value in values if channel in versions}
    return {where: (one.parent, rest, one.metadata), **found}


def _written(rows: ThreadRows) -> dict[str, Any]:
    """The task writes that must be equal."""
    found: dict[str, Any] = {}
    for place, writes in rows.by_place().items():
        counts: dict[str, int] = {}
        for write in writes if rows.has(place) else ():
            number = counts[write.task_id] = counts.get(write.task_id, -1) + 1
            found[f"{_name(place)} {write.task_id} {number}"] = _shown(write)
    return found


def _shown(write: StoredWrite) -> tuple[str, str, Any]:
    return write.path, write.channel, write.value
