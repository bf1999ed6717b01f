"""Pruning: which rows of a thread go, worked out from all of them, told, and only then carried out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias

from threadmark.checkpoint.base import PrunedThread, Retention
from threadmark.checkpoint.base.retention import Age
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.codec import Codec, checkpoint_place, segment_place, task_place, value_place
from threadmark.checkpoint.entries import pack_entries
from threadmark.checkpoint.facts import METADATA, enclosing
from threadmark.checkpoint.history import COUNTERS
from threadmark.checkpoint.layout import Node, Plan, plan_prune
from threadmark.checkpoint.opened import Opened, OpenedTask
from threadmark.checkpoint.reading import Shelf
from threadmark.checkpoint.records import HIDDEN, ORPHANED, Change, CheckpointRow, Port, Sizes, TaskRow, Thread, View
from threadmark.checkpoint.serde.types import INTERRUPT
from threadmark.checkpoint.transact import look, transact

Name: TypeAlias = tuple[str, str]
"""(namespace, checkpoint id)."""
Planner: TypeAlias = Callable[[Iterable[Node]], Plan]
"""What is to become of a thread's checkpoints."""

STRATEGIES: Final = ("keep_latest", "delete")
_NO_AGE: Final = float("inf")
"""Of a checkpoint without a readable time: it counts as young."""


# -- what is asked for -----------------------------------------------------------------------------------------------


def planner(
    strategy: str, keep_last: int | None, older_than: Age | None, ns: str | None, now: datetime
) -> Planner | None:
    """What the arguments of ``prune`` mean; None for removing whole threads. TypeError, ValueError if nothing."""
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy must be one of {', '.join(STRATEGIES)}, not {strategy!r}")
    if strategy == "delete":
        if keep_last is not None or older_than is not None or ns is not None:
            raise ValueError('strategy="delete" removes whole threads; leave out keep_last, older_than and ns')
        return None
    namespaces = None if ns is None else (ns,)
    if isinstance(older_than, datetime):
        if older_than.tzinfo is None:
            raise ValueError(f"older_than={older_than.isoformat()} has no time zone; give it one, such as UTC")
        cutoff: float | None = older_than.timestamp()
        keep_last = None if keep_last is None else Retention(keep_last=keep_last).keep_last
    else:
        if keep_last is None and older_than is None:
            keep_last = 1
        cutoff = Retention(keep_last=keep_last, older_than=older_than).cutoff(now)
    return lambda nodes: plan_prune(nodes, keep_last=keep_last, older_than=cutoff, namespaces=namespaces)


# -- carrying a plan out ---------------------------------------------------------------------------------------------


async def reduce(port: Port, codec: Codec, thread_id: str, plan_for: Planner, *, dry_run: bool = False) -> PrunedThread:
    """Carry out a plan for one thread, in one transaction; with ``dry_run`` only tell what that would remove."""

    async def decided(view: View) -> _Decided | None:
        thread = await view.thread(thread_id)
        if thread is None:
            return None
        # All rows are read once: nothing of them is worth remembering.
        return await _decided(Shelf(view, codec, Caches(scale=0), thread_id, thread), plan_for)

    async def work(change: Change) -> _Decided | None:
        found = await decided(change)
        if found is not None:
            await _carry_out(change, found)
        return found

    found = await (look(port, decided) if dry_run else transact(port, work))
    if not dry_run:
        await port.reclaim()
    return PrunedThread(thread_id=thread_id) if found is None else _report(thread_id, found)


class _Task(NamedTuple):
    row: TaskRow
    opened: OpenedTask


