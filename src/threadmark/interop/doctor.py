"""Looks through a store of LangGraph's, thread by thread: what is in it, what is wrong, what it would take here.

Sizes here are measured: each thread is copied into a throw-away store and compared with its source.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from threadmark.checkpoint.base import WRITES_IDX_MAP, CheckpointTuple
from threadmark.cli import pending
from threadmark.interop.migration import settle, steadily
from threadmark.interop.rows import Source, StoredWrite, ThreadRows, Unreadable, as_given, same
from threadmark.interop.survey import Survey, survey

__all__ = ["ADVICE", "Finding", "ThreadReport", "examine"]

Kind = Literal[
    "unreadable", "emptied", "runs code", "pickled", "plaintext", "looks finished", "stuck", "failed", "question",
    "orphaned", "duplicated", "late",
]  # fmt: skip
ADVICE: Final[Mapping[Kind, str]] = {
    "unreadable": "cannot be read; without it nothing of the thread is copied",
    "emptied": "LangGraph's saver stored values of these classes without their content; nobody can bring it back",
    "runs code": "LangGraph imports and calls these classes when it loads the value; name yours with --allow",
    "pickled": "LangGraph runs this code when it loads the value; it is never loaded here",
    "plaintext": "stored in the clear in a database that is encrypted elsewhere",
    "looks finished": "LangGraph shows next=(), but the results of these nodes were never taken in",
    "stuck": "these nodes are due and have not run",
    "failed": "these nodes raised",
    "question": "waits for an answer",
    "orphaned": "writes of checkpoints that are not there",
    "duplicated": "the same write of the same task more than once",
    "late": "another value under the same version: stored after it had changed",
}
"""What each kind of finding means, those first that matter most."""
_ENGINES: Final = ("branch:", "join:", "start:", "__")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a thread's owner may want to know."""

    kind: Kind
    thread_id: str
    what: str


@dataclass(slots=True)
class ThreadReport:
    """What is known of one thread. Sizes are bytes of rows; ``here`` is None when it could not be copied."""

    thread_id: str
    checkpoints: int
    writes: int
    values: int
    carried: int
    now: int
    here: int | None
    channels_now: Counter[str]
    channels_here: Counter[str]
    stands: str
    findings: list[Finding] = field(default_factory=list)
    sealed: int = 0
    plain: int = 0


def examine(source: Source, scratch: Any) -> Iterator[ThreadReport]:
    """A report on each thread in turn. ``scratch`` is an empty store of ours; it keeps what was copied."""
    for thread_id in source.thread_ids():
        yield steadily(source, thread_id, lambda rows: _report(rows, source, scratch))


def _report(rows: ThreadRows, source: Source, scratch: Any) -> ThreadReport:
    seen = survey(rows)
    outcome = settle(rows, scratch, seen, replace=True)
    weights = scratch.weights(rows.thread_id) if outcome.state == "copied" else None
    now, channels = _sizes(rows, seen, source)
    found = [Finding("unreadable", rows.thread_id, problem) for problem in outcome.problems]
    stands, open_ends = _stands(rows)
    found += [*open_ends, *_risks(rows, seen), *_disorder(rows, seen)]
    if seen.sealed and seen.plain:
        found.append(Finding("plaintext", rows.thread_id, f"{seen.plain} of {seen.sealed + seen.plain} rows"))
    return ThreadReport(
        rows.thread_id,
        seen.checkpoints,
        seen.writes,
        seen.values,
        outcome.carried,
        now,
        sum(weights.values()) if weights is not None else None,
        channels,
        Counter(weights or {}),
        stands,
        found,
        seen.sealed,
        seen.plain,
    )


def _sizes(rows: ThreadRows, seen: Survey, source: Any) -> tuple[int, Counter[str]]:
    """What a thread takes where it is, and each channel of it; ``""`` for what belongs to none."""
    if hasattr(source, "weights"):
        weighed = Counter[str](source.weights(rows.thread_id))
        return weighed.total(), weighed
    channels = Counter(seen.sizes)
    channels[""] += max(rows.size - channels.total(), 0)
    return rows.size, channels


