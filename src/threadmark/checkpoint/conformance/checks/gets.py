"""``get_tuple`` and ``get``: by id, and the newest of a namespace (spec 11.1)."""

from __future__ import annotations

from typing import Any

from threadmark.checkpoint.conformance.kit import Grown, checkpoint, config


class GetChecks:
    """What ``get_tuple`` and ``aget_tuple`` promise."""

    capability = "get_tuple"

    def test_a_tuple_unpacks_into_its_five_fields(self, saver: Any, call: Any) -> None:
        at = call(saver, "put", config(), checkpoint({"a": 1}), {"step": 0}, {"a": 1})
        named, found, metadata, parent, writes = call(saver, "get_tuple", at)
        assert (named, found["channel_values"], metadata, parent) == (at, {"a": 1}, {"step": 0}, None)
        assert not writes

    def test_nothing_there_is_none(self, saver: Any, call: Any) -> None:
        assert call(saver, "get_tuple", config("nobody")) is None
        call(saver, "put", config(), checkpoint({"a": 1}), {}, {"a": 1})
        assert call(saver, "get_tuple", config("t", "no such id")) is None
        assert call(saver, "get_tuple", config("t", ns="other")) is None
        assert call(saver, "get", config("nobody")) is None

    def test_without_an_id_the_newest_is_meant(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        for number in range(3):
            grown.put({"n": number})
        assert call(saver, "get_tuple", config()).config == grown.configs[2]
        assert [grown.values(at) for at in grown.configs] == [{"n": 0}, {"n": 1}, {"n": 2}]
        assert call(saver, "get", config())["channel_values"] == {"n": 2}

    def test_an_id_of_none_means_the_newest(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        grown.put({"n": 0})
        grown.put({"n": 1})
        asked = config()
        asked["configurable"]["checkpoint_id"] = None
        assert call(saver, "get_tuple", asked).checkpoint["channel_values"] == {"n": 1}

    def test_newest_means_greatest_id_not_last_put(self, saver: Any, call: Any) -> None:
        late, early = checkpoint({"a": "late"}), checkpoint({"a": "early"})
        late["id"], early["id"] = "2", "1"
        call(saver, "put", config(), late, {}, {"a": 1})
        call(saver, "put", config(), early, {}, {"a": 1})
        assert call(saver, "get", config())["id"] == "2"

    def test_a_clock_that_was_set_back_changes_nothing(self, saver: Any, call: Any) -> None:
        times = ("2030-01-01T00:00:00+00:00", "2020-01-01T00:00:00+00:00", "2020-01-01T00:00:00+00:00")
        for number, ts in enumerate(times):
            call(saver, "put", config(), checkpoint({"n": number}, id=f"{number}", ts=ts), {"step": number}, {"n": 1})
        assert call(saver, "get", config())["channel_values"] == {"n": 2}
        assert [item.checkpoint["ts"] for item in call(saver, "list", config())] == list(times[::-1])

    def test_the_config_names_the_checkpoint(self, saver: Any, call: Any) -> None:
        at = call(saver, "put", config(), checkpoint({"a": 1}), {}, {"a": 1})
        for asked in (config(), config(ns=None), at):
            named = call(saver, "get_tuple", asked).config["configurable"]
            assert {key: named.get(key) for key in at["configurable"]} == at["configurable"]

    def test_the_config_that_comes_back_is_always_canonical(self, saver: Any, call: Any) -> None:
        made = checkpoint({"a": 1})
        call(saver, "put", config(), made, {}, {"a": 1})
        asked = {"configurable": {"thread_id": "t", "checkpoint_id": made["id"], "user": "me"}, "tags": ["x"]}
        assert call(saver, "get_tuple", asked).config == config("t", made["id"])

    def test_a_config_without_namespace_means_the_root(self, saver: Any, call: Any) -> None:
        at = call(saver, "put", config(ns=None), checkpoint({"a": 1}), {}, {"a": 1})
        assert at["configurable"]["checkpoint_ns"] == ""
        assert call(saver, "get_tuple", config(ns=None)).config == at

    def test_a_copy_that_may_revive_more_is_on_the_same_store(self, saver: Any, call: Any) -> None:
        clone = saver.with_allowlist([("fractions", "Fraction")])
        Grown(clone, call, "mine").put({"n": 1})
        Grown(saver, call, "other").put({"n": 2})
        assert [len(call(one, "list", None)) for one in (saver, clone)] == [2, 2]
        call(saver, "delete_thread", "mine")
        call(clone, "delete_thread", "other")
        assert [call(one, "list", None) for one in (saver, clone)] == [[], []]
        Grown(clone, call, "mine").put({"n": 3})
        assert [call(one, "get", config("mine"))["channel_values"] for one in (saver, clone)] == [{"n": 3}] * 2

    def test_every_ancestor_is_found_by_its_parent_link(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        for number in range(25):
            grown.put({"n": number})
        found, seen = call(saver, "get_tuple", config()), list[int]()
        while found is not None and len(seen) < 50:
            seen.append(found.checkpoint["channel_values"]["n"])
            found = call(saver, "get_tuple", found.parent_config) if found.parent_config else None
        assert seen == list(range(24, -1, -1))
