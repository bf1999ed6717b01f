"""What passes between the operations of a saver and its port: keys and bytes, never a user's object."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

HIDDEN: Final = 1
"""Flag of a checkpoint that nobody sees any more, kept because delta channels are rebuilt through it."""
ORPHANED: Final = 2
"""Flag of a checkpoint whose parent is gone or hidden: it is shown without one."""


class Ref(NamedTuple):
    """Names one checkpoint, or the newest of its namespace when ``id`` is None."""

    thread_id: str
    ns: str = ""
    id: str | None = None


Take: TypeAlias = Callable[[Mapping[bytes, bytes]], object]
"""Takes segment rows by key."""


class Thread(NamedTuple):
    """A thread as its port knows it. ``key`` is the port's own and is never given to another thread."""

    key: Any
    salt: bytes
    """The secret that keys the hashes of its segments: 16 random bytes, fixed when the thread is first written."""


class Columns(NamedTuple):
    """What anyone may read of a checkpoint, encrypted or not."""

    parent: str | None = None
    source: str | None = None
    step: int | None = None
    run_id: str | None = None
    ts: str = ""
    """When it was made, ISO 8601."""
    parents: str | None = None
    """JSON of the enclosing graphs' checkpoints; None for none."""


class CheckpointRow(NamedTuple):
    """One checkpoint. ``body`` is its maps and metadata, as the layout makes them, sealed if need be."""

    ns: str
    id: str
    columns: Columns
    flags: int
    body: bytes


class TaskRow(NamedTuple):
    """What one task wrote from one checkpoint: all its calls of ``put_writes``, merged (spec 1.8)."""

    ns: str
    id: str
    task_id: str
    path: str
    body: bytes


class Scope(NamedTuple):
    """Which checkpoints a listing is about; None means any. ``before`` is an exclusive upper bound of the id."""

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


class Sizes(NamedTuple):
    """Lengths in bytes of a thread's value rows by id and of its segments by key."""

    values: Mapping[int, int]
    segments: Mapping[bytes, int]


class Head(NamedTuple):
    """One checkpoint, as ``View.head`` finds it."""

    thread: Thread | None
    row: CheckpointRow | None
    tasks: Sequence[TaskRow] = ()
    """The rows of its tasks, in no order."""


class Trail(NamedTuple):
    """A checkpoint and its ancestors, as ``View.trail`` finds them."""

    thread: Thread
    rows: Sequence[CheckpointRow]
    """Nearest first; none when the checkpoint is not there."""
    tasks: Sequence[TaskRow]
    segments: Mapping[bytes, bytes]
    """Segments that the rows depend on, those that the port has found on the way."""
    ended: bool
    """Whether going on from the last row would find nothing that was wanted."""


class Pieces(NamedTuple):
    """Value rows by id and segment rows by key."""

    values: Mapping[int, bytes]
    segments: Mapping[bytes, bytes]


class Foreseen(NamedTuple):
    """What a transaction is about to ask of one thread, so that a distant port can ask for all of it at once.

    It says what the writer believes, too: a port may answer with that at once, compare it with what is stored when the
    transaction ends, and raise ``Conflict`` where they differ.
    """

    heads: Mapping[str, str | None]
    """Namespaces whose newest checkpoint is wanted, with the id that is expected; None for no checkpoint."""
    checkpoints: Mapping[tuple[str, str], bytes]
    """(namespace, id) of checkpoints whose bodies are wanted, with the bodies that are expected."""
    tasks: Collection[tuple[str, str, str]]
    """(namespace, id, task id) of task rows that are about to be added. None is expected to be there."""
    thread: Thread | None
    """The thread as the writer knows it; None for one that is expected not to be there."""


class Bundle(NamedTuple):
    """Rows of one thread that are stored together, if all is as the writer believes; see ``Direct``.

    No name stands twice among tasks or among checkpoints.
    """

    thread_id: str
    thread: Thread | None
    """The thread as the writer knows it; None for one that is expected not to be there."""
    salt: bytes
    """For a thread that is not there."""
    heads: Mapping[str, str | None]
    """As in ``Foreseen``."""
    bases: Mapping[tuple[str, str], bytes]
    """(namespace, id) of checkpoints with the bodies that are expected."""
    segments: Collection[tuple[bytes, bytes]]
    values: Sequence[tuple[int, bytes]]
    tasks: Sequence[TaskRow]
    """None of them is expected to be there."""
    checkpoints: Sequence[CheckpointRow]


