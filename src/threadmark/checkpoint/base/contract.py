"""``BaseCheckpointSaver``: the methods of every saver, in both colours (spec 11)."""

from __future__ import annotations

import builtins
import copy
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, cast

from threadmark.checkpoint.base.ancestry import delta_history
from threadmark.checkpoint.base.configs import CONFIG_KEYS
from threadmark.checkpoint.base.retention import PruneReport
from threadmark.checkpoint.base.values import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from threadmark.colour import drive

if TYPE_CHECKING:
    from threadmark.config import RunnableConfig

V = TypeVar("V", bound="int | float | str")


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

        return drive(delta_history(get, config, channels))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What rebuilds each of these delta channels at ``config``'s checkpoint, by following parents (spec 8.10)."""
        return await delta_history(self.aget_tuple, config, channels)

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
