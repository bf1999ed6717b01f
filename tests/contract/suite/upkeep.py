"""Deleting, copying, pruning (spec 11.1)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.suite.kit import Grown, checkpoint, config, steps


def filled(saver: Any, call: Any, thread_id: str = "t", ns: str = "", count: int = 4) -> Grown:
    """A thread with a growing list, an untouched value and a task write on every checkpoint."""
    grown = Grown(saver, call, thread_id, ns)
    rows: list[str] = []
    for number in range(count):
        rows = [*rows, f"line {number} " * 100]
        grown.put(
            {"rows": rows, "same": "x" * 3000},
            changed=["rows", "same"] if not number else ["rows"],
            run_id=f"r{number}",
        )
        call(saver, "put_writes", grown.config, [("rows", rows), ("n", number)], f"task {number}", "~p")
    return grown


class UpkeepContract:
    # -- delete_thread -----------------------------------------------------------------------------------------------

    def test_delete_takes_a_thread_in_all_namespaces_and_no_other(self, saver: Any, call: Any) -> None:
        kept = filled(saver, call, "other")
        for ns in ("", "child:1"):
            filled(saver, call, ns=ns)
        call(saver, "delete_thread", "t")
        assert call(saver, "list", config(ns=None)) == []
        assert call(saver, "get_tuple", config(ns="child:1")) is None
        assert steps(call(saver, "list", None)) == [2, 1, 0, -1]
        assert kept.values()["same"] == "x" * 3000

    def test_deleting_nothing_is_nothing(self, saver: Any, call: Any) -> None:
        call(saver, "delete_thread", "nobody")

    def test_a_deleted_thread_may_come_again(self, saver: Any, call: Any) -> None:
        old = filled(saver, call)
        call(saver, "delete_thread", "t")
        new = filled(saver, call, count=2)
        assert steps(call(saver, "list", config())) == [0, -1]
        assert call(saver, "get_tuple", old.configs[0]) is None
        assert len(new.values()["rows"]) == 2

    def test_a_run_goes_on_when_its_thread_was_deleted_meanwhile(self, saver: Any, call: Any) -> None:
        grown = filled(saver, call)
        rows = grown.values()["rows"]
        call(saver, "delete_thread", "t")
        at = grown.put({"rows": [*rows, "more"], "same": "x" * 3000}, changed=["rows"])
        assert call(saver, "get", at)["channel_values"] == {"rows": [*rows, "more"], "same": "x" * 3000}
        assert len(call(saver, "list", config())) == 1

    # -- copy_thread -------------------------------------------------------------------------------------------------

    def test_a_copy_has_everything_and_stands_alone(self, saver: Any, call: Any) -> None:
        source = filled(saver, call)
        filled(saver, call, ns="child:1", count=2)
        before = call(saver, "list", config(ns=None))
        call(saver, "copy_thread", "t", "copy")
        copied = call(saver, "list", config("copy", ns=None))
        assert [c.checkpoint for c in copied] == [c.checkpoint for c in before]
        assert [c.metadata for c in copied] == [c.metadata for c in before]
        assert [c.pending_writes for c in copied] == [c.pending_writes for c in before]
        assert {c.config["configurable"]["thread_id"] for c in copied} == {"copy"}
        assert {c.parent_config["configurable"]["thread_id"] for c in copied if c.parent_config} == {"copy"}
        source.put({"rows": ["gone on"]}, changed=["rows"])
        call(saver, "delete_thread", "t")
        assert call(saver, "list", config("copy", ns=None)) == copied

    def test_a_copy_can_be_gone_on_with(self, saver: Any, call: Any) -> None:
        filled(saver, call)
        call(saver, "copy_thread", "t", "copy")
        head = call(saver, "get_tuple", config("copy"))
        values = head.checkpoint["channel_values"]
        made = checkpoint(
            {**values, "rows": [*values["rows"], "new"]}, {**head.checkpoint["channel_versions"], "rows": "9"}
        )
        at = call(saver, "put", head.config, made, {}, {"rows": "9"})
        assert call(saver, "get", at)["channel_values"]["rows"][-1] == "new"
        assert len(call(saver, "list", config())) == 4

    def test_copying_nothing_makes_nothing(self, saver: Any, call: Any) -> None:
        call(saver, "copy_thread", "nobody", "copy")
        assert call(saver, "list", None) == []

    def test_a_copy_never_overwrites(self, saver: Any, call: Any) -> None:
        filled(saver, call)
        filled(saver, call, "copy", count=1)
        with pytest.raises(ValueError, match="exists"):
            call(saver, "copy_thread", "t", "copy")
        assert len(call(saver, "list", config("copy"))) == 1

    # -- prune -------------------------------------------------------------------------------------------------------

    def test_keep_latest_keeps_the_head_of_each_namespace(self, saver: Any, call: Any) -> None:
        root, child, other = filled(saver, call), filled(saver, call, ns="child"), filled(saver, call, "other")
        heads = [call(saver, "get_tuple", grown.config) for grown in (root, child)]
        call(saver, "prune", ["t"], strategy="keep_latest")
        found = [call(saver, "get_tuple", grown.config) for grown in (root, child)]
        for head, kept in zip(heads, found, strict=True):
            assert (kept.checkpoint, kept.metadata, kept.pending_writes) == (
                head.checkpoint,
                head.metadata,
                head.pending_writes,
            )
            assert kept.parent_config is None
        assert len(call(saver, "list", config(ns=None))) == 2
        assert call(saver, "get_tuple", root.configs[0]) is None
        assert len(call(saver, "list", other.config | config("other"))) == 4

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
        with pytest.raises(ValueError, match="strategy"):
            call(saver, "prune", ["t"], strategy="keep_some")
        with pytest.raises(TypeError, match="list"):
            call(saver, "prune", "t")

    def test_prune_leaves_what_a_delta_channel_is_rebuilt_from(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        for number in range(4):
            values = {"d": "seed"} if number == 1 else {"n": number}
            grown.put(values, changed=["d", "n"], counters_since_delta_snapshot={"d": [1, number]})
            call(saver, "put_writes", grown.config, [("d", number), ("n", number)], "task", "~p")
        before = call(saver, "get_delta_channel_history", config=grown.config, channels=["d"])
        assert [write[2] for write in before["d"]["writes"]] == [1, 2]
        call(saver, "prune", ["t"])
        assert steps(call(saver, "list", config(ns=None))) == [2]
        for hidden in grown.configs[:3]:
            assert call(saver, "get_tuple", hidden) is None
        assert call(saver, "get_tuple", grown.config).parent_config is None
        assert call(saver, "get_delta_channel_history", config=grown.config, channels=["d"]) == before
        call(saver, "prune", ["t"])
        assert call(saver, "get_delta_channel_history", config=grown.config, channels=["d"]) == before

    # -- delete_for_runs ---------------------------------------------------------------------------------------------

    def test_runs_are_deleted_everywhere(self, saver: Any, call: Any) -> None:
        grown, other = filled(saver, call), filled(saver, call, "other", ns="child")
        call(saver, "delete_for_runs", ["r1", "r3", "unknown"])
        for one in (grown, other):
            found = call(
                saver,
                "list",
                {"configurable": {k: one.config["configurable"][k] for k in ("thread_id", "checkpoint_ns")}},
            )
            assert [item.metadata["run_id"] for item in found] == ["r2", "r0"]
            assert len(found[0].checkpoint["channel_values"]["rows"]) == 3
            assert found[0].pending_writes
            assert call(saver, "get_tuple", one.configs[1]) is None

    def test_deleting_no_run_deletes_nothing(self, saver: Any, call: Any) -> None:
        filled(saver, call)
        call(saver, "delete_for_runs", [])
        assert len(call(saver, "list", config())) == 4
