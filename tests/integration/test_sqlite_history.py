"""What rebuilds a delta channel takes two statements in a SQLite file, at 1,000 ancestors as at 10."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.histories import COUNTERS, grown, patched
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.serde.types import _DeltaSnapshot
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import DamagedRow


def statements(saver: Any, action: Any) -> list[str]:
    found: list[str] = []
    saver.conn.set_trace_callback(found.append)
    action()
    saver.conn.set_trace_callback(None)
    return [text for text in found if text.lstrip().startswith(("SELECT", "WITH"))]


@pytest.mark.parametrize("start", ["read before", "nothing known"])
@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("length", [10, 1000])
def test_two_statements(start: str, told: bool, length: int) -> None:
    with SqliteSaver.from_conn_string(":memory:") as saver:
        at = grown(saver, length, told=told)
        found: Any = {}
        assert read(saver, at, start, ["d"], found) == 2
        assert [len(write[2][0]) for write in found["d"]["writes"]] == [3000] * (2 * length)
        assert isinstance(found["d"]["seed"], _DeltaSnapshot)


def read(saver: Any, at: Any, start: str, channels: list[str], found: Any) -> int:
    """How many statements it takes, by a saver that has read the checkpoint or one that knows nothing."""
    saver._caches = Caches(scale=0)
    expected = saver.get_delta_channel_history(config=at, channels=channels)
    if start == "read before":
        saver._caches = Caches()
        assert saver.get_tuple(at) is not None
    asked = statements(saver, lambda: found.update(saver.get_delta_channel_history(config=at, channels=channels)))
    assert found == expected
    return len(asked)


@pytest.mark.parametrize("start", ["read before", "nothing known"])
def test_two_statements_for_values_that_are_patches_of_others(start: str) -> None:
    with SqliteSaver.from_conn_string(":memory:") as saver:
        at, found = patched(saver), dict[str, Any]()
        kinds = {body[0] for (body,) in saver.conn.execute("SELECT body FROM value")}
        assert kinds >= {3, 4}
        assert any(b"\xc4" in body for (body,) in saver.conn.execute("SELECT body FROM task"))
        assert read(saver, at, start, ["d", "p"], found) == 2
        assert len(found["d"]["seed"].value) == 41
        assert len(found["p"]["seed"]) == 29
        assert [len(write[2]) for write in found["p"]["writes"]][-2:] == [41, 40]
        assert read(saver, at, start, ["d", "p", "not there"], found) == 2
        assert "seed" not in found["not there"]


@pytest.mark.parametrize(("start", "most"), [("read before", 3), ("nothing known", 6)])
def test_sealed_rows_take_more_statements_but_no_more_with_length(start: str, most: int) -> None:
    serde = EncryptedSerializer.from_pycryptodome_aes(key=bytes(range(32)))
    counts = set()
    for length in (60, 1000):
        with SqliteSaver.from_conn_string(":memory:", serde=serde) as saver:
            counts.add(read(saver, grown(saver, length, told=True), start, ["d"], {}))
    with SqliteSaver.from_conn_string(":memory:", serde=serde) as saver:
        counts.add(read(saver, patched(saver), start, ["d", "p"], {}))
    assert max(counts) <= most


def test_functions_that_another_saver_taught_a_connection() -> None:
    with SqliteSaver.from_conn_string(":memory:") as saver:
        at = grown(saver, 10, told=False)
        expected = saver.get_delta_channel_history(config=at, channels=["d"])
        for _ in saver.conn.execute("SELECT body, threadmark_missing('[]', body, NULL) FROM checkpoint"):
            assert SqliteSaver(saver.conn).get_delta_channel_history(config=at, channels=["d"]) == expected


def test_a_damaged_row_is_told_of_by_who_reads_it() -> None:
    with SqliteSaver.from_conn_string(":memory:") as saver:
        at = grown(saver, 10, told=False)
        saver.conn.execute("UPDATE checkpoint SET body = x'11' || zeroblob(9) WHERE step = 5")
        saver.conn.execute("UPDATE value SET body = x'03ff' WHERE length(body) > 20")
        with pytest.raises(DamagedRow):
            SqliteSaver(saver.conn).get_delta_channel_history(config=at, channels=["d"])
        saver.conn.execute("DELETE FROM checkpoint WHERE step = 5")
        found = SqliteSaver(saver.conn).get_delta_channel_history(config=at, channels=["d"])
        assert len(found["d"]["writes"]) == 8
        assert "seed" not in found["d"]


def test_it_reads_no_further_than_the_counters_say() -> None:
    with SqliteSaver.from_conn_string(":memory:") as saver:
        at = grown(saver, 30, told=True)
        saver._caches = Caches()
        assert saver.get_tuple(at) is not None
        (line, _) = statements(saver, lambda: saver.get_delta_channel_history(config=at, channels=["d"]))
        assert "LIMIT 31\n" in line
        assert "threadmark_missing" not in line


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
