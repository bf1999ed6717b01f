"""Task writes: where they land, which of two calls wins, and in what order they come back (spec 1.8)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.suite.kit import Grown, checkpoint, config


def put(saver: Any, call: Any, at: Any, *writes: tuple[str, Any], task: str = "task", path: str = "") -> None:
    call(saver, "put_writes", at, list(writes), task, path)


class WritesContract:
    @pytest.fixture
    def at(self, saver: Any, call: Any) -> Any:
        return Grown(saver, call).put({"a": 1})

    def test_writes_come_back_with_task_and_channel(self, saver: Any, call: Any, at: Any) -> None:
        put(saver, call, at, ("a", 1), ("b", {"x": None}), task="t1")
        assert call(saver, "get_tuple", at).pending_writes == [("t1", "a", 1), ("t1", "b", {"x": None})]

    def test_order_is_by_path_task_and_place(self, saver: Any, call: Any, at: Any) -> None:
        put(saver, call, at, ("a", 1), ("b", 2), task="z", path="~1")
        put(saver, call, at, ("a", 3), task="a", path="~2")
        put(saver, call, at, ("a", 4), task="b", path="~1")
        put(saver, call, at, ("a", 5), task="0")
        found = call(saver, "get_tuple", at).pending_writes
        assert found == [("0", "a", 5), ("b", "a", 4), ("z", "a", 1), ("z", "b", 2), ("a", "a", 3)]

    def test_the_same_call_twice_counts_once(self, saver: Any, call: Any, at: Any) -> None:
        for _ in range(2):
            put(saver, call, at, ("a", 1), ("a", 2), ("__interrupt__", "q"))
        assert call(saver, "get_tuple", at).pending_writes == [
            ("task", "__interrupt__", "q"),
            ("task", "a", 1),
            ("task", "a", 2),
        ]

    def test_of_regular_writes_the_first_stays_of_special_ones_the_last(self, saver: Any, call: Any, at: Any) -> None:
        put(saver, call, at, ("a", 1), ("b", 2))
        put(saver, call, at, ("a", 9))
        put(saver, call, at, ("x", 7), ("b", 8), ("c", 3))
        put(saver, call, at, ("__error__", "e1"), ("__error__", "e2"))
        assert [w[1:] for w in call(saver, "get_tuple", at).pending_writes] == [
            ("__error__", "e2"),
            ("a", 1),
            ("b", 2),
            ("c", 3),
        ]

    def test_a_special_write_in_a_mixed_call_replaces_too(self, saver: Any, call: Any, at: Any) -> None:
        put(saver, call, at, ("__resume__", ["A"]), ("a", 1))
        put(saver, call, at, ("__resume__", ["A", "B"]), ("a", 2), ("b", 3))
        assert [w[1:] for w in call(saver, "get_tuple", at).pending_writes] == [
            ("__resume__", ["A", "B"]),
            ("a", 1),
            ("b", 3),
        ]

    def test_special_writes_have_places_of_their_own(self, saver: Any, call: Any, at: Any) -> None:
        put(saver, call, at, ("__resume__", 4), ("__interrupt__", 3), ("__scheduled__", 2), ("__error__", 1))
        assert [w[2] for w in call(saver, "get_tuple", at).pending_writes] == [4, 3, 2, 1]

    def test_writes_may_come_before_their_checkpoint(self, saver: Any, call: Any) -> None:
        made = checkpoint({"a": 1})
        put(saver, call, config("t", made["id"]), ("a", 2), ("big", "x" * 5000))
        assert call(saver, "get_tuple", config()) is None
        at = call(saver, "put", config(), made, {}, {"a": 1})
        assert call(saver, "get_tuple", at).pending_writes == [("task", "a", 2), ("task", "big", "x" * 5000)]

    def test_no_writes_are_nothing(self, saver: Any, call: Any, at: Any) -> None:
        put(saver, call, at)
        assert call(saver, "get_tuple", at).pending_writes == []

    def test_writes_belong_to_one_checkpoint_and_namespace(self, saver: Any, call: Any, at: Any) -> None:
        put(saver, call, at, ("a", 1))
        id = at["configurable"]["checkpoint_id"]
        child = call(saver, "put", config(ns="child"), checkpoint({"a": 1}, id=id), {}, {"a": 1})
        after = call(saver, "put", at, checkpoint({"a": 2}, {"a": 2}), {}, {"a": 2})
        assert call(saver, "get_tuple", child).pending_writes == []
        assert call(saver, "get_tuple", after).pending_writes == []
        assert len(call(saver, "get_tuple", at).pending_writes) == 1

    def test_writes_without_a_checkpoint_id_are_refused(self, saver: Any, call: Any) -> None:
        with pytest.raises(ValueError, match="checkpoint_id"):
            put(saver, call, config(), ("a", 1))

    def test_values_keep_their_bytes(self, saver: Any, call: Any, at: Any) -> None:
        values = [None, b"", b"\0\xff" * 400, "", "é" * 700, 0, {"k": [1.5] * 300}, [], True]
        put(saver, call, at, *((f"c{n}", value) for n, value in enumerate(values)))
        assert [w[2] for w in call(saver, "get_tuple", at).pending_writes] == values

    def test_a_node_that_returns_the_whole_value(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        rows = [{"id": n, "text": f"message {n} " * 5} for n in range(100)]
        grown.put({"rows": rows})
        for turn in range(3):
            rows = [*rows, {"id": 100 + turn, "text": "new"}]
            at = grown.config
            put(saver, call, at, ("rows", rows))
            grown.put({"rows": rows})
            assert call(saver, "get_tuple", at).pending_writes == [("task", "rows", rows)]
        assert grown.values() == {"rows": rows}
