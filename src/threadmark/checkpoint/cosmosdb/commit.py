"""Storing what a transaction adds or removes, so that all of it is seen or nothing, whatever the limits of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from threadmark.checkpoint.cosmosdb.driver import Items, Operation
from threadmark.checkpoint.cosmosdb.errors import InTheWay, Unheard
from threadmark.checkpoint.cosmosdb.items import (
    HEAD,
    PATH,
    Head,
    Item,
    Listed,
    Rows,
    early_of,
    listed_in,
    new_key,
    newest_of,
    packed,
    size_of,
    task_key,
    with_newest,
)
from threadmark.checkpoint.cosmosdb.shelf import Shelf, read_head
from threadmark.checkpoint.records import Conflict

OPERATIONS: Final = 100
BYTES: Final = 1_900_000
"""What a batch may hold: operations, and bytes of items. The service's limit is 2 MB with all that is around them."""
_ENVELOPE: Final = 128
"""Bytes around an item in a batch."""
_ATTEMPTS: Final = 4
_IDS: Final = "SELECT c.id, c.key FROM c"


async def append(shelf: Shelf, rows: Rows, newest: Mapping[str, str], early: Sequence[str]) -> None:
    """Add rows to a thread. ``newest`` are the ids of namespaces' newest checkpoints among them."""
    head = shelf.head
    assert head is not None
    transaction = new_key()
    made = packed(rows, head.key, head.number + 1, transaction)
    packs = {(each.ns, each.id): item["id"] for item in made for each in listed_in(item)}
    named, more = head.newest, head.more
    for ns, id in newest.items():
        named, evicted = with_newest(named, ns, id, packs[ns, id])
        more |= evicted
    there = {task_key(name) for name in rows.checkpoints}
    waiting = early_of(key for key in (*head.early, *early) if key not in there)
    after = replace(head, number=head.number + 1, last=transaction, newest=named, more=more, early=waiting)
    shelf.head = await _published(shelf.items, shelf.partition, head, after, made)
    await discard(shelf.items, shelf.partition, shelf.dead)


async def rewrite(shelf: Shelf) -> None:
    """Store all rows of a thread anew, and then remove every item that was there before."""
    head, old = shelf.head, shelf.every_id
    assert head is not None
    assert old is not None
    transaction = new_key()
    made = packed(shelf.rows, head.key, head.number + 1, transaction)
    named, more = _newest_in(made)
    after = replace(
        head,
        number=head.number + 1,
        base=head.number + 1,
        last=transaction,
        newest=named,
        more=more,
        early=early_of(task_key(name) for name in shelf.rows.tasks if name not in shelf.rows.checkpoints),
    )
    shelf.head = await _published(shelf.items, shelf.partition, head, after, made)
    await discard(shelf.items, shelf.partition, old)


def _newest_in(made: Sequence[Item]) -> tuple[dict[str, tuple[str, str]], bool]:
    by_space: dict[str, list[Listed]] = {}
    packs = {}
    for item in made:
        for each in listed_in(item):
            by_space.setdefault(each.ns, []).append(each)
            packs[each.ns, each.id] = item["id"]
    named, more, found = dict[str, tuple[str, str]](), False, list[Listed]()
    for listed in by_space.values():
        last = newest_of(listed)
        if last is None or any(each.id > last.id for each in listed):
            more = True  # a head that names a newest checkpoint says that there is nothing beyond it, hidden or not
        else:
            found.append(last)
    for each in sorted(found, key=lambda each: each.id):
        named, evicted = with_newest(named, each.ns, each.id, packs[each.ns, each.id])
        more |= evicted
    return named, more


async def _published(items: Items, partition: str, before: Head, after: Head, made: Sequence[Item]) -> Head:
    """Store items, and with the last of them the head that makes all of them visible; the head as it is then."""
    made = [{**item, PATH: partition} for item in made]
    if not _fits([*made, after.item()]):
        if before.etag is None:
            # Then nobody takes the parts for what a deleted thread left.
            before = await _store(items, partition, before, replace(before, last=f"{after.last} begins"), ())
        publisher = next(item for item in reversed(made) if item["kind"] == "pack")
        parts = [
            item if item["kind"] == "piece" else {**item, "publisher": publisher["id"]}
            for item in made
            if item is not publisher
        ]
        for batch in _batches(parts):
            await _attempted(items, partition, [("create", (item,)) for item in batch], batch[0]["id"])
        made = [publisher]
    return await _store(items, partition, before, after, made)


