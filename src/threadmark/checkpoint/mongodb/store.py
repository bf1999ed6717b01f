"""The collection as ports and views see it: made ready once, and how threads stood when they were last met."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from pymongo import DESCENDING, IndexModel, UpdateOne
from pymongo.errors import BulkWriteError

from threadmark.checkpoint.caches import Bounded
from threadmark.checkpoint.mongodb.documents import CHECKPOINT, Document, Standing, Want, standing_of
from threadmark.checkpoint.mongodb.driver import Driver, Settings
from threadmark.checkpoint.mongodb.errors import DUPLICATE, code_of, door
from threadmark.errors import ForeignDatabase, SaverError

FORMAT: Final = 1
_MARK: Final = 0
"""The ``_id`` of the document that says whose collection it is."""
_OLDEST_WIRE: Final = 9
_THREADS: Final = 4096


class Store:
    """One collection and what is remembered of it. Anything remembered may be stale: it is checked where it is used."""

    def __init__(self, driver: Driver, settings: Settings) -> None:
        self.driver, self.settings = driver, settings
        self.transactions = False
        """Whether changes are made in transactions of the server's."""
        self.standings: Bounded[str, Standing] = Bounded(_THREADS, lambda _: 1)
        self._looked = self._made = False

    async def prepare(self, *, writing: bool) -> None:
        """Make sure that the collection is ours; before the first change, make its indexes. Idempotent.

        ``ForeignDatabase``, before anything is written, when it holds what we did not make.
        """
        if self._made or (self._looked and not writing):
            return
        with door(self.settings.place):
            stored = await self._format()
            self._looked = True
            if writing:
                await self._meet_server()
                await self._make(stored)
                self._made = True

    async def _format(self) -> int:
        found = await self.driver.find({"_id": _MARK})
        if not found:
            if await self.driver.find({"_id": {"$ne": _MARK}}, fields={"_id": 1}, limit=1):
                if await self.driver.find({"_id": _MARK}):  # another process has just made it
                    return FORMAT
                raise ForeignDatabase(
                    f"the collection {self.settings.collection!r} in {self.settings.place} was not made by Threadmark; "
                    f"nothing was written to it. Name another database or collection"
                )
            return 0
        stored = found[0].get("format")
        if found[0].get("kind") != "threadmark" or stored != FORMAT:
            raise ForeignDatabase(
                f"the collection {self.settings.collection!r} in {self.settings.place} has format {stored!r}; this "
                f"version knows {FORMAT}. Install a newer version of Threadmark"
            )
        return FORMAT

    async def _meet_server(self) -> None:
        hello = await self.driver.hello()
        place = self.settings.place
        if hello.get("maxWireVersion", 0) < _OLDEST_WIRE:
            raise SaverError(f"{place} is older than MongoDB 4.4, which has no $unionWith; upgrade the server")
        able = "setName" in hello or hello.get("msg") == "isdbgrid"
        if self.settings.transactions and not able:
            raise SaverError(
                f"{place} is a standalone server, which has no transactions; make it a replica set, or leave "
                f"transactions out: changes are then published by one document"
            )
        self.transactions = able and self.settings.transactions is not False

    async def _make(self, stored: int) -> None:
        await self.driver.make_indexes(_indexes(self.settings.ttl))
        if not stored:
            try:
                made = {"$setOnInsert": {"kind": "threadmark", "format": FORMAT}}
                await self.driver.write([UpdateOne({"_id": _MARK}, made, upsert=True)])
            except BulkWriteError as error:  # another process was quicker
                if code_of(error) != DUPLICATE:
                    raise

    async def standing(self, thread_id: str) -> Standing | None:
        """How a thread stands now."""
        with door(self.settings.place):
            found = await self.driver.find({"_id": thread_id}, limit=1)
        return self.met(thread_id, standing_of(found[0] if found else None))

    def met(self, thread_id: str, standing: Standing | None) -> Standing | None:
        """Remember how a thread stands."""
        if standing is None:
            self.standings.forget(thread_id)
        else:
            self.standings.set(thread_id, standing)
        return standing

    async def ask(
        self, standing: Standing, wants: Sequence[Want], without: Collection[Any] = ()
    ) -> tuple[list[Document], Standing | None]:
        """Rows of a thread, and how it stood after they were read, in one query."""
        thread_id, name = standing.key.thread_id, self.settings.collection
        asked = [want.stages(name, standing, without) for want in wants]
        first, *others = [*asked, [{"$match": {"_id": thread_id}}]]
        union = [{"$unionWith": {"coll": name, "pipeline": stages}} for stages in others]
        with door(self.settings.place):
            found = await self.driver.aggregate([*first, *union])
        after = standing_of(found.pop()) if found and found[-1]["_id"] == thread_id else None
        if any(want.tasks or want.line is not None for want in wants):
            # Not every server that speaks the protocol applies the restriction of a $graphLookup.
            found = [each for each in found if standing.sees(each) and any(want.takes(each) for want in wants)]
        return found, self.met(thread_id, after)


def _indexes(ttl: float | None) -> list[IndexModel]:
    made = [
        IndexModel(["thread", "kind", "ns", "id", "born"], name="rows"),
        IndexModel([("id", DESCENDING)], name="newest", partialFilterExpression={"kind": CHECKPOINT}),
        *(IndexModel([field], name=field, sparse=True) for field in ("run_id", "by", "gone", "last")),
    ]
    if ttl is not None:
        made.append(IndexModel(["expires"], name="expires", expireAfterSeconds=0))
    return made