class Conflict(Exception):
    """Nothing was stored or found, and the same may be run again: another writer or a lost connection was in the way.

    Its message, if it has one, says what was in the way.
    """


class View(Protocol):
    """What is stored, as it was when the view was opened."""

    async def thread(self, thread_id: str) -> Thread | None: ...

    async def checkpoint(self, thread: Thread, ns: str, id: str | None) -> CheckpointRow | None:
        """One row, hidden or not; with ``id`` None the newest that is not hidden."""
        ...

    async def head(self, ref: Ref, known: Thread | None) -> Head:
        """The row that ``checkpoint`` would give, hidden or not, with its thread and its tasks.

        In one query where the port can. ``known`` is the thread as it is remembered, and may be gone.
        """
        ...

    async def checkpoints(self, thread: Thread, names: Collection[tuple[str, str]]) -> Sequence[CheckpointRow]:
        """The rows with these (namespace, id) names that exist, in no order."""
        ...

    async def keys(self, scope: Scope, limit: int | None = None) -> Sequence[Ref]:
        """Names of the checkpoints in scope that are not hidden: greatest id first, then by thread and namespace."""
        ...

    async def tasks(self, thread: Thread, names: Collection[tuple[str, str]]) -> Sequence[TaskRow]:
        """The task rows of the checkpoints with these (namespace, id) names, in no order."""
        ...

    async def lineage(
        self, thread: Thread, ns: str, id: str, limit: int | None
    ) -> tuple[Sequence[CheckpointRow], Sequence[TaskRow]]:
        """The row with this name and its ancestors along ``columns.parent``, with all their task rows.

        Nearest first, hidden rows too, at most ``limit`` checkpoints; task rows in no order. In one query: it ends at a
        row that is missing, and where a damaged store runs in a circle.
        """
        ...

    async def trail(self, ref: Ref, known: Thread | None, channels: Collection[str], limit: int | None) -> Trail | None:
        """The lineage of a checkpoint, or of the newest of its namespace that is not hidden; None without its thread.

        In one query where the port can. ``known`` is the thread as it is remembered, and may be gone. At most ``limit``
        checkpoints; a port that can read rows goes just as far as values of all these channels are stored instead.
        """
        ...

    async def pieces(
        self, thread: Thread, ids: Collection[int], keys: Collection[bytes], bodies: Collection[bytes]
    ) -> Pieces:
        """The value rows with these ids, and as many segments as can be had in the same query.

        Those with these keys, and those that the value rows and these bodies of task writes depend on. A port that has
        less to give leaves it out.
        """
        ...

    async def values(self, thread: Thread, ids: Collection[int]) -> Mapping[int, bytes]:
        """The value rows with these ids that exist."""
        ...

    async def segments(self, thread: Thread, keys: Collection[bytes], take: Take) -> None:
        """Hand the segment rows with these keys that exist to ``take``, some at a time where the port can.

        A long value is not in memory twice then. Best in the order of the keys, of which none is named twice.
        """
        ...

    async def every_checkpoint(self, thread: Thread) -> Sequence[CheckpointRow]:
        """All rows of a thread, hidden ones too, in no order."""
        ...

    async def every_task(self, thread: Thread) -> Sequence[TaskRow]: ...

    async def every_value(self, thread: Thread) -> Mapping[int, bytes]: ...

    async def every_segment(self, thread: Thread) -> Mapping[bytes, bytes]: ...

    async def sizes(self, thread: Thread) -> Sizes:
        """How long what is stored in each value row and segment is; the bytes themselves are not read."""
        ...

    async def thread_ids_of_runs(self, run_ids: Collection[str]) -> Sequence[str]:
        """Threads that have a checkpoint of one of these runs."""
        ...

    async def threads(self) -> Sequence[ThreadInfo]: ...

    async def thread_ids(self) -> Sequence[str]:
        """Every thread of which anything is stored, those included that have no checkpoint (yet)."""
        ...


