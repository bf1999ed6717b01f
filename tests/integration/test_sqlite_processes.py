"""Several real processes on one file: first set-up, writing, pruning, dying, forking."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.sqlite import SqliteSaver

PRELUDE = """
import hashlib, sys
from threadmark.checkpoint.base import empty_checkpoint
from threadmark.checkpoint.sqlite import SqliteSaver

PATH, NAME = sys.argv[1:3]

def config(thread_id, id=None):
    named = {"thread_id": thread_id, "checkpoint_ns": ""}
    return {"configurable": named if id is None else {**named, "checkpoint_id": id}}

def digest(rows):
    return hashlib.sha256("\\n".join(rows).encode()).hexdigest()

def put(saver, at, rows, version, **more):
    values = {"rows": rows, "digest": digest(rows), **more}
    made = {**empty_checkpoint(), "channel_values": values, "channel_versions": dict.fromkeys(values, version)}
    tasks = [(f"{NAME} {version}", "~p", [("rows", rows)])] if at["configurable"].get("checkpoint_id") else []
    return saver.put_step(at, made, {"step": version, "by": NAME}, dict.fromkeys(values, version), tasks)

print("ready", flush=True)
sys.stdin.readline()
"""


class Processes:
    """Programs that start together."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.running: list[subprocess.Popen[str]] = []

    def add(self, name: str, program: str) -> subprocess.Popen[str]:
        code = PRELUDE + textwrap.dedent(program)
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(self.path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.running.append(process)
        return process

    def go(self) -> None:
        for process in self.running:
            assert process.stdout is not None
            assert process.stdin is not None
            assert process.stdout.readline() == "ready\n", process.communicate()[1]
        for process in self.running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()

    def finish(self) -> None:
        """Wait for all; none may have failed."""
        said = [process.communicate(timeout=100) for process in self.running]
        failed = [error for process, (_, error) in zip(self.running, said, strict=True) if process.returncode]
        assert failed == []

    def close(self) -> None:
        for process in self.running:
            process.kill()
            process.communicate()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    processes = Processes(tmp_path / "threads.db")
    yield processes
    processes.close()


def every_checkpoint_reads(path: Path) -> list[Any]:
    """All listed checkpoints of all threads, each of them exact, as a process that remembers nothing sees them."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        found = list(saver.list(None))
        for item in found:
            values = item.checkpoint["channel_values"]
            assert hashlib.sha256("\n".join(values["rows"]).encode()).hexdigest() == values["digest"]
            assert saver.get_tuple(item.config) == item
        (check,) = saver.conn.execute("PRAGMA integrity_check").fetchone()
        assert check == "ok"
    return found


def test_four_processes_set_up_one_file_at_once(processes: Processes) -> None:
    for number in range(4):
        processes.add(
            f"p{number}",
            """
            with SqliteSaver.from_conn_string(PATH) as saver:
                at, rows = config(NAME), []
                for turn in range(25):
                    rows = [*rows, f"{NAME} {turn} " * 30]
                    at = put(saver, at, rows, turn)
            """,
        )
    processes.go()
    processes.finish()
    assert len(every_checkpoint_reads(processes.path)) == 100


WRITER = """
with SqliteSaver.from_conn_string(PATH) as saver:
    for turn in range(60):
        head = saver.get_tuple(config("t"))
        rows = list(head.checkpoint["channel_values"]["rows"]) if head else []
        rows = [*rows, f"{NAME} {turn} " * 40][-150:]
        if turn % 7 == 3:
            rows[len(rows) // 2] = f"{NAME} edited {turn}"
        at = head.config if head else config("t")
        version = 1 + (head.checkpoint["channel_versions"]["rows"] if head else 0)
        put(saver, at, rows, version)
"""


def test_writers_a_pruner_and_a_deleter_on_one_thread(processes: Processes) -> None:
    processes.add("one", WRITER)
    processes.add("two", WRITER)
    processes.add(
        "pruner",
        """
        import time
        with SqliteSaver.from_conn_string(PATH) as saver:
            for _ in range(25):
                saver.prune(["t"])
                time.sleep(0.01)
        """,
    )
    processes.add(
        "deleter",
        """
        import time
        with SqliteSaver.from_conn_string(PATH) as saver:
            for turn in range(12):
                saver.delete_thread("t")
                put(saver, config("t"), ["made again"] * 99, 1)
                time.sleep(0.02)
        """,
    )
    processes.go()
    processes.finish()
    assert every_checkpoint_reads(processes.path)


def test_a_reader_meanwhile_sees_whole_checkpoints(processes: Processes) -> None:
    processes.add("one", WRITER)
    processes.add("two", WRITER)
    processes.add(
        "reader",
        """
        with SqliteSaver.from_conn_string(PATH) as saver:
            for _ in range(12):
                for item in saver.list(config("t"), limit=20):
                    values = item.checkpoint["channel_values"]
                    assert digest(values["rows"]) == values["digest"], item.config
        """,
    )
    processes.go()
    processes.finish()
    assert len(every_checkpoint_reads(processes.path)) == 120


def test_a_killed_writer_leaves_whole_checkpoints(processes: Processes) -> None:
    writer = processes.add(
        "one",
        """
        saver = SqliteSaver.from_conn_string(PATH)
        at, rows = config("t"), []
        for turn in range(100_000):
            rows = [*rows, f"{NAME} {turn} " * 40][-100:]
            at = put(saver, at, rows, turn)
            print(turn, flush=True)
        """,
    )
    processes.go()
    assert writer.stdout is not None
    acknowledged = [int(writer.stdout.readline()) for _ in range(80)]
    writer.kill()
    writer.wait()
    found = every_checkpoint_reads(processes.path)
    assert found[0].metadata["step"] >= acknowledged[-1]
    assert [item.metadata["step"] for item in found] == list(range(found[0].metadata["step"], -1, -1))


def test_a_program_that_forgets_to_close_ends(processes: Processes) -> None:
    program = processes.add(
        "one",
        """
        import asyncio
        saver = SqliteSaver.from_conn_string(PATH)
        made = {**empty_checkpoint(), "channel_values": {"rows": [], "digest": digest([])}}
        made["channel_versions"] = {"rows": 1, "digest": 1}
        asyncio.run(saver.aput(config("t"), made, {}, {}))
        """,
    )
    processes.go()
    processes.finish()
    assert program.returncode == 0
    assert len(every_checkpoint_reads(processes.path)) == 1


def test_a_forked_child_goes_on_by_itself(processes: Processes) -> None:
    processes.add(
        "one",
        """
        import os, threading
        saver = SqliteSaver.from_conn_string(PATH)
        at = put(saver, config("parent"), ["before"], 1)
        saver._turn.acquire()
        child = os.fork()
        if child == 0:
            at = put(saver, at, ["child"], 2)
            assert saver.get(at)["channel_values"]["rows"] == ["child"]
            import asyncio
            asyncio.run(saver.aput_writes(at, [("rows", [])], "task"))
            os._exit(0)
        saver._turn.release()
        put(saver, at, ["parent"], 2)
        assert os.waitpid(child, 0)[1] == 0
        put(saver, at, ["parent", "again"], 3)
        """,
    )
    processes.go()
    processes.finish()
    found = every_checkpoint_reads(processes.path)
    assert sorted(tuple(item.checkpoint["channel_values"]["rows"]) for item in found) == [
        ("before",),
        ("child",),
        ("parent",),
        ("parent", "again"),
    ]


def test_versions_and_ids_of_two_processes_never_meet(processes: Processes) -> None:
    with SqliteSaver.from_conn_string(str(processes.path)) as saver:
        saver.put(config("t"), checkpoint({"rows": [], "digest": ""}), {}, {"rows": 1, "digest": 1})
    for name in ("one", "two", "three"):
        processes.add(
            name,
            """
            with SqliteSaver.from_conn_string(PATH) as saver:
                root = saver.get_tuple(config("t")).config
                for turn in range(20):
                    rows = [f"{NAME} {turn} {line} " * 3 for line in range(60)]
                    put(saver, root, rows, 2)
            """,
        )
    processes.go()
    processes.finish()
    with SqliteSaver.from_conn_string(str(processes.path)) as saver:
        saver.conn.execute("DELETE FROM checkpoint WHERE parent IS NULL")
    assert len(every_checkpoint_reads(processes.path)) == 60
