"""What rebuilds delta channels: a checkpoint's ancestors, read together (spec 8.3, 8.10).

Two questions, however far back the values are: one for the checkpoint, its ancestors and all their task writes, one for
the values to start from and what they and the writes are made of. A port that cannot look into rows is asked again for
what only the answer names, a fixed number of times. What is remembered, or kept in its row, is not asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from threadmark.checkpoint.base import DeltaChannelHistory
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.codec import Codec
from threadmark.checkpoint.facts import Extra, unpack_extra
from threadmark.checkpoint.layout import History, Node, plan_history
from threadmark.checkpoint.opened import Opened
from threadmark.checkpoint.reading import Shelf
from threadmark.checkpoint.records import Port, Ref, View
from threadmark.checkpoint.serde.errors import DeserializationError
from threadmark.checkpoint.transact import look

COUNTERS: Final = "counters_since_delta_snapshot"
"""Key of the metadata: for each delta channel its updates and supersteps since a checkpoint held it whole."""
_NEAR: Final = 64
"""Rows read at first when nothing is known of the checkpoint and the port cannot tell how far to go."""


class _Line(NamedTuple):
    """A checkpoint's ancestors by id, and where among them its channels are."""

    shelf: Shelf
    opened: Mapping[str, Opened]
    plan: History


async def history(
    port: Port, codec: Codec, caches: Caches, ref: Ref, channels: Sequence[str]
) -> Mapping[str, DeltaChannelHistory]:
    """The writes behind the nearest stored value of each channel, oldest first; hidden checkpoints' too."""
    if not channels:
        return {}

    async def work(view: View) -> Mapping[str, DeltaChannelHistory]:
        line = await _line(view, codec, caches, ref, channels)
        if line is None:
            return {channel: DeltaChannelHistory(writes=[]) for channel in channels}
        return await _told(line)

    return await look(port, work)


async def _line(view: View, codec: Codec, caches: Caches, ref: Ref, channels: Sequence[str]) -> _Line | None:
    """The ancestors of a checkpoint up to the stored values of all the channels; None if it is not there."""
    known = None if ref.id is None else caches.parents.get(ref)
    far = None if known is None else _far(codec, unpack_extra(known.row.fields.extra), channels)
    # A port can look into plain rows only, and what a checkpoint says costs less to follow.
    open_channels = () if far is not None or codec.seal(ref.thread_id) is not None else channels
    limit = _NEAR if far is None else far + 1
    trail = await view.trail(ref, caches.threads.get(ref.thread_id), open_channels, limit)
    if trail is None or not trail.rows:
        return None
    shelf = Shelf(view, codec, caches, ref.thread_id, trail.thread)
    head, opened, nodes = trail.rows[0].id, dict[str, Opened](), dict[str, Node]()
    while True:
        shelf.found.update(trail.segments)
        for item in await shelf.open(trail.rows, trail.tasks):
            opened[item.row.id] = item
            stored = frozenset(item.known.fields.values.keys() & channels)
            nodes[item.row.id] = Node(id=item.row.id, parent=item.row.columns.parent, stored=stored)
        plan = plan_history(nodes[head].parent, nodes, channels)
        if plan.wanted is None or trail.ended:
            return _Line(shelf, opened, plan)
        more = None
        if far is None and (far := _far(codec, opened[head].extra, channels)) is not None:
            more = max(far + 1 - len(trail.rows), 1)
        trail = await view.trail(ref._replace(id=plan.wanted), trail.thread, open_channels, more)
        if trail is None:
            return _Line(shelf, opened, plan)


def _far(codec: Codec, extra: Extra, channels: Sequence[str]) -> int | None:
    """How many ancestors away the stored values are at most, as far as a checkpoint says so."""
    if not isinstance(extra.metadata, bytes):
        return None
    try:
        counters = codec.load(extra.metadata).get(COUNTERS)
        return max(0, *(int(counters[channel][1]) for channel in channels))
    except (AttributeError, DeserializationError, KeyError, TypeError, ValueError, IndexError):
        return None  # a hint only: nothing depends on it


async def _told(line: _Line) -> Mapping[str, DeltaChannelHistory]:
    """The values of writes and seeds."""
    shelf, opened, plan = line
    entries = {
        channel: [
            (task, body) for id in ids for task in opened[id].tasks for _, name, body in task.entries if name == channel
        ]
        for channel, ids in plan.writes.items()
    }
    refs = [opened[id].known.fields.values[channel] for channel, id in plan.seeds.items()]
    ids, bodies = {ref for ref in refs if isinstance(ref, int)}, [b for found in entries.values() for _, b in found]
    await shelf.look_up(ids, bodies)
    materials = await shelf.gathered(ids, bodies)
    told: dict[str, DeltaChannelHistory] = {}
    for channel, found in entries.items():
        writes = [materials.write(task, channel, body) for task, body in found]
        told[channel] = DeltaChannelHistory(writes=writes)
        if channel in plan.seeds:
            told[channel]["seed"] = materials.value(opened[plan.seeds[channel]], channel)
    return told
