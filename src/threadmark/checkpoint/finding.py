"""One checkpoint as it is asked for: with its parent, where a look at it shows what the parent's tasks wrote."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from threadmark.checkpoint.base import CheckpointTuple
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.codec import Codec
from threadmark.checkpoint.facts import SHOWN
from threadmark.checkpoint.reading import Materials, Opened, Shelf
from threadmark.checkpoint.records import HIDDEN, ORPHANED, Port, Ref, Thread, View
from threadmark.checkpoint.transact import look

__all__ = ["Behind", "find", "find_both"]


class Behind(NamedTuple):
    """What is wanted of the parent of a checkpoint that is read: its task writes, and the values of these channels.

    Only if the checkpoint is of one of these sources, and does not say itself what its superstep wrote.
    """

    sources: Collection[str]
    channels: Collection[str]


async def find(
    port: Port, codec: Codec, caches: Caches, ref: Ref, channels: Collection[str] | None = None
) -> CheckpointTuple | None:
    """One checkpoint with all that belongs to it; ``channels`` are those whose values are wanted, None for all."""
    return (await find_both(port, codec, caches, ref, None, channels))[0]


async def find_both(
    port: Port,
    codec: Codec,
    caches: Caches,
    ref: Ref,
    behind: Behind | None,
    channels: Collection[str] | None = None,
) -> tuple[CheckpointTuple | None, CheckpointTuple | None]:
    """One checkpoint as ``find`` gives it, and what is wanted of its parent; None for what is not there."""

    async def work(view: View) -> tuple[Thread, Thread | None, Sequence[Opened], Materials] | None:
        known = caches.threads.get(ref.thread_id)
        thread, row, tasks = await view.head(ref, known)
        if thread is None or row is None or row.flags & HIDDEN:
            return None
        shelf = Shelf(view, codec, caches, ref.thread_id, thread)
        opened = await shelf.take(row, keep=True)
        parent_id = None if behind is None else _parent_id(opened, behind)
        wanted = [opened.valued(channels, shelf.tasks_of(row, tasks))]
        if behind is not None and parent_id is not None:
            _, row, tasks = await view.head(Ref(ref.thread_id, ref.ns, parent_id), thread)
            if row is not None and not row.flags & HIDDEN:
                opened = await shelf.take(row)
                wanted.append(opened.valued(behind.channels, shelf.tasks_of(row, tasks)))
        return thread, known, wanted, await shelf.materials(wanted, once=known is None)

    found = await look(port, work)
    if found is None:
        return None, None
    thread, known, wanted, materials = found
    if thread != known:
        caches.threads.set(ref.thread_id, thread)
    # The parent first, while the processor's caches have not been filled with the values of the other one yet.
    parent = materials.tuple(wanted[1], keep=False) if len(wanted) > 1 else None
    return materials.tuple(wanted[0], keep=True), parent


def _parent_id(opened: Opened, behind: Behind) -> str | None:
    """The parent of which something is wanted."""
    row, told = opened.row, opened.extra.shown is not None or SHOWN in opened.known.fields.values
    if told or row.flags & ORPHANED or row.columns.source not in behind.sources:
        return None
    return row.columns.parent or None
