"""What a run finds in storage when it begins: its thread, an old checkpoint, a child's namespace (spec 3.3, 7.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from threadmark import ids
from threadmark.engine.deltas import Cadence, fetch
from threadmark.engine.legacy import former_ids
from threadmark.engine.names import INPUT
from threadmark.engine.plan import State
from threadmark.engine.prepare import grouped
from threadmark.engine.replay import load_replayed
from threadmark.engine.run import Run
from threadmark.engine.second import load_asked
from threadmark.engine.task import Task
from threadmark.errors import EmptyInputError
from threadmark.types import Command


async def load(run: Run) -> Any:
    """The checkpoint that a run begins with; None where nothing is stored yet. ``restore`` puts it into the run."""
    if run.saving is None:
        if isinstance(run.input, Command) and run.input.resume is not None and run.parent is None:
            raise RuntimeError("Command(resume=...) needs a checkpointer: without one no question is kept open")
        return await load_asked(run) if run.parent is not None and run.parent.run.second is not None else None
    if run.parent is not None:
        return await _load_child(run)
    if run.inside is not None:
        await _find_around(run, *run.inside)
    address = run.config.checkpoint_id or run.config.checkpoint_map.get(run.ns)
    run.addressed = address is not None
    saved = await fetch(run.plan, run.saving.port, address_of(run, address))
    if address is None:
        run.head = saved.checkpoint["id"] if saved is not None else None
    else:
        head = await run.saving.port.get_tuple(address_of(run, None))
        run.head = head.checkpoint["id"] if head is not None else None
    if saved is None and address is not None:
        run.checkpoint_id = address  # input given to an unknown checkpoint starts a branch that names it as its parent
    return saved


async def _find_around(run: Run, ns: str, id: str) -> None:
    """Complete an address inside a child: its checkpoint names those of the enclosing graphs."""
    assert run.saving is not None
    thread_id = run.config.require_thread_id
    saved = await run.saving.port.get_tuple(
        {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": id}}
    )
    if saved is None:
        raise EmptyInputError(f"thread {thread_id!r} has no checkpoint {id!r} in namespace {ns!r}; look at its history")
    run.config = run.config._replace(checkpoint_map={**(saved.metadata or {}).get("parents", {}), ns: id})


def address_of(run: Run, checkpoint_id: str | None) -> dict[str, Any]:
    """The config that names a checkpoint of the run's own namespace, or its newest."""
    thread_id = run.config.require_thread_id
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": run.ns, "checkpoint_id": checkpoint_id}}


async def _load_child(run: Run) -> Any:
    """A child begins with the newest checkpoint of its namespace, or with what a replay says."""
    assert run.saving is not None
    assert run.parent is not None
    if _is_new(run, run.parent):
        return None
    await run.saving.settle()  # what it stored in this run may be on its way
    if run.parent.run.second is not None and (asked := await load_asked(run)) is not None:
        return asked
    decided, saved = await load_replayed(run)
    if not decided:
        saved = await fetch(run.plan, run.saving.port, address_of(run, None))
    parent = run.parent
    if run.addressed:
        run.resuming = True
    elif saved is not None and not decided:
        # It goes on if it was called from this very checkpoint of its parent before; else it takes new input.
        above = (saved.metadata or {}).get("parents", {}).get(parent.run.ns)
        found = parent.run.resuming and not parent.run.travelling
        run.resuming = (found or parent.attempt > 1) and above == parent.run.checkpoint_id
    return saved


def _is_new(run: Run, parent: Task) -> bool:
    """Whether nothing can be stored of a child yet: its namespace is named by a task that was made a moment ago."""
    above = parent.run
    again = above.resuming or above.replay is not None or above.second is not None
    return not (again or run.own_thread_state or parent.future_call or parent.attempt > 1)


def restore(run: Run, saved: Any) -> None:
    """Put a stored checkpoint into a run; an empty state for None."""
    checkpoint: Mapping[str, Any] = saved.checkpoint if saved is not None else {}
    run.state = State(
        run.plan,
        checkpoint.get("channel_values", {}),
        checkpoint.get("channel_versions", {}),
        checkpoint.get("versions_seen", {}),
    )
    if saved is not None:
        run.checkpoint_id = run.stored_id = run.newest = checkpoint["id"]
        run.parent_id = (saved.parent_config or {}).get("configurable", {}).get("checkpoint_id")
        run.pending = grouped(saved.pending_writes)
        run.former_ids = former_ids(run.plan, saved, run.child_ns)
        run.metadata_stored = saved.metadata or {}
    if run.plan.deltas:
        run.cadence = Cadence(run.plan, run.metadata_stored)
        # Input that was stored for a checkpoint that never came is no part of what follows this one.
        lost = run.pending.get(ids.made_up_id(run.stored_id, INPUT)) if run.stored_id is not None else None
        run.cadence.force_stored({INPUT: lost or []})
    run.step = int(run.metadata_stored.get("step", -2)) + 1
    run.stop = run.step + run.config.recursion_limit + 1


__all__ = ["address_of", "load", "restore"]
