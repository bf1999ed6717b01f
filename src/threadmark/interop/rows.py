"""One thread of any store, as the doctor and the migration look at it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from threadmark.checkpoint.base import WRITES_IDX_MAP, CheckpointTuple
from threadmark.checkpoint.names import config_of
from threadmark.interop.carried import Carried

__all__ = ["Place", "Source", "StoredCheckpoint", "StoredWrite", "ThreadRows", "calls", "same", "shown"]

Place = tuple[str, str]
"""Namespace and checkpoint id."""


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint. Its values are decoded, or ``Carried``; ``sizes`` are the stored bytes of each."""

    ns: str
    id: str
    parent: str | None
    checkpoint: dict[str, Any]
    metadata: dict[str, Any]
    sizes: Mapping[str, int]
    sealed: bool = False
    """Whether it was encrypted."""
    shown_writes: Any = None
    """What a saver of ours keeps for snapshots to show."""


@dataclass(frozen=True, slots=True)
class StoredWrite:
    """One write of a task."""

    ns: str
    id: str
    task_id: str
    path: str
    place: int
    channel: str
    value: Any
    size: int
    sealed: bool = False


@dataclass(slots=True)
class ThreadRows:
    """All rows of one thread, oldest checkpoint first. ``problems`` says what could not be read."""

    thread_id: str
    checkpoints: list[StoredCheckpoint] = field(default_factory=list)
    writes: list[StoredWrite] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    size: int = 0
    """Bytes that its rows take where they are."""

    def by_place(self) -> dict[Place, list[StoredWrite]]:
        """The writes of each checkpoint, in the order in which they count (spec 1.8)."""
        found: dict[Place, list[StoredWrite]] = {}
        for write in sorted(self.writes, key=lambda one: (one.path, one.task_id, one.place)):
            found.setdefault((write.ns, write.id), []).append(write)
        return found

    def orphans(self) -> list[StoredWrite]:
        """Writes of checkpoints that are not there."""
        there = {(one.ns, one.id) for one in self.checkpoints}
        return [write for write in self.writes if (write.ns, write.id) not in there]

    def tuples(self) -> Iterator[CheckpointTuple]:
        """The checkpoints as a saver gives them; what is carried stands as it can be shown."""
        writes = self.by_place()
        for one in self.checkpoints:
            values = {channel: shown(value) for channel, value in one.checkpoint["channel_values"].items()}
            if one.checkpoint.get("pending_sends"):  # where formats below 4 keep packets
                values.setdefault("__pregel_tasks", shown(one.checkpoint["pending_sends"]))
            parent = config_of(self.thread_id, one.ns, one.parent) if one.parent else None
            pending = [(each.task_id, each.channel, shown(each.value)) for each in writes.get((one.ns, one.id), ())]
            made: Any = {**one.checkpoint, "channel_values": values}
            config = config_of(self.thread_id, one.ns, one.id)
            yield CheckpointTuple(config, made, one.metadata, parent, pending)  # type: ignore[arg-type]


def shown(value: Any) -> Any:
    """A value, or what can be told of one that is carried."""
    return value.shown if type(value) is Carried else value


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal and of the same types, however deep the plain containers in them go."""
    if type(one) is not type(other):
        return False
    if type(one) is Carried:
        return bool(one.typed == other.typed)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if type(one).__module__ == "numpy":
        return bool(one.dtype == other.dtype and one.tobytes() == other.tobytes())
    return bool(one == other) or (one != one and other != other)  # a NaN


def calls(writes: Sequence[StoredWrite]) -> list[tuple[str, str, list[tuple[str, Any]]]]:
    """The writes of one checkpoint as calls of ``put_writes``: (task id, path, pairs)."""
    tasks: dict[str, tuple[str, list[StoredWrite]]] = {}
    for write in writes:
        tasks.setdefault(write.task_id, (write.path, []))[1].append(write)
    made = []
    for task_id, (path, mine) in tasks.items():
        # Those with fixed places stand where they are put; the others keep their order from the first place on.
        ordered = sorted(mine, key=lambda one: (one.channel in WRITES_IDX_MAP, one.place))
        made.append((task_id, path, [(one.channel, one.value) for one in ordered]))
    return made


@runtime_checkable
class Source(Protocol):
    """A store whose threads can be read, one at a time; nothing in it is changed."""

    name: str

    def thread_ids(self) -> list[str]: ...

    def thread(self, thread_id: str) -> ThreadRows: ...

    def size(self) -> int | None:
        """Bytes of the whole store on its disk; None where that cannot be told."""
        ...

    def close(self) -> None: ...
