"""What tasks leave in storage, and whose it was that storage could not take (spec 4.1, 5.2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from threadmark.checkpoint.base import TaskWrites
from threadmark.engine.names import ERROR, ERROR_SOURCE, INTERRUPT, NO_WRITES, PUSH, RESUME
from threadmark.engine.plan import Writes
from threadmark.types import Send

if TYPE_CHECKING:
    from threadmark.engine.task import Task


def name_writers(error: Exception, tasks: Sequence[Any]) -> None:
    """Tell a serializer's error which nodes wrote what it could not take."""
    problems = getattr(error, "problems", None)
    if not problems:
        return
    keys = {re.split(r"[.\[]", path, maxsplit=1)[0] for path, _ in problems}
    writers = dict.fromkeys(task.name for task in tasks if any(name in keys for name, _ in task.writes))
    error.nodes = tuple(writers)  # type: ignore[attr-defined]


def stored_form(task: Task) -> TaskWrites:
    """What a task leaves in storage: its writes, its questions, or its error as text (spec 4.1, 5.2)."""
    if task.interrupts:
        writes: Writes = [(INTERRUPT, task.interrupts)]
        if task.answers:
            writes.append((RESUME, list(task.answers)))
    elif task.error is not None:
        writes = [(ERROR, repr(task.error))]
        if not task.is_fatal:
            writes.append((ERROR_SOURCE, task.name))
        if task.body is not None and _can_be_routed_again(task):
            # The node is done and only its router failed: on resume the router alone runs again.
            writes = [*(_kept(task, task.body) or [(PUSH, None)]), *writes]
    else:
        writes = _kept(task, task.writes) or [(NO_WRITES, None)]
    return (task.id, task.path_str, writes)


def _can_be_routed_again(task: Task) -> bool:
    """Whether its routers need nothing of the node's result that its writes do not hold."""
    if any(branch.read is None for branch in task.node.branches):
        return False
    return not isinstance(task.result, dict) or task.result.keys() <= task.run.plan.channels.keys()


def _kept(task: Task, writes: Writes) -> Writes:
    """A task's writes without those to channels that are never stored."""
    untracked = task.run.plan.untracked
    if not untracked:
        return writes
    return [(name, storable(value, untracked)) for name, value in writes if name not in untracked]


def storable(value: Any, untracked: frozenset[str]) -> Any:
    """A packet without the keys that are never stored; anything else as it is (spec 2.2)."""
    if isinstance(value, Send) and isinstance(value.arg, dict) and not untracked.isdisjoint(value.arg):
        arg = {key: item for key, item in value.arg.items() if key not in untracked}
        return Send(value.node, arg, timeout=value.timeout)
    return value


__all__ = ["name_writers", "storable", "stored_form"]
