"""Writes -> channels and versions: one superstep's effect on the state (spec 3.5). Nothing here does I/O."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from threadmark.channels import MISSING
from threadmark.engine.names import IGNORED
from threadmark.engine.plan import Plan, State, Writes

log = logging.getLogger(__name__)


class Written(Protocol):
    """What applying needs to know of a task."""

    @property
    def name(self) -> str: ...
    @property
    def triggers(self) -> Sequence[str]: ...
    @property
    def writes(self) -> Writes: ...
    @property
    def path_str(self) -> str: ...


def apply(plan: Plan, state: State, tasks: Sequence[Written], next_version: Callable[[Any, None], Any]) -> set[str]:
    """Apply the writes of a superstep's tasks; the channels that changed and can be read.

    Tasks count in the order of their paths, not in that in which they ended: two replicas must reach the same
    versions. One version is drawn for all channels that change, so versions are a clock of the thread.

    Raises ``InvalidUpdateError`` for writes that a channel cannot take; the state is then of no use any more.
    """
    channels, versions, moved = state.channels, state.versions, state.moved
    if len(tasks) > 1:
        tasks = sorted(tasks, key=lambda task: task.path_str)
    by_tasks = False
    for task in tasks:
        if task.triggers:
            _mark_seen(state, task)
            by_tasks = True
    version = next_version(state.top, None)
    if plan.consuming:
        for name in plan.consuming & {trigger for task in tasks for trigger in task.triggers}:
            if channels[name].consume():
                versions[name] = version
                moved.add(name)
    updated: set[str] = set()
    fading, held = plan.fading, state.held
    for name, values in _grouped(plan, tasks).items():
        channel = channels.get(name)
        if channel is None:
            channel = channels[name] = plan.channels[name].from_checkpoint(MISSING)
        try:
            changed = channel.update(values)
        except Exception as error:
            writers = ", ".join(
                dict.fromkeys(task.name for task in tasks if any(one == name for one, _ in task.writes))
            )
            error.add_note(f"While state key {name!r} took what was written by {writers}")
            raise
        if changed:
            versions[name] = version
            moved.add(name)
            if channel.is_available():
                updated.add(name)
                if name in fading:
                    held.add(name)
    if by_tasks:  # a superstep, not only writes from outside
        if held:
            _fade(state, updated, version)
        if plan.finishing and plan.triggered_by.keys().isdisjoint(updated):
            _finish(plan, state, updated, version)
    state.top = version  # never drawn twice, even if nothing took it
    return updated


def _mark_seen(state: State, task: Written) -> None:
    versions, triggers = state.versions, task.triggers
    if len(triggers) == 1 and triggers[0] in versions:  # as a rule: without the comprehension 0.1 us less, of 16
        now = {triggers[0]: versions[triggers[0]]}
    else:
        now = {trigger: versions[trigger] for trigger in triggers if trigger in versions}
    before = state.seen.get(task.name)
    # A new dict, never a changed one: earlier checkpoints hold the old one.
    state.seen[task.name] = {**before, **now} if before else now
    state.looked.add(task.name)


def _grouped(plan: Plan, tasks: Sequence[Written]) -> dict[str, list[Any]]:
    grouped: dict[str, list[Any]] = {}
    channels = plan.channels
    for task in tasks:
        for name, value in task.writes:
            if name in grouped:
                grouped[name].append(value)
            elif name in channels:
                grouped[name] = [value]
            elif name not in IGNORED:
                log.warning("task %s wrote to %r, which is no channel of %s; ignored", task.name, name, plan.name)
    return grouped


def _fade(state: State, updated: set[str], version: Any) -> None:
    """Let the channels that hold a value for one superstep only see a superstep without a write."""
    for name in state.held - updated:
        channel = state.channels[name]
        changed, holds = channel.update(()), channel.is_available()
        if changed:
            state.versions[name] = version
            state.moved.add(name)
            if holds:
                updated.add(name)
        if not holds:
            state.held.discard(name)


def _finish(plan: Plan, state: State, updated: set[str], version: Any) -> None:
    """Nothing is due any more: release what waited for that."""
    for name in plan.finishing:
        channel = state.channels[name]
        if channel.finish():
            state.versions[name] = version
            state.moved.add(name)
            if channel.is_available():
                updated.add(name)
