"""``Change`` over the items of a container."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from threadmark.checkpoint.cosmosdb.commit import append, remove_thread, rewrite
from threadmark.checkpoint.cosmosdb.driver import Items
from threadmark.checkpoint.cosmosdb.items import (
    Head,
    Name,
    Place,
    Rows,
    checkpoint_key,
    new_key,
    partition_of,
    task_key,
)
from threadmark.checkpoint.cosmosdb.memory import Memory
from threadmark.checkpoint.cosmosdb.rows import View
from threadmark.checkpoint.cosmosdb.shelf import Shelf
from threadmark.checkpoint.records import (
    HIDDEN,
    CheckpointRow,
    Conflict,
    Foreseen,
    TaskRow,
    Thread,
)


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
