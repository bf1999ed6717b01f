"""The rules that keep shared rows right when others write, prune and delete the same file (storage-layout, rules)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from threadmark.checkpoint.base import Step
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import Unavailable

OLD = [f"line {number} of the old text" for number in range(900)]
NEW = [f"a quite different line, {number}" for number in range(900)]


class File:
    """One file, and as many savers on it as a test wants: each remembers for itself, as processes do."""

    def __init__(self, path: Path, serde: Any) -> None:
        self.path, self.serde = path, serde
        self._open: list[SqliteSaver] = []

    def saver(self) -> SqliteSaver:
        saver = SqliteSaver.from_conn_string(str(self.path), serde=self.serde, synchronous="OFF")
        self._open.append(saver)
        return saver

    def read(self, at: Any) -> Any:
        """Channel values as a process that remembers nothing sees them."""
        found = self.saver().get(at)
        return found and found["channel_values"]

    def count(self, table: str) -> int:
        conn = sqlite3.connect(self.path)
        (number,) = conn.execute(f"SELECT count(*) FROM {table}").fetchone()
        conn.close()
        return int(number)

    def close(self) -> None:
        for saver in self._open:
            saver.close()


@pytest.fixture(params=["plain", "encrypted"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[File]:
    serde = EncryptedSerializer.from_keys({"k": b"k" * 32}) if request.param == "encrypted" else None
    file = File(tmp_path / "threads.db", serde)
    yield file
    file.close()


def put(saver: SqliteSaver, at: Any, rows: list[str], version: int, id: str | None = None, **more: Any) -> Any:
    values = {"rows": rows, **more}
    made = checkpoint(values, dict.fromkeys(values, version), **({"id": id} if id else {}))
    return saver.put(at, made, {"step": version}, dict.fromkeys(values, version))


# -- rule 1: a base is compared inside the transaction ---------------------------------------------------------------


def test_a_base_that_another_process_deleted_is_not_built_on(file: File) -> None:
    one, other = file.saver(), file.saver()
    first = put(one, config(), OLD, 1)
    other.delete_thread("t")
    second = put(one, first, [*OLD, "more"], 2)
    assert file.read(second) == {"rows": [*OLD, "more"]}
    assert file.read(first) is None


def test_a_base_that_another_process_replaced_is_not_built_on(file: File) -> None:
    one, other = file.saver(), file.saver()
    first = put(one, config(), OLD, 1, id="1")
    put(other, config(), NEW, 1, id="1")
    other.prune(["t"])
    second = put(one, first, [*OLD, "more"], 2)
    assert file.read(second) == {"rows": [*OLD, "more"]}
    assert file.read(first) == {"rows": NEW}


def test_a_thread_that_was_deleted_and_made_again_is_another_thread(file: File) -> None:
    one, other = file.saver(), file.saver()
    first = put(one, config(), OLD, 1, id="1")
    other.delete_thread("t")
    put(other, config(), OLD, 1, id="1")
    second = put(one, first, [*OLD, "more"], 2)
    assert file.read(second) == {"rows": [*OLD, "more"]}
    assert file.read(first) == {"rows": OLD}
    assert file.count("thread") == 1


def test_values_carried_over_from_a_base_that_is_gone_are_stored_again(file: File) -> None:
    one, other = file.saver(), file.saver()
    first = put(one, config(), OLD, 1, same=NEW)
    other.delete_thread("t")
    made = checkpoint({"rows": ["x"], "same": NEW}, {"rows": 2, "same": 1})
    second = one.put(first, made, {}, {"rows": 2})
    assert file.read(second) == {"rows": ["x"], "same": NEW}


def test_a_pruned_base_is_not_built_on(file: File) -> None:
    one, other = file.saver(), file.saver()
    first = put(one, config(), OLD, 1)
    put(other, first, NEW, 2)
    other.prune(["t"])
    fork = put(one, first, [*OLD, "fork"], 3)
    assert file.read(fork) == {"rows": [*OLD, "fork"]}


def test_task_writes_know_when_their_thread_is_gone(file: File) -> None:
    one, other = file.saver(), file.saver()
    first = put(one, config(), OLD, 1, id="1")
    other.delete_thread("t")
    one.put_writes(first, [("rows", [*OLD, "more"]), ("n", 1)], "task")
    put(other, config(), OLD, 1, id="1")
    found = file.saver().get_tuple(config())
    assert found is not None
    assert found.pending_writes == [("task", "rows", [*OLD, "more"]), ("task", "n", 1)]
    assert file.count("thread") == 1


@pytest.mark.parametrize("how", ["another namespace", "small task writes"])
def test_what_has_no_base_knows_when_its_thread_is_gone(file: File, how: str) -> None:
    one, other = file.saver(), file.saver()
    first = put(one, config(), OLD, 1, id="1")
    other.delete_thread("t")
    if how == "another namespace":
        put(one, config(ns="child"), NEW, 1, id="1")
        assert file.read(config(ns="child")) == {"rows": NEW}
    else:
        one.put_writes(first, [("n", 1)], "task")
        put(other, config(), OLD, 1, id="1")
        assert file.saver().get_tuple(config()).pending_writes == [("task", "n", 1)]  # type: ignore[union-attr]
    assert file.count("thread") == 1


def test_two_processes_that_make_the_same_thread_agree_on_its_secret(file: File) -> None:
    one, other = file.saver(), file.saver()
    writer = one.open_writer(config())
    made = checkpoint({"rows": OLD})
    writer.add(Step(config(), made, {"step": 1}, {"rows": 1}))
    theirs = put(other, config(ns="child"), OLD, 1)
    writer.flush()
    assert file.read(config("t", made["id"])) == {"rows": OLD}
    assert file.read(theirs) == {"rows": OLD}
    assert file.count("thread") == 1


# -- rule 2: a new segment is always inserted or ignored -------------------------------------------------------------


def test_a_segment_that_another_process_swept_is_stored_again(file: File) -> None:
    one, other = file.saver(), file.saver()
    first = put(one, config(), OLD, 1)
    second = put(one, first, ["short"], 2)
    late = file.saver()
    assert late.get(first) is not None  # from here on it remembers the segments
    assert file.count("segment") > 0
    other.prune(["t"])
    assert file.count("segment") == 0
    third = put(late, second, OLD, 3)
    assert file.read(third) == {"rows": OLD}


# -- rule 3: what was rolled back is not built on --------------------------------------------------------------------


def test_a_step_that_was_rolled_back_is_not_built_on(file: File) -> None:
    saver = file.saver()
    first = put(saver, config(), OLD, 1)
    conn = sqlite3.connect(file.path)
    conn.execute(
        "CREATE TRIGGER full BEFORE INSERT ON checkpoint WHEN new.step = 2 BEGIN SELECT RAISE(ROLLBACK, 'no room'); END"
    )
    conn.commit()
    made = checkpoint({"rows": [*OLD, "lost"]}, {"rows": 2})
    with pytest.raises(sqlite3.IntegrityError, match="no room"):
        saver.put(first, made, {"step": 2}, {"rows": 2})
    conn.execute("DROP TRIGGER full")
    conn.commit()
    conn.close()
    assert file.saver().get(config())["channel_values"] == {"rows": OLD}  # type: ignore[index]
    child = put(saver, config("t", made["id"]), [*OLD, "lost", "more"], 3)
    assert file.read(child) == {"rows": [*OLD, "lost", "more"]}


# -- rule 4: a prune leaves nothing behind ---------------------------------------------------------------------------


def test_a_prune_leaves_what_is_kept_and_nothing_else(file: File) -> None:
    saver, at, rows = file.saver(), config(), list[str]()
    for number in range(60):
        rows = [*rows, f"line {number} " * 60][-20:]
        at = put(saver, at, rows, number)
        saver.put_writes(at, [("rows", rows)], "task")
    before = {table: file.count(table) for table in ("checkpoint", "task", "value", "segment")}
    saver.prune(["t"])
    after = {table: file.count(table) for table in before}
    assert (after["checkpoint"], after["task"], after["value"]) == (1, 1, 1)
    assert after["segment"] < before["segment"] / 2
    assert file.read(at) == {"rows": rows}
    saver.delete_thread("t")
    assert [file.count(table) for table in (*before, "thread")] == [0, 0, 0, 0, 0]


def test_writes_of_a_checkpoint_that_is_still_to_come_survive_a_prune(file: File) -> None:
    saver = file.saver()
    first = put(saver, config(), OLD, 1, id="1")
    coming = checkpoint({"rows": NEW}, {"rows": 2}, id="2")
    saver.put_writes(config("t", "2"), [("rows", [*NEW, "more"])], "task")
    saver.put_writes(config("t", "0"), [("rows", "stray")], "task")
    saver.prune(["t"])
    at = saver.put(first, coming, {}, {"rows": 2})
    found = file.saver().get_tuple(at)
    assert found is not None
    assert found.pending_writes == [("task", "rows", [*NEW, "more"])]
    assert file.count("task") == 1


# -- waiting ---------------------------------------------------------------------------------------------------------


def test_a_file_that_stays_locked_is_a_typed_error(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    saver = file.saver()
    first = put(saver, config(), OLD, 1)
    monkeypatch.setattr("threadmark.checkpoint.sqlite.driver.until_free.__defaults__", (0.05,))
    monkeypatch.setattr("threadmark.checkpoint.sqlite.driver.patiently.__defaults__", (0.05,))
    conn = sqlite3.connect(file.path, isolation_level=None)
    conn.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked by another program"):
        put(saver, first, NEW, 2)
    conn.execute("ROLLBACK")
    conn.close()
    assert file.read(put(saver, first, NEW, 2)) == {"rows": NEW}
