"""What a saver does, each operation written once for both colours over a port (house rule 5)."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, Final

from threadmark.checkpoint.base import CheckpointTuple
from threadmark.checkpoint.bundling import bundled, heads_of
from threadmark.checkpoint.caches import Caches, Parent
from threadmark.checkpoint.codec import Codec
from threadmark.checkpoint.draft import StepDraft
from threadmark.checkpoint.facts import METADATA
from threadmark.checkpoint.layout import Known
from threadmark.checkpoint.reading import Shelf
from threadmark.checkpoint.records import (
    HIDDEN,
    Bundle,
    Change,
    Conflict,
    Direct,
    Foreseen,
    Port,
    Ref,
    Scope,
    Thread,
    ThreadInfo,
    View,
)
from threadmark.checkpoint.transact import look, transact
from threadmark.checkpoint.turns import Entry
from threadmark.checkpoint.writing import Bases, Prepared, check_heads, store_rows

_CHUNKS: Final = (1, 4, 16, 64)
"""How many checkpoints a listing reads at once: few at first, since the first one is often all that is wanted."""
_FIRST_NAMES, _MOST_NAMES, _NAMES_MORE = 8, 4096, 8
"""How many names it asks for at first, at most, and how many times more each time."""


# -- storing ---------------------------------------------------------------------------------------------------------


def prepared_from_memory(caches: Caches, entry: Entry) -> bool:
    """Make rows of an entry's steps if all that they build on is remembered."""
    thread = caches.threads.get(entry.thread_id)
    bases = Bases(thread)
    if thread is None or not bases.recall(caches, entry.thread_id, entry.drafts):
        return False
    entry.prepared = Prepared(entry.codec, entry.thread_id, thread.salt, bases, entry.drafts)
    return True


def append(port: Any, caches: Caches, entries: Sequence[Entry]) -> bool:
    """Store entries by a port's short way, see ``Port``; False if they have to go the long one, ``store_all``.

    ``error`` says why they could not be stored at all.
    """
    bundles = list[Bundle]()
    for entry in entries:
        try:
            if not (entry.prepared or prepared_from_memory(caches, entry)):
                return False
            bundles.append(_bundle(entry))
        except Exception:  # the long way says of which entry it is
            return False
    try:
        threads = port.append(bundles)
    except BaseException as error:
        if len(entries) > 1 and isinstance(error, Exception):  # one of them spoilt the transaction of all
            return False
        for entry in entries:
            entry.error = error
        return True
    if threads is None:
        return False
    for entry, thread in zip(entries, threads, strict=True):
        _remember(caches, entry, thread)
    return True


def _bundle(entry: Entry) -> Bundle:
    assert entry.prepared is not None
    return bundled(entry.prepared, entry.thread_id, entry.drafts, entry.codec.seal(entry.thread_id))


async def prepare(port: Port, caches: Caches, entry: Entry) -> None:
    """Make rows of an entry's steps, against what is remembered or can be read now."""
    thread_id, codec, drafts = entry.thread_id, entry.codec, entry.drafts
    thread = caches.threads.get(thread_id)
    bases = Bases(thread)
    if not bases.recall(caches, thread_id, drafts) or (thread is None and any(draft.at for draft in drafts)):

        async def work(view: View) -> Thread | None:
            known = thread or await view.thread(thread_id)
            if known is not None:
                bases.thread = known
                await bases.read(Shelf(view, codec, caches, thread_id, known), drafts)
            return known

        thread = await look(port, work)
        if thread is not None:
            caches.threads.set(thread_id, thread)
    salt = thread.salt if thread is not None else os.urandom(16)
    entry.prepared = Prepared(codec, thread_id, salt, bases, drafts)


async def store_alone(port: Port, caches: Caches, entry: Entry) -> None:
    """Store one entry in a transaction of its own."""
    await prepare(port, caches, entry)
    if port.direct is not None and await _store_directly(port.direct, caches, entry):
        return
    await _store(port, caches, (entry,))
    if entry.error is not None:
        raise entry.error


async def _store_directly(direct: Direct, caches: Caches, entry: Entry) -> bool:
    """Store an entry as it is, if all that it builds on is as it was remembered or read; whether that was so."""
    thread = await direct.store(_bundle(entry))
    if thread is None:
        return False
    _remember(caches, entry, thread)
    return True


async def store_all(port: Port, caches: Caches, entries: Sequence[Entry]) -> None:
    """Store entries in one transaction, each of them whole or not at all; ``error`` says why one was not."""
    for entry in entries:
        if entry.prepared is None:
            try:
                await prepare(port, caches, entry)
            except Exception as error:
                entry.error = error
    entries = [entry for entry in entries if entry.error is None]
    try:
        await _store(port, caches, entries)
    except BaseException as error:
        if len(entries) == 1 or not isinstance(error, Exception):
            for entry in entries:
                entry.error = error
        else:  # one of them spoilt the transaction of all
            for entry in entries:
                await store_all(port, caches, (entry,))


