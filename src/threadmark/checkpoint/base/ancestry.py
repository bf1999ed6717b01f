"""Rebuilding delta channels by following parents one by one, for savers without a quicker way (spec 8.10)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from threadmark.checkpoint.base.configs import get_checkpoint_id
from threadmark.checkpoint.base.values import CheckpointTuple, DeltaChannelHistory, PendingWrite

if TYPE_CHECKING:
    from threadmark.config import RunnableConfig


async def delta_history(
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
