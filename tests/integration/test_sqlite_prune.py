"""Pruning a SQLite file: what is unreachable is gone from the file, and death in the middle leaves whole threads."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.sqlite import SqliteSaver

THREADS, COUNT, SIZE = 5, 16, 40_000


def grown(saver: SqliteSaver, thread_id: str) -> dict[str, bytes]:
    """A thread of values that share nothing; what each checkpoint holds."""
    at, held = config(thread_id), {}
    for number in range(COUNT):
        value = random.Random(f"{thread_id} {number}").randbytes(SIZE)
        made = checkpoint({"a": value}, {"a": number + 1})
        at = saver.put(at, made, {"step": number, "run_id": f"run of {thread_id}"}, {"a": number + 1})
        saver.put_writes(at, [("a", value[::-1])], "task")
        held[made["id"]] = value
    return held


def left(saver: SqliteSaver, thread_id: str) -> dict[str, bytes]:
    return {item.checkpoint["id"]: item.checkpoint["channel_values"]["a"] for item in saver.list(config(thread_id))}


def size_of(path: Path) -> int:
    with sqlite3.connect(path) as conn:
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    conn.close()
    return path.stat().st_size


@pytest.mark.parametrize("rules", [{"keep_last": 3}, {"older_than": 0}, {"strategy": "delete"}])
def test_the_file_shrinks_by_what_the_report_says(tmp_path: Path, rules: Any) -> None:
    path = tmp_path / "threads.db"
    with SqliteSaver.from_conn_string(str(path), synchronous="OFF") as saver:
        held = {name: grown(saver, name) for name in ("a", "b")}
        before = size_of(path)
        assert before > 2 * 2 * COUNT * SIZE
        report = saver.prune(["a"], **rules)
        after = size_of(path)
        assert 0.9 < (before - after) / report.total("bytes") < 1.1
        assert sqlite3.connect(path).execute("PRAGMA freelist_count").fetchone() == (0,)
        kept = report.threads[0].kept
        assert left(saver, "a") == dict(list(held["a"].items())[COUNT - kept :])
        assert left(saver, "b") == held["b"]


@pytest.mark.parametrize("how", ["delete_thread", "delete_for_runs"])
def test_the_file_shrinks_by_what_is_deleted(tmp_path: Path, how: str) -> None:
    path = tmp_path / "threads.db"
    with SqliteSaver.from_conn_string(str(path), synchronous="OFF") as saver:
        kept = grown(saver, "kept")
        before = size_of(path)
        grown(saver, "gone")
        saver.copy_thread("gone", "copy")
        assert size_of(path) > 2.8 * before
        for name in ("gone", "copy"):
            saver.delete_thread(name) if how == "delete_thread" else saver.delete_for_runs(["run of gone"])
            assert left(saver, name) == {}
        assert size_of(path) < 1.1 * before
        assert saver.conn.execute("PRAGMA freelist_count").fetchone() == (0,)
        assert left(saver, "kept") == kept
        for table in ("checkpoint", "task", "value", "segment"):
            assert {thread for (thread,) in saver.conn.execute(f"SELECT DISTINCT thread FROM {table}")} == {1}


def test_room_that_a_killed_call_left_is_given_back_by_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "threads.db"
    with SqliteSaver.from_conn_string(str(path), synchronous="OFF") as saver:
        grown(saver, "gone")
        before = size_of(path)
        for table in ("checkpoint", "task", "value", "segment", "thread"):
            saver.conn.execute(f"DELETE FROM {table}")
        assert size_of(path) == before
        saver.delete_for_runs(["run of gone"])
        assert size_of(path) < before / 2


def test_a_forecast_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "threads.db"
    with SqliteSaver.from_conn_string(str(path), synchronous="OFF") as saver:
        grown(saver, "a")
        size_of(path)
        before = path.read_bytes()
        assert saver.prune(["a"], keep_last=1, dry_run=True).threads[0].checkpoints == COUNT - 1
        assert saver.prune(["a"], strategy="delete", dry_run=True).threads[0].checkpoints == COUNT
        size_of(path)
        assert path.read_bytes() == before


WORKER = """
import sys
from threadmark.checkpoint.sqlite import SqliteSaver
saver = SqliteSaver.from_conn_string(sys.argv[1])
names = [f"t{number}" for number in range(int(sys.argv[3]))]
print("ready", flush=True)
if sys.argv[2] == "prune":
    saver.prune(names, keep_last=2)
elif sys.argv[2] == "delete_for_runs":
    saver.delete_for_runs([f"run of {name}" for name in names])
else:
    there = saver.thread_ids()
    for name in names:
        if f"copy of {name}" not in there:
            saver.copy_thread(name, f"copy of {name}")
"""


@pytest.mark.parametrize("work", ["prune", "delete_for_runs", "copy_thread"])
def test_killed_at_any_moment_it_goes_on(tmp_path: Path, work: str) -> None:
    path, chance = tmp_path / "threads.db", random.Random(3)
    with SqliteSaver.from_conn_string(str(path), synchronous="OFF") as saver:
        held = {f"t{number}": grown(saver, f"t{number}") for number in range(THREADS)}
    kills, done = 0, False
    while not done:
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(path), work, str(THREADS)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        # Each attempt is given a little more time, so that the last one comes to its end.
        time.sleep(chance.uniform(0.5, 1) * 0.004 * 3**kills)
        process.send_signal(signal.SIGKILL)
        done = process.wait() == 0
        process.stdout.close()
        kills += not done
        with SqliteSaver.from_conn_string(str(path), synchronous="OFF") as saver:
            for name, values in held.items():
                least = dict(list(values.items())[COUNT - 2 :]) if work == "prune" else {}
                target = f"copy of {name}" if work == "copy_thread" else name
                found = left(saver, target)
                assert found in (values, least)
                newest = saver.get_tuple(config(target))
                if newest is not None:
                    assert newest.pending_writes == [("task", "a", found[newest.checkpoint["id"]][::-1])]
                else:
                    assert found == {}
                assert found == (values if work == "copy_thread" else least) or not done
    assert kills > 0
    parts = {"prune": 2 * 2 + 1, "delete_for_runs": 0.3, "copy_thread": 2 * 2 * COUNT}[work]
    assert size_of(path) < THREADS * parts * SIZE * 1.3
