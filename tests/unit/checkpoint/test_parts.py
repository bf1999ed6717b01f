"""The pure parts below the savers: drafts, plain bytes, memories, the merging of writes."""

from __future__ import annotations

import random
import threading
from typing import Any

import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadmark.checkpoint.base import UNSET, Step
from threadmark.checkpoint.caches import Bounded
from threadmark.checkpoint.codec import Codec
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.draft import draft_step
from threadmark.checkpoint.entries import merge_entries, pack_entries, unpack_entries
from threadmark.checkpoint.facts import METADATA, metadata_of, unpack_extra
from threadmark.checkpoint.layout import RowFields
from threadmark.checkpoint.names import ref_of
from threadmark.checkpoint.plain import join, split
from threadmark.checkpoint.records import Columns, Ref
from threadmark.checkpoint.serde.errors import SerializationError
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.sql.migrations import pending, scripts, statements
from threadmark.errors import DamagedRow, ForeignDatabase

DUMPS = Codec(JsonPlusSerializer(), ()).dumps
SQLITE = "threadmark.checkpoint.sqlite"


def draft(step: Step, before: Any = None) -> Any:
    return draft_step(step, ref_of(step.config), DUMPS, ("run_id",), before)


# -- plain bytes -----------------------------------------------------------------------------------------------------


@given(st.sampled_from(["null", "bytes", "msgpack", "json", "pickle", "mine", "é", "x" * 255]), st.binary(max_size=40))
def test_a_tag_and_its_bytes_come_apart_again(tag: str, data: bytes) -> None:
    assert split(join((tag, data))) == (tag, data)


def test_a_common_tag_costs_one_byte() -> None:
    assert len(join(("msgpack", b"abc"))) == 4
    with pytest.raises(ValueError, match="255 bytes"):
        join(("x" * 256, b""))


@pytest.mark.parametrize("data", [b"", b"\x77abc", b"\xff", b"\xff\x09abc", b"\xff\x01\xa6abc"])
def test_other_bytes_are_damage(data: bytes) -> None:
    with pytest.raises(DamagedRow):
        split(data)


# -- drafts ----------------------------------------------------------------------------------------------------------


def test_only_what_moved_is_encoded() -> None:
    made = checkpoint({"a": 1, "b": 2, "c": 3}, {"a": 5, "b": 4, "c": 4})
    before = RowFields(versions={"a": 4, "b": 4})
    found = draft(Step(config("t", "p"), made, {}, {"a": 5}), before).checkpoint
    assert found.plains.keys() == {"a", "c"}
    assert found.carried == {"b": 2}


def test_maps_are_copied_or_shared_with_the_parent() -> None:
    made = checkpoint({"a": 1}, versions_seen={"same": {"a": 1}, "moved": {"a": 2}})
    before = RowFields(seen={"same": {"a": 1}, "moved": {"a": 1}})
    found = draft(Step(config(), made, {}, {}), before).checkpoint
    made["versions_seen"]["same"]["b"] = made["versions_seen"]["moved"]["b"] = 9
    made["channel_versions"]["b"] = 9
    assert (found.seen, found.versions) == ({"same": {"a": 1}, "moved": {"a": 2}}, {"a": 1})
    assert found.seen["same"] is before.seen["same"]


def test_maps_that_are_handed_over_are_neither_copied_nor_compared() -> None:
    made = checkpoint({"a": 1, "b": 2}, {"a": 5, "b": 9}, versions_seen={"n": {"a": 5}})
    before = RowFields(versions={"a": 4, "b": 4})
    step = Step(config("t", "p"), made, {}, {"a": 5}, looked=("n",))
    found = draft(step, before).checkpoint
    assert found.plains.keys() == {"a"}
    assert found.versions is made["channel_versions"]
    assert found.seen is made["versions_seen"]
    assert (found.since, found.looked) == (before.versions, ("n",))
    assert found.since is before.versions
    unknown = draft(step).checkpoint
    assert (unknown.plains.keys(), unknown.since) == ({"a", "b"}, None)
    assert unknown.versions is not made["channel_versions"]