async def _store(port: Port, caches: Caches, entries: Sequence[Entry]) -> None:
    async def work(change: Change) -> list[Thread | None]:
        return [await _store_entry(change, caches, entry) for entry in entries]

    threads = await transact(port, work)
    for entry, thread in zip(entries, threads, strict=True):
        if thread is not None:
            _remember(caches, entry, thread)


async def _store_entry(change: Change, caches: Caches, entry: Entry) -> Thread | None:
    entry.error = None
    try:
        if change.far:
            await change.foresee(entry.thread_id, _foreseen(entry))
        heads: dict[str, str | None] = {}
        thread = await _verified(change, caches, entry, heads)
        await check_heads(change, entry.thread_id, thread, entry.drafts, heads)
    except Conflict:
        raise
    except Exception as error:  # nothing of this entry was written: the others of the transaction go on
        entry.error = error
        return None
    seal = entry.codec.seal(entry.thread_id)
    assert entry.prepared is not None
    for rows in entry.prepared.rows:
        await store_rows(change, thread, rows, seal)
    return thread


def _foreseen(entry: Entry) -> Foreseen:
    """What storing an entry asks of its thread."""
    assert entry.prepared is not None
    drafts = entry.drafts
    return Foreseen(
        heads=heads_of(drafts),
        checkpoints=entry.prepared.bases,
        tasks=[(draft.ns, draft.at or "", task.task_id) for draft in drafts for task in draft.tasks],
        thread=entry.prepared.thread,
    )


async def _verified(change: Change, caches: Caches, entry: Entry, heads: dict[str, str | None]) -> Thread:
    """The entry's thread, once its rows are known to build on what is stored now. ``heads`` takes what was met."""
    prepared = entry.prepared
    assert prepared is not None
    thread = prepared.thread
    if thread is None:
        thread = await change.open_thread(entry.thread_id, prepared.salt)
        if thread.salt == prepared.salt:
            return thread
    elif prepared.bases:
        bodies = [
            (body, await _body(change, thread, ns, id, entry.drafts, heads))
            for (ns, id), body in prepared.bases.items()
        ]
        if all(expected == found for expected, found in bodies):
            return thread
        heads.clear()
    elif await change.thread(entry.thread_id) == thread:
        return thread
    return await _prepare_again(change, caches, entry)


async def _body(
    change: Change, thread: Thread, ns: str, id: str, drafts: Sequence[StepDraft], heads: dict[str, str | None]
) -> bytes | None:
    """The stored body of a base. As a rule it is the head that a step expects: then one query tells both."""
    if any(draft.expected_head == id and draft.ns == ns for draft in drafts):
        head = await change.checkpoint(thread, ns, None)
        heads[ns] = head.id if head is not None else None
        if head is not None and head.id == id:
            return head.body
    return await change.body(thread, ns, id)


async def _prepare_again(change: Change, caches: Caches, entry: Entry) -> Thread:
    """Make the rows anew inside the transaction: another writer, or a prune, changed what they were built on."""
    assert entry.prepared is not None
    thread_id, codec = entry.thread_id, entry.codec
    ghosts = dict[tuple[str, str], Parent]()
    for ns, id in entry.prepared.bases:
        parent = caches.parents.get((thread_id, ns, id))
        if parent is not None:
            ghosts[ns, id] = parent
            caches.parents.forget((thread_id, ns, id))
    thread = await change.open_thread(thread_id, os.urandom(16))
    bases = Bases(thread, ghosts)
    bases.recall(caches, thread_id, entry.drafts)
    await bases.read(Shelf(change, codec, caches, thread_id, thread), entry.drafts)
    for parent in ghosts.values():
        bases.values |= _remembered(caches, parent)
    entry.prepared = Prepared(codec, thread_id, thread.salt, bases, entry.drafts)
    return thread


def _remembered(caches: Caches, parent: Parent) -> dict[int, Known]:
    """What is still in memory of a checkpoint's values."""
    refs = [ref for ref in parent.row.fields.values.values() if isinstance(ref, int)]
    found = {ref: caches.values.get((parent.thread.key, ref)) for ref in refs}
    return {ref: known for ref, known in found.items() if known is not None}


