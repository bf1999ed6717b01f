"""One checkpoint as it is asked for: with its parent, where a look at it shows what the parent's tasks wrote."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from threadmark.checkpoint.base import CheckpointTuple, TaskWrites
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.codec import Codec
from threadmark.checkpoint.facts import SHOWN
from threadmark.checkpoint.opened import Opened, OpenedTask
from threadmark.checkpoint.reading import Materials, Shelf
from threadmark.checkpoint.records import HIDDEN, ORPHANED, Port, Ref, Thread, View
from threadmark.checkpoint.transact import look

__all__ = ["Behind", "find", "find_both"]


class Behind(NamedTuple):
    """What is wanted of the parent of a checkpoint that is read: its task writes, and the values of these channels.

    Only if the checkpoint is of one of these sources, and does not say itself what its superstep wrote.
    """

    sources: Collection[str]
    channels: Collection[str]
    paths: Collection[str] = ()
    """Paths of tasks of which nothing of the parent has to be known but what they wrote."""


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
) -> tuple[CheckpointTuple | None, CheckpointTuple | Sequence[TaskWrites] | None]:
    """One checkpoint as ``find`` gives it, and what is wanted of its parent; None for what is not there."""

    async def work(view: View) -> _Found | None:
        known = caches.threads.get(ref.thread_id)
        thread, row, tasks = await view.head(ref, known)
        if thread is None or row is None or row.flags & HIDDEN:
            return None
        shelf = Shelf(view, codec, caches, ref.thread_id, thread)
        opened = await shelf.take(row, keep=True)
        asked = opened.valued(channels, shelf.tasks_of(row, tasks))
        parent_id = None if behind is None else _parent_id(opened, behind)
        if behind is None or parent_id is None:
            parent: Opened | Sequence[OpenedTask] | None = None
        else:
            parent = await _behind(shelf, Ref(ref.thread_id, ref.ns, parent_id), behind)
        materials = await shelf.materials([asked] if parent is None else [asked, parent], once=known is None)
        return _Found(thread, known, asked, parent, materials)

    found = await look(port, work)
    if found is None:
        return None, None
    thread, known, asked, parent, materials = found
    if thread != known:
        caches.threads.set(ref.thread_id, thread)
    # The parent first, while the processor's caches have not been filled with the values of the other one yet.
    shown: CheckpointTuple | Sequence[TaskWrites] | None = None
    if isinstance(parent, Opened):
        shown = materials.tuple(parent, keep=False)
    elif parent is not None:
        shown = materials.left_by(parent)
    return materials.tuple(asked, keep=True), shown


class _Found(NamedTuple):
    thread: Thread
    known: Thread | None
    """The thread as it was remembered."""
    asked: Opened
    parent: Opened | Sequence[OpenedTask] | None
    materials: Materials


async def _behind(shelf: Shelf, ref: Ref, behind: Behind) -> Opened | Sequence[OpenedTask] | None:
    """What is wanted of a parent. Its tasks alone, where they say enough, take a third of what all of it takes."""
    if behind.paths:
        rows = await shelf.view.tasks(shelf.thread, [(ref.ns, ref.id or "")])
        if rows and all(row.path in behind.paths for row in rows):
            return shelf.in_order(rows)
    _, row, tasks = await shelf.view.head(ref, shelf.thread)
    if row is None or row.flags & HIDDEN:
        return None
    opened = await shelf.take(row)
    return opened.valued(behind.channels, shelf.tasks_of(row, tasks))


def _parent_id(opened: Opened, behind: Behind) -> str | None:
    """The parent of which something is wanted."""
    row, told = opened.row, opened.extra.shown is not None or SHOWN in opened.known.fields.values
    if told or row.flags & ORPHANED or row.columns.source not in behind.sources:
        return None
    return row.columns.parent or None
