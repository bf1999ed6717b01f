"""Deleting, copying and pruning: planned by the layout, executed here, each thread in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.codec import Codec, checkpoint_place, segment_place, task_place, value_place
from threadmark.checkpoint.entries import pack_entries
from threadmark.checkpoint.facts import METADATA, enclosing
from threadmark.checkpoint.layout import Node, Plan, plan_delete_runs, plan_prune
from threadmark.checkpoint.reading import Opened, Shelf
from threadmark.checkpoint.records import HIDDEN, ORPHANED, Change, Port, TaskRow, Thread
from threadmark.checkpoint.transact import look, transact

STRATEGIES: Final = ("keep_latest", "delete")


async def delete_thread(port: Port, caches: Caches, thread_id: str) -> None:
    """Remove everything of a thread."""
    await transact(port, lambda change: change.drop_thread(thread_id))
    caches.threads.forget(thread_id)
    await port.reclaim()


async def prune(port: Port, codec: Codec, caches: Caches, thread_ids: Sequence[str], strategy: str) -> None:
    """Keep the newest checkpoint of each namespace of these threads, or nothing."""
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy must be one of {', '.join(STRATEGIES)}, not {strategy!r}")
    for thread_id in thread_ids:
        if strategy == "delete":
            await delete_thread(port, caches, thread_id)
        else:
            await _reduce(port, codec, caches, thread_id, lambda nodes: plan_prune(nodes, keep_last=1))


async def delete_for_runs(port: Port, codec: Codec, caches: Caches, run_ids: Collection[str]) -> None:
    """Remove the checkpoints of these runs from every thread."""
    thread_ids = await look(port, lambda view: view.thread_ids_of_runs(run_ids))
    for thread_id in thread_ids:
        await _reduce(port, codec, caches, thread_id, lambda nodes: plan_delete_runs(nodes, run_ids))


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


async def _reduce(
    port: Port, codec: Codec, caches: Caches, thread_id: str, plan_for: Callable[[Iterable[Node]], Plan]
) -> None:
    """Carry out a plan for one thread, and remove what nothing refers to any more."""

    async def work(change: Change) -> None:
        thread = await change.thread(thread_id)
        if thread is None:
            return
        shelf = Shelf(change, codec, caches, thread_id, thread)
        opened = await shelf.open(await change.every_checkpoint(thread))
        parts = await shelf.materials([item.only((METADATA,)) for item in opened])
        plan = plan_for([_node(item, parts.metadata(item)) for item in opened])
        tasks = await change.every_task(thread)
        await change.drop(thread, sorted(plan.drop))
        for item in opened:
            await _carry_out(change, shelf, item, plan)
        for task in tasks:
            await _trim_task(change, shelf, task, plan)
        await _drop_strays(change, thread, plan, tasks)
        await _sweep(change, shelf)

    await transact(port, work)
    await port.reclaim()


def _node(item: Opened, metadata: Mapping[str, Any]) -> Node:
    columns = item.row.columns
    return Node(
        ns=item.row.ns,
        id=item.row.id,
        parent=columns.parent,
        time=columns.ts,
        run_id=columns.run_id,
        delta=frozenset(metadata.get("counters_since_delta_snapshot") or ()),
        stored=frozenset(item.channels()),
        enclosing=enclosing(columns),
        hidden=bool(item.row.flags & HIDDEN),
    )


async def _carry_out(change: Change, shelf: Shelf, item: Opened, plan: Plan) -> None:
    row, name = item.row, (item.row.ns, item.row.id)
    flags = row.flags | (ORPHANED if name in plan.orphaned else 0)
    if name in plan.hide:
        fields = item.known.fields
        wanted = {*plan.hide[name], METADATA}
        kept = {channel: ref for channel, ref in fields.values.items() if channel in wanted}
        hash_key = shelf.codec.hash_key(shelf.thread_id, shelf.thread.salt)
        codec = shelf.codec
        encoded = codec.maps.encode(fields._replace(values=kept), item.known, hash_key, codec.policy)
        segments = [(segment.key, segment.data) for segment in encoded.segments]
        if shelf.seal is not None:
            segments = [(key, shelf.seal.seal(segment_place(key), data)) for key, data in segments]
        await change.add_segments(shelf.thread, segments)
        body = encoded.body if shelf.seal is None else shelf.seal.seal(checkpoint_place(row), encoded.body)
        await change.put_checkpoint(shelf.thread, row._replace(flags=flags | HIDDEN, body=body))
    elif name in plan.keep and flags != row.flags:
        await change.flag(shelf.thread, *name, flags)


async def _trim_task(change: Change, shelf: Shelf, task: TaskRow, plan: Plan) -> None:
    """Of a hidden checkpoint's writes only those stay that a delta channel is rebuilt from."""
    channels = plan.hide.get((task.ns, task.id))
    if channels is None:
        return
    entries = [entry for entry in shelf.open_task(task).entries if entry[1] in channels]
    if not entries:
        await change.drop_task(shelf.thread, task)
        return
    body = pack_entries(entries)
    await change.put_task(
        shelf.thread, task._replace(body=body if shelf.seal is None else shelf.seal.seal(task_place(task), body))
    )


async def _drop_strays(change: Change, thread: Thread, plan: Plan, tasks: Iterable[TaskRow]) -> None:
    """Remove writes whose checkpoint was never stored and, older than what is kept, never will be."""
    newest: dict[str, str] = {}
    for ns, id in plan.keep:
        newest[ns] = max(id, newest.get(ns, ""))
    stored = plan.keep | plan.drop | plan.hide.keys()
    strays = {
        (task.ns, task.id) for task in tasks if (task.ns, task.id) not in stored and task.id < newest.get(task.ns, "")
    }
    await change.drop(thread, sorted(strays))


async def _sweep(change: Change, shelf: Shelf) -> None:
    """Mark from the rows that are left, and remove the values and segments that nothing marks."""
    thread, seal = shelf.thread, shelf.seal
    opened = await shelf.open(await change.every_checkpoint(thread))
    values = {ref for item in opened for ref in item.known.fields.values.values() if isinstance(ref, int)}
    bodies: Mapping[int, bytes] = await change.every_value(thread)
    if seal is not None:
        bodies = {id: seal.open(value_place(id), body) for id, body in bodies.items() if id in values}
    marked = [bodies[id] for id in values if id in bodies]
    marked += [entry[2] for task in await change.every_task(thread) for entry in shelf.open_task(task).entries]
    await change.sweep(thread, values, await shelf.reachable(marked, [item.known.body for item in opened]))
