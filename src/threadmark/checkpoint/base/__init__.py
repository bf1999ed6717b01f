"""The saver contract: what a graph needs from a store, and the values that travel between the two (spec 1, 11).

Whoever writes a saver subclasses ``BaseCheckpointSaver`` and gives it ``put``, ``put_writes``, ``get_tuple``,
``list`` and ``delete_thread``, or their twins whose names start with ``a``, or both.
"""

from __future__ import annotations

import builtins
import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    NamedTuple,
    NoReturn,
    NotRequired,
    TypeAlias,
    TypedDict,
    TypeVar,
    cast,
)

from threadmark import ids
from threadmark.checkpoint.base.retention import PrunedThread, PruneReport, Retention
from threadmark.colour import drive
from threadmark.config import thread_name
from threadmark.errors import EmptyChannelError, MissingThreadId

if TYPE_CHECKING:
    from threadmark.config import RunnableConfig

__all__ = [
    "CONFIG_KEYS",
    "EXCLUDED_METADATA_KEYS",
    "UNSET",
    "WRITES_IDX_MAP",
    "BaseCheckpointSaver",
    "ChannelVersions",
    "Checkpoint",
    "CheckpointMetadata",
    "CheckpointTuple",
    "DeltaChannelHistory",
    "PendingWrite",
    "PruneReport",
    "PrunedThread",
    "Retention",
    "Step",
    "StepWriter",
    "TaskWrites",
    "copy_checkpoint",
    "create_checkpoint",
    "empty_checkpoint",
    "get_checkpoint_id",
    "get_checkpoint_metadata",
    "get_thread_id",
    "implements",
    "parents_supported",
    "partial_reads_supported",
    "steps_supported",
]

V = TypeVar("V", bound="int | float | str")

PendingWrite: TypeAlias = tuple[str, str, Any]
"""``(task_id, channel, value)``."""
TaskWrites: TypeAlias = tuple[str, str, Sequence[tuple[str, Any]]]
"""``(task_id, task_path, [(channel, value), ...])``: what one task hands to ``put_writes``."""
ChannelVersions: TypeAlias = dict[str, str | int | float]

LATEST_VERSION: Final = 4
"""Format version of the checkpoints that this package makes (spec 1.1)."""

WRITES_IDX_MAP: Final[dict[str, int]] = {"__error__": -1, "__scheduled__": -2, "__interrupt__": -3, "__resume__": -4}
"""Fixed places of special writes; any other write is stored at its position in its call (spec 1.8)."""

EXCLUDED_METADATA_KEYS: Final = frozenset(
    {
        "thread_id",
        "checkpoint_id",
        "checkpoint_ns",
        "checkpoint_map",
        "langgraph_step",
        "langgraph_node",
        "langgraph_triggers",
        "langgraph_path",
        "langgraph_checkpoint_ns",
    }
)
"""Keys of a config that say where a run is; they are never copied into stored metadata (spec 1.3)."""

CONFIG_KEYS: Final = ("run_id", "assistant_id", "graph_id")
"""Keys of ``config["configurable"]`` that are stored as metadata. All others stay out: they may be secrets."""


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


class _DefaultSerde:
    """Makes the default serializer of a saver that was given none, when it is first asked for."""

    def __get__(self, saver: object, kind: type) -> Any:
        if saver is None:
            return self
        from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer

        serde = saver.__dict__["serde"] = JsonPlusSerializer()
        return serde


