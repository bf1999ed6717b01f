"""How a port that asks one thing at a time finds heads, and what delta channels are rebuilt from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, MutableMapping, Sequence
from typing import Protocol

from threadmark.checkpoint.records import CheckpointRow, Head, Pieces, Ref, TaskRow, Thread, Trail


def linked(rows: MutableMapping[str, CheckpointRow], id: str) -> list[CheckpointRow]:
    """A lineage, nearest first, out of its rows by id, which are taken out."""
    line, cursor = list[CheckpointRow](), id
    while (found := rows.pop(cursor, None)) is not None:
        line.append(found)
        cursor = found.columns.parent or ""
    return line


class _Asked(Protocol):
    async def thread(self, thread_id: str) -> Thread | None: ...

    async def checkpoint(self, thread: Thread, ns: str, id: str | None) -> CheckpointRow | None: ...

    async def tasks(self, thread: Thread, names: Collection[tuple[str, str]]) -> Sequence[TaskRow]: ...

    async def lineage(
        self, thread: Thread, ns: str, id: str, limit: int | None
    ) -> tuple[Sequence[CheckpointRow], Sequence[TaskRow]]: ...

    async def values(self, thread: Thread, ids: Collection[int]) -> Mapping[int, bytes]: ...


class OneByOne:
    """``View.head``, ``View.trail`` and ``View.pieces`` of a view that cannot do more, from its other methods."""

    __slots__ = ()

    async def head(self: _Asked, ref: Ref, known: Thread | None) -> Head:
        thread = known or await self.thread(ref.thread_id)
        row = None if thread is None else await self.checkpoint(thread, ref.ns, ref.id)
        if row is None and known is not None:  # deleted, and perhaps made anew, by another process
            thread = await self.thread(ref.thread_id)
            row = None if thread is None or thread == known else await self.checkpoint(thread, ref.ns, ref.id)
        if thread is None or row is None:
            return Head(thread, None)
        return Head(thread, row, await self.tasks(thread, [(row.ns, row.id)]))

    async def trail(
        self: _Asked, ref: Ref, known: Thread | None, channels: Collection[str], limit: int | None
    ) -> Trail | None:
        thread = known or await self.thread(ref.thread_id)
        found = None if thread is None else await _line(self, thread, ref, limit)
        if found is None and known is not None:  # deleted, and perhaps made anew, by another process
            thread = await self.thread(ref.thread_id)
            found = None if thread in (None, known) else await _line(self, thread, ref, limit)
        if thread is None:
            return None
        rows, tasks = found or ((), ())
        return Trail(thread, rows, tasks, {}, limit is None or len(rows) < limit)

    async def pieces(
        self: _Asked, thread: Thread, ids: Collection[int], keys: Collection[bytes], bodies: Collection[bytes]
    ) -> Pieces:
        return Pieces(await self.values(thread, ids) if ids else {}, {})


async def _line(
    view: _Asked, thread: Thread, ref: Ref, limit: int | None
) -> tuple[Sequence[CheckpointRow], Sequence[TaskRow]] | None:
    """The lineage; None when there is no such checkpoint."""
    id = ref.id
    if id is None:
        newest = await view.checkpoint(thread, ref.ns, None)
        if newest is None:
            return None
        id = newest.id
    rows, tasks = await view.lineage(thread, ref.ns, id, limit)
    return (rows, tasks) if rows else None