class _Decided(NamedTuple):
    """What was found of a thread, and what is to become of it."""

    thread: Thread
    plan: Plan
    items: Mapping[Name, Opened]
    tasks: Sequence[_Task]
    sizes: Sizes
    drop: Collection[Name]
    """Names of checkpoints whose rows and task rows go, those included that were never stored."""
    rows: Sequence[CheckpointRow]
    """Those that change: hidden ones name less, ones whose parent goes say so."""
    segments: Mapping[bytes, bytes]
    """New ones, for hidden rows."""
    gone_tasks: Sequence[TaskRow]
    """Those that go though their checkpoint stays."""
    trimmed: Sequence[TaskRow]
    """Those that lose a part."""
    values: Collection[int]
    """Ids of the values that stay."""
    keys: Collection[bytes]
    """Keys of the segments that stay."""

    @property
    def gone_values(self) -> list[int]:
        """Lengths of the values that go."""
        return [size for id, size in self.sizes.values.items() if id not in self.values]

    @property
    def gone_segments(self) -> list[int]:
        """Lengths of the segments that go."""
        return [size for key, size in self.sizes.segments.items() if key not in self.keys]


async def _carry_out(change: Change, found: _Decided) -> None:
    thread = found.thread
    if found.drop:
        await change.drop(thread, sorted(found.drop))
    if found.segments:
        await change.add_segments(thread, list(found.segments.items()))
    for row in found.rows:
        await change.put_checkpoint(thread, row)
    for task in found.gone_tasks:
        await change.drop_task(thread, task)
    for task in found.trimmed:
        await change.put_task(thread, task)
    if found.gone_values or found.gone_segments:
        await change.sweep(thread, found.values, found.keys)


# -- working it out --------------------------------------------------------------------------------------------------


async def _decided(shelf: Shelf, plan_for: Planner) -> _Decided:
    view, thread = shelf.view, shelf.thread
    items = {_name(item.row): item for item in await shelf.open(await view.every_checkpoint(thread))}
    tasks = [_Task(row, shelf.open_task(row)) for row in await view.every_task(thread)]
    plan = plan_for(await _nodes(shelf, items, tasks))
    drop = plan.drop | _strays(plan, tasks)
    segments: dict[bytes, bytes] = {}
    staying = {name: _after(shelf, item, plan, segments) for name, item in items.items() if name not in drop}
    left, gone_tasks, trimmed = _tasks_after(shelf, tasks, plan, drop)
    values = {ref for item in staying.values() for ref in item.known.fields.values.values() if isinstance(ref, int)}
    return _Decided(
        thread=thread,
        plan=plan,
        items=items,
        tasks=tasks,
        sizes=await view.sizes(thread),
        drop=drop,
        rows=[item.row for name, item in staying.items() if item is not items[name]],
        segments=segments,
        gone_tasks=gone_tasks,
        trimmed=trimmed,
        values=values,
        keys=await _reachable(shelf, values, left, staying.values()),
    )


async def _nodes(shelf: Shelf, items: Mapping[Name, Opened], tasks: Iterable[_Task]) -> list[Node]:
    asks = {_name(task.row) for task in tasks if any(entry[1] == INTERRUPT for entry in task.opened.entries)}
    parts = await shelf.materials([item.only((METADATA,)) for item in items.values()])
    return [_node(item, parts.metadata(item), asks=name in asks) for name, item in items.items()]


def _node(item: Opened, metadata: Mapping[str, Any], *, asks: bool) -> Node:
    columns = item.row.columns
    return Node(
        ns=item.row.ns,
        id=item.row.id,
        parent=columns.parent,
        time=_time(columns.ts),
        run_id=columns.run_id,
        delta=frozenset(metadata.get(COUNTERS) or ()),
        stored=frozenset(item.channels()),
        enclosing=enclosing(columns),
        asks=asks,
        hidden=bool(item.row.flags & HIDDEN),
    )


