"""The stored form of threads in Cosmos DB: heads, packs, keys, limits."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from threadmark.checkpoint.cosmosdb.commit import BYTES, OPERATIONS, _batches, _fits
from threadmark.checkpoint.cosmosdb.items import (
    Head,
    Listed,
    Rows,
    checkpoint_key,
    early_of,
    head_of,
    listed_in,
    newest_of,
    pack_of,
    packed,
    partition_of,
    piece_of,
    pieces_wanted,
    segment_key,
    size_of,
    task_key,
    value_key,
    with_newest,
)
from threadmark.checkpoint.records import HIDDEN, CheckpointRow, Columns, TaskRow
from threadmark.errors import DamagedRow, ForeignDatabase

HEAD = Head(
    thread_id="t", key="k", salt=b"s" * 16, number=3, base=2, last="x", newest={"": ("9", "3-x-0")}, early=("e",)
)
COLUMNS = Columns("0", "loop", -1, "run", "2026-11-30T00:00:00+00:00", '{"": "0"}')


def rows(count: int = 1, size: int = 10) -> Rows:
    found = Rows()
    for number in range(count):
        id = f"{number:04}"
        found.checkpoints["ns", id] = CheckpointRow("ns", id, COLUMNS, HIDDEN * (number % 2), os.urandom(size))
        found.put_task(TaskRow("ns", id, "task", "~path", os.urandom(size)))
        found.values[(1 << 62) + number] = os.urandom(size)
        found.segments[os.urandom(16)] = os.urandom(size)
    return found


def read_back(items: list[Any]) -> Rows:
    pieces = {item["id"]: piece_of(item) for item in items if item["kind"] == "piece"}
    found = Rows()
    for item in items:
        if item["kind"] == "pack":
            assert set(pieces_wanted(item)) <= pieces.keys()
            found.update(pack_of(item, pieces).rows)
    return found


@pytest.mark.parametrize(("count", "size"), [(0, 0), (1, 0), (3, 10), (500, 100), (2, 1_500_000), (1, 5_000_000)])
def test_rows_come_back_from_packs(count: int, size: int) -> None:
    stored = rows(count, size)
    items = packed(stored, "k", 4, "tx")
    assert read_back(items) == stored
    assert len({item["id"] for item in items}) == len(items)
    assert all(size_of(item) < BYTES for item in items)
    assert all(len(item["id"]) < 255 and not set(item["id"]) & set("/\\?#") for item in items)


def test_a_pack_says_what_it_is_found_by() -> None:
    stored = rows(2)
    (item,) = packed(stored, "k", 4, "tx")
    names = [("ns", "0000"), ("ns", "0001")]
    wanted = {*map(checkpoint_key, names), *map(task_key, names), *map(value_key, stored.values)}
    assert wanted | set(map(segment_key, stored.segments)) <= set(item["keys"])
    assert listed_in(item) == [Listed("ns", f"000{n}", "0", HIDDEN * n, COLUMNS.ts) for n in range(2)]
    assert (item["first"], item["last"]) == ("0000", "0001")
    assert newest_of(listed_in(item)) == Listed("ns", "0000", "0", 0, COLUMNS.ts)


def test_keys_of_different_names_differ() -> None:
    assert len({checkpoint_key(name) for name in (("a", "bc"), ("ab", "c"), ("a\n", "bc"), ("a", "\nbc"))}) == 4
    assert len({value_key(id) for id in (0, 1, 255, 256, (1 << 63) - 1)}) == 5


def test_a_head_comes_back() -> None:
    assert head_of({**HEAD.item(), "thread": "t", "_etag": "1"}) == replace(HEAD, etag="1")


@pytest.mark.parametrize("change", [{"format": 2}, {"kind": "pack"}, {"format": None}])
def test_the_head_of_somebody_else_is_told_apart(change: dict[str, Any]) -> None:
    with pytest.raises(ForeignDatabase):
        head_of({**HEAD.item(), "_etag": "1", **change})


@pytest.mark.parametrize("change", [{"salt": "!"}, {"salt": 1}, {"newest": 7}, {"newest": [["a"]]}, {"early": None}])
def test_a_damaged_head_is_told(change: dict[str, Any]) -> None:
    with pytest.raises(DamagedRow):
        head_of({**HEAD.item(), "_etag": "1", **change})


@pytest.mark.parametrize(
    "change",
    [{"rows": "!"}, {"rows": ""}, {"rows": None}, {"rows": "wQ=="}, {"rows": "lJGRAZCQkA=="}, {"number": None}],
)
def test_a_damaged_pack_is_told(change: dict[str, Any]) -> None:
    (item,) = packed(rows(), "k", 4, "tx")
    damaged = {**item, **change}
    if damaged["number"] is None:
        del damaged["number"]
    with pytest.raises(DamagedRow):
        pack_of(damaged, dict.fromkeys(pieces_wanted(damaged), b""))


def test_a_partition_key_is_never_too_long_and_never_another_s() -> None:
    names = ["t", "x" * 255, "x" * 256, "x" * 255 + "y", "é" * 300, "é" * 301, "\U0001f600" * 9999]
    keys = [partition_of(name) for name in names]
    assert len(set(keys)) == len(keys)
    assert keys[:2] == names[:2]
    assert all(len(key.encode()) <= 2048 for key in keys)
    assert partition_of(keys[2]) != keys[2]  # a thread with the name of another's partition is elsewhere


def test_a_head_names_few_namespaces_and_always_the_graph_s_own() -> None:
    named, more = with_newest({}, "", "1", "p")
    assert not more
    for number in range(20):
        named, evicted = with_newest(named, f"child {number}", "1", "p")
        more |= evicted
    assert more
    assert len(named) == 8
    assert named[""] == ("1", "p")
    assert list(named)[-1] == "child 19"


def test_a_head_names_few_early_writes_or_any() -> None:
    few, many = early_of(["a", "b", "a"]), early_of(map(str, range(100)))
    assert few == ("a", "b")
    assert replace(HEAD, early=many).knows_early("whatever")
    assert not replace(HEAD, early=few).knows_early("c")


def test_batches_keep_the_limits() -> None:
    small, large = {"id": "a", "rows": "x"}, {"id": "b", "rows": "x" * 700_000}
    items = [small] * 150 + [large] * 5 + [small] * 3
    batches = list(_batches(items))
    assert [item for batch in batches for item in batch] == items
    assert all(_fits(batch) for batch in batches)
    assert [len(batch) for batch in batches] == [OPERATIONS, 52, 2, 4]
    assert list(_batches([])) == []
