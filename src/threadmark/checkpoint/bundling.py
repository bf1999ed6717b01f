"""Rows of steps as one bundle, for a port that stores without being asked anything first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from threadmark.checkpoint.base import Unset
from threadmark.checkpoint.codec import Seal
from threadmark.checkpoint.draft import StepDraft
from threadmark.checkpoint.records import Bundle, TaskRow
from threadmark.checkpoint.writing import Prepared, follow_head, merged
from threadmark.tuples import tuple_of

__all__ = ["bundled", "heads_of"]


def bundled(prepared: Prepared, thread_id: str, drafts: Sequence[StepDraft], seal: Seal | None) -> Bundle:
    """The rows of steps, and what is believed of their thread. ``HeadMoved`` when they do not follow each other."""
    steps = prepared.rows
    if len(steps) == 1:  # as a rule
        (rows,), (draft,) = steps, drafts
        checkpoint, tasks, expected = rows.checkpoint, rows.tasks, draft.expected_head
        return tuple_of(
            Bundle,
            (
                thread_id,
                prepared.thread,
                prepared.salt,
                {} if isinstance(expected, Unset) else {draft.ns: expected},
                prepared.bases,
                rows.segments.items(),
                rows.values,
                tasks if len(tasks) < 2 else _once_each(tasks, seal),
                () if checkpoint is None else (checkpoint,),
            ),
        )
    heads = heads_of(drafts)
    found = dict(heads)
    for draft in drafts:
        follow_head(thread_id, draft, found)
    checkpoints = {(row.ns, row.id): row for rows in steps if (row := rows.checkpoint) is not None}
    return Bundle(
        thread_id,
        prepared.thread,
        prepared.salt,
        heads,
        prepared.bases,
        [segment for rows in steps for segment in rows.segments.items()],
        [value for rows in steps for value in rows.values],
        _once_each([task for rows in steps for task in rows.tasks], seal),
        list(checkpoints.values()),
    )


def heads_of(drafts: Iterable[StepDraft]) -> dict[str, str | None]:
    """The heads that steps expect to be stored; later steps expect those before them."""
    heads = dict[str, str | None]()
    for draft in drafts:
        if not isinstance(draft.expected_head, Unset):
            heads.setdefault(draft.ns, draft.expected_head)
    return heads


def _once_each(tasks: Iterable[TaskRow], seal: Seal | None) -> Sequence[TaskRow]:
    found = dict[tuple[str, str, str], TaskRow]()
    for task in tasks:
        name = task.ns, task.id, task.task_id
        old = found.get(name)
        found[name] = task if old is None else merged(old, task, seal)
    return list(found.values())