def _time(stamp: str) -> float:
    """When a checkpoint was made, in seconds since 1970."""
    try:
        made = datetime.fromisoformat(stamp)
        return (made if made.tzinfo is not None else made.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return _NO_AGE


def _name(row: CheckpointRow | TaskRow) -> Name:
    return row.ns, row.id


def _strays(plan: Plan, tasks: Iterable[_Task]) -> set[Name]:
    """Writes whose checkpoint was never stored and, older than one that was, never will be."""
    newest: dict[str, str] = {}
    for ns, id in plan.keep | plan.drop:
        newest[ns] = max(id, newest.get(ns, ""))
    names = {_name(task.row) for task in tasks} - plan.keep - plan.drop - plan.hide.keys()
    return {(ns, id) for ns, id in names if id < newest.get(ns, "")}


def _after(shelf: Shelf, item: Opened, plan: Plan, segments: dict[bytes, bytes]) -> Opened:
    """A checkpoint that stays, as it is to be stored; the same object where nothing changes."""
    row, name, fields = item.row, _name(item.row), item.known.fields
    flags = row.flags | (ORPHANED if name in plan.orphaned else 0)
    if name not in plan.hide:
        return item if flags == row.flags else item._replace(row=row._replace(flags=flags))
    wanted = {*plan.hide[name], METADATA}
    kept = {channel: ref for channel, ref in fields.values.items() if channel in wanted}
    if row.flags & HIDDEN and len(kept) == len(fields.values):
        return item
    codec, seal = shelf.codec, shelf.seal
    hash_key = codec.hash_key(shelf.thread_id, shelf.thread.salt)
    encoded = codec.maps.encode(fields._replace(values=kept), item.known, hash_key, codec.policy, None)
    for segment in encoded.segments:
        data = segment.data
        segments[segment.key] = data if seal is None else seal.seal(segment_place(segment.key), data)
    body = encoded.body if seal is None else seal.seal(checkpoint_place(row), encoded.body)
    return item._replace(row=row._replace(flags=flags | HIDDEN, body=body), known=encoded.known)


def _tasks_after(
    shelf: Shelf, tasks: Iterable[_Task], plan: Plan, drop: Collection[Name]
) -> tuple[list[OpenedTask], list[TaskRow], list[TaskRow]]:
    """What is left of the tasks; the rows that go though their checkpoint stays; the rows that lose a part.

    Of a hidden checkpoint's writes only those stay that a delta channel is rebuilt from.
    """
    left, gone, trimmed = list[OpenedTask](), list[TaskRow](), list[TaskRow]()
    for row, opened in tasks:
        channels = plan.hide.get(_name(row))
        if _name(row) in drop:
            continue
        if channels is None:
            left.append(opened)
            continue
        entries = [entry for entry in opened.entries if entry[1] in channels]
        if not entries:
            gone.append(row)
            continue
        left.append(opened._replace(entries=entries))
        if len(entries) < len(opened.entries):
            body = pack_entries(entries)
            trimmed.append(row._replace(body=body if shelf.seal is None else shelf.seal.seal(task_place(row), body)))
    return left, gone, trimmed


async def _reachable(
    shelf: Shelf, values: Collection[int], tasks: Iterable[OpenedTask], items: Iterable[Opened]
) -> set[bytes]:
    """Keys of the segments that anything which stays is made of."""
    bodies, seal = await shelf.view.values(shelf.thread, values), shelf.seal
    marked = [body if seal is None else seal.open(value_place(id), body) for id, body in bodies.items()]
    marked += [entry[2] for task in tasks for entry in task.entries]
    return await shelf.reachable(marked, [item.known.body for item in items])


def weight(rows: Iterable[CheckpointRow | TaskRow]) -> int:
    """Bytes of the bodies of rows."""
    return sum(len(row.body) for row in rows)


def _report(thread_id: str, found: _Decided) -> PrunedThread:
    """Rows that go, and the bytes that are stored less then: rows that change count by their difference."""
    dropped = [found.items[name].row for name in found.drop if name in found.items]
    before = {(*_name(task.row), task.row.task_id): task.row for task in found.tasks}
    lost = [row for row in before.values() if _name(row) in found.drop] + list(found.gone_tasks)
    fewer = weight(dropped) + weight(lost) + sum(found.gone_values) + sum(found.gone_segments)
    fewer += sum(len(found.items[_name(row)].row.body) - len(row.body) for row in found.rows)
    fewer += sum(len(before[*_name(row), row.task_id].body) - len(row.body) for row in found.trimmed)
    fewer -= sum(len(data) for key, data in found.segments.items() if key not in found.sizes.segments)
    return PrunedThread(
        thread_id=thread_id,
        kept=len(found.plan.keep),
        hidden=len(found.plan.hide),
        checkpoints=len(dropped),
        tasks=len(lost),
        values=len(found.gone_values),
        segments=len(found.gone_segments),
        bytes=fewer,
    )
