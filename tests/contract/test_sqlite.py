"""``SqliteSaver`` keeps the contract: in memory, in a file, and with a new saver object for every call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.suite import SaverContract
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.checkpoint.sqlite.aio import AsyncSqliteSaver


class TestInMemory(SaverContract):
    @pytest.fixture
    def saver(self) -> Iterator[SqliteSaver]:
        with SqliteSaver.from_conn_string(":memory:") as saver:
            yield saver


class TestFile(SaverContract):
    @pytest.fixture(params=["remembering", "forgetful"])
    def saver(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteSaver]:
        with SqliteSaver.from_conn_string(str(tmp_path / "threads.db"), synchronous="OFF") as saver:
            if request.param == "forgetful":
                saver._caches = Caches(scale=0)
            yield saver


class TestEncrypted(SaverContract):
    @pytest.fixture
    def saver(self, tmp_path: Path) -> Iterator[SqliteSaver]:
        serde = EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef")
        with SqliteSaver.from_conn_string(str(tmp_path / "threads.db"), synchronous="OFF", serde=serde) as saver:
            yield saver


class TestAsyncName(SaverContract):
    @pytest.fixture
    def saver(self, tmp_path: Path) -> Iterator[Any]:
        with AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.db"), synchronous="OFF") as saver:
            yield saver
