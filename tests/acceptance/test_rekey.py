"""``threadmark rekey`` as a user runs it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_cli import refused, run, said, told
from threadmark.checkpoint.base import empty_checkpoint
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.sqlite import SqliteSaver

OLD, NEW = "o" * 32, "n" * 16
SECRET = "under the old oak " * 40


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("THREADMARK_AES_KEY", "LANGGRAPH_AES_KEY", "THREADMARK_AES_OLD_KEYS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return filled(tmp_path / "a.db", EncryptedSerializer.from_pycryptodome_aes(key=OLD.encode()))


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    old, new = tmp_path / "old.key", tmp_path / "new.key"
    old.write_text(OLD)
    new.write_text(f"{NEW}\n")
    return old, new


def filled(path: Path, serde: Any) -> Path:
    with SqliteSaver.from_conn_string(str(path), serde=serde) as saver:
        for thread_id in ("a", "b"):
            config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
            made: Any = {**empty_checkpoint(), "channel_values": {"x": SECRET}, "channel_versions": {"x": "1"}}
            at = saver.put(config, made, {"source": "loop", "step": 1}, {"x": "1"})
            saver.put_writes(at, [("x", SECRET)], "task")
    return path


def shown(db: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> Any:
    with monkeypatch.context() as patched:
        patched.setenv("THREADMARK_AES_KEY", key)
        return told("show", "a", db)["values"]


def test_keys_from_files(db: Path, keys: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = keys
    call = ("rekey", db, "--key", new, "--old-key", old)
    assert "would be encrypted" in said(*call, "--dry-run")
    assert shown(db, monkeypatch, OLD) == {"x": SECRET}
    first = told(*call)
    assert first["changed"] == ["a", "b"]
    assert first["rows"] == first["changed_rows"] > 4
    assert first["failed"] == []
    assert "under the new key already" in said(*call)
    assert shown(db, monkeypatch, NEW) == {"x": SECRET}


def test_keys_from_the_environment(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THREADMARK_AES_KEY", NEW)
    monkeypatch.setenv("THREADMARK_AES_OLD_KEYS", f"{'x' * 24} {OLD}")
    assert told("show", "a", db)["values"] == {"x": SECRET}
    assert "were encrypted" in said("rekey", db)
    monkeypatch.delenv("THREADMARK_AES_OLD_KEYS")
    assert told("show", "a", db)["values"] == {"x": SECRET}
    monkeypatch.setenv("NEXT", "z" * 24)
    said("rekey", db, "--key", "env:NEXT", "--old-key", "env:THREADMARK_AES_KEY", "--name", "next")
    with SqliteSaver.open_read_only(str(db), serde=EncryptedSerializer.from_keys({"next": b"z" * 24})) as saver:
        assert len(list(saver.list(None))) == 2


def test_a_plain_file_is_encrypted_and_leaves_nothing_behind(
    tmp_path: Path, keys: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    db = filled(tmp_path / "plain.db", None)
    done = run("rekey", db, "--key", keys[1])
    assert done.returncode == 1
    assert "--from-plain" in done.stdout
    said("rekey", db, "--key", keys[1], "--from-plain")
    assert shown(db, monkeypatch, NEW) == {"x": SECRET}
    found = b"".join(path.read_bytes() for path in tmp_path.glob("plain.db*"))
    assert b"under the old oak" not in found


def test_a_thread_that_cannot_be_read_is_told_and_the_others_go_on(
    db: Path, keys: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with sqlite3.connect(db) as conn:
        conn.execute("UPDATE task SET body = x'c1' WHERE thread = (SELECT id FROM thread WHERE thread_id = 'b')")
    conn.close()
    call = ("rekey", db, "--key", keys[1], "--old-key", keys[0])
    done = run(*call)
    assert done.returncode == 1
    assert "thread 'b' was left as it is" in " ".join(done.stdout.split())
    assert shown(db, monkeypatch, NEW) == {"x": SECRET}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ((), "--key"),
        (("--key", "env:NOWHERE"), "NOWHERE is not set"),
        (("--key", "o" * 32), "cannot be read"),
        (("--key", "short"), "has 5 bytes"),
    ],
)
def test_what_is_no_key_is_refused_and_not_repeated(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], complaint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("short").write_text("short")
    said_ = refused("rekey", db, *options)
    assert complaint in said_
    assert OLD not in said_


def test_no_file_is_made(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    assert "does not exist" in refused("rekey", tmp_path / "none.db", "--key", keys[1])
    assert not (tmp_path / "none.db").exists()
