"""A config is taken apart once (spec 1.5)."""

from __future__ import annotations

from typing import Any

import pytest

from threadmark.config import DEFAULT_RECURSION_LIMIT, merge, parse, parse_place
from threadmark.errors import MissingThreadId


def test_nothing_is_a_config_too() -> None:
    for nothing in (None, {}, {"configurable": None}, {"metadata": None, "tags": None}):
        parsed = parse(nothing)
        assert (parsed.thread_id, parsed.ns, parsed.checkpoint_id) == (None, "", None)
        assert parsed.recursion_limit == DEFAULT_RECURSION_LIMIT
        with pytest.raises(MissingThreadId, match="thread_id"):
            parsed.require_thread_id


def test_where_a_config_leads() -> None:
    parsed = parse(
        {
            "configurable": {
                "thread_id": 7,
                "checkpoint_ns": "a:1",
                "checkpoint_id": "id",
                "checkpoint_map": {"": "root"},
                "mine": 1,
                "__pregel_task_id": "x",
            }
        }
    )
    assert (parsed.thread_id, parsed.ns, parsed.checkpoint_id) == ("7", "a:1", "id")
    assert parsed.checkpoint_map == {"": "root"}
    assert parsed.configurable == {"mine": 1}
    assert parse({"configurable": {"thread_id": "1", "checkpoint_id": ""}}).checkpoint_id is None
    assert parse({"configurable": {"thread_id": 0}}).require_thread_id == "0"


@pytest.mark.parametrize("limit", [0, -5])
def test_a_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match="recursion_limit"):
        parse({"recursion_limit": limit})


def test_the_limit_s_default_can_be_set_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGGRAPH_DEFAULT_RECURSION_LIMIT", "25")
    assert parse(None).recursion_limit == 25
    assert parse({"recursion_limit": 3}).recursion_limit == 3


@pytest.mark.parametrize("wrong", ["text", 3, ["thread_id"]])
def test_configurable_must_be_a_dict(wrong: Any) -> None:
    with pytest.raises(TypeError, match="configurable"):
        parse({"configurable": wrong})


def test_who_only_looks_is_led_to_the_same_place(monkeypatch: pytest.MonkeyPatch) -> None:
    config = {
        "configurable": {"thread_id": 7, "checkpoint_ns": "a:1", "checkpoint_map": {"": "root"}, "mine": 1},
        "recursion_limit": 5,
    }
    defaults = {"configurable": {"checkpoint_id": "id", "thread_id": "other"}}
    whole, place = parse(config, defaults), parse_place(config, defaults)
    assert place == whole._replace(configurable={}, recursion_limit=DEFAULT_RECURSION_LIMIT)
    assert (place.thread_id, place.ns, place.checkpoint_id, place.checkpoint_map) == ("7", "a:1", "id", {"": "root"})
    with pytest.raises(ValueError, match="at least 1, not 0"):
        parse_place({"recursion_limit": 0})
    with pytest.raises(TypeError, match="must be a dict, not list"):
        parse_place({"configurable": ["7"]})
    monkeypatch.setenv("LANGGRAPH_DEFAULT_RECURSION_LIMIT", "none")
    assert parse_place(None) == parse_place({}, None)  # a run has a limit, a look has none


def test_defaults_give_way() -> None:
    parsed = parse(
        {"configurable": {"a": 2}, "metadata": {"m": 2}, "tags": ["y", "x"], "max_concurrency": None},
        {"configurable": {"a": 1, "b": 1}, "metadata": {"m": 1, "n": 1}, "tags": ["x"], "max_concurrency": 4},
    )
    assert parsed.configurable == {"a": 2, "b": 1}
    assert parsed.metadata == {"m": 2, "n": 1}
    assert parsed.tags == ("x", "y")
    assert parsed.max_concurrency == 4


def test_merging_changes_none_of_its_configs() -> None:
    one: Any = {"configurable": {"a": 1}, "tags": ["x"]}
    two: Any = {"configurable": {"b": 2}, "tags": ["y"]}
    assert merge(one, None, two) == {"configurable": {"a": 1, "b": 2}, "tags": ["x", "y"]}
    assert one == {"configurable": {"a": 1}, "tags": ["x"]}
    assert two == {"configurable": {"b": 2}, "tags": ["y"]}
    merge(one)["configurable"]["c"] = 3
    assert "c" not in one["configurable"]
