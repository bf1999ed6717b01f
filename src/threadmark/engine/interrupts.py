"""Answers and the questions they belong to (spec 5; issue: an answer reaches exactly its question, or is refused)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from threadmark.channels import MISSING
from threadmark.engine.commits import store_tasks
from threadmark.engine.names import RESUME
from threadmark.engine.plan import Writes
from threadmark.engine.prepare import questions
from threadmark.engine.run import Run
from threadmark.engine.task import Task
from threadmark.errors import UnknownInterruptError
from threadmark.ids import NULL_TASK_ID, interrupt_id
from threadmark.types import Interrupt

_ID = re.compile(r"[0-9a-f]{32}")


def is_map(answer: Any) -> bool:
    """Whether an answer is a dict of interrupt id -> answer (spec 5.4)."""
    return isinstance(answer, dict) and all(isinstance(key, str) and _ID.fullmatch(key) for key in answer)


def answered_ids(ns: str, writes: Writes) -> set[str]:
    """Ids of the questions that a task's stored writes hold answers to."""
    for name, value in writes:
        if name == RESUME:
            return {interrupt_id(ns, number) for number in range(len(value))}
    return set()


def open_questions(tasks: Sequence[Task], pending: Mapping[str, Writes]) -> list[Interrupt]:
    """The questions of unfinished tasks that nobody has answered."""
    given = stored_answers(pending)
    found = []
    for task in tasks:
        if task.stored:
            continue
        writes = pending.get(task.id, [])
        done = answered_ids(task.ns, writes)
        found += [question for question in questions(writes) if question.id not in done and question.id not in given]
    return found


def stored_answers(pending: Mapping[str, Writes]) -> dict[str, Any]:
    """Answers to known questions that were stored before their tasks took them."""
    answer = _null_answer(pending)
    return answer if isinstance(answer, dict) and answer and is_map(answer) else {}


def stored_bare_answer(pending: Mapping[str, Writes]) -> Any:
    """An answer given before any question was asked, that no task has taken yet; else ``MISSING``."""
    answer = _null_answer(pending)
    if answer is MISSING or is_map(answer):
        return MISSING
    for task_id, writes in pending.items():
        taken = (value[-1] for name, value in writes if name == RESUME and value)
        if task_id != NULL_TASK_ID and any(_same(one, answer) for one in taken):
            return MISSING
    return answer


def _same(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # arrays compare element by element; better asked again than answered twice
        return True


def _null_answer(pending: Mapping[str, Writes]) -> Any:
    for name, value in pending.get(NULL_TASK_ID, ()):
        if name == RESUME:
            return value
    return MISSING


def addressed(answer: Any, open_: Sequence[Interrupt], *, pending_tasks: bool) -> tuple[dict[str, Any], Any]:
    """Split an answer into (id -> answer, bare answer); a bare one is ``MISSING`` when its question is known.

    Raises ``UnknownInterruptError`` for an answer that belongs to no open question.
    """
    ids = [question.id for question in open_]
    listed = ", ".join(ids) or "none"
    if is_map(answer):
        unknown = [id for id in answer if id not in ids]
        if unknown:
            raise UnknownInterruptError(
                f"no open question has the id {', '.join(unknown)}; open: {listed}",
                reason="not_pending",
                interrupt_ids=unknown,
                pending_ids=ids,
            )
        if not answer:
            raise UnknownInterruptError(
                f"an empty dict answers nothing; open questions: {listed}", reason="empty_map", pending_ids=ids
            )
        return dict(answer), MISSING
    if len(ids) > 1:
        raise UnknownInterruptError(
            f"When there are multiple pending interrupts, you must specify the interrupt id when resuming. "
            f"Pass Command(resume={{id: answer}}); open: {listed}",
            reason="ambiguous",
            pending_ids=ids,
        )
    if ids:
        return {ids[0]: answer}, MISSING
    if not pending_tasks:
        raise UnknownInterruptError(
            "no question is open on this thread, so there is nothing to answer", reason="not_pending"
        )
    return {}, answer


async def forget(run: Run, ids: Sequence[str]) -> None:
    """Take answers back, in memory and in storage: their questions are open again."""
    if not ids:
        return
    level: Run | None = run
    while level is not None:  # an answer stands where it was given: at the root, or in a child that asked again
        if level.answers.keys() & set(ids):
            for id in ids:
                level.answers.pop(id, None)
            await _store_answers(level)
        level = level.parent.run if level.parent is not None else None


async def keep_early_answer(run: Run) -> None:
    """Store whose answer an early one has become: it must not be offered to the next question too."""
    if run.early_answer_taken:
        run.early_answer_taken = False
        await _store_answers(run)


async def _store_answers(run: Run) -> None:
    if run.saving is not None:
        await store_tasks(run, [(NULL_TASK_ID, "", [(RESUME, dict(run.answers))])])


__all__ = [
    "addressed",
    "answered_ids",
    "forget",
    "keep_early_answer",
    "open_questions",
    "stored_answers",
    "stored_bare_answer",
]
