"""Rows taken apart: what they say, while their values are still elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from threadmark.checkpoint.facts import ASIDES, Extra
from threadmark.checkpoint.layout import KnownRow, RowFields
from threadmark.checkpoint.records import CheckpointRow
from threadmark.tuples import tuple_of

__all__ = ["Opened", "OpenedTask", "in_order"]


class Opened(NamedTuple):
    """A checkpoint row taken apart; its values are still elsewhere."""

    row: CheckpointRow
    known: KnownRow
    extra: Extra
    tasks: Sequence[OpenedTask]

    def channels(self) -> list[str]:
        """The channels that have a value."""
        return [channel for channel in self.known.fields.values if channel not in ASIDES]

    def only(self, channels: Collection[str]) -> Opened:
        """The part of it that is about these channels."""
        tasks = [task._replace(entries=[e for e in task.entries if e[1] in channels]) for task in self.tasks]
        return self._of(channels, tasks)

    def valued(self, channels: Collection[str] | None, tasks: Sequence[OpenedTask]) -> Opened:
        """It with these tasks, and without the values of other channels; None for all."""
        if channels is None:
            return tuple_of(Opened, (self.row, self.known, self.extra, tasks))
        return self._of({*channels, *ASIDES}, tasks)

    def _of(self, names: Collection[str], tasks: Sequence[OpenedTask]) -> Opened:
        row, known, extra, _ = self
        versions, seen, refs, updated, facts = known.fields
        values = {name: ref for name, ref in refs.items() if name in names}
        # Three calls of _replace would take four times as many steps.
        return Opened(row, KnownRow(RowFields(versions, seen, values, updated, facts), *known[1:]), extra, tasks)


class OpenedTask(NamedTuple):
    """A task row taken apart: (place, channel, body of the value)."""

    task_id: str
    path: str
    entries: Sequence[tuple[int, str, bytes]]


def in_order(tasks: list[OpenedTask]) -> list[OpenedTask]:
    """The tasks of a checkpoint by path and id."""
    if len(tasks) > 1:
        tasks.sort(key=lambda task: (task.path, task.task_id))
    return tasks
