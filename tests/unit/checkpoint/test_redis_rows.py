"""Rows as bytes in Redis, and names that sort and never meet."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadmark.checkpoint.records import CheckpointRow, Columns, TaskRow
from threadmark.checkpoint.redis.keys import BETWEEN, Keys, ThreadKey, listed, listed_as, name_of, task_field
from threadmark.checkpoint.redis.packing import (
    pack_checkpoint,
    pack_task,
    split_name,
    unpack_checkpoint,
    unpack_task,
)
from threadmark.errors import DamagedRow

TEXT = st.text(max_size=6) | st.just("\ud800 alone")
NAME = st.text(max_size=6)
BODY = st.binary(max_size=20)


@given(NAME, NAME, st.builds(Columns, *[st.none() | TEXT] * 2, st.none() | st.integers(), st.none() | TEXT, TEXT), BODY)
def test_a_checkpoint_comes_back(ns: str, id: str, columns: Columns, body: bytes) -> None:
    row = CheckpointRow(ns, id, columns, 3, body)
    assert unpack_checkpoint(name_of(ns, id), pack_checkpoint(row)) == row
    assert split_name(name_of(ns, id)) == (ns, id)


@given(NAME, NAME, TEXT, TEXT, BODY)
def test_a_task_comes_back(ns: str, id: str, task_id: str, path: str, body: bytes) -> None:
    row = TaskRow(ns, id, task_id, path, body)
    assert unpack_task(task_field(ns, id, task_id)[1:], pack_task(row)) == row


@given(NAME, NAME, NAME)
def test_names_sort_as_their_ids_and_stand_between_the_bounds_of_their_namespace(ns: str, one: str, two: str) -> None:
    assert (name_of(ns, one) < name_of(ns, two)) is (one.encode() < two.encode())
    assert ns.encode() + BETWEEN <= name_of(ns, one) < ns.encode() + BETWEEN * 2


@given(NAME, NAME, NAME)
def test_no_other_namespace_stands_between_those_bounds(ns: str, other: str, id: str) -> None:
    inside = ns.encode() + BETWEEN <= name_of(other, id) < ns.encode() + BETWEEN * 2
    assert inside is (ns == other)


@given(st.text(min_size=1), st.binary(min_size=8, max_size=8))
def test_an_index_entry_comes_back(thread_id: str, token: bytes) -> None:
    thread = ThreadKey(thread_id, token)
    assert listed(listed_as(thread)) == thread


@given(st.lists(st.text(min_size=1), unique=True, max_size=20))
def test_threads_never_share_a_key(thread_ids: list[str]) -> None:
    keys = Keys("p")
    assert len({key for id in thread_ids for key in keys.thread(id)}) == 2 * len(thread_ids)


@pytest.mark.parametrize(("unpack", "name"), [(unpack_checkpoint, b"a"), (unpack_task, b"a\xffb"), (unpack_task, b"")])
def test_a_name_that_is_none_is_damage(unpack: Any, name: bytes) -> None:
    with pytest.raises(DamagedRow):
        unpack(name, b"\xff" * 9)