# -- where a thread stands -------------------------------------------------------------------------------------------


def _head(rows: ThreadRows) -> CheckpointTuple | None:
    """The newest checkpoint of the root graph that can be read."""
    writes = rows.by_place()
    for head in reversed([head for head in rows.heads if head.ns == ""]):
        try:
            found = rows.at(head.place)
        except Unreadable:
            continue
        if found is not None:
            return as_given(rows.thread_id, found, writes.get(head.place, ()))
    return None


def _stands(rows: ThreadRows) -> tuple[str, list[Finding]]:
    """Where the root graph stands, and what is open."""
    head = _head(rows)
    if head is None:
        return "no checkpoint", []
    try:
        tasks = pending.tasks(head)
    except Exception as error:
        return "not known", [Finding("unreadable", rows.thread_id, f"its tasks cannot be told: {error}")]
    due = [task for task in tasks if task.node != pending.UNKNOWN]
    found = [
        Finding("question", rows.thread_id, f"{task.node}: {question.value!r:.80}")
        for task in tasks
        for question in task.questions
    ]
    found += [
        Finding("failed", rows.thread_id, f"{task.node}: {task.error}") for task in tasks if task.status == "failed"
    ]
    waiting = sorted({task.node for task in due if task.status == "waiting"})
    # Triggers had other names before format 3, and which nodes they made due cannot be told.
    known = len(due) == len(tasks) or head.checkpoint["v"] > 2
    if waiting and known:
        found.append(Finding("stuck", rows.thread_id, ", ".join(waiting)))
    if due and known and all(task.status == "finished" for task in due):
        found.append(Finding("looks finished", rows.thread_id, ", ".join(sorted({task.node for task in due}))))
    if not found:
        return "finished", []
    words = {"question": "asks", "failed": "failed", "stuck": "not run", "looks finished": "looks finished"}
    return words[min((one.kind for one in found), key=list(ADVICE).index)], found


# -- what is risky or out of order -------------------------------------------------------------------------------------


def _risks(rows: ThreadRows, seen: Survey) -> Iterator[Finding]:
    """Values that are lost or would run code on loading, each class and each pickle told once."""
    if rows.lost:
        yield Finding("emptied", rows.thread_id, ", ".join(sorted(rows.lost)))
    for name, count in sorted(seen.classes.items()):
        yield Finding("runs code", rows.thread_id, f"{name.replace(':', '.')} in {count} values")
    for name, count in sorted(seen.pickles.items()):
        yield Finding("pickled", rows.thread_id, f"{name} in {count} values")


def _disorder(rows: ThreadRows, seen: Survey) -> Iterator[Finding]:
    orphans = rows.orphans()
    if orphans:
        ids = len({(one.ns, one.id) for one in orphans})
        yield Finding("orphaned", rows.thread_id, f"{len(orphans)} writes of {ids} checkpoints")
    twice = sum(_repeated(writes) for writes in rows.by_place().values())
    if twice:
        yield Finding("duplicated", rows.thread_id, f"{twice} writes")
    if seen.late:
        told = ", ".join(f"{name} in {count}" for name, count in sorted(seen.late.items()))
        yield Finding("late", rows.thread_id, told)


def _repeated(writes: list[StoredWrite]) -> int:
    """Writes to the state that a task has made before from the same checkpoint, value for value."""
    kept: dict[tuple[str, str], list[Any]] = {}
    count = 0
    for one in writes:
        if one.channel in WRITES_IDX_MAP or one.channel.startswith(_ENGINES):
            continue
        before = kept.setdefault((one.task_id, one.channel), [])
        count += any(same(one.value, value) for value in before)
        before.append(one.value)
    return count
