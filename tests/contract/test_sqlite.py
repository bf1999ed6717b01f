"""``SqliteSaver`` keeps the contract: in memory, in a file, encrypted, and over an aiosqlite connection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiosqlite
import pytest

from tests.conftest import Call
from tests.contract.suite import SaverContract
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.checkpoint.sqlite.aio import AsyncSqliteSaver


class TestInMemory(SaverContract):
    """One connection for everything, and nothing remembered between calls."""

    @pytest.fixture
    def saver(self) -> Iterator[SqliteSaver]:
        with SqliteSaver.from_conn_string(":memory:") as saver:
            saver._caches = Caches(scale=0)
            yield saver


class TestFile(SaverContract):
    @pytest.fixture
    def saver(self, tmp_path: Path) -> Iterator[SqliteSaver]:
        with SqliteSaver.from_conn_string(str(tmp_path / "threads.db"), synchronous="OFF") as saver:
            yield saver


class TestEncrypted(SaverContract):
    @pytest.fixture
    def saver(self, tmp_path: Path) -> Iterator[SqliteSaver]:
        serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
        with SqliteSaver.from_conn_string(str(tmp_path / "threads.db"), synchronous="OFF", serde=serde) as saver:
            yield saver


class TestAiosqlite(SaverContract):
    """Over an aiosqlite connection, which only an event loop can use."""

    @pytest.fixture
    def call(self) -> Iterator[Call]:
        with asyncio.Runner() as runner:
            yield Call("async", runner)

    @pytest.fixture
    def saver(self, call: Call) -> Iterator[AsyncSqliteSaver]:
        run = call._runner.run

        async def opened() -> aiosqlite.Connection:
            return await aiosqlite.connect(":memory:")

        conn = run(opened())
        yield AsyncSqliteSaver(conn)
        run(conn.close())
