"""Files: which are ours, which are left alone, and reading without writing."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from threadmark.checkpoint.conformance.kit import Grown, checkpoint, config
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import DamagedRow, ForeignDatabase, SaverError, ThreadmarkError, Unavailable


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "threads.db"


def make(path: Path, *statements: str) -> None:
    conn = sqlite3.connect(path)
    for statement in statements:
        conn.execute(statement)
    conn.commit()
    conn.close()


PEER = "CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT)", "CREATE TABLE writes (thread_id TEXT)"


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        (PEER, "LangGraph"),
        (("CREATE TABLE mine (x)",), "mine"),
        (("CREATE TABLE threadmark (x)", "INSERT INTO threadmark VALUES ('a')"), "not ours"),
        (("CREATE TABLE threadmark (x)",), "not ours"),
        (("CREATE TABLE threadmark (x)", "INSERT INTO threadmark VALUES (99)"), "newer version"),
    ],
)
@pytest.mark.parametrize("how", ["path", "shared", "bound", "read only"])
def test_a_file_that_is_not_ours_is_never_written(path: Path, tables: Any, said: str, how: str) -> None:
    make(path, *tables)
    before = path.read_bytes()
    conn = sqlite3.connect(path, check_same_thread=how == "bound")
    opened = {
        "path": lambda: SqliteSaver.from_conn_string(str(path)),
        "read only": lambda: SqliteSaver.open_read_only(str(path)),
    }.get(how, lambda: SqliteSaver(conn))
    with pytest.raises(ForeignDatabase, match=said):
        opened()
    conn.close()
    assert path.read_bytes() == before
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def test_a_file_that_is_no_database_is_never_written(path: Path) -> None:
    path.write_bytes(b"a letter to a friend\n" * 400)
    for opened in (SqliteSaver.from_conn_string, SqliteSaver.open_read_only):
        with pytest.raises(ForeignDatabase, match="not a SQLite database"):
            opened(str(path))
    assert path.read_bytes() == b"a letter to a friend\n" * 400


def test_an_empty_file_becomes_ours(path: Path) -> None:
    path.touch()
    with SqliteSaver.from_conn_string(str(path)) as saver:
        Grown(saver, lambda target, name, *args: getattr(target, name)(*args)).put({"a": 1})
    assert path.read_bytes()[68:72] == b"ThMk"


def test_a_place_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="path"):
        SqliteSaver.from_conn_string(str(tmp_path / "no such folder" / "threads.db"))


def test_checkpoints_is_a_view_for_people(path: Path) -> None:
    with SqliteSaver.from_conn_string(str(path)) as saver:
        first = saver.put(config(7), checkpoint({"a": 1}), {"source": "input", "step": -1, "run_id": "r"}, {"a": 1})
        made = checkpoint({"a": 2}, {"a": 2})
        saver.put(first, made, {"source": "loop", "step": 0}, {"a": 2})
    conn = sqlite3.connect(path)
    conn.row_factory = sqlite3.Row
    rows = [dict(row) for row in conn.execute("SELECT * FROM checkpoints ORDER BY step")]
    conn.close()
    assert rows[1] == {
        "thread_id": "7",
        "checkpoint_ns": "",
        "checkpoint_id": made["id"],
        "parent_checkpoint_id": first["configurable"]["checkpoint_id"],
        "source": "loop",
        "step": 0,
        "run_id": None,
        "ts": made["ts"],
    }
    assert (rows[0]["run_id"], rows[0]["parent_checkpoint_id"]) == ("r", None)


@pytest.mark.parametrize("how", ["prune", "delete"])
def test_what_is_removed_is_gone_from_the_file(path: Path, how: str) -> None:
    with SqliteSaver.from_conn_string(str(path), synchronous="OFF") as saver:
        at = config()
        for number in range(40):
            made = checkpoint({"a": random.Random(number).randbytes(60_000), "n": number}, {"a": number, "n": number})
            at = saver.put(at, made, {}, {"a": number, "n": number})
        saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        before = path.stat().st_size
        if how == "prune":
            saver.prune(["t"])
        else:
            saver.delete_thread("t")
        saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert path.stat().st_size < before / 10
        assert (saver.get(config()) is None) == (how == "delete")


# -- reading without writing -----------------------------------------------------------------------------------------


def test_read_only_reads_and_never_writes(path: Path) -> None:
    with SqliteSaver.from_conn_string(str(path)) as writer:
        first = writer.put(config(), checkpoint({"a": "x" * 5000}), {"step": 0}, {"a": 1})
        with SqliteSaver.open_read_only(str(path)) as reader:
            assert reader.get(config())["channel_values"] == {"a": "x" * 5000}
            writer.put(first, checkpoint({"a": 2}, {"a": 2}), {"step": 1}, {"a": 2})
            assert [item.metadata["step"] for item in reader.list(None)] == [1, 0]
            with pytest.raises(SaverError, match="read-only"):
                reader.put(first, checkpoint({"a": 3}, {"a": 3}), {}, {"a": 3})
            with pytest.raises(SaverError, match="read-only"):
                reader.delete_thread("t")


def test_read_only_makes_no_file(path: Path) -> None:
    with pytest.raises(ThreadmarkError):
        SqliteSaver.open_read_only(str(path))
    path.touch()
    with pytest.raises(ForeignDatabase, match="empty"):
        SqliteSaver.open_read_only(str(path))
    assert path.read_bytes() == b""


def test_read_only_works_in_a_folder_that_cannot_be_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.put(config(), checkpoint({"a": 1}), {}, {"a": 1})
    before = path.read_bytes()
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        with SqliteSaver.open_read_only(str(path)) as reader:
            assert reader.get(config())["channel_values"] == {"a": 1}
    finally:
        path.parent.chmod(0o755)
    assert path.read_bytes() == before


def test_a_line_about_each_thread(path: Path, call: Any) -> None:
    with SqliteSaver.from_conn_string(str(path)) as saver:
        assert call(saver, "list_threads") == []
        old = Grown(saver, call, "old")
        old.put({"a": 1})
        new = Grown(saver, call, "new")
        new.put({"a": 1})
        new.put({"a": 2})
        child = Grown(saver, call, "new", "child:1")
        child.put({"a": 1})
        first, second = call(saver, "list_threads")
        assert (first.thread_id, first.checkpoints, first.namespaces) == ("new", 3, ("", "child:1"))
        assert first.last_id == child.config["configurable"]["checkpoint_id"]
        assert first.updated == call(saver, "get", child.config)["ts"]
        assert (second.thread_id, second.checkpoints, second.namespaces) == ("old", 1, ("",))


# -- damage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE checkpoint SET body = x'00'",
        "UPDATE checkpoint SET body = x''",
        "UPDATE checkpoint SET body = substr(body, 1, length(body) - 3)",
        "UPDATE value SET body = x'0900'",
        "UPDATE value SET body = substr(body, 1, length(body) - 1)",
        "DELETE FROM value",
        "DELETE FROM segment",
        "UPDATE segment SET data = substr(data, 1, 9)",
        "UPDATE task SET body = x'c1'",
        "UPDATE task SET body = substr(body, 1, length(body) - 1)",
    ],
)
def test_a_damaged_row_is_a_typed_error(path: Path, damage: str) -> None:
    with SqliteSaver.from_conn_string(str(path)) as saver:
        at = saver.put(config(), checkpoint({"a": ["line"] * 2000}), {"step": 0}, {"a": 1})
        saver.put_writes(at, [("a", ["other"] * 2000)], "task")
    make(path, damage)
    with SqliteSaver.from_conn_string(str(path)) as saver:
        with pytest.raises(ThreadmarkError) as caught:
            saver.get_tuple(config())
        assert isinstance(caught.value, (DamagedRow, ValueError))


@pytest.mark.parametrize(
    "damage", ["ALTER TABLE checkpoint RENAME COLUMN body TO other", "DROP TABLE task", "DROP TABLE thread"]
)
def test_tables_that_somebody_changed_are_a_typed_error(path: Path, damage: str) -> None:
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.put(config(), checkpoint({"a": 1}), {"step": 0}, {"a": 1})
    make(path, damage)
    for read in (lambda saver: saver.get_tuple(config()), lambda saver: list(saver.list(None))):
        with SqliteSaver.from_conn_string(str(path)) as saver, pytest.raises(DamagedRow, match="lost a part"):
            read(saver)


def test_a_thread_that_a_repaired_file_names_twice_can_be_read(path: Path) -> None:
    with SqliteSaver.from_conn_string(str(path)) as saver:
        at = saver.put(config(), checkpoint({"a": "b" * 999}), {"step": 0}, {"a": 1})
    make(
        path,
        "CREATE TABLE found AS SELECT * FROM thread UNION ALL SELECT id + 1, thread_id, salt FROM thread",
        "DROP TABLE thread",
        "CREATE TABLE thread AS SELECT * FROM found",
    )
    for where in (config(), at):
        with SqliteSaver.from_conn_string(str(path)) as saver:
            found = saver.get(where)
            assert found is not None
            assert found["channel_values"] == {"a": "b" * 999}


@pytest.mark.parametrize("told", ["metadata", "more"])
def test_facts_that_are_no_mapping_are_damage(path: Path, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with SqliteSaver.from_conn_string(str(path)) as saver:
        more: Any = {"pending_sends": []} if told == "more" else {}
        metadata: Any = {"step": 0, "score": 5} if told == "metadata" else {"step": 0}
        saver.put(config(), {**checkpoint({"a": 1}), **more}, metadata, {"a": 1})
    with SqliteSaver.from_conn_string(str(path)) as saver:
        monkeypatch.setattr(type(saver._codec), "load", lambda *_: 3)
        with pytest.raises(DamagedRow, match="says about itself"):
            saver.get_tuple(config())
        if told == "metadata":
            with pytest.raises(DamagedRow, match="says about itself"):
                list(saver.list(config(), filter={"score": 5}))
