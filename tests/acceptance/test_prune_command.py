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
KEY = b"0123456789abcdef"
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


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    path = tmp_path / "sealed.db"
    with SqliteSaver.from_conn_string(str(path), serde=EncryptedSerializer.from_pycryptodome_aes(key=KEY)) as saver:
        grown(saver)
    return path


def test_an_encrypted_file(sealed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THREADMARK_AES_KEY", KEY.decode())
    assert "10 checkpoints" in done("prune", sealed, "--keep-last", 3, "--dry-run").stdout
    done("prune", sealed, "--keep-last", 3)
    with SqliteSaver.from_conn_string(str(sealed), serde=EncryptedSerializer.from_pycryptodome_aes(key=KEY)) as saver:
        assert [len(list(saver.list(config(name)))) for name in SIZES] == [3, 3, 3]


@pytest.mark.parametrize("key", [None, "another key 1234"])
def test_a_file_whose_threads_cannot_be_read_is_an_error(
    sealed: Path, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if key is not None:
        monkeypatch.setenv("THREADMARK_AES_KEY", key)
    before = sealed.read_bytes()
    found = run("prune", sealed, "--keep-last", 2)
    assert (found.returncode, found.stdout, len(found.stderr.splitlines())) == (1, "", 1)
    assert "nothing was removed, none of its 3 threads could be read or changed" in found.stderr
    assert "THREADMARK_AES_KEY" in found.stderr
    assert ("another key" in found.stderr) == (key is not None)
    one = run("prune", sealed, "--strategy", "keep_latest", "--keep-last", 2, "--thread", "job")
    assert "thread 'job' could not be read or changed" in one.stderr
    forecast = run("prune", sealed, "--keep-last", 2, "--dry-run")
    assert (forecast.returncode, forecast.stdout) == (1, "")
    assert "THREADMARK_AES_KEY" in forecast.stderr
    as_json = run("prune", sealed, "--keep-last", 2, "--json")
    assert [one["thread"] for one in json.loads(as_json.stdout)["failed"]] == sorted(SIZES)
    assert as_json.returncode == 1
    assert sealed.read_bytes() == before


def test_a_thread_that_cannot_be_read_is_named_beside_those_that_were_pruned(
    sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = EncryptedSerializer.from_pycryptodome_aes(key=b"another key 1234")
    with SqliteSaver.from_conn_string(str(sealed), serde=other) as saver:
        filled(saver, CALL, "foreign", count=3)
    monkeypatch.setenv("THREADMARK_AES_KEY", KEY.decode())
    found = run("prune", sealed, "--keep-last", 2)
    assert found.returncode == 1
    assert "thread 'foreign' was left as it is: this value was encrypted with another key" in found.stdout
    assert "1 thread could not be pruned" in found.stdout
    with SqliteSaver.from_conn_string(str(sealed), serde=EncryptedSerializer.from_pycryptodome_aes(key=KEY)) as saver:
        assert [len(list(saver.list(config(name)))) for name in SIZES] == [2, 2, 2]


@pytest.mark.parametrize("rules", [("--keep-last", 1), ("--strategy", "delete")])
@pytest.mark.parametrize("how", [(), ("--dry-run",), ("--json",)])
def test_a_pattern_that_no_thread_matches_is_named(
    db: Path, rules: tuple[object, ...], how: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = run("prune", db, *rules, "--thread", "User-*", "--thread", "nobody", *how)
    assert (found.returncode, found.stdout) == (1, "")
    assert f"no thread in {db} matches 'User-*' or 'nobody'; `threadmark threads` lists" in found.stderr
    assert counts(db) == SIZES
    found = run("prune", db, *rules, "--thread", "nobody", "--thread", "job", *how)
    assert found.returncode == 1
    assert "job" in found.stdout
    assert f"no thread in {db} matches 'nobody'; `threadmark threads` lists" in found.stderr
    left = 0 if "delete" in rules else 1
    assert counts(db) == {**SIZES, "job": SIZES["job"] if "--dry-run" in how else left}


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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--out", "{file}"), "{file} is a file, or lies in one"),
        (("--out", "{file}/inside/it"), "{file}/inside/it is a file, or lies in one"),
        (("--out", "/proc/nope"), "/proc/nope cannot be written"),
        (("--out", "/proc"), "/proc cannot be written"),
        (("--out", "{folder}/new", "--db", "{file}/c.db"), "{file} is a file, or lies in one"),
        (("--out", "{folder}/new", "--db", "{folder}"), "{folder} is a folder"),
        (("--out", "{folder}/new", "--db", "/proc/nope/c.db"), "/proc/nope cannot be written"),
    ],
)
def test_the_demo_refuses_what_it_cannot_write_to(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    names = {"file": tmp_path / "report", "folder": tmp_path}
    names["file"].write_text("mine")
    found = run("demo", "--yes", *(each.format(**names) for each in arguments))
    assert (found.returncode, found.stdout, len(found.stderr.splitlines())) == (2, "", 1)
    assert found.stderr.startswith(f"threadmark: {said.format(**names)}")
    assert arguments[-2] in found.stderr
    assert names["file"].read_text() == "mine"
