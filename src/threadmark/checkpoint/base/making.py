"""Making checkpoints: an empty one, a copy, the one that follows another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from threadmark import ids
from threadmark.checkpoint.base.values import Checkpoint
from threadmark.errors import EmptyChannelError

LATEST_VERSION: Final = 4
"""Format version of the checkpoints that this package makes (spec 1.1)."""


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
