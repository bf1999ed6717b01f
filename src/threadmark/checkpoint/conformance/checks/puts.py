"""``put``: a checkpoint comes back as it was put (spec 1.1, 1.3, 11.2)."""

from __future__ import annotations

from typing import Any

from threadmark.checkpoint.conformance.kit import Grown, cases, checkpoint, config, raises


class PutChecks:
    """What ``put`` and ``aput`` promise."""

    capability = "put"

    def test_returns_the_config_that_names_it(self, saver: Any, call: Any) -> None:
        made = checkpoint({"a": 1})
        stored = call(saver, "put", config(), made, {"source": "input", "step": -1}, {"a": 1})
        assert stored == config("t", made["id"])

    def test_a_checkpoint_comes_back_whole(self, saver: Any, call: Any) -> None:
        made = checkpoint({"a": [1, {"b": None}], "c": "x"}, versions_seen={"n": {"a": 1}, "__input__": {}})
        metadata = {"source": "input", "step": -1, "parents": {}}
        at = call(saver, "put", config(), made, metadata, made["channel_versions"])
        found = call(saver, "get_tuple", at)
        assert found.checkpoint == made
        assert found.metadata == metadata
        assert found.parent_config is None

    def test_the_parent_is_the_checkpoint_that_the_config_names(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        first, second = grown.put({"a": 1}), grown.put({"a": 2})
        assert call(saver, "get_tuple", first).parent_config is None
        assert call(saver, "get_tuple", second).parent_config == first

    def test_two_children_of_one_parent(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        root = grown.put({"a": "root"})
        left = grown.put({"a": "left"})
        right = grown.put({"a": "right"}, config=root)
        for at, value in ((root, "root"), (left, "left"), (right, "right")):
            assert grown.values(at) == {"a": value}
        assert [call(saver, "get_tuple", at).parent_config for at in (left, right)] == [root, root]

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

    def test_names_are_not_run_together(self, saver: Any, call: Any) -> None:
        places = [("a", "b"), ("ab", ""), ("a:b", ""), ("a|b", ""), ("a/b", ""), ("a", "b|"), ("a\0b", ""), ("a b", "")]
        for number, (thread_id, ns) in enumerate(places):
            call(saver, "put", config(thread_id, ns=ns), checkpoint({"a": number}, id="same"), {}, {"a": 1})
        for number, (thread_id, ns) in enumerate(places):
            assert call(saver, "get", config(thread_id, ns=ns))["channel_values"] == {"a": number}

    def test_thread_ids_are_texts(self, saver: Any, call: Any) -> None:
        call(saver, "put", config(7), checkpoint({"a": 1}), {}, {"a": 1})
        assert call(saver, "get_tuple", config("7")).config["configurable"]["thread_id"] == "7"

    @cases("thread_id", ["", None])
    def test_a_missing_thread_id_is_refused(self, saver: Any, call: Any, thread_id: Any) -> None:
        with raises(KeyError, ValueError, match="thread_id"):
            call(saver, "put", config(thread_id), checkpoint({"a": 1}), {}, {"a": 1})
        with raises(KeyError, ValueError, match="thread_id"):
            call(saver, "get_tuple", config(thread_id))
        assert call(saver, "list", None) == []

    @cases("thread_id", ["ключ", "a'b\";--", "🧵", "a%_b", "a*[b]?", "../up", "x" * 200, " ", "a\0b", "CON", "{t}"])
    def test_any_text_is_a_thread_id(self, saver: Any, call: Any, thread_id: str) -> None:
        Grown(saver, call, "t").put({"a": 0})
        Grown(saver, call, thread_id).put({"a": 1})
        assert call(saver, "get_tuple", config(thread_id)).checkpoint["channel_values"] == {"a": 1}
        assert [f.config["configurable"]["thread_id"] for f in call(saver, "list", config(thread_id))] == [thread_id]
        call(saver, "delete_thread", thread_id)
        assert len(call(saver, "list", None)) == 1

    def test_put_over_an_id_replaces(self, saver: Any, call: Any) -> None:
        made = checkpoint({"a": "old" * 200, "b": 1})
        call(saver, "put", config(), made, {"step": 1}, made["channel_versions"])
        again = {**made, "channel_values": {"a": "new" * 200}, "channel_versions": {"a": 2}}
        at = call(saver, "put", config("t", "p"), again, {"step": 2}, {"a": 2})
        found = call(saver, "get_tuple", at)
        assert found.checkpoint["channel_values"] == {"a": "new" * 200}
        assert (found.metadata, found.parent_config) == ({"step": 2}, config("t", "p"))
        assert len(call(saver, "list", config())) == 1

    def test_put_over_an_id_leaves_its_writes(self, saver: Any, call: Any) -> None:
        made = checkpoint({"a": 1})
        at = call(saver, "put", config(), made, {}, {"a": 1})
        call(saver, "put_writes", at, [("a", 2)], "task")
        call(saver, "put", config(), made, {}, {"a": 1})
        assert call(saver, "get_tuple", at).pending_writes == [("task", "a", 2)]

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

    def test_a_channel_that_is_new_and_one_that_is_gone(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        grown.put({"a": 1, "old": "x"})
        del grown.versions["old"]
        grown.put({"a": 1, "new": "y"}, changed=["new"])
        assert grown.values() == {"a": 1, "new": "y"}
        assert grown.values(grown.configs[0]) == {"a": 1, "old": "x"}

    def test_a_channel_may_be_empty(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        grown.put({"a": 1, "gone": "x" * 999})
        grown.put({"a": 1}, changed=["gone"])
        found = call(saver, "get", grown.config)
        assert found["channel_values"] == {"a": 1}
        assert "gone" in found["channel_versions"]
        grown.put({"a": 2}, changed=["a"])
        assert grown.values() == {"a": 2}

    @cases("big", [1, 400])
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

    # -- versions ----------------------------------------------------------------------------------------------------

    @cases("versions", {"int": {"a": 1, "b": 2**40}, "float": {"a": 1.5}, "text": {"a": "0001.0.5", "b": "2"}})
    def test_versions_come_back_as_they_were(self, saver: Any, call: Any, versions: dict[str, Any]) -> None:
        made = checkpoint(dict.fromkeys(versions, 0), versions, versions_seen={"n": versions})
        at = call(saver, "put", config(), made, {}, versions)
        found = call(saver, "get", at)
        assert found["channel_versions"] == versions
        assert found["versions_seen"] == {"n": versions}
        assert all(type(found["channel_versions"][c]) is type(v) for c, v in versions.items())

    @cases("kind", ["int", "text"])
    def test_a_history_under_versions_of_either_kind(self, saver: Any, call: Any, kind: str) -> None:
        count = (lambda v: (v or 0) + 1) if kind == "int" else (lambda v: f"{int(v or 0) + 1:032}")
        grown = Grown(saver, call, next_version=count)
        wanted = []
        for number in range(6):
            parent = grown.configs[2] if number == 4 else None
            wanted.append({"n": number, "rows": [f"row {number}" * 100]})
            grown.put(wanted[-1], config=parent)
        assert [grown.values(at) for at in grown.configs] == wanted
        assert [item.checkpoint["channel_values"]["n"] for item in call(saver, "list", config())] == [5, 4, 3, 2, 1, 0]

    def test_next_versions_rise(self, saver: Any, call: Any) -> None:
        version = saver.get_next_version(None, None)
        for _ in range(12):
            following = saver.get_next_version(version, None)
            assert following > version
            version = following

    # -- metadata ----------------------------------------------------------------------------------------------------

    def test_metadata_is_kept_as_given(self, saver: Any, call: Any) -> None:
        given = {
            "source": "loop",
            "step": 3,
            "parents": {"": "p"},
            "run_id": "r",
            "counters_since_delta_snapshot": {"d": [1, 2]},
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
        assert len(call(saver, "list", None, filter={"notes": [*notes, 2]})) == 1

    def test_what_the_config_adds_to_metadata(self, saver: Any, call: Any) -> None:
        given = config("t", run_id="r")
        given["metadata"] = {"tenant": "acme", "n": 3, "step": 99, "thread_id": "t", "gone": [1], "__x": 1}
        at = call(saver, "put", given, checkpoint({"a": 1}), {"step": 0}, {"a": 1})
        assert call(saver, "get_tuple", at).metadata == {"step": 0, "tenant": "acme", "n": 3, "run_id": "r"}

    def test_secrets_of_the_config_are_not_stored(self, saver: Any, call: Any) -> None:
        given = config("t", api_key="secret", __pregel_x="x")
        at = call(saver, "put", given, checkpoint({"a": 1}), {"step": 0}, {"a": 1})
        assert call(saver, "get_tuple", at).metadata == {"step": 0}

    @cases("text", ["a\0b", "\0", "é\u2028", "\ud800 alone"])
    def test_odd_text_is_kept_or_refused(self, saver: Any, call: Any, text: str) -> None:
        made = checkpoint({"v": text, f"channel {text}": 1}, versions_seen={text: {"v": 1}})
        metadata = {"source": "loop", "run_id": text, "note": {text: text}}
        try:
            at = call(saver, "put", config(), made, metadata, made["channel_versions"])
        except Exception:
            assert call(saver, "list", config()) == []
            return
        found = call(saver, "get_tuple", at)
        assert found.checkpoint == made
        assert found.metadata == metadata
        assert len(call(saver, "list", config(), filter={"note": {text: text}})) == 1

    # -- what can go wrong -------------------------------------------------------------------------------------------

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

    def test_a_value_that_cannot_be_stored_stores_nothing(self, saver: Any, call: Any) -> None:
        first = Grown(saver, call).put({"a": 1})
        bad = checkpoint({"a": 2, "f": lambda: None}, {"a": 2, "f": 2})
        with raises(Exception):
            call(saver, "put", first, bad, {}, {"a": 2, "f": 2})
        assert [item.config for item in call(saver, "list", config())] == [first]
