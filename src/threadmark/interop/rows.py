"""One thread of any store, as the doctor and the migration look at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from threadmark.checkpoint.base import WRITES_IDX_MAP, CheckpointTuple
from threadmark.checkpoint.names import config_of
from threadmark.errors import SaverError, ThreadmarkError
from threadmark.interop.carried import Carried

__all__ = [
    "Changed", "Head", "Place", "Source", "StoredCheckpoint", "StoredWrite", "ThreadRows", "Unreadable", "as_given",
    "calls", "same", "shown",
]  # fmt: skip

Place = tuple[str, str]
"""Namespace and checkpoint id."""
_REMEMBERED: Final = 3
"""Decoded checkpoints that are kept: whoever looks at one looks at its parent, too."""


class Unreadable(ThreadmarkError):
    """A row that cannot be read as it is: damaged, pickled as a whole, or encrypted without a key here."""


class Changed(SaverError):
    """The store was written to while a thread of it was read, in a way that the reader cannot follow."""


@dataclass(frozen=True, slots=True)
class Head:
    """Where a checkpoint stands, and which one it follows."""

    ns: str
    id: str
    parent: str | None
    row: Any = None
    """How its source finds it again, where that is not by the other fields."""
    hidden: bool = False
    """Whether nobody sees it: a saver of ours keeps it after pruning, for delta channels of later ones."""

    @property
    def place(self) -> Place:
        """Its namespace and id."""
        return self.ns, self.id


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

    hidden: bool = False
    """Whether nobody sees it; see ``Head``."""

    @property
    def place(self) -> Place:
        """Its namespace and id."""
        return self.ns, self.id


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


class ThreadRows:
    """All rows of one thread. Its checkpoints are decoded one by one, as often as they are asked for.

    So that a thread of any length can be looked at in the memory of a few of its checkpoints. What tasks wrote is held.
    """

    def __init__(
        self,
        thread_id: str,
        heads: Sequence[Head] = (),
        writes: Sequence[StoredWrite] = (),
        load: Callable[[Head], StoredCheckpoint] | None = None,
        *,
        size: int = 0,
        problems: Sequence[str] = (),
    ) -> None:
        self.thread_id, self.size = thread_id, size
        self.heads = sorted(heads, key=lambda one: (one.id, one.ns))
        self.writes, self.problems = list(writes), list(problems)
        self.load = load
        self.lost: set[str] = set()
        """Classes whose values were stored without their content, as far as rows have been decoded."""
        self._by_place = {head.place: head for head in self.heads}
        self._decoded: dict[Place, StoredCheckpoint] = {}

    def at(self, place: Place) -> StoredCheckpoint | None:
        """The checkpoint that stands there; None if there is none. ``Unreadable`` if it cannot be read."""
        found = self._decoded.get(place)
        head = self._by_place.get(place)
        if found is None and head is not None and self.load is not None:
            found = self.load(head)
            while len(self._decoded) >= _REMEMBERED:
                del self._decoded[next(iter(self._decoded))]
            self._decoded[place] = found
        return found

    def parent(self, one: StoredCheckpoint) -> StoredCheckpoint | None:
        """The checkpoint that one follows, if it is there."""
        return self.at((one.ns, one.parent)) if one.parent else None

    def checkpoints(self) -> Iterator[StoredCheckpoint]:
        """All of them, the oldest first."""
        for head in self.heads:
            found = self.at(head.place)
            if found is not None:
                yield found

    def changed(
        self,
        checkpoint: Callable[[StoredCheckpoint], StoredCheckpoint],
        write: Callable[[StoredWrite], StoredWrite],
    ) -> ThreadRows:
        """The same thread with each row changed; writes of checkpoints that are not there are left out."""
        writes = [write(one) for one in self.writes if (one.ns, one.id) in self._by_place]

        def load(head: Head) -> StoredCheckpoint:
            found = self.at(head.place)
            assert found is not None
            return checkpoint(found)

        return ThreadRows(self.thread_id, self.heads, writes, load, size=self.size)

    def has(self, place: Place) -> bool:
        """Whether a checkpoint stands there."""
        return place in self._by_place

    def by_place(self) -> dict[Place, list[StoredWrite]]:
        """The writes of each checkpoint, in the order in which they count (spec 1.8)."""
        found: dict[Place, list[StoredWrite]] = {}
        for write in sorted(self.writes, key=lambda one: (one.path, one.task_id, one.place)):
            found.setdefault((write.ns, write.id), []).append(write)
        return found

    def orphans(self) -> list[StoredWrite]:
        """Writes of checkpoints that are not there."""
        return [write for write in self.writes if (write.ns, write.id) not in self._by_place]


def as_given(thread_id: str, one: StoredCheckpoint, writes: Sequence[StoredWrite]) -> CheckpointTuple:
    """A checkpoint with these writes as a saver gives it; what is carried stands as it can be shown."""
    values = {channel: shown(value) for channel, value in one.checkpoint["channel_values"].items()}
    if one.checkpoint.get("pending_sends"):  # where formats below 4 keep packets
        values.setdefault("__pregel_tasks", shown(one.checkpoint["pending_sends"]))
    parent = config_of(thread_id, one.ns, one.parent) if one.parent else None
    pending = [(each.task_id, each.channel, shown(each.value)) for each in writes]
    made: Any = {**one.checkpoint, "channel_values": values}
    config = config_of(thread_id, one.ns, one.id)
    return CheckpointTuple(config, made, one.metadata, parent, pending)  # type: ignore[arg-type]


def shown(value: Any) -> Any:
    """A value, or what can be told of one that is carried."""
    return value.shown if type(value) is Carried else value


_PLAIN: Final = frozenset((str, int, bool, bytes, type(None)))


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal and of the same types, however deep the plain containers in them go."""
    if type(one) is not type(other):
        return False
    if type(one) in _PLAIN:
        return bool(one == other)
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
