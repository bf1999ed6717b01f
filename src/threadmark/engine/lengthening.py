"""Lists that a run has only added to since it read them: a saver need not encode their first items again.

That holds as long as nobody but the engine has had them in hands: from when the thread is loaded until the superstep
that hands new input out to the state, if that takes it in by nothing but ``operator.add``. Of a long conversation it
spares one of two encodings a turn.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, Final

from threadmark.channels import BinaryOperatorAggregate
from threadmark.constants import START
from threadmark.engine.run import Run
from threadmark.engine.task import Task

_ADDING: Final = (operator.add, operator.concat)
_SHOWING: Final = "checkpoints"
"""The stream mode whose events give the state away before the superstep has ended."""


def watch(run: Run, saved: Any) -> None:
    """Note the long lists of a loaded checkpoint onto which new input is about to come."""
    found = getattr(saved, "long_lists", None)
    if (
        found
        and run.saving is not None
        and run.saving.port.reads_parts
        and run.parent is None
        and run.plan.input_channels == START
        and not run.pending
        and _SHOWING not in run.sink.modes
    ):
        run.long_lists = found


def lengthened(run: Run, tasks: Sequence[Task]) -> Mapping[str, Any]:
    """The lists among the noted ones to which these tasks have only added; none is noted any more."""
    found, run.long_lists = run.long_lists, None
    if not found or run.called or any(not task.node.hidden or task.node.branches for task in tasks):
        return {}
    channels = run.plan.channels
    kept = {}
    for name, plain in found.items():
        channel = channels.get(name)
        written = [value for task in tasks for key, value in task.writes if key == name]
        # What is no list may bring an operator of its own, which is given the old list.
        if (
            type(channel) is BinaryOperatorAggregate
            and channel.operator in _ADDING
            and all(type(value) is list for value in written)
        ):
            kept[name] = plain
    return kept


__all__ = ["lengthened", "watch"]
