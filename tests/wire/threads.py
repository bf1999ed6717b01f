"""Golden files of stored format 1: SQLite files that must open for ever.

    python -m tests.wire.threads

makes the files that are not there; a file is never made anew, whatever the code writes today. ``fill`` says what is in
them, so it is never changed either: a new format gets a file, and what fills it, of its own.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.sqlite import SqliteSaver

HERE = Path(__file__).parent
KEY = b"golden key, 32 bytes, never used"
FORMS = ("plain", "encrypted")


def golden(form: str) -> Path:
    """The file of a form."""
    return HERE / f"format1_{form}.sqlite"


def serde(form: str) -> Any:
    """The serializer that reads it."""
    return EncryptedSerializer.from_keys({"golden": KEY}) if form == "encrypted" else None


def _id(thread: int, number: int) -> str:
    return f"1f0cdf5e-{thread:04x}-6000-8000-{number:012x}"


def _version(number: int) -> str:
    return f"{number:032}.{number / 7:016}"


class _Thread:
    """A thread whose ids, versions and times are the same each time."""

    def __init__(self, saver: Any, name: str, number: int, ns: str = "") -> None:
        self.saver, self.number, self.count = saver, number, 0
        self.at = config(name, ns=ns)
        self.versions: dict[str, Any] = {}

    def put(self, values: dict[str, Any], changed: list[str], *, number_versions: bool = False, **metadata: Any) -> Any:
        self.count += 1
        version = self.count if number_versions else _version(self.count)
        self.versions |= dict.fromkeys(changed, version)
        made = checkpoint(
            values,
            self.versions,
            id=_id(self.number, self.count),
            ts=f"2026-01-01T00:00:{self.count % 60:02}+00:00",
            versions_seen={"node": dict(self.versions)},
            updated_channels=sorted(changed),
        )
        new = dict.fromkeys(changed, version)
        self.at = self.saver.put(self.at, made, {"source": "loop", "step": self.count, "parents": {}, **metadata}, new)
        return self.at


def fill(saver: Any) -> None:
    """Threads with rows of every kind, and what pruning, copying and deleting leave."""
    _grow(_Thread(saver, "chat", 1), turns=40)
    _grow(_Thread(saver, "chat", 2, ns="child:1"), turns=3)
    _grow(_Thread(saver, "Zoë ✓", 3), turns=2)
    branch = _Thread(saver, "branches", 4)
    trunk = branch.put({"n": 1, "odd": (1, {2}, b"\x93", "\ud800")}, ["n", "odd"], number_versions=True)
    for number in range(3):
        branch.at = trunk
        branch.put({"n": number, "odd": {number: 2**70}}, ["n", "odd"], number_versions=True, fork=number)
    _step(_Thread(saver, "steps", 5))
    saver.copy_thread("chat", "copy")
    _grow(_Thread(saver, "pruned", 6), turns=6)
    saver.prune(["pruned"])
    _grow(_Thread(saver, "gone", 7), turns=2)
    saver.delete_thread("gone")
    _rebuilt(_Thread(saver, "hidden", 8))
    saver.prune(["hidden"])


def _grow(thread: _Thread, turns: int) -> None:
    """A list that grows, is edited and trimmed, a table, an array of bytes, small values; tasks that write and ask."""
    rows = list[str]()
    table = {f"key {number}": number * 7919 for number in range(150)}
    for turn in range(turns):
        rows = [*rows, *(f"turn {turn}, line {line}: {(line + turn) * 7919 % 1000}" for line in range(12))]
        if turn % 7 == 6:
            rows = [*rows[5:40], "an edited line", *rows[41:]]
        table = {**table, f"key {turn * 7 % 150}": -turn}
        noise = bytes(number * number * 31 % 251 for number in range(2000))
        values = {"rows": rows, "table": table, "tiny": turn, "image": noise, "none": None}
        more: dict[str, Any] = {"owner": {"name": "Ada", "notes": rows[:30]}} if turn % 3 == 0 else {"score": turn}
        changed = ["rows", "tiny", *(["table", "none"] if turn % 2 == 0 else []), *([] if turn else ["image"])]
        at = thread.put(values, changed, run_id=f"run {turn % 2}", **more)
        thread.saver.put_writes(at, [("rows", rows[-3:]), ("tiny", turn), ("table", table)], f"task {turn}", "~p")
        if turn % 4 == 3:
            thread.saver.put_writes(at, [("__interrupt__", ("why?", turn)), ("rows", rows)], "asks")


def _rebuilt(thread: _Thread) -> None:
    """A channel that is rebuilt from what tasks wrote, so that pruning hides checkpoints and keeps them."""
    at = thread.put({"log": ["seed"]}, ["log"])
    for number in range(3):
        thread.saver.put_writes(at, [("log", f"write {number}"), ("other", number)], f"task {number}")
        at = thread.put({"n": number}, ["log", "n"], counters_since_delta_snapshot={"log": [number + 1, number + 1]})


def _step(thread: _Thread) -> None:
    """Steps stored in one go, with a record of writes to be shown."""
    at = thread.put({"log": ["start"]}, ["log"])
    for number in range(2):
        version = _version(10 + number)
        made = checkpoint(
            {"log": ["start", f"step {number}"]},
            {"log": version},
            id=_id(5, 10 + number),
            ts="2026-01-01T00:01:00+00:00",
        )
        at = thread.saver.put_step(
            at,
            made,
            {"source": "update", "step": number, "parents": {}},
            {"log": version},
            [(f"task {number}", "~p", [("log", [f"step {number}"])])],
            shown_writes={"node": {"log": [f"step {number}"]}},
        )


def everything(saver: Any) -> list[Any]:
    """All that can be read of the threads of a saver."""
    found = []
    for item in saver.list(None):
        named = item.config["configurable"]
        parent = (item.parent_config or {}).get("configurable", {}).get("checkpoint_id")
        again = saver.get_tuple(item.config)
        assert again == item
        name = (named["thread_id"], named["checkpoint_ns"], named["checkpoint_id"])
        shown = getattr(item, "shown_writes", None)
        found.append((name, parent, item.checkpoint, item.metadata, item.pending_writes, shown))
    for name in ("chat", "copy", "pruned", "hidden"):
        history = saver.get_delta_channel_history(config=config(name), channels=["rows", "log"])
        found.append((name, history))
    return found


def main() -> None:
    for form in FORMS:
        if golden(form).exists():
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "threads.db"
            with SqliteSaver.from_conn_string(str(path), serde=serde(form)) as saver:
                fill(saver)
            conn = sqlite3.connect(path)
            conn.execute("PRAGMA journal_mode = DELETE")
            conn.execute("VACUUM")
            conn.close()
            shutil.copy(path, golden(form))


if __name__ == "__main__":
    main()
