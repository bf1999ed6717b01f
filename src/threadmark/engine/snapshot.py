"""A stored checkpoint as people see it: snapshots and the ``checkpoints`` stream (spec 6.1, 10.2, house 1.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from threadmark.channels import MISSING
from threadmark.checkpoint.base import TaskWrites
from threadmark.config import RunConfig
from threadmark.engine.apply import apply
from threadmark.engine.entry import Outside, apply_null_writes, due_tasks
from threadmark.engine.interrupts import answered_ids, stored_answers
from threadmark.engine.loading import restore
from threadmark.engine.look import Found, Look, Looks, found, view_of
from threadmark.engine.names import ERROR, SPECIAL, pulled_id
from threadmark.engine.plan import Plan, Writes, read_all
from threadmark.engine.prepare import questions, recall
from threadmark.engine.run import Run
from threadmark.engine.stream import outputs, result_of
from threadmark.engine.task import Task
from threadmark.types import Interrupt, PregelTask, StateSnapshot


def empty_snapshot(config: Any) -> StateSnapshot:
    """What a thread without a checkpoint, or an unknown id, looks like."""
    return StateSnapshot({}, (), config, None, None, None, (), ())


def snapshot(looks: Looks, config: RunConfig, saved: Any, *, live: bool, parent: Any = None) -> StateSnapshot:
    """The state at a stored checkpoint.

    ``live``: as the thread stands now, with what finished tasks and Commands have written; else as the superstep
    began (spec 4.1). ``parent`` is the stored parent, from which ``metadata["writes"]`` is derived, or a list of what
    its tasks wrote.
    """
    live = live and bool(saved.pending_writes)
    run, due = _standing(looks, config, saved) if live else looks.at(config.ns, saved)
    metadata = dict(saved.metadata or {})
    _add_writes(looks, metadata, saved, parent)
    parents = metadata.get("parents")
    shown, names, asked = list[PregelTask](), list[str](), list[Interrupt]()
    for item in due:
        shown.append(made := _shown(item, run.pending, live=live))
        asked += made.interrupts
        if not item.task.stored:
            names.append(made.name)
    return StateSnapshot(
        run.shown() if isinstance(run, Look) else read_all(run.state.channels, run.plan.stream_channels),
        # A run that died between its last task and the next checkpoint has not finished: its tasks are still next.
        tuple(names or [task.name for task in shown]),
        _with_map(saved.config, parents) if parents else saved.config,
        metadata,
        saved.checkpoint["ts"],
        _with_map(saved.parent_config, parents) if parents else saved.parent_config,
        tuple(shown),
        tuple(asked),
    )


def _standing(looks: Looks, config: RunConfig, saved: Any) -> tuple[Run, list[Found]]:
    """A checkpoint with what its finished tasks and Commands have written."""
    run = view_of(looks.plan, config, saved, looks.next_version)
    tasks = due_tasks(run)
    for task in tasks:
        recall(task, run.pending.get(task.id))
    _apply_finished(run, saved, tasks)
    return run, found(run, tasks)


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


def _shown(item: Found, pending: Mapping[str, Writes], *, live: bool) -> PregelTask:
    task, writes, results = item
    error: Any = None
    asked: Sequence[Interrupt] = ()
    if len(results) < len(writes):
        error = next((value for name, value in writes if name == ERROR), None)
        asked = questions(writes)
        if live:
            done = answered_ids(task.ns, writes) | stored_answers(pending).keys()
            asked = () if task.stored else [question for question in asked if question.id not in done]
    result = result_of(results, task.run.plan.stream_channels) if results else None
    return PregelTask(task.id, task.name, task.path, error, tuple(asked), None, result)


def _with_map(config: Any, parents: Mapping[str, Any]) -> Any:
    """A checkpoint's config, with those of the enclosing graphs."""
    if config is None:
        return None
    own = config["configurable"]
    map_ = {**parents, own.get("checkpoint_ns", ""): own.get("checkpoint_id")}
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
        derived = told(looks.plan, parent) if isinstance(parent, list) else derived_writes(looks, parent)
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


_hidden = attrgetter("task.node.hidden")


def derived_writes(looks: Looks, parent: Any) -> Any:
    """``{node: output}`` of the tasks that ran from ``parent``; None for the superstep that took the input."""
    _, due = looks.at(parent.config["configurable"].get("checkpoint_ns", ""), parent)
    if due and all(map(_hidden, due)):
        return None
    ended = [(task, results) for task, _, results in due if results]
    return by_node(looks.plan, ended) if ended else MISSING


def are_due(plan: Plan, saved: Any, tasks: Sequence[TaskWrites]) -> bool:
    """Whether these tasks are just those that were due at the parent of ``saved``, by ids as ``Task`` makes them.

    They are not where the graph has changed since, or where a release of LangGraph stored them that made ids otherwise.
    """
    parent = saved.parent_config["configurable"]
    ns, id, step = parent.get("checkpoint_ns", ""), parent["checkpoint_id"], saved.metadata.get("step")
    for made, path, _ in tasks:
        node = plan.by_path[path]
        if made != pulled_id(ns, id, step, node.name, node.triggers):
            return False
    return True


def told(plan: Plan, tasks: Sequence[TaskWrites]) -> Any:
    """``derived_writes`` of what the tasks of nodes have left."""
    out, hidden = dict[str, Any](), True
    for _, path, writes in tasks:
        node = plan.by_path[path]
        if not node.hidden:
            hidden = False
            results = [write for write in writes if write[0] not in SPECIAL]
            if results:
                out[node.name] = outputs(results, plan.stream_channels)
    return None if hidden else out or MISSING


def by_node(plan: Plan, ended: Sequence[tuple[Task, Writes]]) -> dict[str, Any]:
    """Outputs by node; a list when a node ran several times in the superstep."""
    if len(ended) == 1:  # as a rule; what is below takes twice as many steps
        ((task, writes),) = ended
        return {} if task.node.hidden else {task.name: outputs(writes, plan.stream_channels)}
    out: dict[str, list[Any]] = {}
    ended = sorted(ended, key=lambda pair: pair[0].path_str)
    for task, writes in ended:
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


__all__ = [
    "Looks",
    "are_due",
    "checkpoint_event",
    "derived_writes",
    "empty_snapshot",
    "shown_writes",
    "snapshot",
]
