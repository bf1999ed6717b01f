"""``put_writes``: where task writes land, which of two calls wins, how they come back (spec 1.8, column memory)."""

from __future__ import annotations

from typing import Any

from threadmark.checkpoint.conformance.kit import Grown, checkpoint, config, raises


def put(saver: Any, call: Any, at: Any, *writes: tuple[str, Any], task: str = "task", path: str = "") -> None:
    """Store writes of one task."""
    call(saver, "put_writes", at, list(writes), task, path)


def stored(saver: Any, call: Any) -> Any:
    """A checkpoint that writes can belong to."""
    return Grown(saver, call).put({"a": 1})


def found(saver: Any, call: Any, at: Any) -> list[Any]:
    """The writes of a checkpoint, without their task ids."""
    return [write[1:] for write in call(saver, "get_tuple", at).pending_writes]


class WriteChecks:
    """What ``put_writes`` and ``aput_writes`` promise."""

    capability = "put_writes"

    def test_writes_come_back_with_task_and_channel(self, saver: Any, call: Any) -> None:
        at = stored(saver, call)
        put(saver, call, at, ("a", 1), ("b", {"x": None}), task="t1")
        assert call(saver, "get_tuple", at).pending_writes == [("t1", "a", 1), ("t1", "b", {"x": None})]

    def test_the_task_path_is_a_keyword_too(self, saver: Any, call: Any) -> None:
        at = stored(saver, call)
        call(saver, "put_writes", at, [("a", 1)], "t1", task_path="~1")
        call(saver, "put_writes", at, [("a", 2)], task_id="t2")
        assert call(saver, "get_tuple", at).pending_writes == [("t2", "a", 2), ("t1", "a", 1)]

    def test_order_is_by_path_task_and_place(self, saver: Any, call: Any) -> None:
        at = stored(saver, call)
        put(saver, call, at, ("a", 1), ("b", 2), task="z", path="~1")
        put(saver, call, at, ("a", 3), task="a", path="~2")
        put(saver, call, at, ("a", 4), task="b", path="~1")
        put(saver, call, at, ("a", 5), task="0")
        order = [("0", "a", 5), ("b", "a", 4), ("z", "a", 1), ("z", "b", 2), ("a", "a", 3)]
        assert call(saver, "get_tuple", at).pending_writes == order

    def test_more_than_ten_writes_keep_their_order(self, saver: Any, call: Any) -> None:
        at = stored(saver, call)
        put(saver, call, at, *((f"c{number % 3}", number) for number in range(25)))
        assert [value for _, value in found(saver, call, at)] == list(range(25))

    def test_the_same_call_twice_counts_once(self, saver: Any, call: Any) -> None:
        at = stored(saver, call)
        for _ in range(2):
            put(saver, call, at, ("a", 1), ("a", 2), ("__interrupt__", "q"))
        assert found(saver, call, at) == [("__interrupt__", "q"), ("a", 1), ("a", 2)]

    def test_of_regular_writes_the_first_stays(self, saver: Any, call: Any) -> None:
        at = stored(saver, call)
        put(saver, call, at, ("a", 1), ("b", 2))
        put(saver, call, at, ("a", 9))
        put(saver, call, at, ("x", 7), ("b", 8), ("c", 3))
        assert found(saver, call, at) == [("a", 1), ("b", 2), ("c", 3)]

    def test_of_special_writes_the_last_stays(self, saver: Any, call: Any) -> None:
        at = stored(saver, call)
        put(saver, call, at, ("__error__", "e0"))
        put(saver, call, at, ("__error__", "e1"), ("__error__", "e2"))
        put(saver, call, at, ("__interrupt__", "i1"))
        put(saver, call, at, ("__interrupt__", "i2"))
        assert found(saver, call, at) == [("__interrupt__", "i2"), ("__error__", "e2")]

    def test_a_special_write_in_a_mixed_call_replaces_too(self, saver: Any, call: Any) -> None:
        at = stored(saver, call)
        put(saver, call, at, ("__resume__", ["A"]), ("a", 1))
        put(saver, call, at, ("__resume__", ["A", "B"]), ("a", 2), ("b", 3))
        assert found(saver, call, at) == [("__resume__", ["A", "B"]), ("a", 1), ("b", 3)]

    def test_special_writes_have_places_of_their_own(self, saver: Any, call: Any) -> None:
        at = stored(saver, call)
        put(saver, call, at, ("__resume__", 4), ("__interrupt__", 3), ("__scheduled__", 2), ("__error__", 1))
        assert [value for _, value in found(saver, call, at)] == [4, 3, 2, 1]

    def test_writes_may_come_before_their_checkpoint(self, saver: Any, call: Any) -> None:
        made = checkpoint({"a": 1})
        put(saver, call, config("t", made["id"]), ("a", 2), ("big", "x" * 5000))
        assert call(saver, "get_tuple", config()) is None
        at = call(saver, "put", config(), made, {}, {"a": 1})
        assert found(saver, call, at) == [("a", 2), ("big", "x" * 5000)]

    def test_no_writes_are_nothing(self, saver: Any, call: Any) -> None:
        at = stored(saver, call)
        put(saver, call, at)
        assert not call(saver, "get_tuple", at).pending_writes

    def test_writes_belong_to_one_checkpoint_and_namespace(self, saver: Any, call: Any) -> None:
        at = stored(saver, call)
        put(saver, call, at, ("a", 1))
        id = at["configurable"]["checkpoint_id"]
        child = call(saver, "put", config(ns="child"), checkpoint({"a": 1}, id=id), {}, {"a": 1})
        after = call(saver, "put", at, checkpoint({"a": 2}, {"a": 2}), {}, {"a": 2})
        assert not call(saver, "get_tuple", child).pending_writes
        assert not call(saver, "get_tuple", after).pending_writes
        assert len(call(saver, "get_tuple", at).pending_writes) == 1

    def test_writes_without_a_checkpoint_id_are_refused(self, saver: Any, call: Any) -> None:
        with raises(ValueError, KeyError, match="checkpoint_id"):
            put(saver, call, config(), ("a", 1))

    def test_values_keep_their_bytes(self, saver: Any, call: Any) -> None:
        at = stored(saver, call)
        values: list[Any] = [None, b"", b"\0\xff" * 400, "", "é" * 700, 0, {"k": [1.5] * 300}, [], True]
        put(saver, call, at, *((f"c{n}", value) for n, value in enumerate(values)))
        assert [value for _, value in found(saver, call, at)] == values

    def test_odd_task_ids_and_channels(self, saver: Any, call: Any) -> None:
        at = stored(saver, call)
        names = ["", "a:b", "a|b", "ключ", "a'b", "a\0b", "branch:to:x", "__start__"]
        for number, name in enumerate(names):
            put(saver, call, at, (f"c {name}", number), task=f"task {name}", path=f"~{number}")
        assert call(saver, "get_tuple", at).pending_writes == [(f"task {n}", f"c {n}", i) for i, n in enumerate(names)]

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

    def test_a_value_that_cannot_be_stored_stores_nothing(self, saver: Any, call: Any) -> None:
        at = stored(saver, call)
        with raises(Exception):
            put(saver, call, at, ("a", 1), ("f", lambda: None))
        assert not call(saver, "get_tuple", at).pending_writes
