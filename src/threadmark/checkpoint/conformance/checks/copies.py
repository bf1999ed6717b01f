"""``copy_thread`` (spec 11.1)."""

from __future__ import annotations

from typing import Any

from threadmark.checkpoint.conformance.kit import Grown, checkpoint, config, content, filled, raises


class CopyThreadChecks:
    """What ``copy_thread`` and ``acopy_thread`` promise."""

    capability = "copy_thread"

    def test_a_copy_has_everything_and_stands_alone(self, saver: Any, call: Any) -> None:
        source = filled(saver, call)
        filled(saver, call, ns="child:1", count=2)
        before = content(saver, call, "t")
        call(saver, "copy_thread", "t", "copy")
        assert content(saver, call, "copy") == before == content(saver, call, "t")
        copied = call(saver, "list", config("copy", ns=None))
        assert {c.config["configurable"]["thread_id"] for c in copied} == {"copy"}
        assert {c.parent_config["configurable"]["thread_id"] for c in copied if c.parent_config} == {"copy"}
        source.put({"rows": ["gone on"]}, changed=["rows"])
        call(saver, "delete_thread", "t")
        assert call(saver, "list", config("copy", ns=None)) == copied

    def test_a_copy_can_be_gone_on_with(self, saver: Any, call: Any) -> None:
        filled(saver, call)
        call(saver, "copy_thread", "t", "copy")
        head = call(saver, "get_tuple", config("copy"))
        values, versions = head.checkpoint["channel_values"], head.checkpoint["channel_versions"]
        moved = saver.get_next_version(max(versions.values()), None)
        made = checkpoint({**values, "rows": [*values["rows"], "new"]}, {**versions, "rows": moved})
        at = call(saver, "put", head.config, made, {}, {"rows": moved})
        assert call(saver, "get", at)["channel_values"]["rows"][-1] == "new"
        assert len(call(saver, "list", config())) == 4

    def test_a_delta_channel_is_copied_whole(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        for number in range(4):
            grown.put({"d": "seed"} if number == 1 else {}, changed=["d"])
            call(saver, "put_writes", grown.config, [("d", number)], "task", "~p")
        before = call(saver, "get_delta_channel_history", config=config(), channels=["d"])
        call(saver, "copy_thread", "t", "copy")
        call(saver, "delete_thread", "t")
        assert call(saver, "get_delta_channel_history", config=config("copy"), channels=["d"]) == before

    def test_copying_nothing_makes_nothing(self, saver: Any, call: Any) -> None:
        try:
            call(saver, "copy_thread", "nobody", "copy")
        except (KeyError, ValueError):
            pass
        assert call(saver, "list", None) == []

    def test_a_copy_never_overwrites(self, saver: Any, call: Any) -> None:
        filled(saver, call)
        filled(saver, call, "copy", count=1)
        with raises(ValueError):
            call(saver, "copy_thread", "t", "copy")
        assert len(call(saver, "list", config("copy"))) == 1
