"""Names that stand in stored checkpoints and writes (spec 1.7)."""

from __future__ import annotations

from collections.abc import Sequence
from sys import intern

from threadmark.ids import task_id

INPUT = intern("__input__")
INTERRUPT = intern("__interrupt__")
RESUME = intern("__resume__")
ERROR = intern("__error__")
ERROR_SOURCE = intern("__error_source_node__")
NO_WRITES = intern("__no_writes__")
RETURN = intern("__return__")
PREVIOUS = intern("__previous__")
TASKS = intern("__pregel_tasks")
PUSH = intern("__pregel_push")
PULL = intern("__pregel_pull")
COPY = intern("__copy__")
ROOT = intern("__root__")
BRANCH_TO = "branch:to:"


def child_ns(ns: str, name: str) -> str:
    """The namespace of a node of the graph in ``ns``, without its task's id."""
    return f"{ns}|{name}" if ns else name


def pulled_id(ns: str, checkpoint_id: str, step: int, name: str, triggers: Sequence[str]) -> str:
    """The id of the task of a node that is due by itself, in the graph in ``ns`` (spec 3.4)."""
    return task_id(checkpoint_id, (child_ns(ns, name), str(step), name, PULL, *triggers))


IGNORED = frozenset({NO_WRITES, PUSH, RESUME, INTERRUPT, RETURN, ERROR, ERROR_SOURCE})
"""Writes that change no channel."""
SPECIAL = frozenset({ERROR, ERROR_SOURCE, INTERRUPT, RESUME})
"""Writes that do not make a task a finished one (spec 4.1)."""
RESERVED = frozenset(
    {INPUT, INTERRUPT, RESUME, ERROR, ERROR_SOURCE, NO_WRITES, RETURN, PREVIOUS, TASKS, PUSH, PULL, "__scheduled__"}
)
