"""What a config says to a saver: which thread, which checkpoint, and what of it becomes metadata (spec 1.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from threadmark.checkpoint.base.values import CheckpointMetadata
from threadmark.config import thread_name
from threadmark.errors import MissingThreadId

if TYPE_CHECKING:
    from threadmark.config import RunnableConfig

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