class Change(View, Protocol):
    """A view in which rows can be changed: all of it is kept, or none."""

    @property
    def far(self) -> bool:
        """Whether each question is a round trip, so that ``foresee`` pays."""
        ...

    async def foresee(self, thread_id: str, needs: Foreseen) -> None:
        """Ask for all of this now, and answer from it later. Only called where ``far`` says so."""
        ...

    async def open_thread(self, thread_id: str, salt: bytes) -> Thread:
        """The thread, made with this salt if it is not there."""
        ...

    async def body(self, thread: Thread, ns: str, id: str) -> bytes | None:
        """The body of a checkpoint row as it is stored now."""
        ...

    async def put_checkpoint(self, thread: Thread, row: CheckpointRow) -> None:
        """Store a row; one with the same name gives way."""
        ...

    async def add_task(self, thread: Thread, row: TaskRow) -> bool:
        """Store a task row unless the task has one; whether it was stored."""
        ...

    async def task(self, thread: Thread, ns: str, id: str, task_id: str) -> TaskRow | None: ...

    async def put_task(self, thread: Thread, row: TaskRow) -> None:
        """Store a task row in the place of the one that is there."""
        ...

    async def add_values(self, thread: Thread, rows: Collection[tuple[int, bytes]]) -> None:
        """Store value rows under new ids."""
        ...

    async def add_segments(self, thread: Thread, rows: Collection[tuple[bytes, bytes]]) -> None:
        """Store the segments whose keys are not there yet."""
        ...

    async def flag(self, thread: Thread, ns: str, id: str, flags: int) -> None:
        """Set a checkpoint's flags."""
        ...

    async def drop(self, thread: Thread, names: Collection[tuple[str, str]]) -> None:
        """Remove checkpoints, and task rows even where the checkpoint is not there."""
        ...

    async def drop_task(self, thread: Thread, row: TaskRow) -> None: ...

    async def sweep(self, thread: Thread, values: Collection[int], segments: Collection[bytes]) -> None:
        """Remove the value rows and segments of a thread that are not among these."""
        ...

    async def drop_thread(self, thread_id: str) -> None:
        """Remove everything of a thread."""
        ...


class Rows:
    """What one step adds, ready to store once its base is found unchanged."""

    __slots__ = ("checkpoint", "segments", "tasks", "values")

    def __init__(self) -> None:
        self.tasks: list[TaskRow] = []
        self.values: list[tuple[int, bytes]] = []
        self.segments: dict[bytes, bytes] = {}
        self.checkpoint: CheckpointRow | None = None


class Direct(Protocol):
    """Stores without a transaction that could be asked something: believed, compared and stored in one call."""

    async def store(self, bundle: Bundle) -> Thread | None:
        """Store a bundle, and give its thread; None, and nothing is stored, unless all is known to be as is believed.

        Then a transaction is to look for itself.
        """
        ...


class Port(Protocol):
    """Where rows are kept. A blocking port never suspends; ``waits`` says that it may wait for a disk.

    ``grouped`` says that there is one writer at a time anyway, so that steps which arrive together are better stored
    in one transaction. Where it is False they are stored by as many transactions at once. Such a port may have a method
    ``append(bundles) -> list[Thread] | None``, a short way for steps that find everything as they believe it to be:
    their threads when all of them are stored, None when nothing is and they have to go the long way.
    """

    @property
    def blocking(self) -> bool: ...

    @property
    def waits(self) -> bool: ...

    @property
    def grouped(self) -> bool: ...

    @property
    def steady(self) -> bool:
        """Whether its operations may run as ``whole`` of the colours: none cancels the task that it runs in."""
        ...

    @property
    def direct(self) -> Direct | None:
        """A shorter way to store, where there is one."""
        ...

    def read(self) -> AbstractAsyncContextManager[View]:
        """``Conflict`` inside the block means that all of it may be run again."""
        ...

    def write(self) -> AbstractAsyncContextManager[Change]:
        """One transaction. ``Conflict``, when it ends or before, means that it may be run again."""
        ...

    async def pause(self, seconds: float) -> None:
        """Wait before a transaction is run again."""
        ...

    async def reclaim(self) -> None:
        """Give back the room that removed rows leave."""
        ...

    async def close(self) -> None:
        """Let go of what the port holds open. Idempotent."""
        ...

    def after_fork(self) -> None:
        """In a forked child: go on without the parent's locks and connections."""
        ...
