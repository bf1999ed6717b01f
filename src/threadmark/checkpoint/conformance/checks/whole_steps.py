"""``put_step``, ``open_writer`` and ``expected_head``: a superstep stored in one go."""

from __future__ import annotations

from typing import Any

from threadmark.checkpoint.base import Step
from threadmark.checkpoint.conformance.kit import Grown, checkpoint, config, raises, steps
from threadmark.errors import HeadMoved


class PutStepChecks:
    """What ``put_step`` and ``aput_step`` promise."""

    capability = "put_step"

    def test_a_step_is_writes_of_the_parent_and_a_checkpoint(self, saver: Any, call: Any) -> None:
        first = Grown(saver, call).put({"a": 1})
        made = checkpoint({"a": 2}, {"a": 2})
        tasks = [("t1", "~b", [("a", 2)]), ("t2", "~a", [("a", 3), ("__error__", "e")])]
        second = call(saver, "put_step", first, made, {"step": 0}, {"a": 2}, tasks)
        assert second == config("t", made["id"])
        assert call(saver, "get_tuple", first).pending_writes == [
            ("t2", "__error__", "e"),
            ("t2", "a", 3),
            ("t1", "a", 2),
        ]
        found = call(saver, "get_tuple", second)
        assert (found.checkpoint, found.metadata, found.parent_config) == (made, {"step": 0}, first)
        assert not found.pending_writes

    def test_shown_writes_are_kept_out_of_sight(self, saver: Any, call: Any) -> None:
        shown = {"node": {"a": [1, 2]}}
        at = call(saver, "put_step", config(), checkpoint({"a": 1}), {"step": 0}, {"a": 1}, [], shown_writes=shown)
        found = call(saver, "get_tuple", at)
        assert found.shown_writes == shown
        assert found.metadata == {"step": 0}
        assert len(found) == 5
        assert [item.shown_writes for item in call(saver, "list", config())] == [shown]
        again = call(saver, "put", at, checkpoint({"a": 2}, {"a": 2}), {}, {"a": 2})
        assert call(saver, "get_tuple", again).shown_writes is None

    def test_a_large_record_of_writes(self, saver: Any, call: Any) -> None:
        grown, rows = Grown(saver, call), [f"line {number}" for number in range(400)]
        at = grown.put({"rows": rows})
        for number in range(3):
            made = checkpoint({"rows": [*rows, number]}, {"rows": str(number + 2)})
            shown = {"node": {"rows": [*rows, number]}}
            new = made["channel_versions"]
            at = call(saver, "put_step", at, made, {"step": number}, new, [], shown_writes=shown)
            found = call(saver, "get_tuple", at)
            assert (found.shown_writes, found.checkpoint) == (shown, made)

    def test_a_value_that_cannot_be_stored_stores_nothing(self, saver: Any, call: Any) -> None:
        first = Grown(saver, call).put({"a": 1})
        bad = checkpoint({"a": 2, "f": lambda: None}, {"a": 2, "f": 2})
        with raises(Exception):
            call(saver, "put_step", first, bad, {}, {"a": 2, "f": 2}, [("t1", "", [("a", 1)])])
        found = call(saver, "get_tuple", config())
        assert found.config == first
        assert not found.pending_writes


