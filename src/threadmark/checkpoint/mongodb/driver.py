"""What is asked of a server, in either colour, and what a saver was told about where and how."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary

from bson.codec_options import CodecOptions
from pymongo import MongoClient, ReadPreference, WriteConcern
from pymongo.read_concern import ReadConcern

from threadmark.checkpoint.mongodb.documents import Document

_DURABLE: Final = WriteConcern("majority", j=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where threads are kept, and how safely."""

    place: str
    """What messages call it: never with a password."""
    database: str
    collection: str
    write_concern: WriteConcern | None = None
    read_concern: ReadConcern | None = None
    transactions: bool | None = None
    ttl: float | None = None

    def collection_of(self, client: Any) -> Any:
        """The collection, as a client of either colour has it. All is read from the primary."""
        given = client.write_concern
        return client.get_database(self.database).get_collection(
            self.collection,
            codec_options=CodecOptions(tz_aware=True),
            read_preference=ReadPreference.PRIMARY,
            write_concern=self.write_concern or (_DURABLE if given.is_server_default else given),
            read_concern=self.read_concern or client.read_concern,
        )


class Driver(Protocol):
    """What runs commands. A blocking one never suspends."""

    @property
    def blocking(self) -> bool: ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that last used it, if it needs one."""
        ...

    @property
    def client(self) -> Any: ...

    @property
    def collection(self) -> Any: ...

    async def find(
        self, match: Document, *, fields: Document | None = None, sort: Any = None, limit: int = 0
    ) -> list[Document]: ...

    async def aggregate(self, stages: Sequence[Document]) -> list[Document]: ...

    async def write(self, operations: Sequence[Any], session: Any = None) -> Any:
        """Carry out operations of one sort, in order, and stop at the first that fails. One round trip."""
        ...

    async def hello(self) -> Document:
        """What the server says of itself."""
        ...

    async def make_indexes(self, models: Sequence[Any]) -> None: ...

    async def begin(self) -> Any:
        """A session with a transaction in it; no round trip."""
        ...

    async def commit(self, session: Any) -> None: ...

    async def leave(self, session: Any) -> None:
        """End a session; its transaction, if one is still open, is rolled back."""
        ...

    async def pause(self, seconds: float) -> None: ...

    async def take_turn(self, name: str) -> Any:
        """Wait for this process's other writers of one name; the result is to be released."""
        ...

    async def close(self) -> None: ...

    def after_fork(self) -> None: ...


class Blocking:
    """Commands on a ``MongoClient``, which any thread may use."""

    blocking = True
    loop = None

    def __init__(self, client: MongoClient[Any] | Callable[[], MongoClient[Any]], settings: Settings) -> None:
        self._opens = client if not isinstance(client, MongoClient) else None
        self._settings = settings
        self.client: MongoClient[Any] = client if isinstance(client, MongoClient) else client()
        self.collection = settings.collection_of(self.client)
        self._guard = threading.Lock()
        self._turns: WeakValueDictionary[str, Any] = WeakValueDictionary()

    async def find(
        self, match: Document, *, fields: Document | None = None, sort: Any = None, limit: int = 0
    ) -> list[Document]:
        return list(self.collection.find(match, fields, sort=sort, limit=limit))

    async def aggregate(self, stages: Sequence[Document]) -> list[Document]:
        return list(self.collection.aggregate(stages))

    async def write(self, operations: Sequence[Any], session: Any = None) -> Any:
        return self.collection.bulk_write(operations, session=session)

    async def hello(self) -> Document:
        found: Document = self.client.admin.command("hello")
        return found

    async def make_indexes(self, models: Sequence[Any]) -> None:
        self.collection.create_indexes(models)

    async def begin(self) -> Any:
        session = self.client.start_session()
        session.start_transaction(ReadConcern("local"), self.collection.write_concern, ReadPreference.PRIMARY)
        return session

    async def commit(self, session: Any) -> None:
        session.commit_transaction()

    async def leave(self, session: Any) -> None:
        session.end_session()

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    async def take_turn(self, name: str) -> Any:
        with self._guard:
            turn = self._turns.get(name)
            if turn is None:
                turn = self._turns[name] = threading.Lock()
        turn.acquire()
        return turn

    async def close(self) -> None:
        """Close the client if it was opened here. Idempotent."""
        if self._opens is not None:
            self.client.close()

    def after_fork(self) -> None:
        """Open connections anew. The parent's are left as they are: closing them would be heard by the server."""
        self._guard, self._turns = threading.Lock(), WeakValueDictionary()
        if self._opens is not None:
            _left_behind.append(self.client)
            self.client = self._opens()
            self.collection = self._settings.collection_of(self.client)


_left_behind: list[Any] = []
"""Clients of a parent process."""
