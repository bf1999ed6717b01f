"""``AsyncMongoDBSaver``: threads in a collection of MongoDB, over the driver's awaited client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

from pymongo import AsyncMongoClient, ReadPreference
from pymongo.read_concern import ReadConcern

from threadmark.checkpoint.mongodb.documents import Document
from threadmark.checkpoint.mongodb.driver import Settings
from threadmark.checkpoint.mongodb.saver import MongoSaver
from threadmark.colour import running_loop
from threadmark.errors import ColourError

__all__ = ["AsyncMongoDBSaver"]


class Awaited:
    """Commands on an ``AsyncMongoClient``, which belongs to the event loop that uses it first."""

    blocking = False

    def __init__(self, client: AsyncMongoClient[Any] | Callable[[], AsyncMongoClient[Any]], settings: Settings) -> None:
        self._opens = client if not isinstance(client, AsyncMongoClient) else None
        self._settings = settings
        self.client: AsyncMongoClient[Any] = client if isinstance(client, AsyncMongoClient) else client()
        self.collection = settings.collection_of(self.client)
        self.loop: asyncio.AbstractEventLoop | None = None
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def _here(self) -> Any:
        """The collection, on the event loop that runs now."""
        running = asyncio.get_running_loop()
        if self.loop is running:
            return self.collection
        if self.loop is not None:  # a second asyncio.run()
            if self._opens is None:
                raise ColourError(
                    "the client that this saver was given belongs to another event loop; make client and saver inside "
                    "the loop that uses them, or use AsyncMongoDBSaver.from_conn_string, which opens a client for each"
                )
            self._renew()
        self.loop = running
        return self.collection

    def _renew(self) -> None:
        """Go on with another client. The old one cannot be closed: that takes the loop that it was used on."""
        assert self._opens is not None
        self.client = self._opens()
        self.collection = self._settings.collection_of(self.client)
        self._turns = WeakValueDictionary()

    async def find(
        self, match: Document, *, fields: Document | None = None, sort: Any = None, limit: int = 0
    ) -> list[Document]:
        found: list[Document] = await self._here().find(match, fields, sort=sort, limit=limit).to_list()
        return found

    async def aggregate(self, stages: Sequence[Document]) -> list[Document]:
        cursor = await self._here().aggregate(stages)
        found: list[Document] = await cursor.to_list()
        return found

    async def write(self, operations: Sequence[Any], session: Any = None) -> Any:
        return await self._here().bulk_write(operations, session=session)

    async def hello(self) -> Document:
        self._here()
        found: Document = await self.client.admin.command("hello")
        return found

    async def make_indexes(self, models: Sequence[Any]) -> None:
        await self._here().create_indexes(models)

    async def begin(self) -> Any:
        concern = self._here().write_concern
        session = self.client.start_session()
        await session.start_transaction(ReadConcern("local"), concern, ReadPreference.PRIMARY)
        return session

    async def commit(self, session: Any) -> None:
        await session.commit_transaction()

    async def leave(self, session: Any) -> None:
        await session.end_session()

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def take_turn(self, name: str) -> Any:
        self._here()
        turn = self._turns.get(name)
        if turn is None:
            turn = self._turns[name] = asyncio.Lock()
        await turn.acquire()
        return turn

    async def close(self) -> None:
        """Close the client if it was opened here. Idempotent."""
        if self._opens is not None and self.loop is not None and self.loop is running_loop():
            await self.client.close()

    def after_fork(self) -> None:
        """Open connections anew. The parent's are left as they are: closing them would be heard by the server."""
        self.loop = None
        if self._opens is not None:
            _left_behind.append(self.client)
            self._renew()


_left_behind: list[Any] = []
"""Clients of a parent process."""


class AsyncMongoDBSaver(MongoSaver):
    """``MongoDBSaver`` over a ``pymongo.AsyncMongoClient``, with an awaitable ``setup``.

    It works on an event loop; its blocking methods may be called from other threads while that runs. A client that is
    given belongs to one loop. One that ``from_conn_string`` opens is opened anew for the next loop; close the saver
    in the loop that used it, else its connections last until Python collects them.
    """

    @classmethod
    def _driver(cls, client: Any, settings: Settings) -> Awaited:
        return Awaited(client, settings)

    @classmethod
    def _opens(cls, uri: str, options: dict[str, Any]) -> Callable[[], AsyncMongoClient[Any]]:
        return lambda: AsyncMongoClient(uri, **options)

    async def setup(self) -> None:
        """Make the indexes unless they are there; need not be called. Several processes may do so at once."""
        await self._port.prepare()
