"""What changes leave: marks to take off, threads to remove, and what writers left that died half-way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bson import ObjectId
from pymongo import DeleteMany, DeleteOne, UpdateMany, UpdateOne

from threadmark.checkpoint.mongodb.documents import GRAVE, THREAD, Key, Standing, standing_of
from threadmark.checkpoint.mongodb.errors import door
from threadmark.checkpoint.mongodb.store import Store

IN_FLIGHT: Final = timedelta(hours=1)
"""How old the rows of a change are when nobody believes any more that it will be published."""
_SOME: Final = 10_000


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


async def remove(store: Store, key: Key) -> None:
    """Remove a thread: it is gone with its own document. A grave says what is still to be removed then."""
    grave = {"$setOnInsert": {"kind": GRAVE, "gone": [key.object_id]}}
    store.standings.forget(key.thread_id)
    with door(store.settings.place):
        await store.driver.write([UpdateOne({"_id": key.object_id}, grave, upsert=True)])
        await store.driver.write([DeleteOne({"_id": key.thread_id, "thread": key.object_id}), *_buried(key.object_id)])


def _buried(key: ObjectId) -> list[Any]:
    return [DeleteMany({"thread": key}), DeleteOne({"_id": key})]


async def collect(store: Store) -> None:
    """Finish what writers left that died half-way, and remove rows that they never published.

    Three queries when there is nothing of the kind.
    """
    driver = store.driver
    with door(store.settings.place):
        unsettled = await driver.find({"last": {"$exists": True}})
        graves = await driver.find({"gone": {"$exists": True}, "kind": GRAVE})
        for grave in graves:
            await driver.write(_buried(grave["_id"]))
    for document in unsettled:
        standing = standing_of(document)
        assert standing is not None
        await settle(store, standing)
    with door(store.settings.place):
        fields = {"thread": 1, "by": 1, "born": 1}
        marked = await driver.find({"by": {"$exists": True}}, fields=fields, limit=_SOME)
        left = {(row["thread"], row["by"], row["born"]) for row in marked}
        if not left:
            return
        match = {"thread": {"$in": list({key for key, _, _ in left})}, "kind": THREAD, "ns": None, "id": None}
        standings = {each["thread"]: standing_of(each) for each in await driver.find(match)}
        for key, mark, born in left:
            if await _is_dead(store, standings.get(key), mark, born):
                await driver.write([DeleteMany({"by": mark})])


async def _is_dead(store: Store, standing: Standing | None, mark: ObjectId, born: int) -> bool:
    """Whether a change will never be published. One that nobody believes in any more is made to fail."""
    old = datetime.now(UTC) - mark.generation_time > IN_FLIGHT
    if standing is None or standing.last == mark:
        return old and standing is None
    if born <= standing.version:  # the version that it would make is there
        return True
    if not old:
        return False
    moved = await store.driver.write([UpdateOne(standing.unmoved(), {"$inc": {"version": 1}})])
    return bool(moved.matched_count)
