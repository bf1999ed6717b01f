"""Editing a thread's state: ``update_state`` and ``bulk_update_state`` (spec 6.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from threadmark import ids
from threadmark.checkpoint.base import TaskWrites
from threadmark.constants import END, START
from threadmark.engine.apply import apply
from threadmark.engine.commits import commit, hold
from threadmark.engine.deltas import fetch, prepared
from threadmark.engine.entry import (
    Consumed,
    Outside,
    apply_null_writes,
    due_tasks,
    input_writes,
    shown_input,
)
from threadmark.engine.loading import restore
from threadmark.engine.names import COPY, INPUT, INTERRUPT, NO_WRITES
from threadmark.engine.plan import Node, Writes, due
from threadmark.engine.prepare import recall
from threadmark.engine.run import Run
from threadmark.engine.task import Task
from threadmark.errors import InvalidUpdateError
from threadmark.types import CURRENT, StateUpdate


async def apply_updates(run: Run, supersteps: Sequence[Sequence[StateUpdate]]) -> None:
    """Apply each list of updates as one superstep on top of the loaded checkpoint; each makes a checkpoint.

    Raises ``ValueError`` when there is nothing to apply, ``InvalidUpdateError`` for an update that no node can have
    made, before anything is stored.
    """
    if not supersteps:
        raise ValueError("No supersteps provided: pass at least one list of updates")
    if any(not updates for updates in supersteps):
        raise ValueError("No updates provided in one of the supersteps; leave it out")
    for updates in supersteps:
        await _superstep(run, [StateUpdate(*update) for update in updates])


async def load(run: Run) -> None:
    """Load the checkpoint that the run's config addresses, and find out whether it is the thread's newest."""
    assert run.saving is not None
    base = {"thread_id": run.config.require_thread_id, "checkpoint_ns": run.ns}
    address = run.config.checkpoint_id
    saved = await fetch(run.plan, run.saving.port, {"configurable": {**base, "checkpoint_id": address}})
    restore(run, saved)
    run.at_head = True
    run.head = run.stored_id
    if address is not None:
        head = await run.saving.port.get_tuple({"configurable": base})
        run.head = head.checkpoint["id"] if head is not None else None
        run.at_head = head is None or run.head == address


async def _superstep(run: Run, updates: list[StateUpdate]) -> None:
    only = updates[0]
    if len(updates) == 1 and only.as_node == END:
        await _end(run, only)
        return
    if len(updates) == 1 and only.as_node == INPUT:
        await _input(run, only)
        return
    if len(updates) == 1 and only.as_node == COPY:
        await _copy(run, only)
        return
    special = {END, INPUT, COPY} & {update.as_node for update in updates}
    if special:
        raise InvalidUpdateError(f"as_node={sorted(special, key=str)[0]!r} must be the only update of its superstep")
    if len(updates) > 1 and any(update.as_node is None for update in updates):
        raise InvalidUpdateError("several updates in one superstep must each name their node: pass as_node")
    apply_null_writes(run)
    nodes = [_node(run, update.as_node) for update in updates]
    pending: dict[str, list[Task]] = {}
    for task in due_tasks(run):
        pending.setdefault(task.name, []).append(task)
    made = []
    for number, (node, update) in enumerate(zip(nodes, updates, strict=True)):
        waiting = pending.get(node.name)
        made.append(await _write(run, node, update, number, waiting.pop(0) if waiting else None))
    await _commit(run, made, updates)


def _node(run: Run, name: str | None) -> Node:
    nodes = run.plan.nodes
    if name is None:
        name = _infer(run)
    if name not in nodes:
        raise InvalidUpdateError(f"Node {name!r} does not exist; this graph has {', '.join(n for n in nodes)}")
    return nodes[name]


def _infer(run: Run) -> str:
    """The node that an update is taken to come from (spec 6.3)."""
    if len(run.plan.nodes) == 1:
        return next(iter(run.plan.nodes))
    seen = run.state.seen
    if not any(versions for name, versions in seen.items() if name in run.plan.nodes):
        if START in run.plan.nodes:
            return START
        raise InvalidUpdateError("nothing has run on this thread; pass as_node")
    last = [(max(versions.values()), name) for name, versions in seen.items() if versions and name in run.plan.nodes]
    last.sort(reverse=True, key=lambda pair: pair[0])
    if len(last) > 1 and last[0][0] == last[1][0]:
        raise InvalidUpdateError("Ambiguous update, specify as_node: several nodes ran in the last superstep")
    return last[0][1]


class _Made:
    """An update as ``apply`` takes it: what a task of this node would have written."""

    triggers = (INTERRUPT,)

    def __init__(self, node: Node, number: int, writes: Writes, task_id: str) -> None:
        self.name = node.name
        self.number = number
        self.writes = writes
        self.task_id = task_id
        self.path_str = f"~{INTERRUPT}, {number:010d}"


async def _write(run: Run, node: Node, update: StateUpdate, number: int, due_task: Task | None) -> _Made:
    """Run the node's writers, routers included, on the given values."""
    task = due_task or Task(run, node, (INTERRUPT, number), (), update.values)
    if node.name == START:
        run.plan.validate_input(update.values) if update.values is not None else None
    token = CURRENT.set(task)
    try:
        writes = prepared(run.plan, node.update(update.values))
        if node.check is not None:
            node.check(node.name, writes, run.state.channels)
        writes.extend(node.edges)
        task.result, task.body = update.values, list(writes)
        for branch in node.branches:
            writes.extend(branch.decide(await run.runner.route(branch, task)))
    finally:
        CURRENT.reset(token)
    made_up = INTERRUPT if number == 0 else f"{INTERRUPT}:{number}"
    task_id = update.task_id or (due_task.id if due_task is not None else ids.made_up_id(run.checkpoint_id, made_up))
    return _Made(node, number, writes, task_id)


