"""What one view knows of one thread: its head as it was read, and the rows that it has met since."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import aclosing
from typing import Any, Final

from threadmark.checkpoint.cosmosdb.driver import Items
from threadmark.checkpoint.cosmosdb.items import (
    HEAD,
    Head,
    Item,
    Listed,
    Name,
    Pack,
    Rows,
    checkpoint_key,
    head_of,
    listed_in,
    namespace_key,
    newest_of,
    pack_of,
    piece_of,
    pieces_wanted,
    segment_key,
    task_key,
    value_key,
)
from threadmark.checkpoint.records import HIDDEN, CheckpointRow, Conflict, TaskRow
from threadmark.errors import DamagedRow

_PACKS: Final = "SELECT * FROM c WHERE c.kind = 'pack'"
_EVERY: Final = "SELECT * FROM c"
_LIST: Final = "SELECT c.id, c.key, c.number, c.publisher, c.listed, c.last FROM c WHERE c.last > ''"
_AT_ONCE: Final = 64
"""Keys that one query asks for."""
_OWN: Final = 1 << 62
"""Stands for the number of a transaction that is under way."""


class Shelf:
    """A thread's rows in one view. Rows never change, so what was met once need not be asked for again."""

    def __init__(self, items: Items, partition: str, head: Head | None) -> None:
        self.items, self.partition, self.head = items, partition, head
        self.rows = Rows()
        self.fresh = True
        """Whether the head was read by this view, not remembered from an earlier one."""
        self.searched = False
        """Whether more than the head was read, so that it has to be seen at the end that nobody removed anything."""
        self.every_id: list[str] | None = None
        """Ids of all items of the partition but the head's, once all were read."""
        self.dead: list[str] = []
        """Those among them that belong to nothing: left by writers that died, and by those that were at it then."""
        self._asked: set[str] = set()
        self._ages: dict[Any, int] = {}
        self._published: dict[str, bool] = {}
        self._own: dict[str, str] = {}

    def asked(self, keys: Iterable[str]) -> bool:
        """Whether all that is found by these keys has been met."""
        return self.every_id is not None or self._asked.issuperset(keys)

    def know(self, rows: Rows, keys: Iterable[str]) -> None:
        """Take over what an earlier view, or a transaction, has learned at this very head."""
        assert self.head is not None
        self.rows.update(rows)
        # No pack that counts is later; an earlier one, met for the sake of another row, must not bring back its own.
        names = [*rows.checkpoints, *(task[:3] for task in rows.every_task())]
        self._ages.update(dict.fromkeys(names, self.head.number))
        self._asked.update(keys)

    def start(self, head: Head) -> None:
        """Begin a thread where there is none."""
        self.head, self.every_id = head, []

    def put_checkpoint(self, row: CheckpointRow) -> None:
        """Have a row of the view's own in the place of whatever is stored."""
        self.rows.checkpoints[row.ns, row.id] = row
        self._ages[row.ns, row.id] = _OWN
        if not row.flags & HIDDEN:
            self._own[row.ns] = max(row.id, self._own.get(row.ns, ""))
        self._asked.add(checkpoint_key((row.ns, row.id)))

    def put_task(self, row: TaskRow) -> None:
        """The same for a task row."""
        self.rows.put_task(row)
        self._ages[row[:3]] = _OWN

    def has_no_tasks(self, name: Name) -> None:
        """Say that nothing is stored of a checkpoint's tasks."""
        self._asked.add(task_key(name))

    # -- looking for rows --------------------------------------------------------------------------------------------

    async def checkpoints(self, names: Collection[Name]) -> None:
        """Meet the checkpoints with these names."""
        await self.both(names, ())

    async def tasks(self, names: Collection[Name]) -> None:
        """Meet all task rows of these checkpoints."""
        await self.both((), names)

    async def both(self, checkpoints: Collection[Name], tasks: Collection[Name]) -> None:
        """Both at once."""
        self._asked.update(checkpoint_key(name) for name in checkpoints if self.is_new(name))
        self._asked.update(task_key(name) for name in tasks if self.is_new(name))
        await self._find([*map(checkpoint_key, checkpoints), *map(task_key, tasks)])

    async def values(self, ids: Collection[int]) -> None:
        """Meet these value rows."""
        await self._find([value_key(id) for id in ids if id not in self.rows.values])

    async def segments(self, keys: Collection[bytes]) -> None:
        """Meet these segments."""
        await self._find([segment_key(key) for key in keys if key not in self.rows.segments])

    async def newest(self, ns: str) -> Name | None:
        """The newest checkpoint of a namespace that is not hidden."""
        head, own = self.head, self._own.get(ns)
        if head is None:
            return None
        if self.every_id is not None:
            found = newest_of(await self.listed(ns))
            return None if found is None else (ns, found.id)
        named = head.newest.get(ns)
        stored = None if named is None else named[0]
        if named is None and head.more:
            last = newest_of(await self.listed(ns, limit=1))
            stored = None if last is None else last.id
        found_id = max((id for id in (stored, own) if id is not None), default=None)
        return None if found_id is None else (ns, found_id)

    def is_new(self, name: Name) -> bool:
        """Whether it needs no question that nothing is stored of a checkpoint, nor of its tasks."""
        head = self.head
        if head is None or self.every_id is not None:
            return False
        named = head.newest.get(name[0])
        beyond = name[1] > named[0] if named is not None else not head.more
        return beyond and not head.knows_early(task_key(name))

    async def fetch(self, name: Name) -> None:
        """Meet the newest checkpoint of its namespace, by a point read where the head names its pack."""
        named = self.head.newest.get(name[0]) if self.head is not None else None
        if named is None or named[0] != name[1] or self.asked((checkpoint_key(name),)):
            await self.checkpoints([name])
            return
        self.searched = True
        item = await self.items.read(self.partition, named[1])
        if item is None:
            if await self.is_whole():
                raise DamagedRow(
                    f"checkpoint {name[1]!r} has lost its pack {named[1]!r}; restore the account from a backup"
                )
            raise Conflict
        await self._take([item])
        self._asked.add(checkpoint_key(name))

    async def listed(self, ns: str | None = None, before: str | None = None, limit: int | None = None) -> list[Listed]:
        """What is listed of this thread's checkpoints, each as it is now, in no order.

        Hidden ones too, and more than ``limit``, which only says how many of the greatest ids that are not hidden
        have to be among them.
        """
        if self.head is None:
            return []
        if self.every_id is not None:
            rows = self.rows.checkpoints.values()
            found = [Listed(row.ns, row.id, row.columns.parent, row.flags, row.columns.ts) for row in rows]
        else:
            found = await self._listed(ns, before, limit)
        return [each for each in found if (ns is None or each.ns == ns) and (before is None or each.id < before)]

    async def _listed(self, ns: str | None, before: str | None, limit: int | None) -> list[Listed]:
        self.searched = True
        text, params = _LIST, dict[str, Any]()
        if ns is not None:
            text, params["@ns"] = f"{text} AND ARRAY_CONTAINS(c.keys, @ns)", namespace_key(ns)
        if before is not None:
            text, params["@before"] = f"{text} AND c.first < @before", before
        if limit is not None:
            text += " ORDER BY c.last DESC"
        found, count = list[Item](), 0
        async with aclosing(self.items.query(text, params, self.partition)) as items:
            async for item in items:
                if limit is not None and count >= limit:
                    # Whatever is said of an id stands in a pack whose last id is at least that.
                    final = [each for each in current(await self.visible(found)) if each.id > item["last"]]
                    # A pack may hold other namespaces, too: steps of graphs in graphs are stored together.
                    count = sum(
                        not each.flags & HIDDEN
                        and (ns is None or each.ns == ns)
                        and (before is None or each.id < before)
                        for each in final
                    )
                    if count >= limit:
                        return final
                found.append(item)
                count += len(item["listed"])
        return current(await self.visible(found))

    async def every(self) -> Rows:
        """All rows."""
        if self.every_id is None:
            self.searched = True
            items = [item async for item in self.items.query(_EVERY, {}, self.partition)]
            pieces = {item["id"]: piece_of(item) for item in items if item["kind"] == "piece"}
            visible = await self.visible([item for item in items if item["kind"] == "pack"])
            self.rows = Rows()
            self._ages.clear()
            self._merge(pack_of(item, pieces) for item in visible)
            alive = {item["id"] for item in visible}.union(*map(pieces_wanted, visible))
            self.every_id = [item["id"] for item in items if item["id"] != HEAD]
            self.dead = [id for id in self.every_id if id not in alive]
        return self.rows

    async def _find(self, keys: Sequence[str]) -> None:
        if self.head is None or self.every_id is not None:
            return
        missing = [key for key in dict.fromkeys(keys) if key not in self._asked]
        for at in range(0, len(missing), _AT_ONCE):
            some = missing[at : at + _AT_ONCE]
            params = {f"@k{number}": key for number, key in enumerate(some)}
            tests = " OR ".join(f"ARRAY_CONTAINS(c.keys, {name})" for name in params)
            self.searched = True
            found = self.items.query(f"{_PACKS} AND ({tests})", params, self.partition)
            await self._take([item async for item in found])
        self._asked.update(missing)

    async def _take(self, items: Sequence[Item]) -> None:
        """Merge the packs in these items, fetching the pieces of their long rows."""
        visible = await self.visible(items)
        pieces = dict[str, bytes]()
        for id in [id for item in visible for id in pieces_wanted(item)]:
            piece = await self.items.read(self.partition, id)
            if piece is None:
                if await self.is_whole():
                    raise DamagedRow(f"piece {id!r} of a long row is lost; restore the account from a backup")
                raise Conflict
            pieces[id] = piece_of(piece)
        self._merge(pack_of(item, pieces) for item in visible)

    async def visible(self, items: Iterable[Item]) -> list[Item]:
        """Those that belong to this thread as its head tells it."""
        head = self.head
        assert head is not None
        found = [item for item in items if item["key"] == head.key and head.base <= item["number"] <= head.number]
        publishers = {item["publisher"] for item in found if item.get("publisher") is not None}
        for id in publishers - self._published.keys():
            self._published[id] = await self.items.read(self.partition, id) is not None
        return [item for item in found if item.get("publisher") is None or self._published[item["publisher"]]]

    def _merge(self, packs: Iterable[Pack]) -> None:
        """Add rows; of two with one name the one with the higher number stays."""
        for pack in packs:
            for name, row in pack.rows.checkpoints.items():
                if self._is_later(name, pack.number):
                    self.rows.checkpoints[name] = row
            for task in pack.rows.every_task():
                if self._is_later(task[:3], pack.number):
                    self.rows.put_task(task)
            self.rows.values.update(pack.rows.values)
            self.rows.segments.update(pack.rows.segments)

    def _is_later(self, name: Any, number: int) -> bool:
        later = number >= self._ages.get(name, 0)
        if later:
            self._ages[name] = number
        return later

    # -- what became of the thread -----------------------------------------------------------------------------------

    async def look(self) -> Head | None:
        """The head as it is stored now."""
        return await read_head(self.items, self.partition)

    async def is_whole(self) -> bool:
        """Whether what was read is of one time: nobody has removed anything since the head was read."""
        if not self.searched:
            return True
        now, head = await self.look(), self.head
        if now is None or head is None:
            return now is head
        return (now.key, now.base) == (head.key, head.base)

    async def is_current(self) -> bool:
        """Whether nobody has changed the thread since the head was read."""
        now, head = await self.look(), self.head
        return (now and now.etag) == (head and head.etag)


async def read_head(items: Items, partition: str) -> Head | None:
    """A thread's head; None if there is no thread."""
    item = await items.read(partition, HEAD)
    return None if item is None else head_of(item)


def current(items: Iterable[Item]) -> list[Listed]:
    """The checkpoints that visible items list, each as the one with the highest number has it."""
    found: dict[Name, tuple[int, Listed]] = {}
    for item in items:
        for each in listed_in(item):
            known = found.get((each.ns, each.id))
            if known is None or item["number"] >= known[0]:
                found[each.ns, each.id] = (item["number"], each)
    return [each for _, each in found.values()]
