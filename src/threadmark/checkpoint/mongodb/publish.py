"""Making a change visible: in one transaction, or by one document that is written last.

The document of a thread carries its version. Whoever changes the thread moves the version on from the one that was
read; where it is another by then, nothing of the change counts and the whole is done again.

Without transactions, or when a change is too large for one, its rows are written first, each with the change's mark.
They count from the moment at which the thread's document names the mark. After that the mark is taken off them, and
rows that the change removes are deleted; whoever finds that undone does it. Rows whose mark was never named are
orphans. ``collect`` removes them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from bson import ObjectId
from pymongo import DeleteMany, UpdateMany, UpdateOne
from pymongo.errors import PyMongoError

from threadmark.checkpoint.mongodb.documents import (
    CHECKPOINT,
    PART,
    SEGMENT,
    TASK,
    THREAD,
    VALUE,
    Document,
    Key,
    Name,
    Standing,
    cut,
    name_of,
)
from threadmark.checkpoint.mongodb.errors import WRITE_CONFLICT, code_of, door
from threadmark.checkpoint.mongodb.life import life_of, renew
from threadmark.checkpoint.mongodb.remains import remove, settle
from threadmark.checkpoint.mongodb.store import Store
from threadmark.checkpoint.records import Conflict
from threadmark.errors import Unavailable

LARGE: Final = 8 << 20
"""Bytes of documents, and below how many of them, that a transaction takes: a server has a minute and some memory."""
MANY: Final = 2000
_SOME: Final = 10_000
_ORDER: Final = {SEGMENT: 0, VALUE: 1, TASK: 2, CHECKPOINT: 3}
_LOCKED: Final = 100.0
"""Seconds that a thread may be locked by a transaction that nobody ends: a server gives one up after 60, or 90."""
_PATIENCE: Final = 30.0
_WAIT: Final = 0.1


@dataclass(slots=True)
class Revision:
    """What becomes of one thread: documents that are put, and stored ones that go."""

    standing: Standing
    documents: dict[Name, Document] = field(default_factory=dict)
    gone: dict[ObjectId, bool] = field(default_factory=dict)
    """The ``_id`` of each, and whether it has parts."""

    def is_change(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.documents or self.gone or not self.standing.version)

    def put(self, document: Document, stored: Iterable[Document]) -> None:
        """Store a document; those with the same name give way."""
        self.take(name_of(document), stored)
        self.documents[name_of(document)] = document

    def take(self, name: Name, stored: Iterable[Document]) -> None:
        """Remove what has this name."""
        self.documents.pop(name, None)
        self.gone |= {document["_id"]: "parts" in document for document in stored}


class Removal:
    """A thread of which nothing is to stay."""

    def __init__(self, key: Key) -> None:
        self.key = key


@dataclass(frozen=True, slots=True)
class _Publication:
    """One revision as operations."""

    revision: Revision
    mark: ObjectId
    rows: Sequence[UpdateOne]
    last: UpdateOne
    """What moves the thread's version on."""
    fresh: bool
    sample: ObjectId | None
    """One of the new documents."""
    after: Standing


async def carry_out(store: Store, revisions: Sequence[Revision], removals: Sequence[Removal]) -> None:
    """Make changes visible: all of a thread's or none. ``Conflict`` when another writer was quicker."""
    for revision in revisions:
        if revision.standing.last is not None:
            await settle(store, revision.standing)
        await renew(store, revision.standing)
    if revisions:
        if store.transactions and _is_small(revisions):
            await _in_transaction(store, [_publication(store, each, marked=False) for each in revisions])
        else:
            for revision in revisions:
                await _publish(store, _publication(store, revision, marked=True))
    for removal in removals:
        await remove(store, removal.key)


def _is_small(revisions: Iterable[Revision]) -> bool:
    documents = [document for revision in revisions for document in revision.documents.values()]
    gone = sum(len(revision.gone) for revision in revisions)
    return len(documents) + gone <= MANY and sum(len(document["body"]) for document in documents) <= LARGE


def _publication(store: Store, revision: Revision, *, marked: bool) -> _Publication:
    standing, mark = revision.standing, ObjectId()
    version = standing.version + 1
    shared: Document = {"thread": standing.key.object_id, "born": version}
    if marked:
        shared["by"] = mark
    set_, unset, row_expires = life_of(store.settings.ttl, standing)
    if row_expires is not None:
        shared["expires"] = row_expires
    documents = sorted(revision.documents.values(), key=lambda document: _ORDER[document["kind"]])
    stored = [part for each in documents for part in cut({"_id": ObjectId(), **each, **shared})]
    set_["version"] = version
    if revision.gone:
        set_["removed"] = version
    if marked:
        set_["last"] = mark
    else:
        unset["last"] = ""
    after = Standing(
        standing.key,
        standing.salt,
        version,
        version if revision.gone else standing.removed,
        mark if marked else None,
        set_.get("expires"),
        set_.get("kept"),
    )
    last = _making(standing, set_) if not standing.version else _moving(standing, set_, unset)
    return _Publication(
        revision,
        mark,
        [UpdateOne({"_id": each.pop("_id")}, {"$setOnInsert": each}, upsert=True) for each in map(dict, stored)],
        last,
        not standing.version,
        stored[0]["_id"] if stored else None,
        after,
    )


