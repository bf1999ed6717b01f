"""What rebuilds delta channels: a checkpoint's ancestors, read together (spec 8.3, 8.10).

The number of queries does not depend on how far back the values are. On the way that an engine takes, right after it
has read the checkpoint: one for the ancestors and all their task writes, one for the values to start from, two for
the segments of both. From nothing: the thread, the blocks that the ancestors' maps are changes of, and the ancestors
in two queries, since only the checkpoint itself says how far to go; the newest checkpoint's name if it is not given.
What is remembered, or kept in its row, is not asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from threadmark.checkpoint.base import DeltaChannelHistory
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.codec import Codec
from threadmark.checkpoint.facts import Extra, unpack_extra
from threadmark.checkpoint.layout import History, Node, plan_history
from threadmark.checkpoint.reading import Opened, Shelf
from threadmark.checkpoint.records import Port, Ref, Thread, View
from threadmark.checkpoint.serde.errors import DeserializationError
from threadmark.checkpoint.transact import look

COUNTERS: Final = "counters_since_delta_snapshot"
"""Key of the metadata: for each delta channel its updates and supersteps since a checkpoint held it whole."""
_NEAR: Final = 64
"""Rows read at first when nothing is known of the checkpoint."""


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
        async def line_of(thread: Thread | None) -> _Line | None:
            shelf = None if thread is None else Shelf(view, codec, caches, ref.thread_id, thread)
            return None if shelf is None else await _line(shelf, ref, channels)

        line = await line_of(caches.threads.get(ref.thread_id))
        if line is None:  # never met; or deleted, and perhaps made anew, by another process
            line = await line_of(await view.thread(ref.thread_id))
        if line is None:
            return {channel: DeltaChannelHistory(writes=[]) for channel in channels}
        return await _told(line)

    return await look(port, work)


async def _line(shelf: Shelf, ref: Ref, channels: Sequence[str]) -> _Line | None:
    """The ancestors of a checkpoint up to the stored values of all the channels; None if it is not there."""
    view, thread, id = shelf.view, shelf.thread, ref.id
    if id is None:
        newest = await view.checkpoint(thread, ref.ns, None)
        if newest is None:
            return None
        id = newest.id
    known = shelf.caches.parents.get((ref.thread_id, ref.ns, id))
    far = None if known is None else _far(shelf.codec, unpack_extra(known.row.fields.extra), channels)
    opened, nodes = dict[str, Opened](), dict[str, Node]()
    limits, at = [_NEAR if far is None else far + 1, None], id
    while limits:
        limit = limits.pop(0)
        rows, tasks = await view.lineage(thread, ref.ns, at, limit)
        for item in await shelf.open(rows, tasks):
            opened[item.row.id] = item
            stored = frozenset(item.known.fields.values.keys() & channels)
            nodes[item.row.id] = Node(id=item.row.id, parent=item.row.columns.parent, stored=stored)
        if not opened:
            return None
        plan = plan_history(nodes[id].parent, nodes, channels)
        if plan.wanted is None or len(rows) != limit:
            break
        at = plan.wanted
        if far is None and (far := _far(shelf.codec, opened[id].extra, channels)) is not None:
            limits.insert(0, max(far + 1 - len(rows), 1))
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
    materials = await shelf.gathered(
        {ref for ref in refs if isinstance(ref, int)}, [body for found in entries.values() for _, body in found]
    )
    told: dict[str, DeltaChannelHistory] = {}
    for channel, found in entries.items():
        writes = [materials.write(task, channel, body) for task, body in found]
        told[channel] = DeltaChannelHistory(writes=writes)
        if channel in plan.seeds:
            told[channel]["seed"] = materials.value(opened[plan.seeds[channel]], channel)
    return told