def test_a_value_that_a_task_just_wrote_is_encoded_once() -> None:
    value, calls = ["x" * 300], list[Any]()

    def counting(obj: Any) -> bytes:
        calls.append(obj)
        return DUMPS(obj)

    step = Step(config("t", "p"), checkpoint({"a": value, "b": 1}), {}, {}, [("task", "", [("a", value), ("b", 2)])])
    found = draft_step(step, ref_of(step.config), counting, (), None)
    assert calls == [value, 2, 1]
    assert found.checkpoint is not None
    assert found.checkpoint.plains["a"] is found.tasks[0].entries[0][2]


def test_small_task_writes_build_on_nothing() -> None:
    at = config("t", "c")
    assert not draft(Step(at, writes=[("task", "", [("a", 1), ("b", "x" * 200)])])).large
    assert draft(Step(at, writes=[("task", "", [("a", 1), ("b", "x" * 300)])])).large == {"b"}


def test_large_metadata_is_put_aside() -> None:
    small = draft(Step(config(), checkpoint({"a": 1}), {"step": 0}, {}))
    large = draft(Step(config(), checkpoint({"a": 1}), {"step": 0, "note": "x" * 400}, {}))  # type: ignore[typeddict-unknown-key]
    assert small.checkpoint.facts.asides == {}
    assert large.checkpoint.facts.asides.keys() == large.large == {METADATA}
    assert (small.expected_head, large.checkpoint.facts.columns.step) == (UNSET, 0)


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"source": "loop", "step": 3, "parents": {}},
        {"source": "input", "step": -1, "parents": {"": "id", "a:1": "é"}, "run_id": "r"},
        {"step": 2**63 - 1},
    ],
)
def test_usual_metadata_is_what_the_columns_say(metadata: Any) -> None:
    facts = draft(Step(config(), checkpoint({"a": 1}), metadata, {})).checkpoint.facts
    assert len(facts.extra) < 8
    assert metadata_of(facts.columns) == metadata


@pytest.mark.parametrize(
    "metadata",
    [
        {"source": None},
        {"source": "\ud800"},
        {"step": True},
        {"step": 2**70},
        {"step": 1.0},
        {"parents": None},
        {"parents": {"a": 1}},
        {"parents": {1: "a"}},
        {"parents": {"a": "\ud800"}},
        {"run_id": 7},
        {"step": 1, "more": 2},
    ],
)
def test_other_metadata_is_stored_whole(metadata: Any) -> None:
    facts = draft(Step(config(), checkpoint({"a": 1}), metadata, {})).checkpoint.facts
    assert len(facts.extra) > 8


@pytest.mark.parametrize(
    ("step", "path"),
    [
        (Step(config(), checkpoint({"rows": [1, {"x": print}]}), {}, {}), "rows[1].x"),
        (Step(config(), checkpoint({"rows": print}), {}, {}), "rows"),
        (Step(config(), checkpoint({"rows": {"x": print}}), {}, {}), "rows.x"),
        (Step(config("t", "c"), writes=[("task", "", [("a", 1), ("b", [print])])]), r"b\[0\]"),
        (Step(config(), checkpoint({"a": 1}), {"note": print}, {}), "metadata.note"),  # type: ignore[typeddict-unknown-key]
        (Step(config(), checkpoint({"a": 1}), {}, {}, (), {"node": print}), "writes.node"),
    ],
)
def test_what_cannot_be_written_is_named_with_its_place(step: Step, path: str) -> None:
    with pytest.raises(SerializationError, match=f"^{path.replace('[1]', r'.1.')}: "):
        draft(step)


def test_names_in_a_config() -> None:
    assert ref_of({"configurable": {"thread_id": 1, "checkpoint_ns": None, "checkpoint_id": ""}}) == Ref("1", "", None)
    assert ref_of(config("ключ", "é", "ns|x")) == Ref("ключ", "ns|x", "é")
    with pytest.raises(ValueError, match="checkpoint_ns"):
        ref_of(config("t", None, "\ud800"))


# -- writes ----------------------------------------------------------------------------------------------------------

CHANNELS = st.sampled_from(["a", "b", "__error__", "__interrupt__", "__resume__", "__scheduled__"])