class BaseCheckpointSaver(Generic[V]):
    """Base of every saver. The five base methods raise ``NotImplementedError`` until a saver defines them.

    ``serde`` turns values into bytes. ``config_keys`` are the keys of ``config["configurable"]`` that become
    metadata (run ids; nothing else unless listed, since a config may hold secrets).
    """

    serde: Any = _DefaultSerde()
    config_keys: Sequence[str] = CONFIG_KEYS
    instant: bool = False
    """Whether storing waits for nothing, neither a disk nor a network: then runs leave nothing of it for later."""

    def __init__(self, *, serde: Any = None, config_keys: Sequence[str] | None = None) -> None:
        if serde is not None:
            self.serde = serde
        if config_keys is not None:
            self.config_keys = CONFIG_KEYS + tuple(config_keys)

    @property
    def config_specs(self) -> builtins.list[Any]:
        """Config fields that the saver adds to a graph's; none."""
        return []

    # -- reading ---------------------------------------------------------------------------------------------------

    def get(self, config: RunnableConfig) -> Checkpoint | None:
        """The checkpoint that ``config`` names, or the newest of its thread; None if there is none."""
        found = self.get_tuple(config)
        return found.checkpoint if found else None

    async def aget(self, config: RunnableConfig) -> Checkpoint | None:
        """The checkpoint that ``config`` names, or the newest of its thread; None if there is none."""
        found = await self.aget_tuple(config)
        return found.checkpoint if found else None

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that ``config`` names, or the newest of its thread, with all that belongs to it."""
        _missing(self, "get_tuple")

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that ``config`` names, or the newest of its thread, with all that belongs to it."""
        _missing(self, "aget_tuple")

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Stored checkpoints, greatest id first (spec 11.3).

        ``config`` None means all threads; without ``checkpoint_ns`` all its namespaces. ``filter`` compares
        metadata by literal key and deep equality; None matches a present None. ``before`` is an exclusive bound.
        """
        _missing(self, "list")

    def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Stored checkpoints, greatest id first (spec 11.3)."""
        _missing(self, "alist")

    # -- writing ---------------------------------------------------------------------------------------------------

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint whose parent is the one that ``config`` names; returns the config that names it."""
        _missing(self, "put")

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint whose parent is the one that ``config`` names; returns the config that names it."""
        _missing(self, "aput")

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what one task wrote while it ran from ``config``'s checkpoint, which need not be stored yet."""
        _missing(self, "put_writes")

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what one task wrote while it ran from ``config``'s checkpoint, which need not be stored yet."""
        _missing(self, "aput_writes")

    # -- tidying up ------------------------------------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread; nothing happens if there is none."""
        _missing(self, "delete_thread")

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete everything of a thread; nothing happens if there is none."""
        _missing(self, "adelete_thread")

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints, and their task writes, whose metadata names one of these runs. Optional."""
        _missing(self, "delete_for_runs")

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints, and their task writes, whose metadata names one of these runs. Optional."""
        _missing(self, "adelete_for_runs")

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy everything of a thread under another id. Optional."""
        _missing(self, "copy_thread")

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy everything of a thread under another id. Optional."""
        _missing(self, "acopy_thread")

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> PruneReport | None:
        """Keep the newest checkpoint of each namespace (``keep_latest``) or nothing (``delete``). Optional.

        A saver may take ``keep_last``, ``older_than``, ``ns`` and ``dry_run`` as well, and then tells what it did.
        """
        _missing(self, "prune")

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> PruneReport | None:
        """Keep the newest checkpoint of each namespace (``keep_latest``) or nothing (``delete``). Optional."""
        _missing(self, "aprune")

    # -- delta channels --------------------------------------------------------------------------------------------

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What rebuilds each of these delta channels at ``config``'s checkpoint, by following parents (spec 8.10)."""

        async def get(at: RunnableConfig) -> CheckpointTuple | None:
            return self.get_tuple(at)

        return drive(_delta_history(get, config, channels))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What rebuilds each of these delta channels at ``config``'s checkpoint, by following parents (spec 8.10)."""
        return await _delta_history(self.aget_tuple, config, channels)

    # -- small things ----------------------------------------------------------------------------------------------

    def get_next_version(self, current: V | None, channel: None) -> V:
        """The version that follows ``current`` (None: the first one): whole numbers (spec 1.6)."""
        if isinstance(current, str):
            raise TypeError(
                f"{type(self).__name__} counts versions in whole numbers but the stored one is {current!r}; "
                f"define get_next_version to go on with such versions"
            )
        return cast(V, 1 if current is None else int(current) + 1)

    def with_allowlist(self, extra_allowlist: Any) -> Any:
        """This saver, on the same store, whose serializer may revive these types as well (spec 12.4)."""
        extend = getattr(self.serde, "with_allowlist", None) or getattr(self.serde, "with_msgpack_allowlist", None)
        return self if extend is None else self.with_serde(extend(extra_allowlist))

    def with_serde(self, serde: Any) -> Any:
        """This saver, on the same store, with another serializer: a shallow copy."""
        clone = copy.copy(self)
        clone.serde = serde
        return clone