async def _store(items: Items, partition: str, before: Head, after: Head, made: Sequence[Item]) -> Head:
    """One batch: the head, on condition that it is as it was before, and items."""
    item = {**after.item(), PATH: partition}
    operations: list[Operation] = [
        ("create", (item,)) if before.etag is None else ("replace", (HEAD, item), {"if_match_etag": before.etag})
    ]
    operations += [("create", (each,)) for each in made]
    etag = await _attempted(items, partition, operations, made[-1]["id"] if made else None, after.last)
    return replace(after, etag=etag)


async def _attempted(
    items: Items, partition: str, operations: Sequence[Operation], witness: str | None, transaction: str | None = None
) -> str | None:
    """Have a batch stored, sending it again when its answer was lost; the ETag of its first item, if it is known.

    Sending it again does no harm: its items have names of their own, and its head must be as it was before.
    ``witness`` is an item, and ``transaction`` a name in the head, that are there once the batch is.
    """
    heard, pause = True, 0.05
    for attempt in range(_ATTEMPTS):
        try:
            results = await items.batch(partition, operations)
            etag: str | None = results[0].get("eTag")
            return etag
        except InTheWay as error:
            done = await _is_done(items, partition, None if heard else witness, transaction)
            if done is None:
                raise Conflict from error
            return done or None
        except Unheard:
            if attempt == _ATTEMPTS - 1:
                raise
            heard = False
        await items.pause(pause)
        pause *= 4
    raise AssertionError("the last attempt returns or raises")


async def _is_done(items: Items, partition: str, witness: str | None, transaction: str | None) -> str | None:
    """The head's ETag if a batch was stored, "" if somebody has changed the head since; None if it was not stored."""
    if transaction is not None:
        head = await read_head(items, partition)
        if head is not None and head.last == transaction:
            return head.etag
    if witness is not None and await items.read(partition, witness) is not None:
        return ""
    return None


def _fits(items: Sequence[Item]) -> bool:
    return len(items) <= OPERATIONS and sum(size_of(item) + _ENVELOPE for item in items) <= BYTES


def _batches(items: Sequence[Item]) -> Iterator[list[Item]]:
    batch, total = list[Item](), 0
    for item in items:
        size = size_of(item) + _ENVELOPE
        if batch and (len(batch) == OPERATIONS or total + size > BYTES):
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += size
    if batch:
        yield batch


async def remove_thread(items: Items, partition: str) -> None:
    """Remove a thread, and whatever else nobody needs in its partition. It is gone with the first batch."""
    head = await read_head(items, partition)
    if head is not None:
        try:
            await items.batch(partition, [("delete", (HEAD,), {"if_match_etag": head.etag})])
        except InTheWay as error:
            raise Conflict from error
        except Unheard as error:
            now = await read_head(items, partition)
            if now is not None and now.key == head.key:
                raise Conflict(str(error)) from error
    found: list[Any] = [item async for item in items.query(_IDS, {}, partition)]
    if found:
        # Somebody may have begun a thread of the same name meanwhile: its head came before its other items.
        now = await read_head(items, partition)
        keep = None if now is None else now.key
        await discard(items, partition, [item["id"] for item in found if item["id"] != HEAD and item["key"] != keep])


async def discard(items: Items, partition: str, ids: Sequence[str]) -> None:
    """Remove items that nothing refers to; others may be at the same."""
    for at in range(0, len(ids), OPERATIONS):
        some = ids[at : at + OPERATIONS]
        try:
            await items.batch(partition, [("delete", (id,)) for id in some])
        except (InTheWay, Unheard):
            for id in some:
                try:
                    await items.batch(partition, [("delete", (id,))])
                except InTheWay:
                    continue