def _making(standing: Standing, fields: Document) -> UpdateOne:
    """A new thread's document; a duplicate where another writer has made it."""
    made = {"kind": THREAD, "thread": standing.key.object_id, "salt": standing.salt, **fields}
    return UpdateOne({"_id": standing.key.thread_id, "kind": {"$exists": False}}, {"$setOnInsert": made}, upsert=True)


def _moving(standing: Standing, fields: Document, unset: Document) -> UpdateOne:
    change: Document = {"$set": fields}
    if unset:
        change["$unset"] = unset
    return UpdateOne(standing.unmoved(), change)


# -- in one transaction ----------------------------------------------------------------------------------------------


async def _in_transaction(store: Store, publications: Sequence[_Publication]) -> None:
    """Make changes in one transaction, and again while one of a dead process keeps the thread locked."""
    end = time.monotonic() + _LOCKED
    while True:
        try:
            await _try_transaction(store, publications)
            return
        except Conflict as conflict:
            locked = isinstance(conflict.__cause__, PyMongoError) and code_of(conflict.__cause__) == WRITE_CONFLICT
            if not locked or time.monotonic() > end:
                raise
        for each in publications:
            standing = each.revision.standing
            now = await store.standing(standing.key.thread_id)
            if (now.version if now is not None else 0) != standing.version:
                raise Conflict
        await store.driver.pause(_WAIT)


async def _try_transaction(store: Store, publications: Sequence[_Publication]) -> None:
    driver, place = store.driver, store.settings.place
    rows = [row for each in publications for row in each.rows]
    gone = {id: parts for each in publications for id, parts in each.revision.gone.items()}
    with door(place):
        session = await driver.begin()
    try:
        with door(place):
            done = await driver.write([*rows, *(each.last for each in publications)], session)
            fresh = sum(each.fresh for each in publications)
            if (done.matched_count, done.upserted_count) != (len(publications) - fresh, len(rows) + fresh):
                raise Conflict
            if gone:
                await driver.write([DeleteMany(match) for match in _these(gone)], session)
            await _commit(store, session)
    except BaseException:
        for each in publications:
            store.standings.forget(each.after.key.thread_id)
        raise
    finally:
        await driver.leave(session)
    for each in publications:
        store.met(each.after.key.thread_id, each.after)


async def _commit(store: Store, session: Any) -> None:
    """Commit, and again for as long as nobody knows how that went: it happens once."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            await store.driver.commit(session)
            return
        except PyMongoError as error:
            if not error.has_error_label("UnknownTransactionCommitResult") or time.monotonic() > end:
                raise
        await store.driver.pause(_WAIT)


def _these(gone: dict[ObjectId, bool]) -> Iterator[Document]:
    """Queries for documents and their parts, some at a time."""
    ids, in_parts = list(gone), [id for id, parts in gone.items() if parts]
    for at in range(0, len(ids), _SOME):
        yield {"_id": {"$in": ids[at : at + _SOME]}}
    for at in range(0, len(in_parts), _SOME):
        yield {"kind": PART, "id": {"$in": in_parts[at : at + _SOME]}}


# -- by one document that is written last ----------------------------------------------------------------------------


async def _publish(store: Store, publication: _Publication) -> None:
    driver, place = store.driver, store.settings.place
    revision, mark, thread_id = publication.revision, publication.mark, publication.after.key.thread_id
    store.standings.forget(thread_id)
    if revision.gone:
        with door(place):
            await driver.write([UpdateMany(match, {"$addToSet": {"gone": mark}}) for match in _these(revision.gone)])
    try:
        with door(place):
            done = await driver.write([*publication.rows, publication.last])
        won = done.upserted_count == len(publication.rows) + 1 if publication.fresh else done.matched_count == 1
    except Conflict:
        won = False
    except Unavailable:
        won = await _was_published(store, publication)
    if not won:
        with suppress(PyMongoError):  # ``collect`` does it otherwise
            await driver.write([DeleteMany({"by": mark})])
            if revision.gone:
                await driver.write([UpdateMany({"gone": mark}, {"$pull": {"gone": mark}})])
        raise Conflict
    store.met(thread_id, publication.after)
    with suppress(Unavailable):  # it counts already; the next writer tidies up
        await settle(store, publication.after)


async def _was_published(store: Store, publication: _Publication) -> bool:
    """Whether a change of which the answer got lost counts. When it does not, it never will."""
    standing, thread_id = publication.revision.standing, publication.after.key.thread_id
    while True:
        now = await store.standing(thread_id)
        if now is None or now.key != standing.key:
            return False
        if now.last == publication.mark:
            return True
        with door(store.settings.place):
            if now.version > standing.version:
                settled = {"_id": publication.sample, "by": None}
                return publication.sample is not None and bool(await store.driver.find(settled, fields={"_id": 1}))
            moved = await store.driver.write([UpdateOne(standing.unmoved(), {"$inc": {"version": 1}})])
            if moved.matched_count:  # if it still arrives, it finds another version
                return False
