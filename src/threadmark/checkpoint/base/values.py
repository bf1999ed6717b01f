"""What travels between a graph and a store: checkpoints, the writes of tasks, supersteps (spec 1.1 to 1.4)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, NotRequired, TypeAlias, TypedDict

if TYPE_CHECKING:
    from threadmark.config import RunnableConfig

PendingWrite: TypeAlias = tuple[str, str, Any]
"""``(task_id, channel, value)``."""
TaskWrites: TypeAlias = tuple[str, str, Sequence[tuple[str, Any]]]
"""``(task_id, task_path, [(channel, value), ...])``: what one task hands to ``put_writes``."""
ChannelVersions: TypeAlias = dict[str, str | int | float]

WRITES_IDX_MAP: Final[dict[str, int]] = {"__error__": -1, "__scheduled__": -2, "__interrupt__": -3, "__resume__": -4}
"""Fixed places of special writes; any other write is stored at its position in its call (spec 1.8)."""


class Unset:
    """The type of ``UNSET``: an argument that was not given, where None means something."""

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> Literal[False]:
        return False


UNSET: Final = Unset()


class Checkpoint(TypedDict):
    """The state of a thread at the end of one superstep (spec 1.1)."""

    v: int
    id: str
    ts: str
    channel_values: dict[str, Any]
    channel_versions: ChannelVersions
    versions_seen: dict[str, ChannelVersions]
    updated_channels: NotRequired[list[str] | None]


class CheckpointMetadata(TypedDict, total=False):
    """What is known about a checkpoint besides its state (spec 1.3); further keys are kept."""

    source: Literal["input", "loop", "update", "fork"]
    step: int
    parents: dict[str, str]
    run_id: str
    counters_since_delta_snapshot: dict[str, list[int]]


class _TupleFields(NamedTuple):
    config: RunnableConfig
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    parent_config: RunnableConfig | None = None
    pending_writes: list[PendingWrite] | None = None


class CheckpointTuple(_TupleFields):
    """A stored checkpoint with its config, metadata, parent and task writes (spec 1.4): five fields.

    ``shown_writes`` is no field: it is what ``put_step`` was given under that name, for snapshots to show.
    """

    shown_writes: Any = None
    former_triggers: Mapping[str, Sequence[str]] | None = None
    """Of a checkpoint of an old format whose triggers have been given today's names: those before, by node."""
    long_lists: Mapping[str, Any] | None = None
    """Of a checkpoint that one of our savers has read: what it knows of the bytes of long lists, by channel."""


class DeltaChannelHistory(TypedDict):
    """What rebuilds a delta channel: its writes, oldest first, on top of ``seed`` if there is one (spec 8.10)."""

    writes: list[PendingWrite]
    seed: NotRequired[Any]


class Step(NamedTuple):
    """One superstep as a saver stores it: task writes of ``config``'s checkpoint, and the checkpoint that follows.

    Everything in it is stored together or not at all. ``checkpoint`` None means task writes only.
    """

    config: RunnableConfig
    checkpoint: Checkpoint | None = None
    metadata: CheckpointMetadata | None = None
    new_versions: Mapping[str, Any] = {}
    writes: Sequence[TaskWrites] = ()
    shown_writes: Any = None
    expected_head: str | None | Unset = UNSET
    """If given, the newest checkpoint id that the thread's namespace must have, else ``HeadMoved``."""
    looked: Collection[str] | None = None
    """If given, nobody changes the checkpoint's maps any more, and since ``config``'s checkpoint only the channels of
    ``new_versions`` have moved and only these nodes have seen anything: no map need be copied or compared."""
    lengthened: Mapping[str, Any] = {}
    """Channels whose list begins with the items of one of ``CheckpointTuple.long_lists``, in which nothing can have
    been changed since it was read, with that one: then the saver need not encode those items again."""


class NextStep(NamedTuple):
    """A superstep behind the last one that a writer was given, without what it has in common with that.

    As ``Step`` with ``looked``: nobody changes the maps any more, and nothing else has moved.
    """

    id: str
    moment: int
    """When it was made, ns since 1970."""
    number: int
    """What its metadata call ``step``."""
    writes: Sequence[TaskWrites]
    new_versions: Mapping[str, Any]
    versions: Mapping[str, Any]
    seen: Mapping[str, Mapping[str, Any]]
    values: Mapping[str, Any]
    """Of all channels that have one."""
    updated: Sequence[str] | None
    looked: Collection[str]
    lengthened: Mapping[str, Any]
    expected_head: str | None | Unset


class StepWriter:
    """Stores steps in order, several in one commit. One thread may add while another flushes."""

    def add(self, step: Step) -> None:
        """Encode the step at once, in this thread and without I/O; a later change of its values does not count."""
        raise NotImplementedError

    def flush(self) -> None:
        """Commit all steps added so far, in order and in one transaction; on return they are on disk."""
        raise NotImplementedError

    async def aflush(self) -> None:
        """The same, awaited."""
        raise NotImplementedError