def _missing(saver: object, method: str) -> NoReturn:
    kind = type(saver).__name__
    raise NotImplementedError(f"{kind} has no {method}(); define it, or use a saver that can")


async def _delta_history(
    get: Callable[[RunnableConfig], Awaitable[CheckpointTuple | None]],
    config: RunnableConfig,
    channels: Sequence[str],
) -> Mapping[str, DeltaChannelHistory]:
    """Walk from the target's parent upwards until every channel has met a stored value."""
    if not channels:
        return {}
    target = await get(config)
    at = target.parent_config if target else None
    writes: dict[str, list[PendingWrite]] = {channel: [] for channel in channels}
    seeds: dict[str, Any] = {}
    open_channels = set(channels)
    visited: set[str | None] = set()
    while at is not None and open_channels and (name := get_checkpoint_id(at)) not in visited:
        visited.add(name)  # a damaged store may hold a circle of parents
        found = await get(at)
        if found is None:
            break
        for write in reversed(found.pending_writes or ()):
            if write[1] in open_channels:
                writes[write[1]].append(write)
        stored = found.checkpoint["channel_values"]
        seeds.update({channel: stored[channel] for channel in open_channels if channel in stored})
        open_channels -= stored.keys()
        at = found.parent_config
    return {channel: _history(writes[channel], seeds, channel) for channel in channels}


def _history(newest_first: list[PendingWrite], seeds: dict[str, Any], channel: str) -> DeltaChannelHistory:
    entry = DeltaChannelHistory(writes=newest_first[::-1])
    if channel in seeds:
        entry["seed"] = seeds[channel]
    return entry


# -- what a class can do ---------------------------------------------------------------------------------------------


def implements(saver: object, method: str) -> bool:
    """Whether a saver has its own ``method``, not the base's that only raises ``NotImplementedError``."""
    if method in vars(saver):
        return True
    definer = _definer(type(saver), method)
    return definer is not None and definer is not BaseCheckpointSaver


def _definer(kind: type, method: str) -> type | None:
    return next((base for base in kind.__mro__ if method in vars(base)), None)


_PER_CALL = ("put", "put_writes", "aput", "aput_writes")
_READS = ("get_tuple", "aget_tuple")


def steps_supported(saver: object) -> bool:
    """Whether ``put_step`` and ``open_writer`` may stand in for ``put`` and ``put_writes`` on this saver.

    Only if the class that defines them is the one whose ``put`` and ``put_writes`` are in force, or derives from
    it: a subclass with its own ``put`` must see every checkpoint, so it switches them off.
    """
    kind = type(saver)
    writer, step = _definer(kind, "open_writer"), _definer(kind, "put_step")
    if writer is None or step is None or not issubclass(writer, step):
        return False
    return _stands_for(saver, step, _PER_CALL)


def partial_reads_supported(saver: object) -> bool:
    """Whether ``get_partial`` may stand in for ``get_tuple`` on this saver, and so for what a subclass makes of it."""
    partial = _definer(type(saver), "get_partial")
    return partial is not None and _stands_for(saver, partial, _READS)


def parents_supported(saver: object) -> bool:
    """Whether ``get_with_parent`` may stand in for ``get_tuple`` and ``get_partial`` on this saver."""
    both = _definer(type(saver), "get_with_parent")
    return both is not None and _stands_for(saver, both, (*_READS, "get_partial", "aget_partial"))


def _stands_for(saver: object, definer: type, methods: Sequence[str]) -> bool:
    """Whether ``definer`` is the class whose ``methods`` are in force, or derives from it."""
    if not vars(saver).keys().isdisjoint(methods):
        return False
    others = (_definer(type(saver), name) for name in methods)
    return all(other is None or issubclass(definer, other) for other in others)


