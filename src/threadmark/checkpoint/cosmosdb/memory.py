"""What is remembered of threads from one transaction to the next, so that most need not ask anything first."""

from __future__ import annotations

from typing import Final, NamedTuple

from threadmark.checkpoint.caches import Bounded
from threadmark.checkpoint.cosmosdb.driver import Items
from threadmark.checkpoint.cosmosdb.items import Head, Rows, checkpoint_key, task_key
from threadmark.checkpoint.cosmosdb.shelf import Shelf

_BYTES: Final = 16 << 20


class _Kept(NamedTuple):
    head: Head
    rows: Rows
    keys: frozenset[str]


class Memory:
    """The newest checkpoints of threads and what their tasks wrote, each true of one state of its thread's head.

    A transaction that builds on a stale one fails, since the head is not the same any more.
    """

    def __init__(self, limit: int = _BYTES) -> None:
        self._kept: Bounded[str, _Kept] = Bounded(limit, _weight)

    def keep(self, shelf: Shelf) -> None:
        """Remember what a view has met of a thread."""
        head = shelf.head
        if head is None or head.etag is None:
            return
        rows, keys = Rows(), set[str]()
        for ns, (id, _) in head.newest.items():
            name, found = (ns, id), (checkpoint_key((ns, id)), task_key((ns, id)))
            if shelf.asked(found[:1]):
                keys.add(found[0])
                if name in shelf.rows.checkpoints:
                    rows.checkpoints[name] = shelf.rows.checkpoints[name]
            if shelf.asked(found[1:]):
                keys.add(found[1])
                rows.tasks[name] = dict(shelf.rows.tasks.get(name, {}))
        self._kept.set(shelf.partition, _Kept(head, rows, frozenset(keys)))

    def recall(self, shelf: Shelf) -> None:
        """Tell a view that has read a thread's head what is known of that very state."""
        kept = self._kept.get(shelf.partition)
        if kept is not None and shelf.head is not None and kept.head.etag == shelf.head.etag:
            shelf.know(kept.rows, kept.keys)

    def shelf(self, items: Items, partition: str) -> Shelf | None:
        """A thread as it was when it was last seen, without asking."""
        kept = self._kept.get(partition)
        if kept is None:
            return None
        shelf = Shelf(items, partition, kept.head)
        shelf.fresh = False
        shelf.know(kept.rows, kept.keys)
        return shelf

    def forget(self, partition: str) -> None:
        """What was known is not so any more."""
        self._kept.forget(partition)

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()


def _weight(kept: _Kept) -> int:
    bodies = sum(len(row.body) for row in kept.rows.checkpoints.values())
    return 2048 + bodies + sum(len(task.body) for task in kept.rows.every_task())
