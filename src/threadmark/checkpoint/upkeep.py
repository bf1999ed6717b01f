"""Deleting, copying and pruning: planned by the layout, executed here, each thread in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from threadmark.checkpoint.base import PrunedThread, PruneReport
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.codec import Codec, checkpoint_place, segment_place, task_place, value_place
from threadmark.checkpoint.layout import plan_delete_runs
from threadmark.checkpoint.pruning import Planner, reduce, weight
from threadmark.checkpoint.records import Change, Port, View
from threadmark.checkpoint.transact import look, transact
from threadmark.errors import UnfinishedPrune


async def delete_thread(port: Port, caches: Caches, thread_id: str) -> None:
    """Remove everything of a thread."""
    await transact(port, lambda change: change.drop_thread(thread_id))
    caches.threads.forget(thread_id)
    await port.reclaim()


async def prune(
    port: Port, codec: Codec, caches: Caches, thread_ids: Sequence[str], plan_for: Planner | None, *, dry_run: bool
) -> PruneReport:
    """Carry out a plan, or without one remove everything, for each of these threads in turn."""
    done: list[PrunedThread] = []
    for thread_id in thread_ids:
        try:
            if plan_for is None:
                done.append(await _delete(port, caches, thread_id, dry_run=dry_run))
            else:
                done.append(await reduce(port, codec, thread_id, plan_for, dry_run=dry_run))
        except Exception as error:
            raise UnfinishedPrune(thread_id, PruneReport(tuple(done), dry_run), error) from error
    return PruneReport(tuple(done), dry_run)


async def _delete(port: Port, caches: Caches, thread_id: str, *, dry_run: bool) -> PrunedThread:
    async def told(view: View) -> PrunedThread:
        thread = await view.thread(thread_id)
        if thread is None:
            return PrunedThread(thread_id=thread_id)
        rows, tasks = await view.every_checkpoint(thread), await view.every_task(thread)
        sizes = await view.sizes(thread)
        return PrunedThread(
            thread_id=thread_id,
            checkpoints=len(rows),
            tasks=len(tasks),
            values=len(sizes.values),
            segments=len(sizes.segments),
            bytes=weight(rows) + weight(tasks) + sum(sizes.values.values()) + sum(sizes.segments.values()),
        )

    async def work(change: Change) -> PrunedThread:
        found = await told(change)
        await change.drop_thread(thread_id)
        return found

    if dry_run:
        return await look(port, told)
    found = await transact(port, work)
    caches.threads.forget(thread_id)
    await port.reclaim()
    return found


async def delete_for_runs(port: Port, codec: Codec, run_ids: Collection[str]) -> None:
    """Remove the checkpoints of these runs from every thread, each in turn."""
    done: list[PrunedThread] = []
    for thread_id in await look(port, lambda view: view.thread_ids_of_runs(run_ids)):
        try:
            done.append(await reduce(port, codec, thread_id, lambda nodes: plan_delete_runs(nodes, run_ids)))
        except Exception as error:
            raise UnfinishedPrune(thread_id, PruneReport(tuple(done)), error, again="with the same runs") from error
    if not done:  # a call that was killed may have removed the rows and not yet given their room back
        await port.reclaim()


async def copy_thread(port: Port, codec: Codec, caches: Caches, source: str, target: str) -> None:
    """Put a copy of a thread under another id: rows as they are, sealed anew where they are sealed."""

    async def work(change: Change) -> None:
        thread = await change.thread(source)
        if thread is None or source == target:
            return
        if await change.thread(target) is not None:
            raise ValueError(f"thread {target!r} exists already; delete it first, or copy to another id")
        made = await change.open_thread(target, thread.salt)
        old, new = codec.seal(source), codec.seal(target)

        def again(place: tuple[Any, ...], data: bytes) -> bytes:
            return data if old is None or new is None else new.seal(place, old.open(place, data))

        segments = await change.every_segment(thread)
        await change.add_segments(made, [(key, again(segment_place(key), data)) for key, data in segments.items()])
        values = await change.every_value(thread)
        await change.add_values(made, [(id, again(value_place(id), body)) for id, body in values.items()])
        for task in await change.every_task(thread):
            await change.put_task(made, task._replace(body=again(task_place(task), task.body)))
        for row in await change.every_checkpoint(thread):
            await change.put_checkpoint(made, row._replace(body=again(checkpoint_place(row), row.body)))

    await transact(port, work)
    caches.threads.forget(target)
