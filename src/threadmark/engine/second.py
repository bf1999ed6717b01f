"""A second answer to a question that has been answered: a branch beside the first (spec 6.6; house 1.7)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from threadmark.checkpoint.base import TaskWrites
from threadmark.engine.commits import commit, store_tasks
from threadmark.engine.deltas import hydrated
from threadmark.engine.interrupts import answered_ids, is_map
from threadmark.engine.names import BRANCH_TO, INTERRUPT, RESUME, SPECIAL, TASKS
from threadmark.engine.plan import Writes
from threadmark.engine.prepare import grouped, prepare, questions
from threadmark.engine.replay import Named, named_before
from threadmark.engine.run import Run
from threadmark.engine.start import without_ids
from threadmark.engine.task import Task
from threadmark.ids import NULL_TASK_ID, interrupt_id
from threadmark.types import Interrupt, Send


@dataclass(frozen=True, slots=True)
class Second:
    """New answers to old questions of the graphs that a fork's tasks call."""

    answers: Mapping[str, Any]
    """Id of the old question -> its new answer."""
    origins: Mapping[str, str]
    """Path of a task that asks again -> the namespace that it had before the fork gave it a new id."""
    places: Mapping[str, str]
    """Namespace of a child -> its checkpoint at which it asked, where later questions have covered that one."""
    visited: set[str] = field(default_factory=set)
    """Children that have begun: an attempt after a failure goes on from what the first one left."""


async def second_answer(
    run: Run, answer: Any, tasks: Sequence[Task], stored: Mapping[str, Writes], open_: Sequence[Interrupt]
) -> Second | None:
    """The answer as a second one, when storage holds an answer to some of these questions; else None."""
    shown = {question.id for task in tasks for question in questions(stored.get(task.id))}
    if not is_map(answer) or not answer:
        return Second({shown.pop(): answer}, {}, {}) if len(shown) == 1 and not open_ else None
    if answer.keys() <= {question.id for question in open_}:
        return None
    asked = shown.union(*(answered_ids(task.ns, stored.get(task.id, [])) for task in tasks))
    covered = await _asked_below(run, answer.keys() - asked)
    if not answer.keys() <= asked | covered.keys():
        return None
    places: dict[str, str] = {}
    for found in covered.values():
        for ns, id in found.items():
            places[ns] = min(id, places.get(ns, id))
    return Second(dict(answer), {}, places)


async def _asked_below(run: Run, wanted: Set[str]) -> dict[str, dict[str, str]]:
    """Which of these questions graphs below the loaded checkpoint have asked: id -> namespace -> checkpoint.

    A task's stored writes show the newest question below it only, so the children's own checkpoints are looked at.
    """
    found: dict[str, dict[str, str]] = {}
    if not wanted or run.saving is None or run.stored_id is None:
        return found
    rows = run.saving.port.list({"configurable": {"thread_id": run.config.require_thread_id}})
    async with aclosing(rows) as every:  # type: ignore[type-var]
        async for row in every:
            id, ns = row.checkpoint["id"], row.config["configurable"].get("checkpoint_ns", "")
            if id <= run.stored_id or found.keys() == wanted:
                break
            parents = (row.metadata or {}).get("parents") or {}
            if parents.get(run.ns) == run.stored_id:
                below = {above: at for above, at in parents.items() if above.startswith(run.ns) and above != run.ns}
                for question in _asked_at(row, ns) & wanted:
                    found.setdefault(question, {**below, ns: id})
    return found


def _asked_at(row: Any, ns: str) -> set[str]:
    """Ids of all questions of the tasks of a stored checkpoint; those answered are computed, for tasks of its nodes."""
    names = [name.removeprefix(BRANCH_TO) for name in row.checkpoint["channel_versions"] if name.startswith(BRANCH_TO)]
    names += [packet.node for packet in row.checkpoint["channel_values"].get(TASKS, ()) if isinstance(packet, Send)]
    ids = set[str]()
    for task_id, writes in grouped(row.pending_writes).items():
        ids.update(question.id for question in questions(writes))
        ids.update(*(answered_ids(f"{ns}|{name}:{task_id}", writes) for name in dict.fromkeys(names)))
    return ids


