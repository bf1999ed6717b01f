"""The shapes in which a run tells what happens (spec 10)."""

from __future__ import annotations

from typing import Any

import pytest

from threadmark.engine.stream import Sink, outputs, result_of, shape

KEYS = ("a", "b")


@pytest.mark.parametrize(
    ("writes", "update", "result"),
    [
        ([], None, {}),
        ([("a", 1)], {"a": 1}, {"a": 1}),
        ([("a", 1), ("b", 2)], {"a": 1, "b": 2}, {"a": 1, "b": 2}),
        ([("branch:to:x", None), ("__no_writes__", None)], None, {}),
        ([("a", 1), ("branch:to:x", None)], {"a": 1}, {"a": 1}),
        ([("a", 1), ("a", 2)], [{"a": 1}, {"a": 2}], {"a": {"$writes": [1, 2]}}),
        ([("a", 1), ("b", 5), ("a", 2), ("a", 3)], [{"a": 1, "b": 5}, {"a": 2}, {"a": 3}], None),
        ([("__return__", 7)], 7, {"__return__": 7}),
        ([("a", None)], {"a": None}, {"a": None}),
    ],
)
def test_what_a_task_wrote(writes: Any, update: Any, result: Any) -> None:
    assert outputs(writes, KEYS) == update
    if result is not None:
        assert result_of(writes, KEYS) == result


def test_three_writes_to_a_key_stand_in_one_list() -> None:
    assert result_of([("a", 1), ("a", 2), ("a", 3)], KEYS) == {"a": {"$writes": [1, 2, 3]}}


def test_a_value_that_looks_like_a_list_of_writes_is_kept_apart() -> None:
    value = {"$writes": [0]}
    assert result_of([("a", value), ("a", 2)], KEYS) == {"a": {"$writes": [value, 2]}}
    assert value == {"$writes": [0]}


@pytest.mark.parametrize(
    ("writes", "update", "result"),
    [([("__root__", 1)], 1, 1), ([], None, None), ([("__root__", 1), ("__root__", 2)], [1, 2], 2)],
)
def test_what_a_task_wrote_to_a_single_value(writes: Any, update: Any, result: Any) -> None:
    assert outputs(writes, "__root__") == update
    assert result_of(writes, "__root__") == result


@pytest.mark.parametrize(
    ("mode", "subgraphs", "expected"),
    [
        ("values", False, 1),
        ("values", True, (("a:1",), 1)),
        (["values"], False, ("values", 1)),
        (("values", "updates"), True, (("a:1",), "values", 1)),
    ],
)
def test_envelopes(mode: Any, subgraphs: bool, expected: Any) -> None:
    assert shape((("a:1",), "values", 1), mode, subgraphs=subgraphs) == expected


def test_a_mode_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match="'all'"):
        Sink(["all"])


@pytest.mark.parametrize(
    ("modes", "live"), [(["values"], False), (["updates"], False), (["custom"], True), (["debug"], True), ([], False)]
)
def test_which_modes_are_heard_while_a_node_runs(modes: list[str], live: bool) -> None:
    assert Sink(modes).live is live
    assert Sink(modes, subgraphs=True).live is True