async def _commit(run: Run, made: list[_Made], updates: list[StateUpdate]) -> None:
    writes: list[TaskWrites] = []
    if run.stored_id is not None and run.at_head:
        # On a shared, older base they would show up in the history of its other branch.
        writes = [(one.task_id, one.path_str, one.writes or [(NO_WRITES, None)]) for one in made]
    if run.cadence is not None:
        run.cadence.force_stored({id: w for id, w in run.pending.items() if id not in {one.task_id for one in made}})
        if not writes:
            run.cadence.force(name for one in made for name, _ in one.writes)
    hold(run, writes)
    apply(run.plan, run.state, made, run.next_version)
    for one in made:
        run.state.seen.setdefault(one.name, {})
    run.updated = None
    shown = {"writes": {one.name: update.values for one, update in zip(made, updates, strict=True)}}
    await _store(run, "update", writes, shown, applied=made)


async def _store(run: Run, source: str, writes: list[TaskWrites], shown: Any, **more: Any) -> None:
    if run.stored_id is None and source == "update" and run.step < 0:
        run.step = 0
    await commit(run, source, writes, shown=shown, **more)
    run.step += 1
    run.pending = {}
    run.stored_id = run.checkpoint_id
    run.at_head = True


async def _end(run: Run, update: StateUpdate) -> None:
    """``as_node="__end__"``: finish what has results, drop the rest."""
    if update.values is not None:
        raise InvalidUpdateError("as_node='__end__' clears what is due and takes no values; pass None")
    if run.stored_id is None:
        raise InvalidUpdateError("there is nothing on this thread to end")
    apply_null_writes(run)
    tasks = due_tasks(run)
    for task in tasks:
        recall(task, run.pending.get(task.id))
    apply(
        run.plan,
        run.state,
        [
            Consumed(task.name, tuple(task.triggers), task.path_str, task.writes if task.stored else [])
            for task in tasks
        ],
        run.next_version,
    )
    run.updated = None
    await _store(run, "update", [], {"writes": None})


async def _input(run: Run, update: StateUpdate) -> None:
    """``as_node="__input__"``: like input to the graph."""
    if update.values is None:
        raise InvalidUpdateError("as_node='__input__' needs values: the input")
    run.plan.validate_input(update.values)
    apply_null_writes(run)
    if run.cadence is not None:
        run.cadence.force_stored(run.pending)
    pull, packets = due(run.plan, run.state, None) if run.stored_id is not None else ([], [])
    dropped = [Consumed(node.name, triggers, node.name) for node, triggers in pull]
    dropped += [Consumed(packet.node, ("__pregel_push",), f"~{number}") for number, packet in packets]
    written = Outside(input_writes(run, update.values))
    if run.cadence is not None:
        run.cadence.force(name for name, _ in written.writes)
    run.updated = apply(run.plan, run.state, [*dropped, written], run.next_version)
    run.state.seen.setdefault(INPUT, {})
    await _store(run, "input", [], shown_input(run.plan, update.values))


async def _copy(run: Run, update: StateUpdate) -> None:
    """``as_node="__copy__"``: the same checkpoint once more, beside the one it copies."""
    if run.stored_id is None:
        raise InvalidUpdateError("there is no checkpoint to copy")
    run.updated = None
    await _store(run, "fork", [], None, parent=run.parent_id)
    if update.values is not None:
        values: Any = update.values
        if not isinstance(values, (list, tuple)):
            raise InvalidUpdateError("as_node='__copy__' takes None, or a list of (values, as_node) for the copy")
        await _superstep(run, [StateUpdate(*pair) for pair in values])


__all__ = ["apply_updates", "load"]