# -- checkpoints -----------------------------------------------------------------------------------------------------


def empty_checkpoint() -> Checkpoint:
    """A checkpoint that holds nothing, with a fresh id."""
    return Checkpoint(
        v=LATEST_VERSION,
        id=ids.checkpoint_id(-2),
        ts=ids.timestamp(),
        channel_values={},
        channel_versions={},
        versions_seen={},
    )


def create_checkpoint(
    checkpoint: Checkpoint, channels: Mapping[str, Any] | None, step: int, *, id: str | None = None
) -> Checkpoint:
    """The checkpoint that follows ``checkpoint``, with what ``channels`` hold now; for tests of savers.

    ``channels`` are live channels by name; None takes the values over. Only those with a version are stored. The new
    id exceeds the old one unless it is given.
    """
    made = copy_checkpoint(checkpoint)
    if channels is not None:
        held = ((name, channels[name]) for name in made["channel_versions"] if name in channels)
        made["channel_values"] = {name: value for name, channel in held if not _is_missing(value := _held(channel))}
    made["v"], made["ts"] = LATEST_VERSION, ids.timestamp()
    made["id"] = id or ids.checkpoint_id(step, checkpoint["id"])
    made.setdefault("updated_channels", None)
    return made


def _held(channel: Any) -> Any:
    try:
        return channel.checkpoint()
    except EmptyChannelError:
        return _NOTHING


_NOTHING: Final = object()


def _is_missing(value: object) -> bool:
    """Whether a channel holds nothing. Its sentinel lives in a layer above this one, so it is known by its type."""
    return value is _NOTHING or type(value).__name__ == "_Missing"


def copy_checkpoint(checkpoint: Checkpoint) -> Checkpoint:
    """A copy whose maps can be changed without changing the original; the values are shared."""
    clone = cast("dict[str, Any]", {**checkpoint})
    clone["channel_values"] = dict(checkpoint["channel_values"])
    clone["channel_versions"] = dict(checkpoint["channel_versions"])
    clone["versions_seen"] = {node: dict(seen) for node, seen in checkpoint["versions_seen"].items()}
    for key in ("updated_channels", "pending_sends"):
        if clone.get(key) is not None:
            clone[key] = list(clone[key])
    return cast(Checkpoint, clone)


# -- configs ---------------------------------------------------------------------------------------------------------


def get_checkpoint_id(config: RunnableConfig) -> str | None:
    """The checkpoint that a config names, or None for the newest."""
    return config.get("configurable", {}).get("checkpoint_id") or None


def get_thread_id(config: RunnableConfig) -> str:
    """The thread that a config names, as text; ``MissingThreadId`` if it names none."""
    thread_id = (config.get("configurable") or {}).get("thread_id")
    if thread_id is None or thread_id == "":
        raise MissingThreadId()
    return thread_id if type(thread_id) is str else thread_name(thread_id)


def get_checkpoint_metadata(
    config: RunnableConfig, metadata: CheckpointMetadata, config_keys: Sequence[str] = CONFIG_KEYS
) -> CheckpointMetadata:
    """The metadata to store: ``metadata``, completed from the config (spec 1.3).

    Of the config only ``config["metadata"]`` and the listed keys of ``config["configurable"]`` count, only
    texts, numbers and truth values, and none that is already there, reserved or starts with ``__``.
    """
    stored: dict[str, Any] = {**metadata}
    extra = config.get("metadata")
    if extra:
        for key, value in extra.items():
            if _kept(key, value) and key not in stored:
                stored[key] = value
    configurable = config.get("configurable")
    if configurable and not configurable.keys().isdisjoint(config_keys):
        for key in config_keys:
            value = configurable.get(key)
            if value is not None and key not in stored and _kept(key, value):
                stored[key] = value
    return cast(CheckpointMetadata, stored)


def _kept(key: str, value: Any) -> bool:
    return isinstance(value, (str, int, bool, float)) and not key.startswith("__") and key not in EXCLUDED_METADATA_KEYS
