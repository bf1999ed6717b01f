"""A stored checkpoint as people see it: snapshots and the ``checkpoints`` stream (spec 6.1, 10.2, house 1.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from threadmark.channels import MISSING
from threadmark.config import RunConfig
from threadmark.engine.apply import apply
from threadmark.engine.entry import Outside, apply_null_writes, due_tasks, restore
from threadmark.engine.interrupts import answered_ids, stored_answers
from threadmark.engine.names import ERROR, SPECIAL
from threadmark.engine.plan import Plan, Writes, read_all
from threadmark.engine.prepare import questions, recall
from threadmark.engine.run import Run
from threadmark.engine.stream import Sink, outputs, result_of
from threadmark.engine.task import Task
from threadmark.types import Interrupt, PregelTask, StateSnapshot


class _Idle:
    """Stands in for a runner where nothing runs."""

    cancels = False


IDLE: Any = _Idle()


def view_of(plan: Plan, config: RunConfig, saved: Any, next_version: Any) -> Run:
    """A run that only looks: a stored checkpoint restored, with what Commands have written to it."""
    run = Run(plan, config, None, IDLE, Sink(), next_version=next_version)
    restore(run, saved)
    apply_null_writes(run)
    run.parents = dict(run.metadata_stored.get("parents") or {})
    return run


class Looks:
    """Stored checkpoints taken up with their due tasks. The last one is kept: of a history each checkpoint is needed
    twice in a row, as the parent of the one before it and for itself.
    """

    def __init__(self, plan: Plan, next_version: Any) -> None:
        self.plan, self.next_version = plan, next_version
        self._last: tuple[Any, tuple[Run, list[Task]]] | None = None

    def at(self, config: RunConfig, saved: Any) -> tuple[Run, list[Task]]:
        """A checkpoint that nobody is going to change: see ``view_of``."""
        if self._last is None or self._last[0] is not saved:
            run = view_of(self.plan, config, saved, self.next_version)
            self._last = (saved, (run, due_tasks(run)))
        return self._last[1]


def empty_snapshot(config: Any) -> StateSnapshot:
    """What a thread without a checkpoint, or an unknown id, looks like."""
    return StateSnapshot({}, (), config, None, None, None, (), ())


def snapshot(looks: Looks, config: RunConfig, saved: Any, *, live: bool, parent: Any = None) -> StateSnapshot:
    """The state at a stored checkpoint.

    ``live``: as the thread stands now, with what finished tasks and Commands have written; else as the superstep
    began (spec 4.1). ``parent`` is the stored parent, from which ``metadata["writes"]`` is derived.
    """
    plan = looks.plan
    if live:
        run = view_of(plan, config, saved, looks.next_version)
        tasks = due_tasks(run)
        for task in tasks:
            recall(task, run.pending.get(task.id))
        _apply_finished(run, saved, tasks)
    else:
        run, tasks = looks.at(config, saved)
    pending = run.pending
    shown = tuple(_shown(task, pending, live=live) for task in tasks)
    metadata = dict(saved.metadata or {})
    _add_writes(looks, metadata, saved, parent)
    return StateSnapshot(
        values=read_all(run.state.channels, plan.stream_channels),
        # A run that died between its last task and the next checkpoint has not finished: its tasks are still next.
        next=tuple(task.name for task in tasks if not task.stored) or tuple(task.name for task in tasks),
        config=_with_map(saved.config, metadata),
        metadata=metadata,
        created_at=saved.checkpoint["ts"],
        parent_config=_with_map(saved.parent_config, metadata),
        tasks=shown,
        interrupts=tuple(question for task in shown for question in task.interrupts),
    )


def _apply_finished(run: Run, saved: Any, tasks: Sequence[Task]) -> None:
    """Put finished tasks' writes into the values, but for those that clash or that a reducer refuses."""
    done = [Outside(task.writes, task.name, (), task.path_str) for task in tasks if task.stored]
    if not done:
        return
    try:
        apply(run.plan, run.state, done, run.next_version)
    except Exception:  # a clash, or a reducer's own error
        restore(run, saved)
        apply_null_writes(run)


def _shown(task: Task, pending: Mapping[str, Writes], *, live: bool) -> PregelTask:
    writes = pending.get(task.id, [])
    error = next((value for name, value in writes if name == ERROR), None)
    asked: Sequence[Interrupt] = questions(writes)
    kept = [write for write in writes if write[0] not in SPECIAL]
    if live:
        done = answered_ids(task.ns, writes) | stored_answers(pending).keys()
        asked = () if task.stored else [question for question in asked if question.id not in done]
    return PregelTask(
        id=task.id,
        name=task.name,
        path=task.path,
        error=error,
        interrupts=tuple(asked),
        state=None,
        result=result_of(kept, task.run.plan.stream_channels) if kept else None,
    )


