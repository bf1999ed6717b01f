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
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bson import ObjectId
from pymongo import DeleteMany, DeleteOne, UpdateMany, UpdateOne
from pymongo.errors import PyMongoError

from threadmark.checkpoint.mongodb.documents import (
    CHECKPOINT,
    GRAVE,
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
    standing_of,
)
from threadmark.checkpoint.mongodb.errors import door
from threadmark.checkpoint.mongodb.store import Store
from threadmark.checkpoint.records import Conflict
from threadmark.errors import Unavailable

LARGE: Final = 8 << 20
"""Bytes of documents, and below how many of them, that a transaction takes: a server has a minute and some memory."""
MANY: Final = 2000
_SOME: Final = 10_000
_ORDER: Final = {SEGMENT: 0, VALUE: 1, TASK: 2, CHECKPOINT: 3}
_IN_FLIGHT: Final = timedelta(hours=1)
"""How old the rows of a change are when nobody believes any more that it will be published."""
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
        await _renew(store, revision.standing)
    if revisions:
        if store.transactions and _is_small(revisions):
            await _in_transaction(store, [_publication(store, each, marked=False) for each in revisions])
        else:
            for revision in revisions:
                await _publish(store, _publication(store, revision, marked=True))
    for removal in removals:
        await _remove(store, removal.key)


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
    set_, unset, row_expires = _life(store.settings.ttl, standing)
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
    return UpdateOne(_at(standing), change)


def _at(standing: Standing) -> Document:
    """The thread's document as long as it stands so."""
    key = standing.key
    return {"_id": key.thread_id, "thread": key.object_id, "version": standing.version}


# -- in one transaction ----------------------------------------------------------------------------------------------


async def _in_transaction(store: Store, publications: Sequence[_Publication]) -> None:
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
            moved = await store.driver.write([UpdateOne(_at(standing), {"$inc": {"version": 1}})])
            if moved.matched_count:  # if it still arrives, it finds another version
                return False


async def settle(store: Store, standing: Standing) -> None:
    """Take the mark of a thread's last change off its rows, and delete what that change removed. Idempotent."""
    mark, key = standing.last, standing.key
    settled = UpdateOne({"_id": key.thread_id, "thread": key.object_id, "last": mark}, {"$unset": {"last": ""}})
    # In this order: a row that takes another's place is seen before that one goes.
    steps: list[list[Any]] = [[UpdateMany({"by": mark}, {"$unset": {"by": ""}}), settled]]
    if standing.removed == standing.version:
        steps = [steps[0][:1], [DeleteMany({"gone": mark})], [settled]]
    with door(store.settings.place):
        for step in steps:
            await store.driver.write(step)
    store.met(key.thread_id, standing._replace(last=None))


# -- removing threads, and what dead writers left --------------------------------------------------------------------


async def _remove(store: Store, key: Key) -> None:
    """Remove a thread: it is gone with its own document. A grave says what is still to be removed then."""
    grave = {"$setOnInsert": {"kind": GRAVE, "gone": [key.object_id]}}
    store.standings.forget(key.thread_id)
    with door(store.settings.place):
        await store.driver.write([UpdateOne({"_id": key.object_id}, grave, upsert=True)])
        await store.driver.write([DeleteOne({"_id": key.thread_id, "thread": key.object_id}), *_buried(key.object_id)])


def _buried(key: ObjectId) -> list[Any]:
    return [DeleteMany({"thread": key}), DeleteOne({"_id": key})]


async def collect(store: Store) -> None:
    """Remove what writers left that died half-way: rows that were never published, and those of removed threads."""
    driver = store.driver
    with door(store.settings.place):
        for grave in await driver.find({"gone": {"$exists": True}, "kind": GRAVE}):
            await driver.write(_buried(grave["_id"]))
        fields = {"thread": 1, "by": 1, "born": 1}
        marked = await driver.find({"by": {"$exists": True}}, fields=fields, limit=_SOME)
        left = {(row["thread"], row["by"], row["born"]) for row in marked}
        if not left:
            return
        match = {"thread": {"$in": list({key for key, _, _ in left})}, "kind": THREAD, "ns": None, "id": None}
        standings = {each["thread"]: standing_of(each) for each in await driver.find(match)}
    for key, mark, born in left:
        await _collect(store, standings.get(key), mark, born)


async def _collect(store: Store, standing: Standing | None, mark: ObjectId, born: int) -> None:
    old = datetime.now(UTC) - mark.generation_time > _IN_FLIGHT
    if standing is not None and standing.last == mark:
        await settle(store, standing)
        return
    with door(store.settings.place):
        if standing is not None and born > standing.version and old:
            moved = await store.driver.write([UpdateOne(_at(standing), {"$inc": {"version": 1}})])
            old = bool(moved.matched_count)
        dead = standing is not None and born <= standing.version
        if dead or old:
            await store.driver.write([DeleteMany({"by": mark})])


# -- how long a thread is kept ---------------------------------------------------------------------------------------


def _life(ttl: float | None, standing: Standing) -> tuple[Document, Document, datetime | None]:
    """What to set and unset in a thread's document, and until when its new rows are kept.

    The server removes documents one by one. So the rows are kept longer than their thread, without which nobody sees
    them: no thread ever loses a part of itself.
    """
    if ttl is None:
        return {}, {"expires": "", "kept": ""} if standing.expires is not None else {}, None
    now, life = datetime.now(UTC), timedelta(seconds=ttl)
    kept = now + 2 * life
    if standing.version and not _is_short(standing, now, life):
        kept = min(kept, standing.kept)
    return {"expires": now + life, "kept": kept}, {}, now + 2 * life


def _is_short(standing: Standing, now: datetime, life: timedelta) -> bool:
    """Whether rows of a thread might go before it, or never."""
    kept: datetime | None = standing.kept
    return kept is None or kept < now + 1.25 * life


async def _renew(store: Store, standing: Standing) -> None:
    """Let a thread's rows live as long as the thread is about to."""
    ttl = store.settings.ttl
    change: Document | None = None
    if ttl is None:
        change = {"$unset": {"expires": ""}} if standing.expires is not None else None
    elif standing.version:
        now, life = datetime.now(UTC), timedelta(seconds=ttl)
        change = {"$set": {"expires": now + 2 * life}} if _is_short(standing, now, life) else None
    if change is not None:
        rows = {"thread": standing.key.object_id, "kind": {"$ne": THREAD}}
        with door(store.settings.place):
            await store.driver.write([UpdateMany(rows, change)])
