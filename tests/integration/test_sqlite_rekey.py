"""A file under a new key: every row, whole threads at a time, whatever happens in between."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from threadmark.checkpoint.conformance.kit import Grown, config
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.serde.errors import EncryptionError, MovedValue, PlaintextValue, UnknownKey, WrongKey
from threadmark.checkpoint.sqlite import SqliteSaver

OLD, NEW = b"o" * 32, b"n" * 32
TABLES = {"checkpoint": "body", "task": "body", "value": "body", "segment": "data"}


def under(new: bytes | None, *retired: bytes) -> Any:
    return None if new is None else EncryptedSerializer.from_pycryptodome_aes(key=new) if not retired else both()


def both() -> Any:
    return EncryptedSerializer.from_keys({"": NEW}, retired=(OLD,))


def fill(saver: Any, threads: int = 3) -> None:
    """Threads of two namespaces with small and large values and writes, and one that has writes only."""
    for number in range(threads):
        for ns in ("", "child"):
            grown = Grown(saver, lambda target, name, *args: getattr(target, name)(*args), f"t{number}", ns)
            for turn in range(4):
                rows = [f"{number} {ns} {line} {line * 7919 % 1000}" for line in range(200 + turn)]
                grown.put({"rows": rows, "tiny": turn}, owner="somebody")
                saver.put_writes(grown.config, [("rows", rows[:3]), ("tiny", turn)], f"task {turn}", "~p")
    saver.put_writes(config("early", "1"), [("a", "b" * 500)], "task")


def made(path: Path, key: bytes | None = OLD, **options: Any) -> Path:
    with SqliteSaver.from_conn_string(str(path), serde=under(key), synchronous="OFF") as saver:
        fill(saver, **options)
    return path


def contents(path: Path, serde: Any) -> Any:
    with SqliteSaver.open_read_only(str(path), serde=serde) as saver:
        return [tuple(item) for item in saver.list(None)]


def bodies(path: Path) -> list[bytes]:
    with sqlite3.connect(path) as conn:
        found = [row[0] for table, column in TABLES.items() for row in conn.execute(f"SELECT {column} FROM {table}")]
    conn.close()
    return found


def test_every_row_is_under_the_new_key_and_reads_as_before(tmp_path: Path) -> None:
    path = made(tmp_path / "a.db")
    before = contents(path, under(OLD))
    with SqliteSaver.from_conn_string(str(path), serde=both()) as saver:
        done = [saver.rekey(thread_id) for thread_id in saver.thread_ids()]
        assert [each.thread_id for each in done] == ["early", "t0", "t1", "t2"]
        assert all(each.rows == each.old > 0 for each in done)
        assert [each.old for each in map(saver.rekey, saver.thread_ids())] == [0, 0, 0, 0]
    assert contents(path, under(NEW)) == before
    assert sum(each.rows for each in done) == len(bodies(path))
    with pytest.raises(WrongKey):
        contents(path, under(OLD))


def test_a_thread_goes_on_while_rows_are_under_both_keys(tmp_path: Path) -> None:
    path = made(tmp_path / "a.db", threads=1)
    with SqliteSaver.from_conn_string(str(path), serde=both()) as saver:
        head = saver.get_tuple(config("t0"))
        assert head is not None
        saver.put_writes(head.config, [("more", "m" * 3000)], "later")
        whole = saver.get_tuple(config("t0"))
        partly = saver.rekey("t0")
        assert 0 < partly.old < partly.rows
        assert saver.get_tuple(config("t0")) == whole
    with SqliteSaver.from_conn_string(str(path), serde=under(NEW)) as saver:
        assert saver.get_tuple(config("t0")) == whole


def test_a_saver_that_remembers_rows_goes_on_after_another_has_changed_them(tmp_path: Path) -> None:
    path = made(tmp_path / "a.db", threads=0)
    with (
        SqliteSaver.from_conn_string(str(path), serde=both()) as writing,
        SqliteSaver.from_conn_string(str(path), serde=both()) as rekeying,
    ):
        writing.serde = EncryptedSerializer.from_keys({"old": OLD, "": NEW}, active="old")
        grown = Grown(writing, lambda target, name, *args: getattr(target, name)(*args))
        rows = [f"line {number}" for number in range(500)]
        grown.put({"rows": rows})
        assert rekeying.rekey("t").old > 0
        grown.put({"rows": [*rows, "one more"]})
        assert grown.values() == {"rows": [*rows, "one more"]}


def test_memory_does_the_same() -> None:
    saver = InMemorySaver(serde=EncryptedSerializer.from_keys({"a": OLD, "b": NEW}, active="a"))
    fill(saver)
    before = [tuple(item) for item in saver.list(None)]
    saver.serde = EncryptedSerializer.from_keys({"a": OLD, "b": NEW})
    assert all(saver.rekey(thread_id).old for thread_id in saver.thread_ids())
    saver.serde = EncryptedSerializer.from_keys({"b": NEW})
    assert [tuple(item) for item in saver.list(None)] == before


async def test_the_other_colour(tmp_path: Path) -> None:
    path = made(tmp_path / "a.db", threads=1)
    with SqliteSaver.from_conn_string(str(path), serde=both()) as saver:
        assert [(await saver.arekey(thread_id)).old > 0 for thread_id in await saver.athread_ids()] == [True, True]


def test_a_dry_run_checks_and_changes_nothing(tmp_path: Path) -> None:
    path = made(tmp_path / "a.db")
    before = path.read_bytes()
    with SqliteSaver.open_read_only(str(path), serde=both()) as saver:
        assert all(saver.rekey(thread_id, dry_run=True).old for thread_id in saver.thread_ids())
    assert path.read_bytes() == before


def test_plain_threads_are_encrypted_when_asked(tmp_path: Path) -> None:
    path = made(tmp_path / "a.db", None)
    before = contents(path, None)
    with SqliteSaver.from_conn_string(str(path), serde=under(NEW)) as saver:
        with pytest.raises(PlaintextValue):
            saver.rekey("t0")
        assert all(saver.rekey(thread_id, from_plain=True).old for thread_id in saver.thread_ids())
    assert contents(path, under(NEW)) == before


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("UPDATE task SET body = x'90' WHERE rowid_of = 1", PlaintextValue),
        ("UPDATE value SET body = (SELECT body FROM value v WHERE v.id <> value.id LIMIT 1)", MovedValue),
        ("UPDATE segment SET data = substr(data, 1, length(data) - 1)", EncryptionError),
    ],
)
def test_rows_that_somebody_changed_are_not_sealed(tmp_path: Path, change: str, error: type[Exception]) -> None:
    path = made(tmp_path / "a.db", threads=1)
    with sqlite3.connect(path) as conn:
        conn.execute(change.replace("rowid_of = 1", "task_id = 'task 1'"))
    conn.close()
    before = bodies(path)
    with SqliteSaver.from_conn_string(str(path), serde=both()) as saver, pytest.raises(error):
        saver.rekey("t0", from_plain=True)
    assert bodies(path) == before


def test_a_key_that_nobody_has_stops_it(tmp_path: Path) -> None:
    path = made(tmp_path / "a.db", threads=1)
    serde = EncryptedSerializer.from_keys({"new": NEW})
    with SqliteSaver.from_conn_string(str(path), serde=serde) as saver, pytest.raises(UnknownKey):
        saver.rekey("t0")


def test_a_saver_that_encrypts_nothing_says_so() -> None:
    with pytest.raises(ValueError, match="EncryptedSerializer"):
        InMemorySaver().rekey("t")


VICTIM = """
import os, signal, sys
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.checkpoint.sqlite.driver import Blocking

