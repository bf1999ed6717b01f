"""``View`` over the items of a container."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from threadmark.checkpoint.cosmosdb.driver import Items
from threadmark.checkpoint.cosmosdb.items import (
    Head,
    Name,
    Place,
    head_of,
    newest_of,
    partition_of,
    run_key,
)
from threadmark.checkpoint.cosmosdb.memory import Memory
from threadmark.checkpoint.cosmosdb.shelf import Shelf, current, read_head
from threadmark.checkpoint.records import (
    HIDDEN,
    CheckpointRow,
    Conflict,
    Ref,
    Scope,
    Sizes,
    Take,
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

    async def segments(self, thread: Thread, keys: Collection[bytes], take: Take) -> None:
        shelf = await self._shelf(thread)
        await shelf.segments(keys)
        take({key: shelf.rows.segments[key] for key in keys if key in shelf.rows.segments})

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
