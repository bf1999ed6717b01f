"""``list``: one answer from every saver to the same question (spec 11.3, its last line)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from threadmark.checkpoint.conformance.kit import Grown, cases, checkpoint, config, raises, steps


def five(saver: Any, call: Any) -> Grown:
    """Five checkpoints, steps -1 to 3, with tags and nested metadata."""
    grown = Grown(saver, call)
    for number in range(5):
        tag = "odd" if number % 2 else "even"
        grown.put({"n": number}, tag=tag, deep={"a": 1, "b": [1, {"c": number}]}, x=None)
    return grown


class ListChecks:
    """What ``list`` and ``alist`` promise."""

    capability = "list"

    def test_greatest_id_first(self, saver: Any, call: Any) -> None:
        grown = five(saver, call)
        found = call(saver, "list", config())
        assert steps(found) == [3, 2, 1, 0, -1]
        assert [item.config for item in found] == grown.configs[::-1]
        assert [item.checkpoint["channel_values"]["n"] for item in found] == [4, 3, 2, 1, 0]

    def test_items_are_whole(self, saver: Any, call: Any) -> None:
        grown = five(saver, call)
        call(saver, "put_writes", grown.configs[1], [("n", 7)], "task", "~p")
        for item in call(saver, "list", config()):
            assert item == call(saver, "get_tuple", item.config)

    @cases("limit", [0, 1, 2, 99, None])
    def test_limit(self, saver: Any, call: Any, limit: int | None) -> None:
        five(saver, call)
        assert steps(call(saver, "list", config(), limit=limit)) == [3, 2, 1, 0, -1][:limit]

    def test_a_negative_limit_is_refused(self, saver: Any, call: Any) -> None:
        five(saver, call)
        with raises(ValueError, match="limit"):
            call(saver, "list", config(), limit=-1)

    def test_before_is_an_exclusive_bound(self, saver: Any, call: Any) -> None:
        grown = five(saver, call)
        assert steps(call(saver, "list", config(), before=grown.configs[2])) == [0, -1]
        assert steps(call(saver, "list", config(), before=grown.configs[2], limit=1)) == [0]
        assert call(saver, "list", config(), before=grown.configs[0]) == []

    def test_before_must_name_a_checkpoint(self, saver: Any, call: Any) -> None:
        five(saver, call)
        with raises(ValueError, match="before"):
            call(saver, "list", config(), before=config())

    def test_an_id_in_the_config_means_that_one(self, saver: Any, call: Any) -> None:
        grown = five(saver, call)
        assert steps(call(saver, "list", grown.configs[2])) == [1]
        assert call(saver, "list", config("t", "unknown")) == []
        assert call(saver, "list", grown.configs[2], before=grown.configs[2]) == []
        assert steps(call(saver, "list", grown.configs[1], before=grown.configs[2])) == [0]

    @cases(
        "case",
        {
            "empty": ({}, [3, 2, 1, 0, -1]),
            "a number": ({"step": 2}, [2]),
            "a text": ({"tag": "odd"}, [2, 0]),
            "two keys": ({"tag": "odd", "step": 0}, [0]),
            "two keys that exclude each other": ({"tag": "odd", "step": 1}, []),
            "None does not match a text": ({"tag": None}, []),
            "None matches None": ({"x": None}, [3, 2, 1, 0, -1]),
            "None does not match an absent key": ({"unknown": None}, []),
            "an absent key": ({"unknown": 1}, []),
            "a nested value": ({"deep": {"a": 1, "b": [1, {"c": 3}]}}, [2]),
            "a nested value in another order": ({"deep": {"b": [1, {"c": 3}], "a": 1}}, [2]),
            "a part of a nested value": ({"deep": {"a": 1}}, []),
            "an empty dict": ({"deep": {}}, []),
            "a key with a dot": ({"deep.a": 1}, []),
            "a key with a quote": ({"step') OR 1=1 --": 1}, []),
            "source": ({"source": "loop"}, [3, 2, 1, 0, -1]),
            "parents": ({"parents": {}}, [3, 2, 1, 0, -1]),
        },
    )
    def test_filter(self, saver: Any, call: Any, case: tuple[dict[str, Any], list[int]]) -> None:
        five(saver, call)
        filter, wanted = case
        assert steps(call(saver, "list", config(), filter=filter)) == wanted
        assert steps(call(saver, "list", config(), filter=filter, limit=1)) == wanted[:1]
        assert steps(call(saver, "list", None, filter=filter)) == wanted

    def test_filter_with_limit_and_before_counts_what_matches(self, saver: Any, call: Any) -> None:
        grown = five(saver, call)
        assert steps(call(saver, "list", config(), filter={"tag": "even"}, limit=2)) == [3, 1]
        found = call(saver, "list", config(), filter={"tag": "even"}, limit=2, before=grown.configs[4])
        assert steps(found) == [1, -1]

    def test_no_config_means_all_threads_by_id(self, saver: Any, call: Any) -> None:
        threads = [Grown(saver, call, name, ns) for name in ("b", "a") for ns in ("", "child:1")]
        for number in range(8):
            threads[number % 4].put({"n": number}, number=number)
        assert [item.metadata["number"] for item in call(saver, "list", None)] == [7, 6, 5, 4, 3, 2, 1, 0]
        assert [item.metadata["number"] for item in call(saver, "list", None, limit=3)] == [7, 6, 5]

    def test_without_a_namespace_all_of_the_thread_s(self, saver: Any, call: Any) -> None:
        root, child = Grown(saver, call), Grown(saver, call, ns="child:1")
        for number in range(2):
            root.put({"n": number}, where="root")
            child.put({"n": number}, where="child")
        Grown(saver, call, "other").put({"n": 0}, where="other")
        assert [i.metadata["where"] for i in call(saver, "list", config(ns=None))] == ["child", "root"] * 2
        assert [i.metadata["where"] for i in call(saver, "list", config(ns=""))] == ["root"] * 2
        assert [i.metadata["where"] for i in call(saver, "list", config(ns="child:1"))] == ["child"] * 2

    def test_equal_ids_are_ordered_by_thread_and_namespace(self, saver: Any, call: Any) -> None:
        places = [("b", ""), ("a", "x"), ("b", "x"), ("a", "")]
        for thread_id, ns in places:
            made = checkpoint({"a": 1}, id="same")
            call(saver, "put", config(thread_id, ns=ns), made, {"place": [thread_id, ns]}, {"a": 1})
        found = [tuple(item.metadata["place"]) for item in call(saver, "list", None)]
        assert found == sorted(places)

    def test_ids_are_texts_not_numbers_or_times(self, saver: Any, call: Any) -> None:
        for id in ("10", "9", "a", "A", "é"):
            call(saver, "put", config(), checkpoint({"a": 1}, id=id), {"step": id}, {"a": 1})
        assert steps(call(saver, "list", config())) == ["é", "a", "A", "9", "10"]
        assert steps(call(saver, "list", config(), before=config("t", "a"))) == ["A", "9", "10"]

    def test_a_long_history_is_complete(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        rows: list[Any] = []
        for number in range(120):
            rows = [*rows, f"row {number} of a list that grows"]
            grown.put({"rows": rows, "same": "x" * 600}, changed=["rows", "same"] if not number else ["rows"])
        found = call(saver, "list", config())
        assert [len(item.checkpoint["channel_values"]["rows"]) for item in found] == list(range(120, 0, -1))
        assert all(item.checkpoint["channel_values"]["same"] == "x" * 600 for item in found)
        for newer, older in pairwise(found):
            assert newer.parent_config == older.config

    def test_nothing_to_list(self, saver: Any, call: Any) -> None:
        assert call(saver, "list", None) == []
        assert call(saver, "list", config("nobody")) == []
