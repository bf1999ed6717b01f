"""Checkpoint ids that rise, task ids that follow the recipe (spec 1.2, 3.4)."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_128_hexdigest

from threadmark import ids


@pytest.mark.parametrize("step", [-2, -1, 0, 1, 2, 16_383, 16_384])
def test_a_checkpoint_id_is_a_uuid_6_that_holds_its_step(step: int) -> None:
    made = UUID(ids.checkpoint_id(step))
    assert made.version == 6
    assert made.clock_seq == step & 0x3FFF
    groups = {-2: "bffe", -1: "bfff", 0: "8000", 1: "8001"}
    if step in groups:
        assert str(made).split("-")[3] == groups[step]


def test_ids_rise_within_a_process_whatever_the_step() -> None:
    made = [ids.checkpoint_id(step) for step in (5, -1, 3, 0) * 50]
    assert sorted(made) == made
    assert len(set(made)) == len(made)


def test_ids_rise_from_many_threads() -> None:
    found: list[list[str]] = []

    def make() -> None:
        found.append([ids.checkpoint_id(0) for _ in range(200)])

    workers = [threading.Thread(target=make) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(sorted(one) == one for one in found)
    ticks = {made[:18] for one in found for made in one}
    assert len(ticks) == 800


def test_an_id_exceeds_the_one_before_it_even_if_the_clock_went_back() -> None:
    ahead = "3f1ecd4b-86cd-6fed-8001-5289a0700000"
    made = ids.checkpoint_id(0, ahead, now=lambda: 0)
    assert made > ahead
    assert ids.checkpoint_id(0, made, now=lambda: 0) > made


@pytest.mark.parametrize("other", ["", "zzz", "not an id at all", "1ef663ba-28fe-4528-8002-5a559208592c"])
def test_an_id_of_another_shape_does_not_matter(other: str) -> None:
    assert UUID(ids.checkpoint_id(0, other)).version == 6


@pytest.mark.parametrize(("current", "count"), [(None, 1), (7, 8), (2.0, 3), (f"{41:032}.0.5", 42), ("9.x", 10)])
def test_a_version_counts_and_differs_between_branches(current: Any, count: int) -> None:
    one, other = ids.version_after(current), ids.version_after(current)
    assert one != other
    assert int(one[:32]) == int(other[:32]) == count
    fraction = one[33:]
    assert f"{float(fraction):016}" == fraction  # then a row stores it in ten bytes
    assert one < ids.version_after(one)


def test_a_timestamp_is_this_moment() -> None:
    before = datetime.now(UTC)
    made = [ids.timestamp() for _ in range(1000)]
    assert all(before <= datetime.fromisoformat(one) <= datetime.now(UTC) for one in made)
    assert made == sorted(made)
    assert {len(one) for one in made} == {32}


def test_a_task_id_is_a_hash_of_its_checkpoint_and_its_parts() -> None:
    checkpoint = "1ef663ba-28fe-6528-8002-5a559208592c"
    parts = ("a", "1", "a", "__pregel_pull", "branch:to:a")
    digest = xxh3_128_hexdigest(bytes.fromhex(checkpoint.replace("-", "")) + "".join(parts).encode())
    assert ids.task_id(checkpoint, parts).replace("-", "") == digest
    assert [len(group) for group in ids.task_id(checkpoint, parts).split("-")] == [8, 4, 4, 4, 12]


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_makes_a_task_id(checkpoint: str, name: str) -> None:
    assert ids.task_id(checkpoint, (name,)) == ids.task_id(checkpoint, (name,))


def test_a_question_s_id_depends_on_its_place() -> None:
    assert ids.interrupt_id("a:1", 0) == xxh3_128_hexdigest(b"a:1")
    assert ids.interrupt_id("a:1", 2) == xxh3_128_hexdigest(b"a:1|2")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("__pregel_pull", "a"), "~__pregel_pull, a"),
        (("__pregel_push", 3, False), "~__pregel_push, 0000000003, 0000000000"),
        (
            ("__pregel_push", ("__pregel_pull", "wf"), 1, True),
            "~__pregel_push, ~__pregel_pull, wf, 0000000001, 0000000001",
        ),
    ],
)
def test_the_text_of_a_path(path: object, text: str) -> None:
    assert ids.path_str(path) == text
