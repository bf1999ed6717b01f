"""``View`` and ``Change`` over the items of a container."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from threadmark.checkpoint.cosmosdb.commit import append, remove_thread, rewrite
from threadmark.checkpoint.cosmosdb.driver import Items
from threadmark.checkpoint.cosmosdb.items import (
    Head,
    Name,
    Place,
    Rows,
    checkpoint_key,
    head_of,
    new_key,
    newest_of,
    partition_of,
    run_key,
    task_key,
)
from threadmark.checkpoint.cosmosdb.memory import Memory
from threadmark.checkpoint.cosmosdb.shelf import Shelf, current, read_head
from threadmark.checkpoint.records import (
    HIDDEN,
    CheckpointRow,
    Conflict,
    Foreseen,
    Ref,
    Scope,
    Sizes,
    TaskRow,
    Thread,
    ThreadInfo,
)
from threadmark.checkpoint.trails import OneByOne

_HEADS: Final = "SELECT * FROM c WHERE c.kind = 'head'"
_PACKS: Final = "SELECT c.thread, c.id, c.key, c.number, c.publisher, c.listed FROM c WHERE c.last > ''"


class View(OneByOne):
    """What is stored, as it was when a thread was first asked about."""

    def __init__(self, items: Items, memory: Memory) -> None:
        self._items, self._memory = items, memory
        self._shelves: dict[str, Shelf] = {}

    async def __aenter__(self) -> View:
        return self

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """``Conflict`` when somebody removed what was being read, in the place of any error that came of it."""
        if error is not None and not isinstance(error, Exception):
            return
        for shelf in self._shelves.values():
            if not await shelf.is_whole():
                raise Conflict from error
            if error is None:
                self._memory.keep(shelf)

    async def _shelf_of(self, partition: str) -> Shelf:
        shelf = self._shelves.get(partition)
        if shelf is None:
            head = await read_head(self._items, partition)
            shelf = self._shelves[partition] = Shelf(self._items, partition, head)
            self._memory.recall(shelf)
        return shelf

    async def _shelf(self, thread: Thread) -> Shelf:
        """The thread's rows; none if it is not there any more, though another one may have its name."""
        place: Place = thread.key
        shelf = await self._shelf_of(place.partition)
        if shelf.head is None or shelf.head.key != place.key:
            return Shelf(self._items, place.partition, None)
        return shelf

    async def thread(self, thread_id: str) -> Thread | None:
        partition = partition_of(thread_id)
        head = (await self._shelf_of(partition)).head
        return None if head is None else Thread(Place(partition, head.key), head.salt)

    async def checkpoint(self, thread: Thread, ns: str, id: str | None) -> CheckpointRow | None:
        shelf = await self._shelf(thread)
        if id is None:
            name = await shelf.newest(ns)
            if name is None:
                return None
            await shelf.fetch(name)
            return shelf.rows.checkpoints.get(name)
        await shelf.checkpoints([(ns, id)])
        return shelf.rows.checkpoints.get((ns, id))

    async def checkpoints(self, thread: Thread, names: Collection[Name]) -> Sequence[CheckpointRow]:
        shelf = await self._shelf(thread)
        await shelf.both(names, names)  # whoever reads checkpoints reads their tasks' writes next
        return [shelf.rows.checkpoints[name] for name in names if name in shelf.rows.checkpoints]

    async def keys(self, scope: Scope, limit: int | None = None) -> Sequence[Ref]:
        if scope.thread_id is None:
            found = [(id, each) for id, each in await self._listed_everywhere()]
        else:
            shelf = await self._shelf_of(partition_of(scope.thread_id))
            most = limit if scope.id is None else None
            found = [(scope.thread_id, each) for each in await shelf.listed(scope.ns, scope.before, most)]
        refs = [
            Ref(thread_id, each.ns, each.id)
            for thread_id, each in found
            if not each.flags & HIDDEN
            and (scope.ns is None or each.ns == scope.ns)
            and (scope.id is None or each.id == scope.id)
            and (scope.before is None or each.id < scope.before)
        ]
        refs.sort(key=lambda ref: (ref.thread_id, ref.ns))
        refs.sort(key=lambda ref: ref.id or "", reverse=True)
        return refs[:limit]

    async def tasks(self, thread: Thread, names: Collection[Name]) -> Sequence[TaskRow]:
        shelf = await self._shelf(thread)
        await shelf.tasks(names)
        return [row for name in names for row in shelf.rows.tasks.get(name, {}).values()]

    async def lineage(
        self, thread: Thread, ns: str, id: str, limit: int | None
    ) -> tuple[Sequence[CheckpointRow], Sequence[TaskRow]]:
        shelf = await self._shelf(thread)
        parents = {each.id: each.parent for each in await shelf.listed(ns)}
        line, cursor = dict[Name, None](), id if limit != 0 else None
        while cursor is not None and cursor in parents and (ns, cursor) not in line:
            line[ns, cursor] = None
            cursor = parents[cursor] if limit is None or len(line) < limit else None
        return await self.checkpoints(thread, line), await self.tasks(thread, line)

    async def values(self, thread: Thread, ids: Collection[int]) -> Mapping[int, bytes]:
        shelf = await self._shelf(thread)
        await shelf.values(ids)
        return {id: shelf.rows.values[id] for id in ids if id in shelf.rows.values}

    async def segments(self, thread: Thread, keys: Collection[bytes]) -> Mapping[bytes, bytes]:
        shelf = await self._shelf(thread)
        await shelf.segments(keys)
        return {key: shelf.rows.segments[key] for key in keys if key in shelf.rows.segments}

    async def every_checkpoint(self, thread: Thread) -> Sequence[CheckpointRow]:
        return list((await (await self._shelf(thread)).every()).checkpoints.values())

    async def every_task(self, thread: Thread) -> Sequence[TaskRow]:
        return list((await (await self._shelf(thread)).every()).every_task())

    async def every_value(self, thread: Thread) -> Mapping[int, bytes]:
        return dict((await (await self._shelf(thread)).every()).values)

    async def every_segment(self, thread: Thread) -> Mapping[bytes, bytes]:
        return dict((await (await self._shelf(thread)).every()).segments)

    async def sizes(self, thread: Thread) -> Sizes:
        """In a pack rows are not told apart by whoever does not read them."""
        rows = await (await self._shelf(thread)).every()
        values = {id: len(body) for id, body in rows.values.items()}
        return Sizes(values, {key: len(data) for key, data in rows.segments.items()})

    # -- all threads -------------------------------------------------------------------------------------------------

    async def _heads(self) -> dict[str, Head]:
        """All threads by their partitions."""
        return {item["thread"]: head_of(item) async for item in self._items.query(_HEADS, {}, None)}

    async def _listed_everywhere(self, where: str = "", params: Mapping[str, Any] | None = None) -> list[Any]:
        """(thread id, what is listed) of all checkpoints that are found by ``where``."""
        heads = await self._heads()
        by_partition: dict[str, list[Any]] = {}
        async for item in self._items.query(_PACKS + where, params or {}, None):
            by_partition.setdefault(item["thread"], []).append(item)
        found = []
        for partition, items in by_partition.items():
            if partition in heads:
                shelf = Shelf(self._items, partition, heads[partition])
                listed = current(await shelf.visible(items))
                found += [(heads[partition].thread_id, each) for each in listed]
        return found

    async def thread_ids_of_runs(self, run_ids: Collection[str]) -> Sequence[str]:
        found = dict[str, None]()
        for run_id in run_ids:
            where = " AND ARRAY_CONTAINS(c.keys, @run)"
            found.update((id, None) for id, _ in await self._listed_everywhere(where, {"@run": run_key(run_id)}))
        return list(found)

    async def threads(self) -> Sequence[ThreadInfo]:
        by_thread: dict[str, list[Any]] = {}
        for thread_id, each in await self._listed_everywhere():
            if not each.flags & HIDDEN:
                by_thread.setdefault(thread_id, []).append(each)
        lines = []
        for thread_id, listed in by_thread.items():
            last = newest_of(listed)
            assert last is not None
            spaces = tuple(sorted({each.ns for each in listed}))
            lines.append(ThreadInfo(thread_id, len(listed), last.id, last.ts, spaces))
        return sorted(lines, key=lambda line: line.last_id, reverse=True)

    async def thread_ids(self) -> Sequence[str]:
        return sorted(head.thread_id for head in (await self._heads()).values())


