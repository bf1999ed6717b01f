"""``MongoDBSaver`` and ``AsyncMongoDBSaver`` keep the contract: all of it in each colour, parts in each way to publish.

The server is a wire-compatible surrogate, or the real one of ``MONGODB_URI``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar

import pytest

from tests.contract.ours import OurPromises
from tests.services.mongodb import Mongo
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.capabilities import CAPABILITIES
from threadmark.checkpoint.conformance.checks import RaceChecks, WriteChecks
from threadmark.checkpoint.conformance.suite import (
    CopyThreadConformance,
    DeleteForRunsConformance,
    DeltaConformance,
    PruneConformance,
    StepConformance,
)
from threadmark.checkpoint.mongodb import AsyncMongoDBSaver, MongoDBSaver
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer

EVERYTHING = frozenset(each.name for each in CAPABILITIES)


class OnMongo:
    """Each check in a database of its own."""

    payloads = ("own",)
    options: ClassVar[dict[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def _server(self, mongodb: Mongo) -> None:
        self.mongo = mongodb

    def open_saver(self) -> Iterator[MongoDBSaver]:
        with (
            self.mongo.database() as name,
            MongoDBSaver.from_conn_string(self.mongo.uri, name, **self.options) as saver,
        ):
            yield saver


class TestBlocking(OnMongo, OurPromises):
    """In transactions."""

    colours = ("sync",)
    # One thread of 10,000 checkpoints: minutes on the surrogate, which orders them all to find the newest.
    test_reads_by_id_touch_no_more_in_a_long_thread = None
    # Hundreds of calls of which the port hears nothing: the serializer fails.
    test_death_while_a_call_is_under_way = None


class TestAwaited(OnMongo, OurPromises):
    """Over the driver's awaited client, without transactions, and nothing remembered between calls."""

    colours = ("async",)
    options: ClassVar[dict[str, Any]] = {"transactions": False}
    test_reads_by_id_touch_no_more_in_a_long_thread = None
    # What is decided before a port is asked, and thousands of commands that are the same in both colours: once, above.
    test_corpus = None
    test_filter = None
    test_any_text_is_a_thread_id = None
    test_a_long_way_back = None
    test_a_long_history_is_complete = None
    test_a_list_that_is_edited_in_every_way = None
    test_many_channels = None
    test_ids_that_many_threads_share_are_listed_once_each = None
    test_death_while_a_call_is_under_way = None
    test_death_between_calls = None
    test_going_on_where_the_last_answer_was = None

    async def open_saver(self) -> AsyncIterator[AsyncMongoDBSaver]:  # type: ignore[override]
        with self.mongo.database() as name:
            async with AsyncMongoDBSaver.from_conn_string(self.mongo.uri, name, **self.options) as saver:
                saver._caches = Caches(scale=0)
                yield saver


class TestEncrypted(
    OnMongo,
    WriteChecks,
    CopyThreadConformance,
    DeleteForRunsConformance,
    DeltaConformance,
    PruneConformance,
    StepConformance,
):
    """Blocking, without transactions, and encrypted."""

    colours = ("sync",)
    not_asked = EVERYTHING
    test_a_long_way_back = None
    options: ClassVar[dict[str, Any]] = {
        "transactions": False,
        "serde": EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef"),
    }


class TestInThreads(OnMongo, RaceChecks, StepConformance):
    """Awaited methods over the blocking client: each call has a thread to itself."""

    colours = ("async",)
    not_asked = EVERYTHING


class TestAwaitedTransactions(TestInThreads):
    """Over the awaited client, in transactions."""

    async def open_saver(self) -> AsyncIterator[AsyncMongoDBSaver]:  # type: ignore[override]
        with self.mongo.database() as name:
            async with AsyncMongoDBSaver.from_conn_string(self.mongo.uri, name, **self.options) as saver:
                yield saver
