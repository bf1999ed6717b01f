"""A process is killed before and after every call of its saver; another one goes on to the same end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance import victim

ROOT = Path(__file__).resolve().parents[2]
LOG = ["in", "plan", "beside", *(f"work {number}" for number in range(victim.PACKETS)), "join", "yes"]


class Processes:
    """Runs commands of ``victim``, or of another module like it, each in a process of its own."""

    def __init__(self, module: str = victim.__name__) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-m", module], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, *command: Any) -> int:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(command) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())

    def close(self) -> None:
        self._server.communicate()


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    server = Processes()
    yield server
    server.close()


def unkilled(processes: Processes, folder: Path, kind: str, colour: str, durability: str) -> list[str]:
    """The history of a run that nobody kills."""
    folder.mkdir()
    assert processes.run("recover", str(folder), kind, colour, durability) == 0
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert (report["log"], report["next"]) == (LOG, [])
    history: list[str] = report["history"]
    return history


def check(folder: Path, history: list[str]) -> None:
    """The end is the same, and what had been stored did not run again."""
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert (report["log"], report["next"]) == (LOG, [])
    assert report["history"] == history
    found = report["found"]
    if found is not None and found["next"] == []:
        assert found["log"] == LOG, "nothing is next, but the run had not finished"
    stored: set[str] = set()
    for line in (folder / "log").read_text(encoding="utf-8").splitlines():
        what, *tasks = line.split()
        if what == "stored":
            stored.update(tasks)
        elif what == "ran":
            assert stored.isdisjoint(tasks), "a task whose writes were acknowledged ran again"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["grouping", "plain"])
@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_killed_at_any_call_of_the_saver(
    processes: Processes, tmp_path: Path, durability: str, colour: str, kind: str
) -> None:
    history = unkilled(processes, tmp_path / "unkilled", kind, colour, durability)
    at, deaths = 0, 1
    while deaths:
        at, deaths = at + 1, 0
        for when in ("before", "after"):
            folder = tmp_path / f"{at} {when}"
            folder.mkdir()
            code = processes.run("die", str(folder), kind, colour, durability, at, when)
            if code == 0:
                assert (folder / "log").read_text(encoding="utf-8").endswith("survived\n")
                continue
            assert code == -signal.SIGKILL
            deaths += 1
            assert processes.run("recover", str(folder), kind, colour, durability) == 0
            check(folder, history)
    assert at > 3