path, left = sys.argv[1], int(sys.argv[2])
serde = EncryptedSerializer.from_keys({"": b"n" * 32}, retired=(b"o" * 32,))
saver = SqliteSaver.from_conn_string(path, serde=serde)


def counted(method):
    async def run(self, statement, *args):
        global left
        if statement.split()[0] in ("BEGIN", "COMMIT", "INSERT", "DELETE"):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return await method(self, statement, *args)
    return run


for name in ("fetch", "run", "run_many"):
    setattr(Blocking, name, counted(getattr(Blocking, name)))
for thread_id in saver.thread_ids():
    saver.rekey(thread_id)
"""


def test_killed_at_every_tenth_statement_a_thread_is_old_or_new_and_it_goes_on(tmp_path: Path) -> None:
    path = made(tmp_path / "a.db")
    before = contents(path, under(OLD))
    seen = set[int]()
    for turn in range(1, 40):
        done = subprocess.run([sys.executable, "-c", VICTIM, str(path), str(11 * turn)], env=os.environ, timeout=60)
        seals = [both().bind(thread_id) for thread_id in ("early", "t0", "t1", "t2")]
        with sqlite3.connect(path) as conn:
            keys = dict(conn.execute("SELECT thread_id, id FROM thread"))
            new = 0
            for thread_id, seal in zip(("early", "t0", "t1", "t2"), seals, strict=True):
                rows = [
                    seal.is_current(row[0])
                    for table, column in TABLES.items()
                    for row in conn.execute(f"SELECT {column} FROM {table} WHERE thread = ?", (keys[thread_id],))
                ]
                assert len(set(rows)) == 1, json.dumps(rows)
                new += rows[0]
        conn.close()
        seen.add(new)
        assert contents(path, both()) == before
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
    assert max(seen) == 4
    assert len(seen) > 1
    assert contents(path, under(NEW)) == before
