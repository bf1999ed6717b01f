"""The main job on PostgreSQL: the program is killed at random moments, and another one goes on to the right end."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.acceptance import postgres_victim
from tests.acceptance.postgres_victim import CONFIG, STEPS, graph_of
from tests.services.postgres import postgres
from threadmark.checkpoint.postgres import PostgresSaver

ROOT = Path(__file__).resolve().parents[2]
KILLS = 4


def began(log: Path, before: int) -> bool:
    return log.exists() and log.stat().st_size > before


def killed(command: list[str], log: Path) -> bool:
    """Start the program, let it run some steps, kill it; whether it was still running."""
    before = log.stat().st_size if log.exists() else 0
    process = subprocess.Popen(command, cwd=ROOT)
    while not began(log, before) and process.poll() is None:
        time.sleep(0.005)
    time.sleep(random.uniform(0, 0.15))
    process.kill()
    return process.wait() == -signal.SIGKILL


def check(url: str, schema: str, log: Path, durability: str) -> int:
    """What a dead process left is whole, and holds what it had been told was stored; how much that is."""
    with PostgresSaver.from_conn_string(url, schema=schema) as reader:
        states = list(graph_of(reader).get_state_history(CONFIG))
    sizes = [len(state.values.get("done", ())) for state in states]
    for state, size in zip(states, sizes, strict=True):
        assert state.values.get("done", []) == list(range(size))
        assert state.values.get("text", "") == "".join(f"{number:060} " for number in range(size))
    assert sizes == sorted(sizes, reverse=True)
    assert set(sizes) == set(range(sizes[0] + 1)) if sizes else True
    found = sizes[0] if sizes else 0
    if durability == "sync" and log.exists():
        # A step begins when the one before it is stored.
        assert found >= max(map(int, log.read_text(encoding="utf-8").split()), default=0)
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("colour", "durability"), [("sync", "sync"), ("async", "sync"), ("sync", "async")])
def test_killed_at_random_moments(pg_url: str, pg_schema: str, tmp_path: Path, colour: str, durability: str) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-m", postgres_victim.__name__, pg_url, pg_schema, colour, durability, str(log)]
    deaths, left = 0, 0
    for _ in range(KILLS):
        deaths += killed(command, log)
        now = check(pg_url, pg_schema, log, durability)
        assert now >= left
        left = now
    assert deaths
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0
    assert check(pg_url, pg_schema, log, durability) == STEPS
    with PostgresSaver.from_conn_string(pg_url, schema=pg_schema) as reader:
        assert graph_of(reader).get_state(CONFIG).next == ()


def test_the_server_is_killed_under_the_program(tmp_path: Path) -> None:
    """The run ends with an error that says to try again; when the server is back, the same call goes on."""
    log = tmp_path / "log"
    with postgres(safe=True) as server:
        url = server.url()
        command = [sys.executable, "-m", postgres_victim.__name__, url, "job", "sync", "sync", str(log)]
        process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        while not began(log, 20) and process.poll() is None:
            time.sleep(0.005)
        server.server.kill()
        _, said = process.communicate()
        assert process.returncode == 1
        assert "threadmark.errors.Unavailable" in said
        server.server.start()
        left = check(url, "job", log, "sync")
        assert 0 < left < STEPS
        assert subprocess.run(command, cwd=ROOT, check=False).returncode == 0
        assert check(url, "job", log, "sync") == STEPS
