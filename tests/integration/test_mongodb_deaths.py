"""Processes and servers that die: what was acknowledged is there, nothing is half visible, orphans are collected."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.integration import mongodb_victim as victim
from tests.services.mongodb import Mongo, mongodb
from threadmark.checkpoint.conformance.calls import Caller
from threadmark.checkpoint.conformance.kit import content
from threadmark.checkpoint.mongodb import MongoDBSaver, remains
from threadmark.errors import Unavailable

ROOT = Path(__file__).resolve().parents[2]
MODES: dict[str, dict[str, Any]] = {"transactions": {}, "published last": {"transactions": False}}
call = Caller("sync", lambda result: result)


class Victims:
    """Runs commands of ``mongodb_victim``, each in a process of its own."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-m", victim.__name__], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, *command: Any) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(command) + "\n")
        self._server.stdin.flush()

    def end(self) -> int:
        assert self._server.stdout is not None
        return int(self._server.stdout.readline())

    def run(self, *command: Any) -> int:
        self.start(*command)
        return self.end()

    def close(self) -> None:
        self._server.communicate()


@pytest.fixture(scope="module")
def victims() -> Iterator[Victims]:
    made = Victims()
    yield made
    made.close()


@pytest.fixture(scope="module")
def hasty() -> Iterator[Mongo]:
    """A server that gives up what a dead process has begun: after a second, where others do it after a minute."""
    with mongodb(hasty=True) as mongo:
        yield mongo


def seen(saver: Any) -> dict[str, Any]:
    """All that can be seen of all threads."""
    return {thread_id: content(saver, call, thread_id) for thread_id in saver.thread_ids()}


def left_over(saver: Any) -> dict[str, int]:
    """Documents that are in the middle of something."""
    return {
        field: saver.collection.count_documents({field: {"$exists": True, "$ne": []}})
        for field in ("by", "gone", "last")
    }


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("operation", "mode"),
    [*((each, "published last") for each in victim.OPERATIONS), ("a step", "transactions")],
)
def test_a_process_that_dies_between_two_commands(
    hasty: Mongo, victims: Victims, operation: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = MODES[mode]
    carry_out = victim.OPERATIONS[operation]
    with hasty.database() as name, MongoDBSaver.from_conn_string(hasty.uri, name, **options) as saver:
        for number in range(3):
            victim.step(saver, number)
            victim.step(saver, number, "other")
        prepared, before = list(saver.collection.find()), seen(saver)
        carry_out(saver)
        after = seen(saver)
        assert left_over(saver) == {"by": 0, "gone": 0, "last": 0}
    assert before != after
    monkeypatch.setattr(remains, "IN_FLIGHT", timedelta(0))
    for at in range(1, 30):
        codes = set()
        for when in victim.WHEN[at > 1 :]:  # to die before a command is to die after the one before it
            with hasty.database() as name, MongoDBSaver.from_conn_string(hasty.uri, name, **options) as saver:
                saver.collection.insert_many(prepared)
                codes.add(victims.run("die", hasty.uri, name, options, operation, at, when))
                found = seen(saver)
                assert is_known(found, known_states(operation, before, after)), (at, when)
                if found != after:
                    carry_out(saver)
                    found = seen(saver)
                saver.delete_thread("none")  # as every deletion does, it collects what dead writers left
                assert left_over(saver) == {"by": 0, "gone": 0, "last": 0}
                assert found == seen(saver) == after
        assert codes <= {0, -signal.SIGKILL}
        if 0 in codes:
            assert at > 1
            return
    raise AssertionError("it never survived")


def is_known(found: dict[str, Any], states: list[dict[str, Any]]) -> bool:
    """Whether each thread is in one of these states: all or nothing is promised of one thread, not of several."""
    threads = {thread_id for state in (found, *states) for thread_id in state}
    return all(any(found.get(each) == state.get(each) for state in states) for each in threads)


def known_states(operation: str, before: Any, after: Any) -> list[Any]:
    """What may be seen after a death: all of a call, or nothing."""
    if operation != "a replacement":
        return [before, after]
    # Two calls: the first of them may be all that there is.
    between = {**after, "t": [list(item) for item in after["t"]]}
    between["t"][1][4] = before["t"][1][4]
    return [before, {**between, "t": [tuple(item) for item in between["t"]]}, after]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("colour", "mode"), [("sync", "published last"), ("async", "published last"), ("async", "transactions")]
)
def test_a_job_that_dies_again_and_again(
    hasty: Mongo, victims: Victims, colour: str, mode: str, tmp_path: Path
) -> None:
    """Each process dies a few commands after it began; the last one comes to the end that one that never dies has."""
    diary, options = tmp_path / "diary", MODES[mode]
    with hasty.database() as name, MongoDBSaver.from_conn_string(hasty.uri, name, **options) as saver:
        graph = victim.graph_of(saver)
        for turn in range(100):
            at, when = 3 + turn * 5 % 7, victim.WHEN[turn % 3]
            code = victims.run("job", hasty.uri, name, options, colour, at, when, str(diary))
            listed = list(saver.list(victim.CONFIG))
            ids = {item.config["configurable"]["checkpoint_id"] for item in listed}
            acknowledged = set(diary.read_text().split()) if diary.exists() else set()
            assert acknowledged <= ids
            parents = [item.parent_config["configurable"]["checkpoint_id"] for item in listed if item.parent_config]
            assert set(parents) <= ids
            if code == 0:
                break
            assert code == -signal.SIGKILL
        assert turn >= 3
        state = graph.get_state(victim.CONFIG)
        assert state.next == ()
        one_round = [["join"], [f"work {n}" + "." * 2000 for n in range(victim.PACKETS)]]
        wanted = [word for n in range(victim.ROUNDS) for word in (f"plan {n}", *one_round[1], *one_round[0])]
        assert state.values == {"log": wanted, "round": victim.ROUNDS}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", MODES)
