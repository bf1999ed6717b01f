"""``PostgresSaver`` and ``AsyncPostgresSaver`` keep the contract, however they are opened and on both servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool

from tests.contract.ours import OurPromises
from tests.services.postgres import Postgres
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.capabilities import CAPABILITIES
from threadmark.checkpoint.conformance.suite import (
    BaseConformance,
    Conformance,
    CopyThreadConformance,
    DeleteForRunsConformance,
    DeltaConformance,
    PruneConformance,
    StepConformance,
)
from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.checkpoint.postgres.aio import AsyncPostgresSaver
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer

TABLES = ("thread", "checkpoint", "task", "value", "segment")


def emptied(url: str) -> str:
    """The URL, once there is nothing left of earlier tests."""
    with psycopg.connect(url, autocommit=True) as conn:
        if conn.execute("SELECT FROM pg_namespace WHERE nspname = 'contract'").fetchone() is not None:
            conn.execute(";".join(f"DELETE FROM contract.{table}" for table in TABLES))
    return url


class OnPostgres(Conformance):
    """A schema of the module's own, emptied for each test. Bytes of other serializers are all the same to a port."""

    payloads = ("own",)
    url: str
    schema = "contract"

    @pytest.fixture(autouse=True)
    def _place(self, pg_url: str) -> None:
        self.url = emptied(pg_url)


class TestOpened(OnPostgres, OurPromises):
    """Connections of the saver's own, and nothing remembered between calls."""

    def open_saver(self) -> Iterator[PostgresSaver]:
        with PostgresSaver.from_conn_string(self.url, schema=self.schema) as saver:
            saver._caches = Caches(scale=0)
            yield saver


class TestOnALoop(OnPostgres, OurPromises):
    colours = ("async",)

    async def open_saver(self) -> AsyncIterator[AsyncPostgresSaver]:
        async with AsyncPostgresSaver.from_conn_string(self.url, schema=self.schema) as saver:
            yield saver


class Some(OnPostgres, StepConformance, PruneConformance):
    """What differs most between ways to open a saver: steps in one round trip, and work that takes many."""

    not_asked = frozenset(each.name for each in CAPABILITIES)


class TestEncrypted(BaseConformance, Some):
    colours = ("sync",)

    def open_saver(self) -> Iterator[PostgresSaver]:
        serde: Any = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
        with PostgresSaver.from_conn_string(self.url, schema=self.schema, serde=serde) as saver:
            yield saver


class TestOlderServer(Some, DeltaConformance, CopyThreadConformance, DeleteForRunsConformance):
    """The release before, by blocking calls."""

    colours = ("sync",)

    @pytest.fixture(autouse=True)
    def _place(self, older_postgres: Postgres) -> None:
        self.url = emptied(older_postgres.url())

    def open_saver(self) -> Iterator[PostgresSaver]:
        with PostgresSaver.from_conn_string(self.url, schema=self.schema) as saver:
            yield saver


class TestHandedIn(Some):
    """One connection without autocommit, which everybody waits for."""

    def open_saver(self) -> Iterator[PostgresSaver]:
        with psycopg.connect(self.url) as conn:
            yield PostgresSaver(conn, schema=self.schema)


class TestPoolOnALoop(Some):
    """Blocking calls come from other threads than the loop's."""

    async def open_saver(self) -> AsyncIterator[AsyncPostgresSaver]:
        async with AsyncConnectionPool(self.url, open=False, min_size=1, max_size=4) as pool:
            yield AsyncPostgresSaver(pool, schema=self.schema)
