"""What a child graph loads when its parent travels to an old checkpoint (spec 7.5; house 1.7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from threadmark.engine.deltas import fetch, hydrated
from threadmark.engine.names import INTERRUPT, SPECIAL
from threadmark.engine.prepare import grouped
from threadmark.engine.run import Run
from threadmark.engine.task import Task


@dataclass(frozen=True, slots=True)
class Replay:
    """How the children of a run that travels find their state of that time."""

    bound: str | None
    """A child that keeps its state on the thread begins with its newest checkpoint before this one."""
    chosen: Mapping[str, str]
    """Namespace -> checkpoint that the caller named."""
    origins: Mapping[str, str]
    """Path of a task -> the namespace that it had before the fork, if there is one, gave it a new id."""
    ns: str
    """The namespace of the graph whose tasks those are."""
    backwards: bool = True
    """Whether tasks run again; not when a question on an old checkpoint gets its first answer."""
    visited: set[str] = field(default_factory=set)
    """Namespaces of children that have begun: later calls in the same run go on from there."""


Named = Mapping[str, tuple[str, str]]
"""Path of a task -> its id and its namespace, before a fork gave it new ones."""


def named_before(run: Run, tasks: Sequence[Task]) -> Named:
    """What tasks are called on the loaded checkpoint: a child that has moved was elsewhere then."""
    here = run.ns
    run.ns = run.moved_from or here
    named = {task.path_str: (task.id, task.ns) for task in tasks}
    run.ns = here
    return named


def replay_of(run: Run, saved: Any, tasks: list[Task]) -> Replay:
    """The replay that a run's children follow; ``tasks`` are those due before the fork."""
    source = (saved.metadata or {}).get("source")
    bound = run.parent_id if source in ("update", "fork") else run.stored_id
    above = run.replay
    return Replay(
        bound if above is None else above.bound,
        run.config.checkpoint_map,
        {path: ns for path, (_, ns) in named_before(run, tasks).items()},
        run.ns,
        run.travelling if above is None else above.backwards,
        above.visited if above is not None else set(),
    )


async def load_replayed(run: Run) -> tuple[bool, Any]:
    """(whether the replay decides what this child loads, the checkpoint that it begins with).

    ``run.addressed`` is set when the caller named the child's own checkpoint: the child then goes on from there.
    """
    assert run.saving is not None
    assert run.parent is not None
    replay = run.parent.run.replay
    if replay is None:
        return False, None
    thread_id = run.config.require_thread_id
    if run.own_thread_state:
        if run.ns in replay.visited:
            return False, None
        replay.visited.add(run.ns)
        chosen = replay.chosen.get(run.ns)
        if chosen is not None:
            run.addressed = True
            return True, await fetch(run.plan, run.saving.port, _at(thread_id, run.ns, chosen))
        if not replay.backwards:
            return await _paused_below(run)
        return True, await _newest_before(run, thread_id, replay.bound)
    origin = replay.origins.get(run.parent.path_str) if run.parent.run.ns == replay.ns else None
    if origin is None:
        return False, None
    old_ns = origin + run.ns[len(run.parent.ns) :]
    if old_ns in replay.visited:  # an attempt after a failure; or the node is due once more, and its child is new
        return False, None
    replay.visited.add(old_ns)
    chosen = replay.chosen.get(old_ns)
    if chosen is not None:
        run.addressed = True
        run.moved_from = old_ns
        return True, await fetch(run.plan, run.saving.port, _at(thread_id, old_ns, chosen))
    if old_ns == run.ns and replay.backwards:  # no fork was made: what the child did here before is no state of its
        run.newest = await _newest_id(run, thread_id)
        return True, None
    return False, None


async def _paused_below(run: Run) -> tuple[bool, Any]:
    """A child with thread state goes on where it stood under the addressed checkpoint, if it has moved on since."""
    assert run.saving is not None
    assert run.parent is not None
    above = run.parent.run
    rows = run.saving.port.list(
        {"configurable": {"thread_id": run.config.require_thread_id, "checkpoint_ns": run.ns}},
    )
    newest = chosen = None
    async with aclosing(rows) as found:  # type: ignore[type-var]
        async for row in found:
            newest = newest or row
            if (row.metadata or {}).get("parents", {}).get(above.ns) != above.checkpoint_id:
                continue
            chosen = chosen or row
            if _asks(row):
                chosen = row
                break
    if chosen is None or chosen is newest:
        return False, None
    run.addressed = True
    return True, await hydrated(run.plan, run.saving.port, chosen)


def _asks(row: Any) -> bool:
    """Whether some task of a stored checkpoint has asked and not finished."""
    writes = grouped(row.pending_writes).values()
    return any(any(name == INTERRUPT for name, _ in one) and all(name in SPECIAL for name, _ in one) for one in writes)


async def _newest_before(run: Run, thread_id: str, bound: str | None) -> Any:
    assert run.saving is not None
    rows = run.saving.port.list(
        {"configurable": {"thread_id": thread_id, "checkpoint_ns": run.ns}},
        before={"configurable": {"checkpoint_id": bound}} if bound is not None else None,
        limit=1,
    )
    async with aclosing(rows) as found:  # type: ignore[type-var]
        async for row in found:
            return await hydrated(run.plan, run.saving.port, row)
    return None


async def _newest_id(run: Run, thread_id: str) -> str | None:
    assert run.saving is not None
    head = await run.saving.port.get_tuple({"configurable": {"thread_id": thread_id, "checkpoint_ns": run.ns}})
    return head.checkpoint["id"] if head is not None else None


def _at(thread_id: str, ns: str, checkpoint_id: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}}


__all__ = ["Named", "Replay", "load_replayed", "named_before", "replay_of"]