def test_processes_that_count_together(mongodb: Mongo, mode: str) -> None:
    with mongodb.database() as name, MongoDBSaver.from_conn_string(mongodb.uri, name) as saver:
        together = [Victims() for _ in range(3)]
        for process in together:  # the first of them makes the collection
            process.start("count", mongodb.uri, name, MODES[mode], 8)
        assert [process.end() for process in together] == [0, 0, 0]
        for process in together:
            process.close()
        numbers = [item.checkpoint["channel_values"]["n"] for item in saver.list(victim.config("count"))]
        assert numbers == list(range(24, 0, -1))
        assert len(list(saver.collection.list_indexes())) == 7


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", MODES)
def test_a_server_that_is_killed_keeps_what_it_acknowledged(mode: str) -> None:
    """``--sync-on-commit`` makes the surrogate wait for the disk, as MongoDB does for a write with ``j``."""
    with mongodb("--sync-on-commit") as mongo:
        options = {**MODES[mode], "serverSelectionTimeoutMS": 5000}
        with MongoDBSaver.from_conn_string(mongo.uri, "kept", **options) as saver:
            acknowledged = 0
            for _ in range(2):
                killer = threading.Timer(0.5, mongo.server.kill)
                killer.start()
                acknowledged += steps_until_it_is_gone(saver, acknowledged)
                killer.join()
                mongo.server.start()
                found = list(saver.list(victim.config("t")))
                assert len(found) in (acknowledged, acknowledged + 1)
                for item in found:
                    number = item.metadata["step"]
                    assert item.checkpoint["channel_values"] == victim.checkpoint(number)["channel_values"]
                acknowledged = len(found)
            saver.prune(["t"])
            assert left_over(saver) == {"by": 0, "gone": 0, "last": 0}


def steps_until_it_is_gone(saver: Any, number: int) -> int:
    """How many steps were acknowledged before the server could not be reached."""
    done = 0
    while True:
        try:
            victim.step(saver, number + done)
        except Unavailable:
            return done
        done += 1
