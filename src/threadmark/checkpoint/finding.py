"""One checkpoint as it is asked for: with its parent, where a look at it shows what the parent's tasks wrote."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from threadmark.checkpoint.base import CheckpointTuple
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.codec import Codec
from threadmark.checkpoint.facts import SHOWN
from threadmark.checkpoint.reading import Materials, Opened, Shelf
from threadmark.checkpoint.records import HIDDEN, ORPHANED, CheckpointRow, Port, Ref, Thread, View
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
    return next(iter(await _found(port, codec, caches, ref, channels, None)), None)


async def find_both(
    port: Port, codec: Codec, caches: Caches, ref: Ref, behind: Behind
) -> tuple[CheckpointTuple | None, CheckpointTuple | None]:
    """One checkpoint with all that belongs to it, and what is wanted of its parent; None for what is not there."""
    found, parent, *_ = *await _found(port, codec, caches, ref, None, behind), None, None
    return found, parent


async def _found(
    port: Port, codec: Codec, caches: Caches, ref: Ref, channels: Collection[str] | None, behind: Behind | None
) -> Sequence[CheckpointTuple]:
    async def work(view: View) -> tuple[Thread, Sequence[Opened], Materials] | None:
        known = caches.threads.get(ref.thread_id)
        thread, row = await _row(view, known, ref)
        if thread is None or row is None or row.flags & HIDDEN:
            return None
        shelf = Shelf(view, codec, caches, ref.thread_id, thread)
        opened = await shelf.take(row)
        shelf.remember(opened)
        parent_id = None if behind is None else _parent_id(opened, behind)
        ids = (row.id,) if parent_id is None else (row.id, parent_id)
        tasks = await view.tasks(thread, [(row.ns, id) for id in ids])
        opened = shelf.with_tasks(opened, tasks)
        wanted = [opened if channels is None else opened.valued(channels)]
        if behind is not None and parent_id is not None:
            row = await view.checkpoint(thread, ref.ns, parent_id)
            if row is not None and not row.flags & HIDDEN:
                wanted.append(shelf.with_tasks(await shelf.take(row), tasks).valued(behind.channels))
        return thread, wanted, await shelf.materials(wanted, once=known is None)

    found = await look(port, work)
    if found is None:
        return ()
    thread, wanted, materials = found
    if caches.threads.get(ref.thread_id) != thread:
        caches.threads.set(ref.thread_id, thread)
    # The parent first, while the processor's caches have not been filled with the values of the other one yet.
    parents = [materials.tuple(opened, keep=False) for opened in wanted[1:]]
    return [materials.tuple(wanted[0], keep=True), *parents]


async def _row(view: View, known: Thread | None, ref: Ref) -> tuple[Thread | None, CheckpointRow | None]:
    """The row that is asked for and its thread, of which what is remembered may be true no more."""
    if known is not None:
        row = await view.checkpoint(known, ref.ns, ref.id)
        if row is not None:
            return known, row
    thread = await view.thread(ref.thread_id)
    if thread is None or thread == known:
        return thread, None
    return thread, await view.checkpoint(thread, ref.ns, ref.id)


def _parent_id(opened: Opened, behind: Behind) -> str | None:
    """The parent of which something is wanted."""
    row, told = opened.row, opened.extra.shown is not None or SHOWN in opened.known.fields.values
    if told or row.flags & ORPHANED or row.columns.source not in behind.sources:
        return None
    return row.columns.parent or None