class WriterChecks:
    """What ``open_writer`` promises."""

    capability = "open_writer"

    def test_a_writer_stores_several_steps_in_order(self, saver: Any, call: Any) -> None:
        writer, at = saver.open_writer(config()), config()
        rows: list[str] = []
        for number in range(6):
            rows = [*rows, f"a line of text, number {number}, long enough to be worth a row of its own" * 8]
            made = checkpoint({"rows": rows, "n": number}, {"rows": number, "n": number})
            tasks = [("task", "", [("rows", rows)])] if number else []
            writer.add(Step(at, made, {"step": number}, {"rows": number, "n": number}, tasks))
            at = config("t", made["id"])
        assert call(saver, "get_tuple", config()) is None
        call(writer, "flush")
        found = call(saver, "list", config())
        assert steps(found) == [5, 4, 3, 2, 1, 0]
        assert [item.checkpoint["channel_values"]["n"] for item in found] == [5, 4, 3, 2, 1, 0]
        assert found[0].checkpoint["channel_values"]["rows"] == rows
        assert found[1].pending_writes == [("task", "rows", rows)]

    def test_a_writer_may_be_flushed_again_and_again(self, saver: Any, call: Any) -> None:
        writer, at = saver.open_writer(config()), config()
        call(writer, "flush")
        for number in range(3):
            made = checkpoint({"n": number, "same": "x" * 900}, {"n": number + 1, "same": 1})
            writer.add(Step(at, made, {"step": number}, {"n": number + 1}))
            call(writer, "flush")
            at = config("t", made["id"])
            assert call(saver, "get", config())["channel_values"] == {"n": number, "same": "x" * 900}
        call(writer, "flush")
        assert len(call(saver, "list", config())) == 3

    def test_add_encodes_at_once(self, saver: Any, call: Any) -> None:
        writer = saver.open_writer(config())
        rows, given = ["old"] * 200, {"deep": [1]}
        made = checkpoint({"rows": rows, "tiny": given})
        writer.add(Step(config(), made, {"step": 0}, {"rows": 1, "tiny": 1}, (), given))
        rows.append("new")
        given["deep"].append(2)
        made["channel_versions"]["rows"] = 2
        made["versions_seen"]["node"] = {"rows": 2}
        call(writer, "flush")
        found = call(saver, "get_tuple", config())
        assert found.checkpoint["channel_values"] == {"rows": ["old"] * 200, "tiny": {"deep": [1]}}
        assert (found.checkpoint["channel_versions"]["rows"], found.checkpoint["versions_seen"]) == (1, {})
        assert found.shown_writes == {"deep": [1]}

    def test_task_writes_alone_are_a_step(self, saver: Any, call: Any) -> None:
        at = Grown(saver, call).put({"a": 1})
        writer = saver.open_writer(at)
        writer.add(Step(at, writes=[("t1", "~1", [("a", 1)]), ("t2", "~2", [("a", 2)])]))
        writer.add(Step(at, writes=[("t1", "~1", [("a", 9), ("b", 3)])]))
        call(writer, "flush")
        assert call(saver, "get_tuple", at).pending_writes == [("t1", "a", 1), ("t1", "b", 3), ("t2", "a", 2)]


class ExpectedHeadChecks:
    """Compare-and-set: what ``expected_head`` of ``put`` promises."""

    capability = "expected_head"

    def test_the_expected_head(self, saver: Any, call: Any) -> None:
        made = checkpoint({"a": 1})
        first = call(saver, "put", config(), made, {}, {"a": 1}, expected_head=None)
        second = checkpoint({"a": 2}, {"a": 2})
        call(saver, "put", first, second, {}, {"a": 2}, expected_head=made["id"])
        assert call(saver, "get", config())["id"] == second["id"]

    def test_another_head_stops_the_put(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        first, second = grown.put({"a": 1}), grown.put({"a": 2})
        old, new = (at["configurable"]["checkpoint_id"] for at in (first, second))
        for expected in (old, None, "unknown"):
            made = checkpoint({"a": 3}, {"a": 3})
            with raises(HeadMoved) as caught:
                call(saver, "put", first, made, {}, {"a": 3}, expected_head=expected)
            assert (caught.value.expected, caught.value.found) == (expected, new)
        assert call(saver, "get", config())["id"] == new

    def test_of_writers_with_one_expectation_one_wins(self, saver: Any, call: Any) -> None:
        at = Grown(saver, call).put({"a": 0})
        head = at["configurable"]["checkpoint_id"]
        made = [checkpoint({"a": n}, {"a": f"{n + 9:032}"}) for n in range(6)]
        results = call.together(
            [
                lambda c, one=one: c(saver, "put", at, one, {}, one["channel_versions"], expected_head=head)
                for one in made
            ]
        )
        won = [result for result in results if not isinstance(result, Exception)]
        assert len(won) == 1
        assert all(isinstance(result, HeadMoved) for result in results if isinstance(result, Exception))
        assert len(call(saver, "list", config())) == 2

    def test_heads_are_per_namespace(self, saver: Any, call: Any) -> None:
        Grown(saver, call).put({"a": 1})
        at = call(saver, "put", config(ns="child"), checkpoint({"a": 1}), {}, {"a": 1}, expected_head=None)
        assert call(saver, "get_tuple", at) is not None