def _remember(caches: Caches, entry: Entry, thread: Thread) -> None:
    prepared = entry.prepared
    assert prepared is not None
    known_thread = prepared.thread is not None
    if not known_thread:
        caches.threads.set(entry.thread_id, thread)
    # Of several checkpoints in a row the last one is the parent of what comes.
    last = {ns: (id, parent) for (ns, id), parent in prepared.parents.items()}
    for ns, (id, parent) in last.items():
        if not known_thread:
            parent = Parent(thread, parent.row, parent.body)
        caches.parents.set((entry.thread_id, ns, id), parent)
    # What is kept for nothing lies between short-lived objects, which then lie apart and are slower to make.
    for ns, id in prepared.bases:
        if ns in last:
            caches.parents.forget((entry.thread_id, ns, id))
    for value, known in prepared.values.items():
        caches.values.set((thread.key, value), known)
    for value in prepared.replaced:
        caches.values.forget((thread.key, value))


# -- reading ---------------------------------------------------------------------------------------------------------


async def scan(
    port: Port, codec: Codec, caches: Caches, scope: Scope, keep: Callable[[Any], bool] | None, limit: int | None
) -> AsyncIterator[CheckpointTuple]:
    """Checkpoints in scope, one by one; what is deleted meanwhile is left out."""
    async for page in pages(port, codec, caches, scope, keep, limit):
        for make in page:
            yield make()


async def pages(
    port: Port, codec: Codec, caches: Caches, scope: Scope, keep: Callable[[Any], bool] | None, limit: int | None
) -> AsyncIterator[Sequence[Callable[[], CheckpointTuple]]]:
    """The same, as many as are read at once, each ready to be put together: what that needs has been fetched."""
    if limit == 0:
        return
    left, chunk, size = limit, 0, _FIRST_NAMES
    rest: Scope | None = scope
    while rest is not None:
        keys, rest, size = await _names(port, rest, size, left if keep is None else None)
        at = 0
        while at < len(keys):
            names = keys[at : at + _CHUNKS[chunk]]
            at += len(names)
            chunk = min(chunk + 1, len(_CHUNKS) - 1)
            found = await _read(port, codec, caches, names, keep)
            if left is not None:
                found = found[:left]
                left -= len(found)
            yield found
            if left == 0:
                return


async def _keys(view: View, scope: Scope, limit: int | None) -> Sequence[Ref]:
    return await view.keys(scope, limit)


async def _names(port: Port, scope: Scope, size: int, limit: int | None) -> tuple[Sequence[Ref], Scope | None, int]:
    """The first names in scope, at most ``limit``; what is behind them, None for nothing; how many to ask for then."""
    while True:
        asked = size if limit is None else min(size, limit)
        keys = await look(port, partial(_keys, scope=scope, limit=asked))
        if len(keys) < asked or asked == limit:
            return keys, None, size
        # Checkpoints of several threads may have one id; those of the last one are perhaps not all here.
        whole = [key for key in keys if key.id != keys[-1].id]
        size = min(size * _NAMES_MORE, _MOST_NAMES) if whole else size * _NAMES_MORE
        if whole:
            return whole, scope._replace(before=whole[-1].id), size


async def _read(
    port: Port, codec: Codec, caches: Caches, refs: Sequence[Ref], keep: Callable[[Any], bool] | None
) -> list[Callable[[], CheckpointTuple]]:
    """These checkpoints, in this order, ready to be put together one by one."""

    async def work(view: View) -> dict[tuple[str, str, str | None], Callable[[], CheckpointTuple]]:
        found: dict[tuple[str, str, str | None], Callable[[], CheckpointTuple]] = {}
        for thread_id in dict.fromkeys(ref.thread_id for ref in refs):
            thread = await view.thread(thread_id)
            if thread is None:
                continue
            names = [(ref.ns, ref.id) for ref in refs if ref.thread_id == thread_id and ref.id is not None]
            shelf = Shelf(view, codec, caches, thread_id, thread)
            rows = [row for row in await view.checkpoints(thread, names) if not row.flags & HIDDEN]
            if keep is not None:
                items = await shelf.open(rows)
                parts = await shelf.materials([item.only((METADATA,)) for item in items])
                rows = [item.row for item in items if keep(parts.metadata(item))]
            tasks = await view.tasks(thread, [(row.ns, row.id) for row in rows])
            opened = await shelf.open(rows, tasks)
            materials = await shelf.materials(opened)
            for item in opened:
                found[thread_id, item.row.ns, item.row.id] = partial(materials.tuple, item, keep=False)
        return found

    found = await look(port, work)
    return [found[ref] for ref in refs if ref in found]


async def threads(port: Port) -> Sequence[ThreadInfo]:
    """One line about each thread."""
    return await look(port, lambda view: view.threads())


async def thread_ids(port: Port) -> Sequence[str]:
    """Every thread of which anything is stored."""
    return await look(port, lambda view: view.thread_ids())
