"""A checkpoint comes back as it was put, by id and as the newest of its namespace."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.suite.kit import Grown, checkpoint, config
from threadmark.checkpoint.base import CheckpointTuple
from threadmark.errors import MissingThreadId


class PutContract:
    def test_returns_the_config_that_names_it(self, saver: Any, call: Any) -> None:
        made = checkpoint({"a": 1})
        stored = call(saver, "put", config(), made, {"source": "input", "step": -1}, {"a": 1})
        assert stored == config("t", made["id"])

    def test_a_checkpoint_comes_back_whole(self, saver: Any, call: Any) -> None:
        made = checkpoint({"a": [1, {"b": None}], "c": "x"}, versions_seen={"n": {"a": 1}, "__input__": {}})
        at = call(
            saver, "put", config(), made, {"source": "input", "step": -1, "parents": {}}, made["channel_versions"]
        )
        found = call(saver, "get_tuple", at)
        assert isinstance(found, CheckpointTuple)
        assert found.checkpoint == made
        assert found.metadata == {"source": "input", "step": -1, "parents": {}}
        assert found.parent_config is None
        assert found.pending_writes == []
        assert found.config == at

    def test_a_tuple_unpacks_into_its_five_fields(self, saver: Any, call: Any) -> None:
        at = call(saver, "put", config(), checkpoint({"a": 1}), {"step": 0}, {"a": 1})
        named, found, metadata, parent, writes = call(saver, "get_tuple", at)
        assert (named, found["channel_values"], metadata, parent, writes) == (at, {"a": 1}, {"step": 0}, None, [])

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

    def test_newest_means_greatest_id_not_last_put(self, saver: Any, call: Any) -> None:
        late, early = checkpoint({"a": "late"}), checkpoint({"a": "early"})
        late["id"], early["id"] = "2", "1"
        call(saver, "put", config(), late, {}, {"a": 1})
        call(saver, "put", config(), early, {}, {"a": 1})
        assert call(saver, "get", config())["id"] == "2"

    def test_the_config_that_comes_back_is_always_canonical(self, saver: Any, call: Any) -> None:
        made = checkpoint({"a": 1})
        call(saver, "put", config(), made, {}, {"a": 1})
        asked = {"configurable": {"thread_id": "t", "checkpoint_id": made["id"], "user": "me"}, "tags": ["x"]}
        assert call(saver, "get_tuple", asked).config == config("t", made["id"])

    def test_the_parent_is_the_checkpoint_that_the_config_names(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        first, second = grown.put({"a": 1}), grown.put({"a": 2})
        assert call(saver, "get_tuple", first).parent_config is None
        assert call(saver, "get_tuple", second).parent_config == first

    def test_a_parent_that_is_not_stored_is_still_named(self, saver: Any, call: Any) -> None:
        at = call(saver, "put", config("t", "missing"), checkpoint({"a": 1}), {}, {"a": 1})
        assert call(saver, "get_tuple", at).parent_config == config("t", "missing")

    def test_threads_and_namespaces_are_apart(self, saver: Any, call: Any) -> None:
        places = [("t", ""), ("t", "child:1"), ("t", "child:1|inner:2"), ("u", "")]
        for number, (thread_id, ns) in enumerate(places):
            Grown(saver, call, thread_id, ns).put({"a": number})
        for number, (thread_id, ns) in enumerate(places):
            found = call(saver, "get_tuple", config(thread_id, ns=ns))
            assert found.checkpoint["channel_values"] == {"a": number}
            assert found.config["configurable"]["checkpoint_ns"] == ns

    def test_a_config_without_namespace_means_the_root(self, saver: Any, call: Any) -> None:
        at = call(saver, "put", config(ns=None), checkpoint({"a": 1}), {}, {"a": 1})
        assert at["configurable"]["checkpoint_ns"] == ""
        assert call(saver, "get_tuple", config(ns=None)).config == at

    def test_thread_ids_are_texts(self, saver: Any, call: Any) -> None:
        call(saver, "put", config(7), checkpoint({"a": 1}), {}, {"a": 1})
        assert call(saver, "get_tuple", config("7")).config["configurable"]["thread_id"] == "7"
        call(saver, "delete_thread", 7)
        assert call(saver, "get_tuple", config("7")) is None

    @pytest.mark.parametrize("thread_id", ["", None])
    def test_a_missing_thread_id_says_what_to_write(self, saver: Any, call: Any, thread_id: Any) -> None:
        for operation in (
            lambda: call(saver, "put", config(thread_id), checkpoint({"a": 1}), {}, {"a": 1}),
            lambda: call(saver, "put_writes", config(thread_id, "c"), [("a", 1)], "task"),
            lambda: call(saver, "get_tuple", config(thread_id)),
        ):
            with pytest.raises(MissingThreadId, match=r'"configurable": \{"thread_id"'):
                operation()

    @pytest.mark.parametrize("thread_id", ["ключ", "a'b\";--", "🧵", "a%_b", "x" * 500, " ", "a\0b"])
    def test_any_text_is_a_thread_id(self, saver: Any, call: Any, thread_id: str) -> None:
        Grown(saver, call, "t").put({"a": 0})
        Grown(saver, call, thread_id).put({"a": 1})
        assert call(saver, "get_tuple", config(thread_id)).checkpoint["channel_values"] == {"a": 1}
        assert [f.config["configurable"]["thread_id"] for f in call(saver, "list", config(thread_id))] == [thread_id]

    def test_put_over_an_id_replaces(self, saver: Any, call: Any) -> None:
        made = checkpoint({"a": "old" * 200, "b": 1})
        call(saver, "put", config(), made, {"step": 1}, made["channel_versions"])
        again = {**made, "channel_values": {"a": "new" * 200}, "channel_versions": {"a": 2}}
        at = call(saver, "put", config("t", "p"), again, {"step": 2}, {"a": 2})
        found = call(saver, "get_tuple", at)
        assert found.checkpoint["channel_values"] == {"a": "new" * 200}
        assert (found.metadata, found.parent_config) == ({"step": 2}, config("t", "p"))
        assert len(call(saver, "list", config())) == 1

    def test_put_over_an_id_leaves_its_children_whole(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        big = {"a": "kept " * 500}
        first = grown.put(big)
        grown.put({**big, "b": 1}, changed=["b"])
        made = checkpoint({"a": "other"}, id=first["configurable"]["checkpoint_id"])
        call(saver, "put", config(), made, {}, {"a": 1})
        assert grown.values() == {**big, "b": 1}

    # -- which values a checkpoint has -------------------------------------------------------------------------------

    def test_unmoved_values_are_carried_over(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        big = {"deep": ["text" * 100] * 20}
        first = grown.put({"a": big, "b": 0})
        for number in range(1, 4):
            grown.put({"a": big, "b": number}, changed=["b"])
        assert grown.values() == {"a": big, "b": 3}
        assert grown.values(first) == {"a": big, "b": 0}

    def test_unmoved_values_need_not_be_handed_in_again(self, saver: Any, call: Any) -> None:
        first = call(saver, "put", config(), checkpoint({"a": 1, "b": "x" * 999}), {}, {"a": 1, "b": 1})
        made = checkpoint({"a": 2}, {"a": 2, "b": 1})
        second = call(saver, "put", first, made, {}, {"a": 2})
        assert call(saver, "get", second)["channel_values"] == {"a": 2, "b": "x" * 999}

    def test_values_are_stored_whatever_new_versions_says(self, saver: Any, call: Any) -> None:
        at = call(saver, "put", config(), checkpoint({"a": 1, "b": "x" * 999}), {}, {})
        assert call(saver, "get", at)["channel_values"] == {"a": 1, "b": "x" * 999}

    def test_a_channel_may_be_empty(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        grown.put({"a": 1, "gone": "x" * 999})
        grown.put({"a": 1}, changed=["gone"])
        found = call(saver, "get", grown.config)
        assert found["channel_values"] == {"a": 1}
        assert "gone" in found["channel_versions"]
        grown.put({"a": 2}, changed=["a"])
        assert grown.values() == {"a": 2}

    def test_a_channel_that_moved_without_a_value_is_empty_whatever_its_version(self, saver: Any, call: Any) -> None:
        first = call(saver, "put", config(), checkpoint({"a": 1, "b": 2}), {}, {"a": 1, "b": 1})
        second = call(saver, "put", first, checkpoint({"b": 2}, {"a": 1, "b": 1}), {}, {"a": 1})
        assert call(saver, "get", second)["channel_values"] == {"b": 2}

    def test_a_channel_without_a_version_has_no_value(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        first = grown.put({"a": 1, "b": "x" * 999})
        made = checkpoint({"a": 1, "b": "x" * 999}, {"a": grown.versions["a"]})
        second = call(saver, "put", first, made, {}, {})
        assert call(saver, "get", second)["channel_values"] == {"a": 1}

    @pytest.mark.parametrize("big", [1, 400])
    def test_branches_with_equal_versions_keep_their_own_values(self, saver: Any, call: Any, big: int) -> None:
        root = call(saver, "put", config(), checkpoint({"a": "root" * big}), {}, {"a": 1})
        branches = {}
        for name in ("left", "right"):
            made = checkpoint({"a": name * big}, {"a": 2})
            branches[name] = call(saver, "put", root, made, {}, {"a": 2})
            carried = checkpoint({"a": name * big, "b": 1}, {"a": 2, "b": 3})
            branches[name + " child"] = call(saver, "put", branches[name], carried, {}, {"b": 3})
        for name, at in branches.items():
            assert call(saver, "get", at)["channel_values"]["a"] == name.split()[0] * big
        assert call(saver, "get", root)["channel_values"] == {"a": "root" * big}

    def test_versions_of_one_kind_come_back_as_they_were(self, saver: Any, call: Any) -> None:
        for number, versions in enumerate(({"a": 1, "b": 2**40}, {"a": 1.5}, {"a": "0001.0.5", "b": "2"})):
            made = checkpoint(dict.fromkeys(versions, 0), versions, versions_seen={"n": versions})
            at = call(saver, "put", config(number), made, {}, versions)
            found = call(saver, "get", at)
            assert found["channel_versions"] == versions
            assert found["versions_seen"] == {"n": versions}
            assert all(type(found["channel_versions"][c]) is type(v) for c, v in versions.items())

    def test_next_versions_rise_and_differ_between_branches(self, saver: Any, call: Any) -> None:
        first = saver.get_next_version(None, None)
        second, other = saver.get_next_version(first, None), saver.get_next_version(first, None)
        assert first < second
        assert first < other
        assert second != other
        text, version = "", first
        for _ in range(12):
            version = saver.get_next_version(version, None)
            assert version > text
            text = version
        assert int(saver.get_next_version(41, None).partition(".")[0]) == 42

    def test_what_else_a_checkpoint_says_is_kept(self, saver: Any, call: Any) -> None:
        for updated in (None, [], ["b", "a"]):
            made = checkpoint({"a": 1}, updated_channels=updated, v=1, pending_sends=["packet"])
            at = call(saver, "put", config(), made, {}, {"a": 1})
            assert call(saver, "get", at) == made
        made = checkpoint({"a": 1})
        del made["updated_channels"]
        assert call(saver, "get", call(saver, "put", config(), made, {}, {"a": 1})) == made

    # -- metadata ----------------------------------------------------------------------------------------------------

    def test_metadata_is_kept_as_given(self, saver: Any, call: Any) -> None:
        given = {
            "source": "loop",
            "step": 3,
            "parents": {"": "p"},
            "run_id": "r",
            "user": {"deep": [1, None]},
            "n": None,
        }
        at = call(saver, "put", config(), checkpoint({"a": 1}), given, {"a": 1})
        assert call(saver, "get_tuple", at).metadata == given

    def test_large_metadata_and_unknown_keys(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        notes = [f"note {number} about this run" for number in range(200)]
        for number in range(4):
            grown.put({"n": number}, notes=[*notes, number], run_id="r")
        found = call(saver, "list", config())
        assert [item.metadata["notes"] for item in found] == [[*notes, number] for number in (3, 2, 1, 0)]
        assert [item.checkpoint["channel_values"] for item in found] == [{"n": number} for number in (3, 2, 1, 0)]
        assert len(call(saver, "list", None, filter={"notes": [*notes, 2]})) == 1
        made = checkpoint({"n": 1}, pending_sends=notes)
        assert call(saver, "get", call(saver, "put", config(), made, {}, {"n": 1})) == made

    def test_odd_text_is_kept_or_refused(self, saver: Any, call: Any) -> None:
        for text in ("a\0b", "\0", "é\u2028", "\ud800 alone"):
            made = checkpoint({"v": text, f"channel {text}": 1}, versions_seen={text: {"v": 1}})
            metadata = {"source": text, "run_id": text, "note": {text: text}}
            at = call(saver, "put", config("odd"), made, metadata, {})
            call(saver, "put_writes", at, [("v", text), (text, 1)], "task", "~p")
            found = call(saver, "get_tuple", at)
            assert found.checkpoint == made
            assert found.metadata == metadata
            assert found.pending_writes == [("task", "v", text), ("task", text, 1)]
            assert len(call(saver, "list", config("odd"), filter={"run_id": text})) == 1

    @pytest.mark.parametrize("place", ["thread_id", "checkpoint_ns", "checkpoint_id"])
    def test_names_that_are_no_text_for_a_database_are_refused(self, saver: Any, call: Any, place: str) -> None:
        asked = config("t", "c")
        asked["configurable"][place] = "\ud800 alone"
        for operation in (
            lambda: call(saver, "put", asked, checkpoint({"a": 1}), {}, {"a": 1}),
            lambda: call(saver, "put_writes", asked, [("a", 1)], "task"),
            lambda: call(saver, "get_tuple", asked),
        ):
            with pytest.raises(ValueError, match=place):
                operation()

    def test_of_the_config_only_metadata_and_listed_keys_are_kept(self, saver: Any, call: Any) -> None:
        given = config("t", run_id="r", user="bob", api_key="secret", __pregel_x="x")
        given["metadata"] = {"tenant": "acme", "n": 3, "step": 99, "thread_id": "t", "gone": [1], "__x": 1}
        at = call(saver, "put", given, checkpoint({"a": 1}), {"step": 0}, {"a": 1})
        assert call(saver, "get_tuple", at).metadata == {"step": 0, "tenant": "acme", "n": 3, "run_id": "r"}

    def test_the_caller_s_objects_are_left_alone(self, saver: Any, call: Any) -> None:
        made, metadata, asked = checkpoint({"a": [1]}), {"step": 0}, config()
        at = call(saver, "put", asked, made, metadata, {"a": 1})
        assert (metadata, asked) == ({"step": 0}, config())
        made["channel_values"]["a"].append(2)
        made["channel_versions"]["b"] = 2
        found = call(saver, "get", at)
        assert (found["channel_values"], found["channel_versions"]) == ({"a": [1]}, {"a": 1})
        found["channel_values"]["a"].append(3)
        assert call(saver, "get", at)["channel_values"] == {"a": [1]}
