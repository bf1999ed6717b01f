"""Which thread a demo runs on: the one that was stopped, or a new one; and never two processes on one."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import ThreadmarkError

ARGUMENTS: Final = "demo_arguments"
"""Key of the checkpoints' metadata under which a run finds the one that it goes on with."""


@dataclass(frozen=True, slots=True)
class Run:
    """A thread to run the graph on. ``input`` is None to go on; ``done`` counts tasks that need not be repeated."""

    thread_id: str
    input: dict[str, Any] | None
    done: int


class AlreadyRunning(ThreadmarkError):
    """Another process runs the demo for the same folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"another demo is at work on {folder}; wait until it ends, or give this one another --out")
        self.folder = folder


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keeps other demos away from a folder. The lock dies with the process, however it dies."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _lock(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise AlreadyRunning(folder) from None
    except OSError:
        pass  # a file system without locks is no reason to stop


def metadata(wanted: dict[str, Any]) -> dict[str, str]:
    """What marks a run's checkpoints, so that the next start with the same arguments finds them."""
    return {ARGUMENTS: json.dumps(wanted, sort_keys=True)}


def choose(saver: SqliteSaver, graph: Any, wanted: dict[str, Any], *, new: bool) -> Run:
    """The newest thread with the same arguments if it has not finished, else a new one."""
    names = [info.thread_id for info in saver.list_threads()]  # the newest first
    states = ((name, graph.get_state({"configurable": {"thread_id": name}})) for name in names)
    mark = metadata(wanted)[ARGUMENTS]
    name, newest = next(((name, state) for name, state in states if _mark(state) == mark), ("", None))
    if newest is not None and newest.next and not new:
        return Run(name, None, finished_tasks(graph, name))
    number = next(n for n in count(1) if f"packages-{n}" not in names)
    return Run(f"packages-{number}", wanted, 0)


def _mark(state: Any) -> object:
    return (state.metadata or {}).get(ARGUMENTS)


def finished_tasks(graph: Any, thread_id: str) -> int:
    """How many tasks of a thread have stored their results, over all supersteps."""
    history = graph.get_state_history({"configurable": {"thread_id": thread_id}})
    return sum(task.result is not None for state in history for task in state.tasks if task.name != "__start__")
