"""What a read costs: few statements, and one copy of a large value in memory where one will do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.colour import drive

LINES = [f"line {number} of a conversation that goes on" for number in range(3000)]


@pytest.fixture(params=["plain", "encrypted"])
def serde(request: pytest.FixtureRequest) -> Any:
    return EncryptedSerializer.from_keys({"k": b"k" * 32}) if request.param == "encrypted" else None


def put(saver: SqliteSaver, at: Any, count: int) -> Any:
    made = checkpoint({"lines": LINES[:count]}, {"lines": count})
    return saver.put(at, made, {"step": count}, {"lines": count})


@contextmanager
def statements(saver: SqliteSaver) -> Iterator[list[str]]:
    """What is asked of the reading connection meanwhile."""
    found: list[str] = []
    conn = saver._port._reader.conn  # type: ignore[attr-defined]
    conn.set_trace_callback(found.append)
    yield found
    conn.set_trace_callback(None)


def held(saver: SqliteSaver) -> int:
    """Bytes of segments that a saver remembers."""
    return saver._caches.segments._total


def test_the_first_read_of_a_thread_remembers_the_value_and_no_segment(tmp_path: Path, serde: Any) -> None:
    with SqliteSaver.from_conn_string(str(tmp_path / "t.db"), serde=serde) as writer:
        old = put(writer, config(), 2000)
        new = put(writer, old, 2500)
        with SqliteSaver.from_conn_string(str(tmp_path / "t.db"), serde=serde) as reader:
            with statements(reader) as first:
                assert reader.get(config())["channel_values"] == {"lines": LINES[:2500]}  # type: ignore[index]
            assert sum("FROM segment" in each for each in first) <= 3
            assert held(reader) < 10_000
            with statements(reader) as again:
                assert reader.get(new)["channel_values"] == {"lines": LINES[:2500]}  # type: ignore[index]
            assert not any("FROM segment" in each or "FROM value" in each for each in again)
            assert reader.get(old)["channel_values"] == {"lines": LINES[:2000]}  # type: ignore[index]
            assert held(reader) > 50_000


def test_what_small_segments_are_merged_into_is_stored_as_it_is(tmp_path: Path) -> None:
    path, at = str(tmp_path / "t.db"), config()
    with SqliteSaver.from_conn_string(path) as writer:
        for count in range(0, 3000, 30):
            at = put(writer, at, count)
        long = writer.conn.execute("SELECT data FROM segment WHERE length(data) > 16384").fetchall()
    assert {data[0] for (data,) in long} == {0}
    with SqliteSaver.from_conn_string(path) as reader:
        assert reader.get(at)["channel_values"] == {"lines": LINES[:2970]}  # type: ignore[index]


def test_whoever_reads_on_in_a_thread_unpacks_only_what_is_new(tmp_path: Path, serde: Any) -> None:
    with SqliteSaver.from_conn_string(str(tmp_path / "t.db"), serde=serde) as writer:
        at = put(writer, config(), 1000)
        with SqliteSaver.from_conn_string(str(tmp_path / "t.db"), serde=serde) as reader:
            for count in (2000, 2500, 2600):
                reader.get(config())
                at = put(writer, at, count)
            before = held(reader)
            assert reader.get(at)["channel_values"] == {"lines": LINES[:2600]}  # type: ignore[index]
            assert 0 < held(reader) - before < 20_000


@pytest.mark.parametrize("count", [1, 7, 8, 9, 255, 256, 257, 320, 321, 1000])
def test_segments_are_handed_over_once_each_and_in_order_however_many_are_wanted(count: int) -> None:
    with SqliteSaver.from_conn_string(":memory:") as saver:
        rows = {number.to_bytes(16, "big"): b"\0%d" % number for number in range(1001)}
        found: list[tuple[bytes, bytes]] = []
        times: list[int] = []

        def take(some: Mapping[bytes, bytes]) -> None:
            found.extend(some.items())
            times.append(len(some))

        async def work() -> None:
            async with saver._port.write() as change:
                thread = await change.open_thread("t", b"salt")
                await change.add_segments(thread, rows.items())
                wanted = [*sorted(rows, reverse=True)[:count], b"not there".ljust(16)]
                await change.segments(thread, wanted, take)

        drive(work())
        assert found == sorted(rows.items(), reverse=True)[:count]
        assert max(times) <= 8
        assert len(times) == -(-count // 8)


def test_a_read_that_ends_between_two_segments_leaves_nothing_open(tmp_path: Path) -> None:
    with SqliteSaver.from_conn_string(str(tmp_path / "t.db")) as saver:

        async def store() -> None:
            async with saver._port.write() as change:
                thread = await change.open_thread("t", b"salt")
                await change.add_segments(thread, [(number.to_bytes(16, "big"), b"\0a") for number in range(100)])

        async def read() -> None:
            async with saver._port.read() as view:
                thread = await view.thread("t")
                assert thread is not None
                await view.segments(thread, [number.to_bytes(16, "big") for number in range(100)], refuse)

        def refuse(some: Mapping[bytes, bytes]) -> None:
            raise KeyError("enough")

        drive(store())
        for _ in range(3):
            with pytest.raises(KeyError, match="enough"):
                drive(read())
        put(saver, config("other"), 3)
        saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert saver.conn.execute("PRAGMA wal_checkpoint").fetchone()[0] == 0
        assert saver.get(config("other"))["channel_values"] == {"lines": LINES[:3]}  # type: ignore[index]


def test_what_a_newer_checkpoint_follows_is_not_remembered(tmp_path: Path) -> None:
    with SqliteSaver.from_conn_string(str(tmp_path / "t.db")) as saver:
        at = put(saver, config(), 2000)
        for count in range(2001, 2020):
            at = put(saver, at, count)
        assert len(saver._caches.parents._items) == len(saver._caches.values._items) == 1
        # a checkpoint without the channel: its value is of no use any more
        made = saver.put(at, checkpoint({}, {"lines": 5000}), {"step": 5000}, {"lines": 5000})
        assert list(saver._caches.parents._items) == [("t", "", made["configurable"]["checkpoint_id"])]
        assert len(saver._caches.values._items) == 0
        # an older one is read when somebody goes on from there
        again = put(saver, at, 2500)
        assert saver.get(again)["channel_values"] == {"lines": LINES[:2500]}  # type: ignore[index]


def steps(saver: SqliteSaver, read: Any) -> int:
    """How many steps of its machine SQLite takes for a read."""
    taken = 0

    def count() -> int:
        nonlocal taken
        taken += 1
        return 0

    conn = saver._port._reader.conn  # type: ignore[attr-defined]
    conn.set_progress_handler(count, 1)
    read()
    conn.set_progress_handler(None, 1)
    return taken


def test_the_first_of_a_listing_costs_as_much_as_the_newest_checkpoint(tmp_path: Path) -> None:
    with SqliteSaver.from_conn_string(str(tmp_path / "t.db"), synchronous="OFF") as saver:
        at = config()
        for number in range(400):
            at = saver.put(at, checkpoint({"n": number}, {"n": number}), {"step": number}, {"n": number})
        saver.get_tuple(config())
        newest = steps(saver, lambda: saver.get_tuple(config()))
        assert steps(saver, lambda: next(saver.list(config()))) < 4 * newest
        assert steps(saver, lambda: next(saver.list(config(), filter={"step": 399}))) < 4 * newest
        assert [item.metadata["step"] for item in saver.list(config())] == list(range(399, -1, -1))