@given(st.lists(st.lists(st.tuples(CHANNELS, st.integers(0, 9)), max_size=5), max_size=5))
def test_merging_calls_one_by_one_or_at_once_is_the_same(calls: list[list[tuple[str, int]]]) -> None:
    drafts = [draft(Step(config("t", "c"), writes=[("task", "", call)])).tasks[0].entries for call in calls]
    left: Any = []
    for entries in drafts:
        left = merge_entries(left, entries)
    right: Any = []
    for entries in reversed(drafts):
        right = merge_entries(entries, right)
    assert left == right == sorted(left)
    assert len({entry[0] for entry in left}) == len(left)


@given(st.lists(st.tuples(st.integers(-4, 40), st.text(), st.binary(max_size=20)), max_size=6))
def test_entries_come_apart_again(entries: list[tuple[int, str, bytes]]) -> None:
    assert [tuple(entry) for entry in unpack_entries(pack_entries(entries))] == entries


def test_entries_of_odd_channels_come_apart_again() -> None:
    entries = [(0, "\ud800", b"1"), (1, "plain", b"2")]
    assert [tuple(entry) for entry in unpack_entries(pack_entries(entries))] == entries
    with pytest.raises(DamagedRow):
        unpack_entries(b"\xc1")


# -- memories --------------------------------------------------------------------------------------------------------


def test_what_was_not_used_longest_is_forgotten_first() -> None:
    memory: Bounded[str, str] = Bounded(10, len)
    memory.set("a", "xxxx")
    memory.set("b", "xxxx")
    assert memory.get("a") == "xxxx"
    memory.set("c", "xxxx")
    assert [memory.get(key) for key in "abc"] == ["xxxx", None, "xxxx"]
    memory.set("a", "yy")
    memory.set("d", "xxxx")
    assert [memory.get(key) for key in "acd"] == ["yy", "xxxx", "xxxx"]
    memory.forget("c")
    memory.forget("unknown")
    memory.set("e", "x" * 11)
    assert [memory.get(key) for key in "acde"] == [None, None, None, None]
    memory.set("f", "x")
    memory.clear()
    assert memory.get("f") is None


def test_a_memory_of_no_size_remembers_nothing() -> None:
    memory: Bounded[str, str] = Bounded(0, len)
    memory.set("a", "x")
    assert memory.get("a") is None


def test_a_memory_serves_many_threads() -> None:
    memory: Bounded[int, str] = Bounded(200, len)
    failed: list[BaseException] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        try:
            for _ in range(2000):
                key = chance.randrange(50)
                found = memory.get(key)
                assert found is None or found == "x" * (key + 1)
                memory.set(key, "x" * (key + 1))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert memory._total == sum(weight for _, weight in memory._items.values()) <= 200


# -- schema scripts --------------------------------------------------------------------------------------------------


def test_scripts_are_taken_apart_into_statements() -> None:
    assert statements("-- why;\nCREATE TABLE a (x);\n\n  -- more\nCREATE VIEW b AS\n  SELECT 1;\n") == [
        "CREATE TABLE a (x)",
        "CREATE VIEW b AS\n  SELECT 1",
    ]
    assert all(statements(script) for script in scripts(SQLITE))


def test_a_database_gets_the_scripts_it_lacks() -> None:
    assert pending(SQLITE, 0) == list(scripts(SQLITE))
    assert pending(SQLITE, len(scripts(SQLITE))) == []
    with pytest.raises(ForeignDatabase, match="newer version"):
        pending(SQLITE, len(scripts(SQLITE)) + 1)


# -- damaged rows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entries", [{"a": 1}, 3, [3], [[1, "a"]], [["1", "a", b""]], [[1, 2, b""]], [[1, "a", "b"]]])
def test_other_lists_than_writes_are_damage(entries: Any) -> None:
    with pytest.raises(DamagedRow):
        unpack_entries(ormsgpack.packb(entries))


@pytest.mark.parametrize(
    "extra",
    [
        {},
        [],
        [4, True, None],
        [4, "x", None, None],
        [4, True, None, False],
        [4, True, True, None],
        [4, True, None, True],
    ],
)
def test_other_facts_than_ours_are_damage(extra: Any) -> None:
    with pytest.raises(DamagedRow):
        unpack_extra(ormsgpack.packb(extra))


@pytest.mark.parametrize("parents", ["", "[]", '{"a": 1}', "{"])
def test_other_enclosing_checkpoints_than_ours_are_damage(parents: str) -> None:
    with pytest.raises(DamagedRow):
        metadata_of(Columns(parents=parents))
