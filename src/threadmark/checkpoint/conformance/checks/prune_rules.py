"""``prune`` by rules: the last N, the young, one namespace; a forecast, and a report."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from threadmark.checkpoint.conformance.kit import Grown, cases, checkpoint, config, content, filled, raises, steps

AGE = timedelta(hours=1)


def aged(saver: Any, call: Any, hours: list[int], thread_id: str = "t", ns: str = "") -> list[str]:
    """A line of checkpoints that were made so many hours ago; their ids."""
    at, ids = config(thread_id, ns=ns), []
    for number, ago in enumerate(hours):
        made = checkpoint({"n": number}, {"n": number + 1}, ts=(datetime.now(UTC) - ago * AGE).isoformat())
        at = call(saver, "put", at, made, {"source": "loop", "step": number}, {"n": number + 1})
        ids.append(made["id"])
    return ids


def left(saver: Any, call: Any, thread_id: str = "t", ns: str | None = "") -> list[str]:
    """Ids of what is left, oldest first."""
    found = call(saver, "list", config(thread_id, ns=ns))
    return [item.config["configurable"]["checkpoint_id"] for item in found][::-1]


class PruneRuleChecks:
    """What ``prune`` and ``aprune`` promise that take ``keep_last``, ``older_than``, ``ns`` and ``dry_run``."""

    capability = "prune_rules"

    def test_the_last_of_each_namespace_stay(self, saver: Any, call: Any) -> None:
        for ns in ("", "child"):
            filled(saver, call, ns=ns)
        before = content(saver, call, "t")
        call(saver, "prune", ["t"], keep_last=2)
        after = content(saver, call, "t")
        assert sorted((item[0], item[2]["step"]) for item in after) == [("", 1), ("", 2), ("child", 1), ("child", 2)]
        kept = {item[1]["id"]: item[1:3] + item[4:] for item in after}
        assert kept == {item[1]["id"]: item[1:3] + item[4:] for item in before if item[1]["id"] in kept}
        parents = {item[1]["id"]: item[3] for item in after}
        assert set(parents.values()) - {None} <= parents.keys()

    def test_fewer_than_are_to_stay(self, saver: Any, call: Any) -> None:
        filled(saver, call, count=3)
        before = content(saver, call, "t")
        call(saver, "prune", ["t"], keep_last=3)
        assert content(saver, call, "t") == before

    @cases("form", ["timedelta", "seconds", "moment"])
    def test_the_young_stay(self, saver: Any, call: Any, form: str) -> None:
        ids = aged(saver, call, [9, 7, 5, 3, 1])
        moment = datetime.now(UTC) - 4 * AGE
        older: Any = {"timedelta": 4 * AGE, "seconds": 4 * 3600, "moment": moment}[form]
        call(saver, "prune", ["t"], older_than=older)
        assert left(saver, call) == ids[3:]

    def test_the_newest_stays_however_old(self, saver: Any, call: Any) -> None:
        ids = aged(saver, call, [9, 7, 5])
        call(saver, "prune", ["t"], older_than=AGE)
        assert left(saver, call) == ids[2:]
        call(saver, "prune", ["t"], older_than=0)
        assert left(saver, call) == ids[2:]

    def test_what_goes_by_both_rules_goes(self, saver: Any, call: Any) -> None:
        ids = aged(saver, call, [9, 7, 5, 3, 1])
        call(saver, "prune", ["t"], keep_last=4, older_than=2 * AGE)
        assert left(saver, call) == ids[1:]
        call(saver, "prune", ["t"], keep_last=1, older_than=4 * AGE)
        assert left(saver, call) == ids[3:]

    def test_one_namespace(self, saver: Any, call: Any) -> None:
        for ns in ("", "child", "other"):
            filled(saver, call, ns=ns, count=3)
        call(saver, "prune", ["t"], keep_last=1, ns="child")
        assert [len(left(saver, call, ns=ns)) for ns in ("", "child", "other")] == [3, 1, 3]
        call(saver, "prune", ["t"], ns="")
        assert [len(left(saver, call, ns=ns)) for ns in ("", "child", "other")] == [1, 1, 3]
        call(saver, "prune", ["t"], ns="unknown")
        assert [len(left(saver, call, ns=ns)) for ns in ("", "child", "other")] == [1, 1, 3]

    def test_a_forecast_changes_nothing_and_tells_the_same(self, saver: Any, call: Any) -> None:
        for name in ("t", "u"):
            filled(saver, call, name)
        before = content(saver, call, "t")
        for rules in ({"keep_last": 2}, {"strategy": "keep_latest"}, {"strategy": "delete"}):
            forecast = call(saver, "prune", ["t", "nobody", "u"], **rules, dry_run=True)
            assert content(saver, call, "t") == before
            assert forecast.dry_run
        told = call(saver, "prune", ["t"], keep_last=2, dry_run=True).threads
        done = call(saver, "prune", ["t"], keep_last=2)
        assert (done.threads, done.dry_run) == (told, False)

    def test_the_report(self, saver: Any, call: Any) -> None:
        filled(saver, call, "a", count=5)
        filled(saver, call, "b", count=1)
        found = call(saver, "prune", ["b", "a", "nobody"], keep_last=2).threads
        assert [(one.thread_id, one.kept, one.checkpoints) for one in found] == [
            ("b", 1, 0),
            ("a", 2, 3),
            ("nobody", 0, 0),
        ]
        assert found[0].bytes == 0
        assert found[1].bytes > 0
        again = call(saver, "prune", ["a"], keep_last=2).threads[0]
        assert (again.kept, again.checkpoints, again.tasks, again.bytes) == (2, 0, 0, 0)
        gone = call(saver, "prune", ["a"], strategy="delete").threads[0]
        assert (gone.kept, gone.checkpoints) == (0, 2)

    @cases(
        "rules",
        [
            {"keep_last": 0}, {"keep_last": -1}, {"keep_last": True}, {"keep_last": 1.5}, {"older_than": -1},
            {"older_than": -AGE}, {"older_than": "30d"}, {"older_than": datetime(2026, 1, 1)},
            {"strategy": "delete", "keep_last": 2}, {"strategy": "delete", "ns": ""},
            {"strategy": "delete", "older_than": 1}, {"strategy": "keep_some", "keep_last": 2},
        ],
    )  # fmt: skip
    def test_rules_that_say_nothing_remove_nothing(self, saver: Any, call: Any, rules: dict[str, Any]) -> None:
        filled(saver, call)
        with raises(ValueError, TypeError):
            call(saver, "prune", ["t"], **rules)
        assert steps(call(saver, "list", config())) == [2, 1, 0, -1]

    def test_a_task_s_namespace_goes_with_its_checkpoint(self, saver: Any, call: Any) -> None:
        root = filled(saver, call, count=4)
        ids = [at["configurable"]["checkpoint_id"] for at in root.configs]
        for number, id in enumerate(ids):
            child = Grown(saver, call, ns=f"node:{number}")
            for step in range(3):
                child.put({"a": step}, parents={"": id})
            inner = Grown(saver, call, ns=f"node:{number}|inner:0")
            inner.put({"a": 0}, parents={"": id, f"node:{number}": child.config["configurable"]["checkpoint_id"]})
        call(saver, "prune", ["t"], keep_last=2)
        spaces = {item.config["configurable"]["checkpoint_ns"] for item in call(saver, "list", config(ns=None))}
        assert spaces == {"", "node:2", "node:3", "node:2|inner:0", "node:3|inner:0"}
        assert len(left(saver, call, ns="node:3")) == 2
        call(saver, "prune", ["t"], keep_last=1, ns="")
        spaces = {item.config["configurable"]["checkpoint_ns"] for item in call(saver, "list", config(ns=None))}
        assert spaces == {"", "node:3", "node:3|inner:0"}

    def test_a_child_of_a_checkpoint_that_is_still_to_come_stays(self, saver: Any, call: Any) -> None:
        filled(saver, call, count=2)
        coming = checkpoint({"a": 1})["id"]
        child = Grown(saver, call, ns="node:1")
        for step in range(3):
            child.put({"a": step}, parents={"": coming})
        call(saver, "prune", ["t"], keep_last=1)
        assert left(saver, call, ns="node:1") == [child.config["configurable"]["checkpoint_id"]]

    def test_questions_can_be_answered_in_whatever_is_left(self, saver: Any, call: Any) -> None:
        root = filled(saver, call, count=4)
        asked = []
        for number, at in enumerate(root.configs):
            child = Grown(saver, call, ns=f"node:{number}")
            child.put({"a": 0}, parents={"": at["configurable"]["checkpoint_id"]})
            asked.append(child.put({"a": 1}, parents={"": at["configurable"]["checkpoint_id"]}))
            call(saver, "put_writes", asked[-1], [("__interrupt__", [f"question {number}"])], "asking", "~p")
            call(saver, "put_writes", at, [("__interrupt__", [f"question {number}"])], "calling", "~p")
            if number < 3:
                child.put({"a": 2}, parents={"": at["configurable"]["checkpoint_id"]})
        call(saver, "prune", ["t"], keep_last=2)
        for number, at in list(enumerate(asked))[-2:]:
            for place, task in ((at, "asking"), (root.configs[number], "calling")):
                found = call(saver, "get_tuple", place)
                assert (task, "__interrupt__", [f"question {number}"]) in found.pending_writes

    def test_a_delta_channel_of_all_that_is_left_stays_whole(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        for number in range(9):
            values = {"d": f"seed {number}"} if number in (1, 5) else {"n": number}
            counters = {} if number in (1, 5) else {"d": [1, number]}
            grown.put(values, changed=["d", "n"], counters_since_delta_snapshot=counters)
            call(saver, "put_writes", grown.config, [("d", number), ("n", number)], "task", "~p")
        kept = grown.configs[-5:]
        before = [call(saver, "get_delta_channel_history", config=at, channels=["d"]) for at in kept]
        assert [len(found["d"]["writes"]) for found in before] == [3, 4, 1, 2, 3]
        call(saver, "prune", ["t"], keep_last=5)
        assert left(saver, call) == [at["configurable"]["checkpoint_id"] for at in kept]
        for at, wanted in zip(kept, before, strict=True):
            found = call(saver, "get_delta_channel_history", config=at, channels=["d"])
            assert found == wanted or "d" in call(saver, "get", at)["channel_values"]
        rows = grown.put({"n": 9}, changed=["d", "n"], counters_since_delta_snapshot={"d": [1, 9]})
        assert [w[2] for w in call(saver, "get_delta_channel_history", config=rows, channels=["d"])["d"]["writes"]][
            -1
        ] == 8
