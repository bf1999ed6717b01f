"""What rebuilds a delta channel takes as many statements at 1,000 ancestors as at 10, in a SQLite file too."""

from __future__ import annotations

import random
from typing import Any

import pytest

from threadmark.checkpoint.base import Step
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.serde.types import _DeltaSnapshot
from threadmark.checkpoint.sqlite import SqliteSaver

COUNTERS = "counters_since_delta_snapshot"


def grown(saver: Any, length: int, *, told: bool) -> Any:
    """A thread whose newest checkpoint is ``length`` supersteps behind a snapshot, each with writes worth a segment."""
    chance = random.Random(7)

    def text() -> str:
        return "".join(chance.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=3000))

    writer, parent = saver.open_writer(config()), None
    for number in range(-20, length + 1):
        whole: Any = {"d": _DeltaSnapshot([text()])} if number in (-20, 0) else {}
        versions = {"d": f"{number + 21:032}", "same": "1"}
        made = checkpoint({**whole, "same": "x" * 2000}, versions)
        counters: Any = {} if number in (-20, 0) or not told else {COUNTERS: {"d": [number, number]}}
        writer.add(Step(config("t", parent), made, {"step": number, **counters}, versions))
        parent = made["id"]
        tasks = [(f"task {at}", f"~{at}", [("d", [text()]), ("other", 1)]) for at in range(2)]
        writer.add(Step(config("t", parent), writes=tasks))
    writer.flush()
    return config("t", parent)


def statements(saver: Any, action: Any) -> list[str]:
    found: list[str] = []
    saver.conn.set_trace_callback(found.append)
    action()
    saver.conn.set_trace_callback(None)
    return [text for text in found if text.lstrip().startswith(("SELECT", "WITH"))]


@pytest.mark.parametrize(
    ("start", "told", "most"),
    [
        # lineage; values; segments of the writes and of the seed, in two rounds
        ("read before", True, 4),
        # and the thread, and the blocks behind the maps; the way is found in two goes at the longer one
        ("nothing known", True, 7),
        ("nothing known", False, 7),
    ],
)
def test_a_fixed_number_of_statements(start: str, told: bool, most: int) -> None:
    counts = {}
    for length in (10, 60, 1000):
        with SqliteSaver.from_conn_string(":memory:") as saver:
            at = grown(saver, length, told=told)
            saver._caches = Caches() if start == "read before" else Caches(scale=0)
            assert saver.get_tuple(at) is not None
            found: Any = {}

            def read(saver: Any = saver, at: Any = at, found: Any = found) -> None:
                found.update(saver.get_delta_channel_history(config=at, channels=["d"]))

            counts[length] = len(statements(saver, read))
            assert [len(write[2][0]) for write in found["d"]["writes"]] == [3000] * (2 * length)
            assert isinstance(found["d"]["seed"], _DeltaSnapshot)
    assert counts[10] == counts[60]
    assert counts[1000] <= counts[10] + 2 * (start != "read before")
    assert max(counts.values()) <= most


def test_it_reads_no_further_than_the_counters_say() -> None:
    with SqliteSaver.from_conn_string(":memory:") as saver:
        at = grown(saver, 30, told=True)
        saver._caches = Caches()
        assert saver.get_tuple(at) is not None
        (lineage, *_) = statements(saver, lambda: saver.get_delta_channel_history(config=at, channels=["d"]))
        assert lineage.lstrip().startswith("WITH RECURSIVE")
        assert "LIMIT 31\n" in lineage


@pytest.mark.parametrize("claim", [3, 0, -1, 10**6])
def test_counters_that_lie_change_no_answer(claim: int) -> None:
    with SqliteSaver.from_conn_string(":memory:") as saver:
        at = grown(saver, 90, told=False)
        expected = saver.get_delta_channel_history(config=at, channels=["d", "same"])
        assert len(expected["d"]["writes"]) == 180
        found = saver.get_tuple(at)
        assert found is not None
        liar = checkpoint({}, found.checkpoint["channel_versions"])
        liar_at = saver.put(at, liar, {COUNTERS: {"d": [1, claim], "same": [0, 0]}}, {})
        told = saver.get_delta_channel_history(config=liar_at, channels=["d", "same"])
        assert told["d"]["seed"] == expected["d"]["seed"]
        assert told["d"]["writes"][:180] == expected["d"]["writes"]
        saver._caches = Caches(scale=0)
        assert saver.get_delta_channel_history(config=liar_at, channels=["d", "same"]) == told


def test_a_thread_that_another_process_made_anew_is_found(tmp_path: Any) -> None:
    path = str(tmp_path / "threads.db")
    with SqliteSaver.from_conn_string(path) as one, SqliteSaver.from_conn_string(path) as other:
        at = grown(one, 5, told=True)
        assert one.get_tuple(at) is not None
        other.delete_thread("t")
        assert one.get_delta_channel_history(config=at, channels=["d"]) == {"d": {"writes": []}}
        again = grown(other, 7, told=True)
        assert len(one.get_delta_channel_history(config=again, channels=["d"])["d"]["writes"]) == 14
        assert len(one.get_delta_channel_history(config=config(), channels=["d"])["d"]["writes"]) == 14
