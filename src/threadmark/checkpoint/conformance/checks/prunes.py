"""``prune`` (spec 11.1, 8.10)."""

from __future__ import annotations

from typing import Any

from threadmark.checkpoint.conformance.kit import Grown, config, filled, raises, steps


class PruneChecks:
    """What ``prune`` and ``aprune`` promise."""

    capability = "prune"

    def test_keep_latest_keeps_the_head_of_each_namespace(self, saver: Any, call: Any) -> None:
        root, child = filled(saver, call), filled(saver, call, ns="child")
        filled(saver, call, "other")
        heads = [call(saver, "get_tuple", grown.config) for grown in (root, child)]
        call(saver, "prune", ["t"], strategy="keep_latest")
        found = [call(saver, "get_tuple", grown.config) for grown in (root, child)]
        for head, kept in zip(heads, found, strict=True):
            assert kept.checkpoint == head.checkpoint
            assert kept.metadata == head.metadata
            assert kept.pending_writes == head.pending_writes
        assert len(call(saver, "list", config(ns=None))) == 2
        assert call(saver, "get_tuple", root.configs[0]) is None
        assert len(call(saver, "list", config("other"))) == 4

    def test_keep_latest_is_what_happens_unasked(self, saver: Any, call: Any) -> None:
        filled(saver, call)
        call(saver, "prune", ["t"])
        assert steps(call(saver, "list", config())) == [2]

    def test_several_threads_at_once(self, saver: Any, call: Any) -> None:
        for name in ("a", "b", "c"):
            filled(saver, call, name, count=2)
        call(saver, "prune", ["a", "b"])
        assert [len(call(saver, "list", config(name))) for name in ("a", "b", "c")] == [1, 1, 2]

    def test_a_pruned_thread_goes_on(self, saver: Any, call: Any) -> None:
        grown = filled(saver, call)
        rows = grown.values()["rows"]
        for number in range(3):
            call(saver, "prune", ["t"])
            rows = [*rows, f"more {number} " * 100]
            grown.put({"rows": rows, "same": "x" * 3000}, changed=["rows"])
            assert grown.values() == {"rows": rows, "same": "x" * 3000}
        assert len(call(saver, "list", config())) == 2

    def test_pruning_again_changes_nothing(self, saver: Any, call: Any) -> None:
        grown = filled(saver, call)
        call(saver, "prune", ["t"])
        once = call(saver, "get_tuple", grown.config)
        call(saver, "prune", ["t", "nobody"])
        assert call(saver, "get_tuple", grown.config) == once
        call(saver, "prune", [])

    def test_prune_can_delete(self, saver: Any, call: Any) -> None:
        filled(saver, call)
        filled(saver, call, "other")
        call(saver, "prune", ["t"], strategy="delete")
        assert call(saver, "list", config(ns=None)) == []
        assert len(call(saver, "list", config("other"))) == 4

    def test_prune_refuses_what_it_does_not_know(self, saver: Any, call: Any) -> None:
        filled(saver, call)
        with raises(ValueError, match="strategy"):
            call(saver, "prune", ["t"], strategy="keep_some")
        with raises(TypeError, ValueError):
            call(saver, "prune", "t")
        assert len(call(saver, "list", config())) == 4

    def test_an_open_pause_can_still_be_answered(self, saver: Any, call: Any) -> None:
        grown = filled(saver, call, count=2)
        call(saver, "put_writes", grown.config, [("__interrupt__", ["question"])], "asking", "~p")
        call(saver, "prune", ["t"])
        assert ("asking", "__interrupt__", ["question"]) in call(saver, "get_tuple", grown.config).pending_writes
        call(saver, "put_writes", grown.config, [("__resume__", ["answer"])], "asking", "~p")
        assert ("asking", "__resume__", ["answer"]) in call(saver, "get_tuple", grown.config).pending_writes

    def test_a_delta_channel_stays_whole_or_the_thread_as_it_was(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        for number in range(4):
            values = {"d": "seed"} if number == 1 else {"n": number}
            grown.put(values, changed=["d", "n"], counters_since_delta_snapshot={"d": [1, number]})
            call(saver, "put_writes", grown.config, [("d", number), ("n", number)], "task", "~p")
        before = call(saver, "get_delta_channel_history", config=grown.config, channels=["d"])
        assert [write[2] for write in before["d"]["writes"]] == [1, 2]
        for _ in range(2):
            try:
                call(saver, "prune", ["t"])
            except NotImplementedError:  # refusing such threads is safe too
                assert len(call(saver, "list", config())) == 4
            stored = call(saver, "get", grown.config)["channel_values"]
            found = call(saver, "get_delta_channel_history", config=grown.config, channels=["d"])
            assert found == before or "d" in stored
