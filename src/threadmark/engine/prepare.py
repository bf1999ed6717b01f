"""The tasks of the next superstep, matched with what storage knows of them (spec 3.4, 4.1)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from threadmark.engine.names import (
    BRANCH_TO,
    ERROR,
    ERROR_SOURCE,
    IGNORED,
    INTERRUPT,
    NO_WRITES,
    PULL,
    PUSH,
    RESUME,
    SPECIAL,
)
from threadmark.engine.plan import PUSH_TRIGGERS, Plan, State, Writes, due
from threadmark.engine.run import Run
from threadmark.engine.task import Task
from threadmark.errors import MissingChannelError, MissingNodeError, NodeError
from threadmark.types import Send

log = logging.getLogger(__name__)


def prepare(run: Run) -> list[Task]:
    """The due tasks: packets first, then nodes; those that storage knows as finished do not run again."""
    plan = run.plan
    pull, packets = due(plan, run.state, run.updated)
    tasks = [_packet_task(run, number, packet) for number, packet in packets if _known(run, packet)] if packets else []
    for node, triggers in pull:
        task = Task(run, node, (PULL, node.name), triggers, None)
        task._path_str = node.pull_path
        tasks.append(task)
    if run.pending:
        for task in list(tasks):
            recall(task, run.pending.get(task.id))
            if task.handled:
                handler = handler_task(task, task.error)
                recall(handler, run.pending.get(handler.id))
                tasks.append(handler)
    for task in tasks:
        if task.path[0] == PULL and not task.stored:
            task.input = read_input(task)
    return tasks


def _packet_task(run: Run, number: int, packet: Send) -> Task:
    task = Task(run, run.plan.nodes[packet.node], (PUSH, number, False), PUSH_TRIGGERS, packet.arg)
    if packet.timeout is not None:
        task.timeout = packet.timeout
    return task


def handler_task(failed: Task, error: Any) -> Task:
    """The task of the handler that takes over; ``error`` is the exception, or its text from storage (spec 4.3)."""
    assert failed.node.handler is not None
    node = failed.run.plan.nodes[failed.node.handler]
    path = (PUSH, *failed.path[1:3], *((False,) if len(failed.path) < 3 else ()), "node_error_handler", False)
    task = Task(failed.run, node, path, PUSH_TRIGGERS, None)
    task.input = failed.input if failed.input is not None else read_input(failed)
    task.handled_error = NodeError(node=failed.name, error=error)
    task.handled_error_id = failed.id
    failed.handled = True
    failed.writes = []
    return task


def read_input(task: Task) -> Any:
    """A node's input out of the state; a schema that it does not fit is told with the node's name."""
    try:
        return task.node.read(task.run.state.channels, task.run)
    except Exception as error:
        error.add_note(f"Before task with name '{task.name}' and path '{task.path[:3]}'")
        raise


def _known(run: Run, packet: Send) -> bool:
    if packet.node in run.plan.nodes:
        return True
    if run.updated is None:  # from storage: the graph has changed under the thread
        raise MissingNodeError(packet.node, visible(run.plan), what="a pending Send")
    log.warning("a Send names node %r, which %s does not have; ignored", packet.node, run.plan.name)
    return False


def recall(task: Task, writes: Writes | None) -> None:
    """Give a task what storage knows of it: answers, and whether it is finished."""
    if not writes:
        return
    for name, value in writes:
        if name == RESUME:
            task.answers = list(value)
    kept = [write for write in writes if write[0] not in SPECIAL]
    names = {name for name, _ in writes}
    task.failed_before = ERROR in names
    if ERROR_SOURCE in names and task.node.handler is not None:
        task.error = next(value for name, value in writes if name == ERROR)
        task.handled = task.handed_over = True
        return
    if not kept:
        return
    if task.failed_before and task.node.branches and NO_WRITES not in names:
        task.body, task.routed = kept, True
        return
    for name, _ in kept:
        # A trigger of a node that is gone is told of when that node is due.
        if name not in task.run.plan.channels and name not in IGNORED and not name.startswith((BRANCH_TO, "join:")):
            raise MissingChannelError(name, task.name)
    task.writes = kept
    task.stored = task.handed_over = True


def questions(writes: Writes | None) -> tuple[Any, ...]:
    """The questions that a task's stored writes hold, answered or not."""
    for name, value in writes or ():
        if name == INTERRUPT:
            return tuple(value) if isinstance(value, (list, tuple)) else (value,)
    return ()


def grouped(pending_writes: Sequence[tuple[str, str, Any]] | None) -> dict[str, Writes]:
    """A checkpoint's stored writes, by task."""
    out: dict[str, Writes] = {}
    for task_id, channel, value in pending_writes or ():
        out.setdefault(task_id, []).append((channel, value))
    return out


def refuse_missing_nodes(plan: Plan, state: State, values: Mapping[str, Any], versions: Mapping[str, Any]) -> None:
    """Raise ``MissingNodeError`` when the stored checkpoint wants to run a node that the graph does not have."""
    for name in values:
        if name in plan.channels or not name.startswith(BRANCH_TO):
            continue
        node = name.removeprefix(BRANCH_TO)
        seen = state.seen.get(node, {}).get(name)
        if node not in plan.nodes and (seen is None or versions[name] > seen):
            raise MissingNodeError(node, visible(plan))


def visible(plan: Plan) -> list[str]:
    """The nodes that people know of."""
    return [node.name for node in plan.nodes.values() if not node.hidden]


__all__ = ["grouped", "handler_task", "prepare", "questions", "recall", "refuse_missing_nodes"]