async def fork_and_ask(run: Run, old: Named, stored: Mapping[str, Writes], second: Second, parent: str | None) -> None:
    """Make a checkpoint beside the loaded one on which the questions of ``second`` are open, and answer them there.

    Finished siblings keep their results, and a task that asked several questions its earlier answers.
    """
    await commit(run, "fork", [], parent=parent)
    run.step += 1
    run.pending = {}
    run.answers = {}
    answers, origins = second.answers, {}
    kept: list[TaskWrites] = []
    for task in prepare(run):
        old_id, old_ns = old[task.path_str]
        writes = stored.get(old_id, [])
        earlier = next((list(value) for name, value in writes if name == RESUME), [])
        places = {interrupt_id(old_ns, place): place for place in range(len(earlier) + 1)}
        own = [places[id] for id in answers if id in places]
        if own:
            run.answers.update({interrupt_id(task.ns, place): answers[interrupt_id(old_ns, place)] for place in own})
            writes = [(RESUME, earlier[: min(own)])] if min(own) else []
        elif any(question.id in answers for question in questions(writes)) or _called(old_ns, second.places):
            origins[task.path_str] = old_ns
            writes = []
        elif all(name in SPECIAL for name, _ in writes):
            writes = []
        if writes:
            kept.append((task.id, task.path_str, writes))
            run.pending[task.id] = list(writes)
    run.second = Second(answers, origins, second.places)
    await store_tasks(run, kept)


def _called(ns: str, places: Iterable[str]) -> bool:
    """Whether one of these namespaces is of a graph that the task with this namespace called."""
    names = (ns, without_ids(ns))
    return any(place == name or place.startswith(f"{name}|") for place in places for name in names)


async def load_asked(run: Run) -> Any:
    """The checkpoint at which a child asked what is answered anew; None when it has nothing to do with that."""
    found = _origin(run)
    if found is None:
        return None
    second, origin = found
    if run.saving is None:  # it keeps nothing and starts afresh: what it asks is answered as it comes
        if len(second.answers) == 1:
            (run.null_answer,) = second.answers.values()
        return None
    assert run.parent is not None
    if not run.own_thread_state:
        run.moved_from = origin + run.ns[len(run.parent.ns) :]
    ns = run.moved_from if run.moved_from is not None else run.ns
    rows = run.saving.port.list({"configurable": {"thread_id": run.config.require_thread_id, "checkpoint_ns": ns}})
    newest, place = None, second.places.get(ns)
    async with aclosing(rows) as stored:  # type: ignore[type-var]
        async for row in stored:
            newest = newest or row.checkpoint["id"]
            if row.checkpoint["id"] == place if place else _holds(row.pending_writes or (), second.answers):
                run.asks_again = second
                run.known_newest = None if run.moved_from is not None else newest
                return await hydrated(run.plan, run.saving.port, row)
    run.moved_from = None
    return None


def _origin(run: Run) -> tuple[Second, str] | None:
    assert run.parent is not None
    second = run.parent.run.second
    if second is None or run.ns in second.visited:
        return None
    second.visited.add(run.ns)
    origin = second.origins.get(run.parent.path_str)
    return None if origin is None else (second, origin)


def _holds(writes: Sequence[tuple[str, str, Any]], answers: Mapping[str, Any]) -> bool:
    for _, name, value in writes:
        if name == INTERRUPT and any(question.id in answers for question in questions([(name, value)])):
            return True
    return False


async def ask_again(run: Run, second: Second) -> None:
    """A child begins beside the checkpoint at which it asked."""
    if run.cadence is not None:
        run.cadence.force_stored(run.pending)
    run.newest = max(filter(None, (run.known_newest, run.newest)), default=None)
    stored, run.pending = run.pending, {}
    run.updated = None
    old = named_before(run, prepare(run))
    # In the namespace of a new task nothing is there yet that could be the fork's parent.
    await fork_and_ask(run, old, stored, second, None if run.moved_from is not None else run.parent_id)
    if run.answers:
        run.pending[NULL_TASK_ID] = [(RESUME, dict(run.answers))]
        await store_tasks(run, [(NULL_TASK_ID, "", run.pending[NULL_TASK_ID])])


__all__ = ["Second", "ask_again", "fork_and_ask", "load_asked", "second_answer"]
