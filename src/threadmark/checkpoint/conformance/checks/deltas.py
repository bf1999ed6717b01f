"""``get_delta_channel_history``: what rebuilds a delta channel (spec 8.3, 8.10)."""

from __future__ import annotations

from typing import Any

from threadmark.checkpoint.conformance.kit import Grown, config
from threadmark.checkpoint.serde.types import _DeltaSnapshot


def history(saver: Any, call: Any, at: Any, *channels: str) -> Any:
    """The saver's answer for some channels."""
    return call(saver, "get_delta_channel_history", config=at, channels=list(channels))


class DeltaChecks:
    """What ``get_delta_channel_history`` and its twin promise, the base's default or a saver's own."""

    capability = "delta_channel_history"

    def test_writes_oldest_first_up_to_the_nearest_stored_value(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        for number in range(5):
            grown.put({"d": f"seed {number}"} if number in (0, 2) else {}, changed=["d"])
            call(saver, "put_writes", grown.config, [("d", number), ("other", "no")], f"t{number}", "~p")
        wanted = {"d": {"writes": [("t2", "d", 2), ("t3", "d", 3)], "seed": "seed 2"}}
        assert history(saver, call, grown.configs[4], "d") == wanted
        assert history(saver, call, config(), "d") == wanted
        assert history(saver, call, grown.configs[2], "d") == {
            "d": {"writes": [("t0", "d", 0), ("t1", "d", 1)], "seed": "seed 0"}
        }

    def test_a_snapshot_comes_back_as_one(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        grown.put({"d": _DeltaSnapshot(["a", {"b": 1}])})
        call(saver, "put_writes", grown.config, [("d", ["c"])], "t", "~p")
        grown.put({}, changed=["d"])
        found = history(saver, call, grown.config, "d")["d"]
        assert isinstance(found["seed"], _DeltaSnapshot)
        assert found == {"writes": [("t", "d", ["c"])], "seed": _DeltaSnapshot(["a", {"b": 1}])}

    def test_a_stored_none_is_a_seed(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        grown.put({"d": "older"})
        grown.put({"d": None})
        grown.put({}, changed=["d"])
        assert history(saver, call, grown.config, "d") == {"d": {"writes": [], "seed": None}}

    def test_without_a_stored_value_there_is_no_seed(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        for number in range(3):
            grown.put({}, changed=["d"])
            call(saver, "put_writes", grown.config, [("d", number)], "t", "~p")
        assert history(saver, call, grown.configs[2], "d") == {"d": {"writes": [("t", "d", 0), ("t", "d", 1)]}}
        assert history(saver, call, grown.configs[0], "d") == {"d": {"writes": []}}

    def test_channels_end_each_at_their_own_value(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        for values in ({"a": "A", "b": "B"}, {"b": "B1"}, {}, {}):
            grown.put(values, changed=["a", "b"])
            call(saver, "put_writes", grown.config, [("a", 1), ("b", 2)], "t", "~p")
        found = history(saver, call, grown.config, "a", "b")
        assert ([w[2] for w in found["a"]["writes"]], found["a"]["seed"]) == ([1, 1, 1], "A")
        assert ([w[2] for w in found["b"]["writes"]], found["b"]["seed"]) == ([2, 2], "B1")

    def test_within_a_checkpoint_by_path_task_and_place(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        at = grown.put({"d": "seed"})
        for task, path in (("b", "~2"), ("a", "~2"), ("c", "~1")):
            call(saver, "put_writes", at, [("d", task + "1"), ("d", task + "2")], task, path)
        grown.put({}, changed=["d"])
        found = history(saver, call, grown.config, "d")["d"]["writes"]
        assert [write[2] for write in found] == ["c1", "c2", "a1", "a2", "b1", "b2"]

    def test_only_ancestors_count(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        root = grown.put({"d": "seed"})
        call(saver, "put_writes", root, [("d", "shared")], "t", "~p")
        left = grown.put({}, changed=["d"])
        call(saver, "put_writes", left, [("d", "left")], "t", "~p")
        left_head = grown.put({}, changed=["d"])
        right = grown.put({}, changed=["d"], config=root)
        call(saver, "put_writes", right, [("d", "right")], "t", "~p")
        right_head = grown.put({}, changed=["d"], config=right)
        for head, own in ((left_head, "left"), (right_head, "right")):
            assert [w[2] for w in history(saver, call, head, "d")["d"]["writes"]] == ["shared", own]

    def test_namespaces_are_apart(self, saver: Any, call: Any) -> None:
        for ns in ("", "child"):
            grown = Grown(saver, call, ns=ns)
            grown.put({"d": f"seed {ns}"})
            call(saver, "put_writes", grown.config, [("d", ns)], "t", "~p")
            grown.put({}, changed=["d"])
        for ns in ("", "child"):
            found = history(saver, call, config(ns=ns), "d")["d"]
            assert found == {"writes": [("t", "d", ns)], "seed": f"seed {ns}"}

    def test_no_channels(self, saver: Any, call: Any) -> None:
        at = Grown(saver, call).put({"d": 1})
        assert history(saver, call, at) == {}

    def test_no_checkpoint(self, saver: Any, call: Any) -> None:
        assert history(saver, call, config("nobody"), "d") == {"d": {"writes": []}}

    def test_a_long_way_back(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        grown.put({"d": "seed"})
        for number in range(150):
            call(saver, "put_writes", grown.config, [("d", number)], "t", "~p")
            grown.put({}, changed=["d"])
        found = history(saver, call, grown.config, "d")["d"]
        assert ([write[2] for write in found["writes"]], found["seed"]) == (list(range(150)), "seed")
