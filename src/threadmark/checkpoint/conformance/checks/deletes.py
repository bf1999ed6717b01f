"""``delete_thread`` and ``delete_for_runs`` (spec 11.1)."""

from __future__ import annotations

from typing import Any

from threadmark.checkpoint.conformance.kit import Grown, config, filled, raises, steps


class DeleteThreadChecks:
    """What ``delete_thread`` and ``adelete_thread`` promise."""

    capability = "delete_thread"

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
        filled(saver, call, count=1)
        call(saver, "delete_thread", "nobody")
        assert len(call(saver, "list", None)) == 1

    def test_a_thread_is_deleted_by_the_text_of_its_id(self, saver: Any, call: Any) -> None:
        filled(saver, call, "7", count=1)
        filled(saver, call, "77", count=1)
        call(saver, "delete_thread", 7)
        assert [item.config["configurable"]["thread_id"] for item in call(saver, "list", None)] == ["77"]

    def test_writes_go_with_their_thread(self, saver: Any, call: Any) -> None:
        old = filled(saver, call, count=2)
        made = [call(saver, "get", at) for at in old.configs]
        call(saver, "put_writes", config("t", "not stored"), [("a", 1)], "early")
        call(saver, "delete_thread", "t")
        for one in made:
            at = call(saver, "put", config(), one, {}, one["channel_versions"])
            assert not call(saver, "get_tuple", at).pending_writes
        at = call(saver, "put", config(), {**made[0], "id": "not stored"}, {}, made[0]["channel_versions"])
        assert not call(saver, "get_tuple", at).pending_writes

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


class DeleteForRunsChecks:
    """What ``delete_for_runs`` and its twin promise."""

    capability = "delete_for_runs"

    def test_runs_are_deleted_everywhere(self, saver: Any, call: Any) -> None:
        grown, other = filled(saver, call), filled(saver, call, "other", ns="child")
        call(saver, "delete_for_runs", ["r1", "r3", "unknown"])
        for one in (grown, other):
            named = one.config["configurable"]
            found = call(saver, "list", config(named["thread_id"], ns=named["checkpoint_ns"]))
            assert [item.metadata["run_id"] for item in found] == ["r2", "r0"]
            assert len(found[0].checkpoint["channel_values"]["rows"]) == 3
            assert found[0].pending_writes
            assert call(saver, "get_tuple", one.configs[1]) is None

    def test_writes_go_with_their_checkpoint(self, saver: Any, call: Any) -> None:
        grown = filled(saver, call, count=2)
        made = call(saver, "get", grown.configs[1])
        call(saver, "delete_for_runs", ["r1"])
        at = call(saver, "put", grown.configs[0], made, {}, made["channel_versions"])
        assert not call(saver, "get_tuple", at).pending_writes

    def test_doing_it_again_changes_nothing(self, saver: Any, call: Any) -> None:
        filled(saver, call)
        for _ in range(2):
            call(saver, "delete_for_runs", ["r1"])
            assert len(call(saver, "list", config())) == 3

    def test_deleting_no_run_deletes_nothing(self, saver: Any, call: Any) -> None:
        filled(saver, call)
        call(saver, "delete_for_runs", [])
        call(saver, "delete_for_runs", ["unknown"])
        assert len(call(saver, "list", config())) == 4

    def test_a_single_text_is_refused(self, saver: Any, call: Any) -> None:
        filled(saver, call)
        with raises(TypeError, ValueError):
            call(saver, "delete_for_runs", "r1")
        assert len(call(saver, "list", config())) == 4

    def test_a_delta_channel_of_what_is_kept_stays_whole(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        for number in range(5):
            values = {"d": "seed"} if number == 1 else {"n": number}
            grown.put(values, changed=["d", "n"], run_id=f"r{number}", counters_since_delta_snapshot={"d": [1, number]})
            call(saver, "put_writes", grown.config, [("d", number)], "task", "~p")
        before = call(saver, "get_delta_channel_history", config=grown.config, channels=["d"])
        call(saver, "delete_for_runs", ["r0", "r2"])
        assert call(saver, "get_delta_channel_history", config=grown.config, channels=["d"]) == before
