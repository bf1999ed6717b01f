"""``threadmark prune``, and every command on a database behind a URL, run as a user runs them."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.acceptance.test_cli import Done, run
from threadmark.checkpoint.conformance.calls import Caller
from threadmark.checkpoint.conformance.kit import config, filled
from threadmark.checkpoint.open import open_saver
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.cli.prune import age

CALL = Caller("sync", lambda _: None)
SIZES = {"user-1": 9, "user-2": 6, "job": 4}


def grown(saver: Any) -> None:
    for name, count in SIZES.items():
        filled(saver, CALL, name, count=count)


@pytest.fixture
def db(tmp_path: Path) -> Path:
    path = tmp_path / "threads.db"
    with SqliteSaver.from_conn_string(str(path), synchronous="OFF") as saver:
        grown(saver)
    return path


def counts(path: Path) -> dict[str, int]:
    with SqliteSaver.open_read_only(str(path)) as saver:
        return {name: len(list(saver.list(config(name)))) for name in SIZES}


def done(*arguments: object) -> Done:
    found = run(*arguments)
    assert found.returncode == 0, found.stdout + found.stderr
    return found


def test_a_forecast_and_then_the_deed(db: Path) -> None:
    before = db.read_bytes()
    forecast = json.loads(done("prune", db, "--keep-last", 4, "--dry-run", "--json").stdout)
    assert db.read_bytes() == before
    assert sorted(db.parent.iterdir()) == [db]
    assert {one["thread_id"]: one["checkpoints"] for one in forecast["threads"]} == {"user-1": 5, "user-2": 2, "job": 0}
    told = done("prune", db, "--keep-last", 4).stdout
    assert "7 checkpoints of 2 threads were removed" in told
    assert counts(db) == {"user-1": 4, "user-2": 4, "job": 4}
    lines = [line.split() for line in told.splitlines()]
    assert ["user-1", "4", "5", "5"] in [line[:4] for line in lines]
    assert not any(line[:1] == ["job"] for line in lines)
    again = json.loads(done("prune", db, "--keep-last", 4, "--json").stdout)
    assert [one["checkpoints"] for one in again["threads"]] == [0, 0, 0]


def test_some_threads_by_age_and_namespace(db: Path) -> None:
    done("prune", db, "--older-than", "1h")
    assert counts(db) == SIZES
    done("prune", db, "--keep-last", 2, "--thread", "user-*", "--ns", "elsewhere")
    assert counts(db) == SIZES
    done("prune", db, "--keep-last", 2, "--thread", "user-*", "--ns", "")
    assert counts(db) == {"user-1": 2, "user-2": 2, "job": 4}
    done("prune", db, "--older-than", "0s", "--thread", "job")
    assert counts(db)["job"] == 1
    done("prune", "--db", db, "--strategy", "delete", "--thread", "user-1")
    assert counts(db) == {"user-1": 0, "user-2": 2, "job": 1}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "say what to keep"),
        (("--keep-last", "0"), "--keep-last"),
        (("--older-than", "a month"), "is no age"),
        (("--strategy", "delete"), "name the threads"),
        (("--strategy", "delete", "--keep-last", "1", "--thread", "*"), "leave out"),
        (("--strategy", "some"), "--strategy"),
    ],
)
def test_what_says_nothing_removes_nothing(db: Path, arguments: tuple[str, ...], said: str) -> None:
    found = run("prune", db, *arguments)
    assert found.returncode != 0
    assert said in found.stderr
    assert "Traceback" not in found.stderr
    assert counts(db) == SIZES


def test_ages() -> None:
    ages = [age(text) for text in ("90s", "30m", "12h", "30d", "8w")]
    assert ages == [timedelta(seconds=90), timedelta(minutes=30), timedelta(hours=12), timedelta(30), timedelta(56)]


def test_an_encrypted_file(db: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path, key = tmp_path / "sealed.db", "0123456789abcdef"
    serde = EncryptedSerializer.from_pycryptodome_aes(key=key.encode())
    with SqliteSaver.from_conn_string(str(path), serde=serde) as saver:
        grown(saver)
    found = run("prune", path, "--keep-last", 2)
    assert found.returncode == 1
    assert "as it was" in found.stdout
    monkeypatch.setenv("THREADMARK_AES_KEY", key)
    assert "10 checkpoints" in done("prune", path, "--keep-last", 3, "--dry-run").stdout
    done("prune", path, "--keep-last", 3)
    with SqliteSaver.from_conn_string(str(path), serde=serde) as saver:
        assert [len(list(saver.list(config(name)))) for name in SIZES] == [3, 3, 3]


def test_every_command_takes_a_url(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with psycopg.connect(pg_url, autocommit=True) as conn:
        conn.execute("DROP SCHEMA IF EXISTS threadmark CASCADE")
    with open_saver(pg_url) as saver:
        if hasattr(saver, "setup"):
            saver.setup()
        grown(saver)
    told = [
        done("threads", pg_url).stdout,
        done("log", "job", pg_url).stdout,
        done("log", pg_url, "job").stdout,
        done("show", "job", pg_url).stdout,
        done("prune", pg_url, "--keep-last", "2", "--dry-run").stdout,
        done("prune", pg_url, "--keep-last", "2", "--thread", "user-*").stdout,
    ]
    assert all(name in told[0] for name in SIZES)
    assert told[1] == told[2]
    assert "11 checkpoints of 2 threads were removed" in told[5]
    monkeypatch.delenv("THREADMARK_DB", raising=False)
    monkeypatch.setenv("DATABASE_URL", pg_url)
    threads = {one["thread"]: one["checkpoints"] for one in json.loads(done("threads", "--json").stdout)}
    assert threads == {"user-1": 2, "user-2": 2, "job": 4}
    missing = run("show", "nobody")
    assert (missing.returncode, "no thread 'nobody'" in missing.stderr) == (1, True)


@pytest.mark.parametrize("url", ["nosuch://user:secret@host/db", "postgresql://user:secret@127.0.0.1:1/db"])
def test_no_password_is_ever_printed(url: str) -> None:
    for arguments in (("threads", url), ("show", "a", url), ("prune", url, "--keep-last", "1")):
        found = run(*arguments)
        assert found.returncode == 1
        assert "secret" not in found.stdout + found.stderr
        assert "Traceback" not in found.stderr
        assert found.stderr.startswith("threadmark: ")


def test_the_demo_refuses_a_file_for_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "report"
    file.write_text("mine")
    found = run("demo", "--out", file)
    assert found.returncode == 1
    assert found.stderr.startswith(f"threadmark: {file} is a file")
    assert file.read_text() == "mine"
