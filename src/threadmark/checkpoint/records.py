"""What passes between the operations of a saver and its port: keys and bytes, never a user's object."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol


class Ref(NamedTuple):
    """Names one checkpoint, or the newest of its namespace when ``id`` is None."""

    thread_id: str
    ns: str = ""
    id: str | None = None


class CheckpointRow(NamedTuple):
    """One checkpoint. ``source``, ``step``, ``run_id`` and ``ts`` are readable by anyone; ``body`` is the rest."""

    thread_id: str
    ns: str
    id: str
    parent: str | None
    source: str | None
    step: int | None
    run_id: str | None
    ts: str
    body: bytes


class TaskRow(NamedTuple):
    """What one task wrote from one checkpoint: all its calls of ``put_writes``, merged (spec 1.8)."""

    ns: str
    id: str
    task_id: str
    path: str
    body: bytes


class Scope(NamedTuple):
    """Which checkpoints a listing is about; None means any."""

    thread_id: str | None = None
    ns: str | None = None
    id: str | None = None
    before: str | None = None


class ThreadInfo(NamedTuple):
    """A line about one thread. ``updated`` is the time of its newest checkpoint, ISO 8601."""

    thread_id: str
    checkpoints: int
    last_id: str
    updated: str
    namespaces: tuple[str, ...]


class View(Protocol):
    """What is stored, as it was when the view was opened."""

    async def checkpoint(self, ref: Ref) -> CheckpointRow | None: ...

    async def keys(self, scope: Scope) -> Sequence[Ref]:
        """The names of the checkpoints in scope: greatest id first, then by thread and namespace."""
        ...

    async def tasks(self, ref: Ref) -> Sequence[TaskRow]:
        """The task rows of one checkpoint."""
        ...

    async def values(self, thread_id: str, ids: Sequence[int]) -> Mapping[int, bytes]:
        """The value rows with these ids; those that are gone are left out."""
        ...

    async def threads(self) -> Sequence[ThreadInfo]: ...


class Change(View, Protocol):
    """A view in which rows can be changed; what it did is kept when its block ends without an error."""

    async def put_checkpoint(self, row: CheckpointRow) -> None:
        """Store a checkpoint row; one with the same name gives way."""
        ...

    async def add_task(self, thread_id: str, row: TaskRow) -> TaskRow | None:
        """Store a task row unless the task has one, which is then returned and stays."""
        ...

    async def set_task(self, thread_id: str, row: TaskRow) -> None:
        """Put a task row in the place of the one that is there."""
        ...

    async def add_values(self, thread_id: str, bodies: Mapping[int, bytes]) -> None:
        """Store value rows under new ids."""
        ...

    async def drop(self, refs: Sequence[Ref]) -> None:
        """Remove checkpoints and their task rows."""
        ...

    async def drop_thread(self, thread_id: str) -> None:
        """Remove everything of a thread."""
        ...

    async def copy_thread(self, source: str, target: str) -> None:
        """Put a copy of everything of ``source`` in the place of what ``target`` holds."""
        ...

    async def sweep(self, thread_id: str, keep: Collection[int]) -> None:
        """Remove the values of a thread whose ids are not in ``keep``."""
        ...


class Port(Protocol):
    """Where rows are kept. A blocking port never suspends."""

    def read(self) -> AbstractAsyncContextManager[View]: ...

    def write(self) -> AbstractAsyncContextManager[Change]: ...
