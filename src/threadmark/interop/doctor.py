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
from threadmark.interop.carried import Carried
from threadmark.interop.migration import settle
from threadmark.interop.peer_values import named_in_pickle
from threadmark.interop.rows import Source, StoredWrite, ThreadRows, same

__all__ = ["ADVICE", "Finding", "ThreadReport", "examine"]

Kind = Literal[
    "unreadable", "runs code", "pickled", "plaintext", "looks finished", "stuck", "failed", "question", "orphaned",
    "duplicated", "late",
]  # fmt: skip
ADVICE: Final[Mapping[Kind, str]] = {
    "unreadable": "cannot be read; without it nothing of the thread is copied",
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
        yield _report(source.thread(thread_id), scratch)


def _report(rows: ThreadRows, scratch: Any) -> ThreadReport:
    outcome = settle(rows, scratch)
    weights = scratch.weights(rows.thread_id) if outcome.state == "copied" else None
    now = Counter[str]()
    for one in rows.checkpoints:
        now.update(one.sizes)
    for write in rows.writes:
        now[write.channel] += write.size
    values = sum(len(one.checkpoint["channel_values"]) for one in rows.checkpoints) + len(rows.writes)
    found = [Finding("unreadable", rows.thread_id, problem) for problem in outcome.problems]
    sealed, plain = _sealed(rows)
    stands, open_ends = _stands(rows)
    found += [*open_ends, *_risks(rows), *_disorder(rows)]
    if sealed and plain:
        found.append(Finding("plaintext", rows.thread_id, f"{plain} of {sealed + plain} rows"))
    return ThreadReport(
        rows.thread_id,
        len(rows.checkpoints),
        len(rows.writes),
        values,
        outcome.carried,
        rows.size,
        sum(weights.values()) if weights is not None else None,
        now,
        Counter(weights or {}),
        stands,
        found,
        sealed,
        plain,
    )


def _sealed(rows: ThreadRows) -> tuple[int, int]:
    """How many rows are encrypted, and how many are not. An empty value says nothing."""
    told = [one.sealed for one in rows.checkpoints]
    told += [write.sealed for write in rows.writes if write.sealed or write.value is not None]
    locked = sum(1 for problem in rows.problems if "encrypted with" in problem)
    return told.count(True) + locked, told.count(False)


# -- where a thread stands -------------------------------------------------------------------------------------------


def _stands(rows: ThreadRows) -> tuple[str, list[Finding]]:
    """Where the root graph stands, and what is open."""
    head: CheckpointTuple | None = None
    for one in rows.tuples():
        if one.config["configurable"]["checkpoint_ns"] == "":
            head = one
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


def _risks(rows: ThreadRows) -> Iterator[Finding]:
    """Values that would run code on loading, each class and each pickle told once."""
    classes, pickles = Counter[str](), Counter[str]()
    for value in _every_value(rows):
        if type(value) is Carried:
            classes.update(name.replace(":", ".") for name in value.classes)
            if value.typed[0] == "pickle":
                pickles[", ".join(named_in_pickle(value.typed[1])) or "plain data"] += 1
    for kind, counts in (("runs code", classes), ("pickled", pickles)):
        for name, count in sorted(counts.items()):
            yield Finding(kind, rows.thread_id, f"{name} in {count} values")  # type: ignore[arg-type]


def _every_value(rows: ThreadRows) -> Iterator[Any]:
    for one in rows.checkpoints:
        yield from one.checkpoint["channel_values"].values()
    for write in rows.writes:
        yield write.value


def _disorder(rows: ThreadRows) -> Iterator[Finding]:
    orphans = rows.orphans()
    if orphans:
        ids = len({(one.ns, one.id) for one in orphans})
        yield Finding("orphaned", rows.thread_id, f"{len(orphans)} writes of {ids} checkpoints")
    twice = sum(_repeated(writes) for writes in rows.by_place().values())
    if twice:
        yield Finding("duplicated", rows.thread_id, f"{twice} writes")
    late = _late(rows)
    if late:
        yield Finding("late", rows.thread_id, ", ".join(f"{name} in {count}" for name, count in sorted(late.items())))


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


def _late(rows: ThreadRows) -> Counter[str]:
    """Channels whose value differs from the parent's although its version is the same."""
    there = {(one.ns, one.id): one.checkpoint for one in rows.checkpoints}
    found = Counter[str]()
    for one in rows.checkpoints:
        before = there.get((one.ns, one.parent or ""))
        if before is None:
            continue
        versions, old = one.checkpoint["channel_versions"], before["channel_versions"]
        for channel, value in one.checkpoint["channel_values"].items():
            if channel in before["channel_values"] and versions.get(channel) == old.get(channel):
                found[channel] += not same(value, before["channel_values"][channel])
    return +found
