"""What stored format 1 means is settled: files that were written once open, are read whole, and can be gone on with."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.wire.threads import FORMS, everything, fill, golden, serde
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.serde.errors import PlaintextValue, UnknownKey
from threadmark.checkpoint.sqlite import SqliteSaver

CHANGED = """A new file has other tables than the golden files of format 1, or says that it is of another format.
That is a new stored format: leave the golden files and what fills them alone; add a script to checkpoint/sqlite/schema
that takes a file of the last format to the new one, and see that these tests pass, since opening a file migrates it;
make golden files of the new format beside these (tests/wire/threads.py is the model); and tell it in
docs/explanation/storage-layout.md, in a decision and in the changelog."""


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def file(form: str, tmp_path: Path) -> Path:
    return Path(shutil.copy(golden(form), tmp_path / "threads.sqlite"))


def test_everything_in_a_file_of_format_1_reads_as_it_was_written(form: str, file: Path) -> None:
    expected = InMemorySaver()
    fill(expected)
    with SqliteSaver.from_conn_string(str(file), serde=serde(form)) as saver:
        assert everything(saver) == everything(expected)


def test_a_file_that_nobody_may_write_is_read_too(form: str, file: Path) -> None:
    file.chmod(0o400)
    file.parent.chmod(0o500)
    try:
        with SqliteSaver.open_read_only(str(file), serde=serde(form)) as saver:
            found = everything(saver)
    finally:
        file.parent.chmod(0o700)
    expected = InMemorySaver()
    fill(expected)
    assert found == everything(expected)


def test_a_file_of_format_1_is_gone_on_with(form: str, file: Path) -> None:
    with SqliteSaver.from_conn_string(str(file), serde=serde(form)) as saver:
        before = everything(saver)
        head = saver.get_tuple(config("chat"))
        assert head is not None
        rows = [*head.checkpoint["channel_values"]["rows"], "one more line"]
        version = saver.get_next_version(max(head.checkpoint["channel_versions"].values()), None)
        made = checkpoint({"rows": rows}, {"rows": version}, id="1f0cdf5e-0001-6000-8000-ffffffffffff")
        saver.put(head.config, made, {"source": "loop", "step": 99, "parents": {}}, {"rows": version})
    with SqliteSaver.from_conn_string(str(file), serde=serde(form)) as saver:
        after = everything(saver)
        added = [item for item in after if item not in before]
        assert [item[0][:1] for item in added] == [("chat",), "c"]  # the checkpoint, and the history of its rows
        assert added[0][2]["channel_values"] == {"rows": rows}
        assert len(after) == len(before) + 1
        saver.prune(["chat"])
        assert saver.get(config("chat"))["channel_values"] == {"rows": rows}  # type: ignore[index]


def test_the_files_hold_rows_of_every_kind(form: str, file: Path) -> None:
    conn = sqlite3.connect(file)
    kinds = {
        table: {body[0] for (body,) in conn.execute(f"SELECT {column} FROM {table}")}
        for table, column in (("value", "body"), ("checkpoint", "body"), ("segment", "data"))
    }
    flags = {flag for (flag,) in conn.execute("SELECT DISTINCT flags FROM checkpoint")}
    conn.close()
    assert flags == {0, 1, 2}  # as stored, hidden, without its parent
    if form == "plain":
        assert kinds == {"value": {0, 2, 3, 4}, "checkpoint": {16, 17}, "segment": {0, 1}}


def test_format_1_is_what_is_written_today(form: str, file: Path, tmp_path: Path) -> None:
    with SqliteSaver.from_conn_string(str(tmp_path / "new.db"), serde=serde(form)):
        pass
    said = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
    tables = []
    for path in (file, tmp_path / "new.db"):
        conn = sqlite3.connect(path)
        assert conn.execute("SELECT format FROM threadmark").fetchall() == [(1,)], CHANGED
        tables.append(conn.execute(said).fetchall())
        conn.close()
    assert tables[0] == tables[1], CHANGED


def test_an_encrypted_file_needs_its_key(tmp_path: Path) -> None:
    file = shutil.copy(golden("encrypted"), tmp_path / "threads.db")
    other = EncryptedSerializer.from_keys({"other": bytes(32)})
    with SqliteSaver.from_conn_string(str(file), serde=other) as saver, pytest.raises(UnknownKey):
        saver.get(config("chat"))
    file = shutil.copy(golden("plain"), tmp_path / "plain.db")
    with SqliteSaver.from_conn_string(str(file), serde=other) as saver, pytest.raises(PlaintextValue):
        saver.get(config("chat"))
