"""A stored checkpoint as it is looked at: with the tasks that are due, and without a run that could go on from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from threadmark.channels import MISSING, BaseChannel, LastValue
from threadmark.config import RunConfig
from threadmark.engine.entry import apply_null_writes, due_tasks
from threadmark.engine.legacy import CURRENT, former_ids
from threadmark.engine.loading import restore
from threadmark.engine.names import SPECIAL, child_ns
from threadmark.engine.plan import Plan, Writes, nodes_behind, read_all
from threadmark.engine.prepare import grouped
from threadmark.engine.run import Run
from threadmark.engine.stream import Sink
from threadmark.engine.task import Task
from threadmark.ids import NULL_TASK_ID


class _Idle:
    """Stands in for a runner where nothing runs."""

    cancels = False


IDLE: Any = _Idle()
_NOTHING: Final[Mapping[str, Any]] = {}


def view_of(plan: Plan, config: RunConfig, saved: Any, next_version: Any) -> Run:
    """A run that only looks: a stored checkpoint restored, with what Commands have written to it."""
    run = Run(plan, config, None, IDLE, Sink(), next_version=next_version)
    restore(run, saved)
    apply_null_writes(run)
    run.parents = dict(run.metadata_stored.get("parents") or {})
    return run


class Look:
    """What is asked of a run, and of its state, by those who find what is due and show it.

    It takes a third of the steps that a run takes to be made and restored, and of a history nothing else is wanted.
    """

    __slots__ = (
        "channels",
        "checkpoint_id",
        "former_ids",
        "ns",
        "pending",
        "plan",
        "seen",
        "step",
        "values",
        "versions",
    )

    def __init__(self, plan: Plan, ns: str, saved: Any) -> None:
        checkpoint = saved.checkpoint
        self.plan, self.ns = plan, ns
        self.checkpoint_id = checkpoint["id"]
        self.values: Mapping[str, Any] = checkpoint.get("channel_values", _NOTHING)
        self.versions: Mapping[str, Any] = checkpoint.get("channel_versions", _NOTHING)
        self.seen: Mapping[str, Mapping[str, Any]] = checkpoint.get("versions_seen", _NOTHING)
        self.channels = _Restored(plan, self.values)
        self.step = int((saved.metadata or _NOTHING).get("step", -2)) + 1
        self.pending = grouped(saved.pending_writes)
        old = checkpoint.get("v", 1) < CURRENT
        self.former_ids = former_ids(plan, saved, self.child_ns) if old else _NOTHING

    @property
    def state(self) -> Look:
        """It is its own state."""
        return self

    def child_ns(self, name: str) -> str:
        """The namespace of a node, without its task's id."""
        return child_ns(self.ns, name)

    def candidates(self, plan: Plan) -> list[str]:
        """The nodes that may be due: of a chain of fifty only one has a trigger with a value."""
        return nodes_behind(plan, self.values, plan.standing)

    def shown(self) -> Any:
        """What the state channels hold."""
        plan, values = self.plan, self.values
        if plan.shows_plainly:
            return {key: values[key] for key in plan.stream_channels if key in values}
        if isinstance(plan.stream_channels, str):
            return read_all(self.channels, plan.stream_channels)
        # To restore a channel with a reducer, only to ask it for what was stored of it, takes ten times as many steps.
        at_once = values.keys() & plan.plain
        return {
            key: value
            for key in plan.stream_channels
            if (value := values[key] if key in at_once else self.channels[key].peek()) is not MISSING
        }


class _Restored(dict[str, BaseChannel[Any, Any, Any]]):
    """Channels of a stored checkpoint, each restored when it is asked for."""

    __slots__ = ("_plan", "_values")

    def __init__(self, plan: Plan, values: Mapping[str, Any]) -> None:
        self._plan, self._values = plan, values

    def __missing__(self, name: str) -> BaseChannel[Any, Any, Any]:
        made = self[name] = self._plan.channels[name].from_checkpoint(self._values.get(name, MISSING))
        return made

    def get(self, name: str, default: Any = None) -> Any:
        """A channel to ask, and not to show: one of which nothing is stored is as empty as its specification."""
        plan = self._plan
        if name not in self._values:
            return plan.channels.get(name, default)
        if name in plan.plain:
            return _FULL
        return self[name] if name in plan.channels else default


_FULL: Final[Any] = LastValue(object).from_checkpoint(True)
"""Stands in for a channel that holds something, where nobody asks what: of a trigger nothing else is asked."""


class Found(NamedTuple):
    """A due task, what it has left in storage, and of that what it wrote as a finished one."""

    task: Task
    writes: Writes
    results: Writes


def found(run: Any, tasks: Sequence[Task]) -> list[Found]:
    """Due tasks with what they have left in storage."""
    out = []
    for task in tasks:
        writes = run.pending.get(task.id, [])
        out.append(Found(task, writes, [write for write in writes if write[0] not in SPECIAL]))
    return out


class Looks:
    """Stored checkpoints taken up with their due tasks. The last one is kept: of a history each checkpoint is needed
    twice in a row, as the parent of the one before it and for itself.
    """

    def __init__(self, plan: Plan, next_version: Any) -> None:
        self.plan, self.next_version = plan, next_version
        self._last: tuple[Any, tuple[Any, list[Found]]] | None = None

    def at(self, ns: str, saved: Any) -> tuple[Any, list[Found]]:
        """A checkpoint that nobody is going to change, with what Commands have written to it: a ``Look`` or a run."""
        if self._last is None or self._last[0] is not saved:
            run: Any = Look(self.plan, ns, saved)
            if NULL_TASK_ID in run.pending and any(name not in SPECIAL for name, _ in run.pending[NULL_TASK_ID]):
                run = view_of(self.plan, RunConfig(ns=ns), saved, self.next_version)
            self._last = (saved, (run, found(run, due_tasks(run))))
        return self._last[1]


__all__ = ["Found", "Look", "Looks", "found", "view_of"]
