"""Encrypted files: nothing readable but what is said to be, and no row works anywhere but at its place."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from threadmark.checkpoint.conformance.kit import Grown, checkpoint, config
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.serde.errors import EncryptionError, MovedValue, PlaintextValue
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import ThreadmarkError

SECRET = "the treasure is under the old oak"
KEY = b"0123456789abcdef0123456789abcdef"


def plainly(target: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(target, name)(*args, **kwargs)


def serializer(key: bytes = KEY) -> EncryptedSerializer:
    return EncryptedSerializer.from_pycryptodome_aes(key=key)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with two threads of three checkpoints, each with a small and a large value and a task write."""
    path = tmp_path / "threads.db"
    with SqliteSaver.from_conn_string(str(path), serde=serializer(), synchronous="OFF") as saver:
        for thread_id in ("t", "u"):
            for ns in ("", "child"):
                grown = Grown(saver, plainly, thread_id, ns)
                for number in range(3):
                    rows = [f"{SECRET} {thread_id} {ns} {line}" for line in range(300 + number)]
                    grown.put({"rows": rows, "tiny": SECRET[:12] + thread_id}, run_id="run 7", owner=SECRET)
                    saver.put_writes(grown.config, [("rows", rows), ("tiny", SECRET)], f"task {number}", "~p")
    return path


@pytest.fixture
def db(path: Path) -> Iterator[sqlite3.Connection]:
    conn = sqlite3.connect(path, isolation_level=None)
    yield conn
    conn.close()


def read_all(path: Path, serde: Any = None) -> list[Any]:
    with SqliteSaver.from_conn_string(str(path), serde=serde or serializer()) as saver:
        return list(saver.list(None))


def test_it_reads_back(path: Path) -> None:
    found = read_all(path)
    assert len(found) == 12
    assert all(item.metadata["owner"] == SECRET for item in found)


def test_nothing_secret_is_in_the_file(path: Path) -> None:
    data = b"".join(item.read_bytes() for item in path.parent.iterdir())
    assert SECRET[:12].encode() not in data
    assert b"treasure" not in data
    for readable in (b"run 7", b"loop", b"child"):
        assert readable in data


def test_filters_answer_as_on_a_plain_file(path: Path) -> None:
    with SqliteSaver.from_conn_string(str(path), serde=serializer()) as saver:
        assert len(list(saver.list(None, filter={"owner": SECRET}))) == 12
        assert len(list(saver.list(None, filter={"owner": "nobody"}))) == 0
        assert len(list(saver.list(config("t"), filter={"step": 1, "run_id": "run 7"}))) == 1


@pytest.mark.parametrize(
    "swap",
    [
        # a checkpoint of another thread, namespace or id
        "UPDATE checkpoint SET body = (SELECT body FROM checkpoint c WHERE c.thread <> checkpoint.thread LIMIT 1)",
        "UPDATE checkpoint SET body = (SELECT body FROM checkpoint c WHERE c.ns <> checkpoint.ns LIMIT 1)",
        "UPDATE checkpoint SET body = (SELECT body FROM checkpoint c WHERE c.id <> checkpoint.id LIMIT 1)",
        # what is readable beside it
        "UPDATE checkpoint SET step = 99",
        "UPDATE checkpoint SET run_id = 'another'",
        "UPDATE checkpoint SET source = 'update'",
        "UPDATE checkpoint SET parent = 'another'",
        "UPDATE checkpoint SET ts = '2020-01-01'",
        'UPDATE checkpoint SET parents = \'{"": "x"}\'',
        # a task's writes under another task, path or checkpoint
        "UPDATE task SET body = (SELECT body FROM task x WHERE x.id <> task.id LIMIT 1)",
        "UPDATE task SET task_id = 'another'",
        "UPDATE task SET path = '~another'",
        # a value or a segment in the place of another
        "UPDATE value SET body = (SELECT body FROM value v WHERE v.id <> value.id LIMIT 1)",
        "UPDATE segment SET data = (SELECT data FROM segment s WHERE s.key <> segment.key LIMIT 1)",
        # a thread under another name
        "UPDATE thread SET thread_id = 'v' WHERE thread_id = 'u'",
    ],
)
def test_a_row_that_was_moved_is_refused(path: Path, db: sqlite3.Connection, swap: str) -> None:
    db.execute(swap)
    with pytest.raises(EncryptionError):
        read_all(path)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[:-1],
    "flipped": lambda data: data[:-3] + bytes([data[-3] ^ 1]) + data[-2:],
    "empty": lambda data: b"",
    "plain": lambda data: b"\x00\x03\xc0",
    "noise": lambda data: os.urandom(len(data)),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("row", ["checkpoint.body", "task.body", "value.body", "segment.data"])
def test_a_damaged_or_plain_row_is_refused(path: Path, db: sqlite3.Connection, row: str, damage: str) -> None:
    table, column = row.split(".")
    db.create_function("damage", 1, DAMAGE[damage])
    assert db.execute(f"UPDATE {table} SET {column} = damage({column})").rowcount > 0
    with pytest.raises(EncryptionError):
        read_all(path)


def test_another_key_is_refused(path: Path) -> None:
    with pytest.raises(EncryptionError):
        read_all(path, serializer(b"another key of 16"[:16]))


def test_a_plain_file_is_refused_by_an_encrypting_saver(tmp_path: Path) -> None:
    path = tmp_path / "plain.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.put(config(), checkpoint({"a": 1}), {}, {"a": 1})
    with pytest.raises(PlaintextValue):
        read_all(path)


def test_a_value_made_outside_is_refused_in_a_row(path: Path, db: sqlite3.Connection) -> None:
    _, sealed = serializer().dumps_typed({"approved": True})
    db.execute("UPDATE checkpoint SET body = ?", (sealed,))
    with pytest.raises(MovedValue):
        read_all(path)


def test_an_encrypting_saver_says_which_thread(path: Path) -> None:
    with SqliteSaver.from_conn_string(str(path)) as saver, pytest.raises(ThreadmarkError):
        saver.get(config())


def test_the_serializer_may_be_exchanged_before_use(tmp_path: Path) -> None:
    path = tmp_path / "late.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.serde = serializer()
        at = saver.put(config(), checkpoint({"a": SECRET * 50}), {}, {"a": 1})
        assert saver.get(at)["channel_values"] == {"a": SECRET * 50}  # type: ignore[index]
    assert b"treasure" not in path.read_bytes()


def test_growth_is_shared_when_encrypted_too(tmp_path: Path) -> None:
    sizes = {}
    for name, serde in (("plain", None), ("sealed", serializer())):
        path = tmp_path / f"{name}.db"
        with SqliteSaver.from_conn_string(str(path), serde=serde, synchronous="OFF") as saver:
            grown, rows = Grown(saver, plainly), list[str]()
            for number in range(200):
                rows = [*rows, f"message {number}: {number * 7919 % 1000} things happened"]
                grown.put({"rows": rows})
        sizes[name] = path.stat().st_size
    assert sizes["sealed"] < sizes["plain"] * 1.6
