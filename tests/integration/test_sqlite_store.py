"""A store in a file: shared between objects, threads and event loops, and safe from what it is asked."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from threadmark.checkpoint.serde.errors import SerializationError
from threadmark.store.base import PutOp, StoreError
from threadmark.store.sqlite import SqliteStore
from threadmark.store.sqlite.aio import AsyncSqliteStore


def test_items_outlive_the_object_and_come_back_exactly(tmp_path: Path) -> None:
    value = {"pair": (1, 2), "time": timedelta(days=1), "text": "Ünicode", "bytes": b"\x00"}
    with SqliteStore.from_conn_string(str(tmp_path / "s.db")) as first:
        first.put(("users", "ann"), "k", value)
        written = first.get(("users", "ann"), "k")
    with SqliteStore.from_conn_string(str(tmp_path / "s.db")) as second:
        found = second.get(("users", "ann"), "k")
    assert found == written
    assert found is not None
    assert found.value == value


def test_vectors_are_kept_too(tmp_path: Path) -> None:
    index: Any = {"dims": 2, "embed": lambda texts: [[float("a" in text), 1.0] for text in texts], "fields": ["t"]}
    with SqliteStore.from_conn_string(str(tmp_path / "s.db"), index=index) as first:
        first.put(("x",), "with", {"t": "a"})
        first.put(("x",), "without", {"t": "b"})
    with SqliteStore.from_conn_string(str(tmp_path / "s.db"), index=index) as second:
        assert [item.key for item in second.search(("x",), query="b")] == ["without", "with"]


def test_threads_and_objects_share_a_file(tmp_path: Path) -> None:
    stores = [SqliteStore.from_conn_string(str(tmp_path / "s.db")) for _ in range(2)]

    def work(number: int) -> None:
        for turn in range(10):
            stores[number % 2].put(("t", str(number)), str(turn), {"turn": turn})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stores[0].search(("t",), limit=100)) == 60
    for store in stores:
        store.close()
        store.close()


async def test_async_callers_share_it_too(tmp_path: Path) -> None:
    async with AsyncSqliteStore.from_conn_string(str(tmp_path / "s.db")) as store:
        await store.setup()
        await asyncio.gather(*(store.aput(("a",), str(number), {"n": number}) for number in range(10)))
        assert {item.value["n"] for item in await store.asearch(("a",))} == set(range(10))


HOSTILE = ['x"]', "'; DROP TABLE threadmark_store; --", "%", "_", '"', "\\", "[", "\U0010ffff", "\ud800"]


@pytest.mark.parametrize("label", HOSTILE)
def test_odd_labels_keys_and_filters_are_only_data(tmp_path: Path, label: str) -> None:
    with SqliteStore.from_conn_string(str(tmp_path / "s.db")) as store:
        store.put(("other",), "k", {"v": 1})
        store.put((label, "b"), "k", {"v": 2})
        assert [item.value["v"] for item in store.search((label,))] == [2]
        assert store.search((), filter={label: "' OR 1=1 --"}) == []
        assert store.list_namespaces(prefix=(label,)) == [(label, "b")]
        assert len(store.search(())) == 2


def test_a_batch_that_fails_changes_nothing(tmp_path: Path) -> None:
    with SqliteStore.from_conn_string(str(tmp_path / "s.db")) as store:
        with pytest.raises(SerializationError):
            store.batch([PutOp(("a",), "good", {"v": 1}), PutOp(("a",), "bad", {"v": object()})])
        assert store.search(()) == []


def test_a_connection_of_the_users_stays_open(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "s.db", check_same_thread=False)) as conn:
        with SqliteStore(conn) as store:
            store.put(("a",), "k", {"v": 1})
        assert conn.execute("SELECT count(*) FROM threadmark_store").fetchone() == (1,)


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.db").write_bytes(b"this is no database" * 100)
    with pytest.raises(StoreError, match="database"):
        SqliteStore.from_conn_string(str(tmp_path / "s.db"))
    with pytest.raises(StoreError, match="missing"):
        SqliteStore.from_conn_string(str(tmp_path / "missing" / "s.db"))