class Change(View):
    """A view whose rows can be changed. All of it is sent when it ends, on condition that the thread is as it was."""

    far = True

    def __init__(self, items: Items, memory: Memory) -> None:
        super().__init__(items, memory)
        self._target: Shelf | None = None
        self._added = Rows()
        self._newest: dict[str, str] = {}
        self._early: list[str] = []
        self._removed = False
        self._gone: str | None = None
        self._turn: str | None = None

    async def __aenter__(self) -> Change:
        return self

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            if error is None:
                await self._commit()
            elif isinstance(error, Conflict):
                self._forget()
            elif isinstance(error, Exception) and not await self._is_current():
                self._forget()
                raise Conflict from error
        except Conflict:
            self._forget()
            raise
        finally:
            if self._turn is not None:
                self._items.leave(self._turn)

    def _forget(self) -> None:
        for partition in self._shelves:
            self._memory.forget(partition)

    async def _is_current(self) -> bool:
        """Whether the answers that were given still hold."""
        for shelf in self._shelves.values():
            if (shelf.searched or not shelf.fresh) and not await shelf.is_current():
                return False
        return True

    async def _commit(self) -> None:
        if self._gone is not None:
            self._memory.forget(partition_of(self._gone))
            await remove_thread(self._items, partition_of(self._gone))
            return
        # Upkeep that read everything and found nothing to do is the time to remove what dead writers left.
        shelf = self._target or next((each for each in self._shelves.values() if each.dead), None)
        others = [each for each in self._shelves.values() if each is not shelf]
        if shelf is None and not all([await each.is_current() for each in others if not each.fresh]):
            raise Conflict
        for each in others:
            if not await each.is_whole():
                raise Conflict
        if shelf is None:
            return
        self._memory.forget(shelf.partition)
        if self._removed:
            await rewrite(shelf)
        elif self._added or shelf.dead:
            await append(shelf, self._added, self._newest, self._early)
        else:
            return
        self._memory.keep(shelf)

    # -- reading -----------------------------------------------------------------------------------------------------

    async def foresee(self, thread_id: str, needs: Foreseen) -> None:
        """Wait for this process's other writers of the thread. Ask only if what they left does not tell it all."""
        partition = partition_of(thread_id)
        if self._turn is None:
            await self._items.enter(partition)
            self._turn = partition
        tasks = {(ns, id) for ns, id, _ in needs.tasks}
        names = {*needs.checkpoints, *tasks}
        shelf = self._memory.shelf(self._items, partition)
        if shelf is not None and shelf.head is not None and self._tells(shelf, names, tasks, needs.heads):
            self._shelves[partition] = shelf
            return
        shelf = await self._shelf_of(partition)
        if shelf.head is not None:
            newest = shelf.head.newest
            await shelf.both(names | {(ns, newest[ns][0]) for ns in needs.heads if ns in newest}, tasks)

    def _tells(self, shelf: Shelf, names: set[Name], tasks: set[Name], spaces: Collection[str]) -> bool:
        head = shelf.head
        assert head is not None
        if any(ns not in head.newest and head.more for ns in spaces):
            return False
        heads = {(ns, head.newest[ns][0]) for ns in spaces if ns in head.newest}
        checkpoints = [checkpoint_key(name) for name in names | heads if not shelf.is_new(name)]
        return shelf.asked([*checkpoints, *(task_key(name) for name in tasks if not shelf.is_new(name))])

    async def body(self, thread: Thread, ns: str, id: str) -> bytes | None:
        row = await self.checkpoint(thread, ns, id)
        return None if row is None else row.body

    # -- writing -----------------------------------------------------------------------------------------------------

    async def open_thread(self, thread_id: str, salt: bytes) -> Thread:
        found = await self.thread(thread_id)
        if found is not None:
            return found
        partition = partition_of(thread_id)
        head = Head(thread_id=thread_id, key=new_key(), salt=salt)
        shelf = self._shelves[partition]
        shelf.start(head)
        self._target = shelf
        return Thread(Place(partition, head.key), salt)

    async def _written(self, thread: Thread) -> Shelf:
        """The thread's rows, which are about to change."""
        shelf = await self._shelf(thread)
        if shelf.head is None:
            raise Conflict  # deleted since it was looked for
        if self._target is None:
            self._target = shelf
        assert self._target is shelf, "a transaction changes one thread"
        return shelf

    async def put_checkpoint(self, thread: Thread, row: CheckpointRow) -> None:
        shelf = await self._written(thread)
        name = (row.ns, row.id)
        if row.flags & HIDDEN:
            await shelf.every()
            self._removed = True  # what a head names as the newest is never hidden
        else:
            newest = await shelf.newest(row.ns)
            if newest is None or newest[1] <= row.id:
                self._newest[row.ns] = row.id
        if shelf.is_new(name):
            shelf.has_no_tasks(name)
        shelf.put_checkpoint(row)
        self._added.checkpoints[name] = row

    async def add_task(self, thread: Thread, row: TaskRow) -> bool:
        if await self.task(thread, row.ns, row.id, row.task_id) is not None:
            return False
        await self.put_task(thread, row)
        return True

    async def task(self, thread: Thread, ns: str, id: str, task_id: str) -> TaskRow | None:
        shelf = await self._shelf(thread)
        await shelf.tasks([(ns, id)])
        return shelf.rows.tasks.get((ns, id), {}).get(task_id)

    async def put_task(self, thread: Thread, row: TaskRow) -> None:
        shelf, name = await self._written(thread), (row.ns, row.id)
        await shelf.both([name], [name])
        if name not in shelf.rows.checkpoints:
            self._early.append(task_key(name))
        shelf.put_task(row)
        self._added.put_task(row)

    async def add_values(self, thread: Thread, rows: Collection[tuple[int, bytes]]) -> None:
        shelf = await self._written(thread)
        shelf.rows.values.update(rows)
        self._added.values.update(rows)

    async def add_segments(self, thread: Thread, rows: Collection[tuple[bytes, bytes]]) -> None:
        shelf = await self._written(thread)
        new = {key: data for key, data in rows if key not in shelf.rows.segments}
        shelf.rows.segments.update(new)
        self._added.segments.update(new)

    async def flag(self, thread: Thread, ns: str, id: str, flags: int) -> None:
        shelf = await self._written(thread)
        row = (await shelf.every()).checkpoints[ns, id]
        await self.put_checkpoint(thread, row._replace(flags=flags))

    # -- removing: all that is left is stored anew -------------------------------------------------------------------

    async def drop(self, thread: Thread, names: Collection[Name]) -> None:
        rows = await (await self._written(thread)).every()
        for name in names:
            row, tasks = rows.checkpoints.pop(name, None), rows.tasks.pop(name, None)
            self._removed |= row is not None or bool(tasks)

    async def drop_task(self, thread: Thread, row: TaskRow) -> None:
        rows = await (await self._written(thread)).every()
        self._removed |= rows.tasks.get((row.ns, row.id), {}).pop(row.task_id, None) is not None

    async def sweep(self, thread: Thread, values: Collection[int], segments: Collection[bytes]) -> None:
        rows = await (await self._written(thread)).every()
        kept_values, kept_segments = set(values), set(segments)
        before = len(rows.values) + len(rows.segments)
        rows.values = {id: body for id, body in rows.values.items() if id in kept_values}
        rows.segments = {key: data for key, data in rows.segments.items() if key in kept_segments}
        self._removed |= len(rows.values) + len(rows.segments) < before

    async def drop_thread(self, thread_id: str) -> None:
        self._gone = thread_id