def _with_map(config: Any, metadata: Mapping[str, Any]) -> Any:
    """A checkpoint's config, with those of the enclosing graphs when there are any."""
    if config is None or not metadata.get("parents"):
        return config
    own = config["configurable"]
    map_ = {**metadata["parents"], own.get("checkpoint_ns", ""): own.get("checkpoint_id")}
    return {**config, "configurable": {**own, "checkpoint_map": map_}}


# -- metadata["writes"] ------------------------------------------------------------------------------------------------


def _add_writes(looks: Looks, metadata: dict[str, Any], saved: Any, parent: Any) -> None:
    """Add what made this checkpoint, as the page shows it; left out when it is not known any more."""
    closing = getattr(saved, "shown_writes", None)
    source = metadata.get("source")
    if closing is not None:
        metadata["writes"] = closing.get("writes") if isinstance(closing, dict) and "writes" in closing else closing
    elif source == "input":
        if (given := _input(looks.plan, saved.checkpoint)) is not MISSING:
            metadata["writes"] = given
    elif source == "fork":
        metadata["writes"] = None
    elif parent is not None:
        derived = derived_writes(looks, parent)
        if derived is not MISSING:
            metadata["writes"] = derived


def _input(plan: Plan, checkpoint: Mapping[str, Any]) -> Any:
    """The input that a checkpoint was made of: what its superstep has put into the channels that take it."""
    values, channels = checkpoint["channel_values"], plan.input_channels
    if not plan.holds_input:
        return MISSING
    if isinstance(channels, str):
        return values.get(channels)
    moved = checkpoint.get("updated_channels")
    return {name: values[name] for name in channels if name in values and (moved is None or name in moved)}


def derived_writes(looks: Looks, parent: Any) -> Any:
    """``{node: output}`` of the tasks that ran from ``parent``; None for the superstep that took the input."""
    run, tasks = looks.at(RunConfig(ns=parent.config["configurable"].get("checkpoint_ns", "")), parent)
    pending = run.pending
    if not tasks:
        return MISSING
    if all(task.node.hidden for task in tasks):
        return None
    ended = [(task, kept) for task in tasks if (kept := [w for w in pending.get(task.id, ()) if w[0] not in SPECIAL])]
    return by_node(looks.plan, ended) if ended else MISSING


def by_node(plan: Plan, ended: Sequence[tuple[Task, Writes]]) -> dict[str, Any]:
    """Outputs by node; a list when a node ran several times in the superstep."""
    out: dict[str, list[Any]] = {}
    for task, writes in sorted(ended, key=lambda pair: pair[0].path_str):
        if not task.node.hidden:
            out.setdefault(task.name, []).append(outputs(writes, plan.stream_channels))
    return {name: found[0] if len(found) == 1 else found for name, found in out.items()}


def shown_writes(run: Run, tasks: Sequence[Task]) -> Any:
    """The closing record of a superstep whose task writes are not kept (``exit``)."""
    return {"writes": by_node(run.plan, [(task, task.writes) for task in tasks]) or None}


# -- the checkpoints stream --------------------------------------------------------------------------------------------


def checkpoint_event(run: Run) -> dict[str, Any]:
    """The ``checkpoints`` event of the checkpoint that the run stands on."""
    metadata = dict(run.metadata_stored)
    return {
        "config": _event_config(run, run.checkpoint_id, metadata),
        "parent_config": _event_config(run, run.parent_id, metadata) if run.parent_id is not None else None,
        "values": read_all(run.state.channels, run.plan.stream_channels),
        "metadata": metadata,
        "next": [task.name for task in run.tasks],
        "tasks": [_task_event(run, task) for task in run.tasks],
    }


def _event_config(run: Run, id: str | None, metadata: Mapping[str, Any]) -> dict[str, Any]:
    config = run.config
    configurable = {
        "checkpoint_ns": run.ns,
        "thread_id": config.thread_id,
        **config.configurable,
        "checkpoint_id": id,
    }
    if run.parents:
        configurable["checkpoint_map"] = {**run.parents, run.ns: id}
    return {"configurable": configurable}


def _task_event(run: Run, task: Task) -> dict[str, Any]:
    writes = run.pending.get(task.id, [])
    state = None
    if task.node.graph is not None:
        state = {"configurable": {"thread_id": run.config.thread_id, "checkpoint_ns": task.ns}}
    event: dict[str, Any] = {"id": task.id, "name": task.name, "interrupts": questions(writes), "state": state}
    error = next((value for name, value in writes if name == ERROR), None)
    if error is not None:
        event["error"] = error
    elif task.stored:
        event["result"] = result_of(task.writes, run.plan.stream_channels)
    return event


__all__ = ["Looks", "checkpoint_event", "derived_writes", "empty_snapshot", "shown_writes", "snapshot"]
