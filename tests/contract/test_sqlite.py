"""``SqliteSaver`` keeps the contract: in memory, in a file, encrypted, and over an aiosqlite connection."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiosqlite

from tests.contract.ours import OurPromises
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.checkpoint.sqlite.aio import AsyncSqliteSaver


class TestInMemory(OurPromises):
    """One connection for everything, and nothing remembered between calls."""

    def open_saver(self) -> Iterator[SqliteSaver]:
        with SqliteSaver.from_conn_string(":memory:") as saver:
            saver._caches = Caches(scale=0)
            yield saver


class TestFile(OurPromises):
    payloads = ("own",)
    serde: Any = None

    def open_saver(self) -> Iterator[SqliteSaver]:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "threads.db")
            with SqliteSaver.from_conn_string(path, synchronous="OFF", serde=self.serde) as saver:
                yield saver


class TestEncrypted(TestFile):
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")


class TestAiosqlite(OurPromises):
    """Over an aiosqlite connection, which only an event loop can use."""

    colours = ("async",)
    payloads = ("own",)

    async def open_saver(self) -> AsyncIterator[AsyncSqliteSaver]:
        async with aiosqlite.connect(":memory:") as conn:
            yield AsyncSqliteSaver(conn)
