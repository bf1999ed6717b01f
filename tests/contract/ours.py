"""What our own savers promise beyond the contract that every saver can keep."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from threadmark.checkpoint.base import (
    CheckpointTuple,
    Step,
    implements,
    parents_supported,
    partial_reads_supported,
    steps_supported,
)
from threadmark.checkpoint.conformance.kit import Grown, cases, checkpoint, config, filled, steps
from threadmark.checkpoint.conformance.suite import FullConformance
from threadmark.checkpoint.records import CheckpointRow, Head, Ref, TaskRow, Thread
from threadmark.errors import HeadMoved, MissingThreadId, UnfinishedPrune


def lineage(saver: Any, call: Any, id: str, limit: int | None) -> tuple[list[CheckpointRow], list[TaskRow]]:
    """What the saver's port finds of a checkpoint of thread ``t`` and its ancestors."""

    async def found() -> tuple[list[CheckpointRow], list[TaskRow]]:
        async with saver._port.read() as view:
            thread = await view.thread("t")
            rows, tasks = await view.lineage(thread, "", id, limit)
            trail = await view.trail(Ref("t", "", id), thread, (), limit)
            assert (trail.thread, list(trail.rows), sorted(trail.tasks)) == (thread, list(rows), sorted(tasks))
            return list(rows), list(tasks)

    made: tuple[list[CheckpointRow], list[TaskRow]] = call.run(found())
    return made


def head(saver: Any, call: Any, ref: Ref, known: Thread | None) -> Head:
    """What the saver's port finds of a checkpoint; its tasks in order."""

    async def found() -> Head:
        async with saver._port.read() as view:
            thread, row, tasks = await view.head(ref, known)
            return Head(thread, row, sorted(tasks))

    made: Head = call.run(found())
    return made


def stored(saver: Any, call: Any) -> list[dict[Any, int]]:
    """Lengths of the checkpoint rows, task rows, values and segments of thread ``t``, each by its name."""

    async def found() -> list[dict[Any, int]]:
        async with saver._port.read() as view:
            thread = await view.thread("t")
            if thread is None:
                return [{}, {}, {}, {}]
            sizes = await view.sizes(thread)
            rows, tasks = await view.every_checkpoint(thread), await view.every_task(thread)
            return [
                {row[:2]: len(row.body) for row in rows},
                {task[:3]: len(task.body) for task in tasks},
                dict(sizes.values),
                dict(sizes.segments),
            ]

    made: list[dict[Any, int]] = call.run(found())
    return made


@contextmanager
def failing_at_the_second(saver: Any) -> Iterator[None]:
    """The second thread that the saver changes meanwhile cannot be changed."""
    port, calls = saver._port, list[None]()

    class Failing:
        """The saver's port, but for that."""

        def __getattr__(self, name: str) -> Any:
            return getattr(port, name)

        @asynccontextmanager
        async def write(self) -> AsyncIterator[Any]:
            async with port.write() as change:
                calls.append(None)
                if len(calls) == 2:
                    raise OSError("out of luck")
                yield change

    saver._port = Failing()
    try:
        yield
    finally:
        saver._port = port


class OurPromises(FullConformance):
    """Everything that is in the shipped suite, and the house's own rules."""

    # -- put ---------------------------------------------------------------------------------------------------------

    def test_our_own_kind_of_tuple(self, saver: Any, call: Any) -> None:
        at = call(saver, "put", config(), checkpoint({"a": 1}), {}, {"a": 1})
        found = call(saver, "get_tuple", at)
        assert isinstance(found, CheckpointTuple)
        assert found.pending_writes == []

    def test_unmoved_values_need_not_be_handed_in_again(self, saver: Any, call: Any) -> None:
        first = call(saver, "put", config(), checkpoint({"a": 1, "b": "x" * 999}), {}, {"a": 1, "b": 1})
        made = checkpoint({"a": 2}, {"a": 2, "b": 1})
        second = call(saver, "put", first, made, {}, {"a": 2})
        assert call(saver, "get", second)["channel_values"] == {"a": 2, "b": "x" * 999}

    def test_a_channel_that_moved_without_a_value_is_empty(self, saver: Any, call: Any) -> None:
        first = call(saver, "put", config(), checkpoint({"a": 1, "b": 2}), {}, {"a": 1, "b": 1})
        second = call(saver, "put", first, checkpoint({"a": 1}, {"a": 1, "b": 2}), {}, {})
        assert call(saver, "get", second)["channel_values"] == {"a": 1}

    def test_a_channel_that_moved_without_a_value_is_empty_whatever_its_version(self, saver: Any, call: Any) -> None:
        first = call(saver, "put", config(), checkpoint({"a": 1, "b": 2}), {}, {"a": 1, "b": 1})
        second = call(saver, "put", first, checkpoint({"b": 2}, {"a": 1, "b": 1}), {}, {"a": 1})
        assert call(saver, "get", second)["channel_values"] == {"b": 2}

    def test_values_are_stored_whatever_new_versions_says(self, saver: Any, call: Any) -> None:
        at = call(saver, "put", config(), checkpoint({"a": 1, "b": "x" * 999}), {}, {})
        assert call(saver, "get", at)["channel_values"] == {"a": 1, "b": "x" * 999}

    def test_a_channel_without_a_version_has_no_value(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        first = grown.put({"a": 1, "b": "x" * 999})
        made = checkpoint({"a": 1, "b": "x" * 999}, {"a": grown.versions["a"]})
        second = call(saver, "put", first, made, {}, {})
        assert call(saver, "get", second)["channel_values"] == {"a": 1}

    def test_next_versions_differ_between_branches(self, saver: Any, call: Any) -> None:
        first = saver.get_next_version(None, None)
        second, other = saver.get_next_version(first, None), saver.get_next_version(first, None)
        assert first < second
        assert first < other
        assert second != other
        assert int(saver.get_next_version(41, None).partition(".")[0]) == 42

    def test_what_else_a_checkpoint_says_is_kept(self, saver: Any, call: Any) -> None:
        for updated in (None, [], ["b", "a"]):
            made = checkpoint({"a": 1}, updated_channels=updated, v=1, pending_sends=["packet"])
            at = call(saver, "put", config(), made, {}, {"a": 1})
            assert call(saver, "get", at) == made
        made = checkpoint({"a": 1}, pending_sends=[f"note {number} about this run" for number in range(200)])
        assert call(saver, "get", call(saver, "put", config(), made, {}, {"a": 1})) == made
        made = checkpoint({"a": 1})
        del made["updated_channels"]
        assert call(saver, "get", call(saver, "put", config(), made, {}, {"a": 1})) == made

    @cases("thread_id", ["", None])
    def test_a_missing_thread_id_says_what_to_write(self, saver: Any, call: Any, thread_id: Any) -> None:
        for operation in (
            lambda: call(saver, "put", config(thread_id), checkpoint({"a": 1}), {}, {"a": 1}),
            lambda: call(saver, "put_writes", config(thread_id, "c"), [("a", 1)], "task"),
            lambda: call(saver, "get_tuple", config(thread_id)),
        ):
            with pytest.raises(MissingThreadId, match=r'"configurable": \{"thread_id"'):
                operation()

    def test_odd_text_is_kept(self, saver: Any, call: Any) -> None:
        for text in ("a\0b", "\0", "é\u2028", "\ud800 alone"):
            made = checkpoint({"v": text, f"channel {text}": 1, f"{text} channel": 2}, versions_seen={text: {"v": 1}})
            metadata = {"source": text, "run_id": text, "note": {text: text}}
            at = call(saver, "put", config("odd"), made, metadata, {})
            call(saver, "put_writes", at, [("v", text), (text, 1)], "task", "~p")
            found = call(saver, "get_tuple", at)
            assert found.checkpoint == made
            assert found.metadata == metadata
            assert found.pending_writes == [("task", "v", text), ("task", text, 1)]
            assert len(call(saver, "list", config("odd"), filter={"run_id": text})) == 1

    @cases("place", ["thread_id", "checkpoint_ns", "checkpoint_id"])
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

    def test_a_name_that_the_saver_keeps_for_itself_is_refused(self, saver: Any, call: Any) -> None:
        with pytest.raises(ValueError, match="rename"):
            call(saver, "put", config(), checkpoint({"\0metadata": 1}), {}, {"\0metadata": 1})
        assert call(saver, "get_tuple", config()) is None

    # -- reading a part ----------------------------------------------------------------------------------------------

    def test_a_part_has_the_values_that_are_asked_for_and_everything_else(self, saver: Any, call: Any) -> None:
        assert partial_reads_supported(saver)
        assert call(saver, "get_partial", config(), ["a"]) is None
        grown = Grown(saver, call)
        grown.put({"a": 1, "b": ["x" * 3000], "c": "y" * 900}, note="n" * 3000)
        last = grown.put({"a": 2, "b": ["x" * 3000, "z"]})
        call(saver, "put_writes", last, [("b", ["w" * 900]), ("d", 1)], "task", "~p")
        for at in (*grown.configs, config()):
            whole, part = call(saver, "get_tuple", at), call(saver, "get_partial", at, {"b", "not there"})
            values = {"b": whole.checkpoint["channel_values"]["b"]}
            assert part == whole._replace(checkpoint={**whole.checkpoint, "channel_values": values})
        assert call(saver, "get_partial", last, ()).checkpoint["channel_values"] == {}
        made = call(saver, "put", last, checkpoint({"a": 3}, {**grown.versions, "a": 9}), {}, {"a": 9})
        assert call(saver, "get", made)["channel_values"]["b"] == ["x" * 3000, "z"]

    def test_a_parent_is_read_with_a_checkpoint_where_it_says_what_made_it(self, saver: Any, call: Any) -> None:
        assert parents_supported(saver)
        asked = ("loop", "update"), ["a"]
        assert call(saver, "get_with_parent", config(), *asked) == (None, None)
        grown = Grown(saver, call)
        for source in ("input", "loop", "update", "fork", "loop"):
            grown.put({"a": source, "b": ["x" * 3000]}, source=source)
            call(saver, "put_writes", grown.config, [("b", ["w" * 900]), ("d", 1)], "task", "~p")
        last, of_input = grown.configs[-1], grown.configs[0]
        call(
            saver, "put_step", last, checkpoint({"a": 9}), {"source": "loop", "step": 9}, {}, [], shown_writes={"n": 1}
        )
        for at in (*grown.configs, config(), config("none"), config("t", "no such namespace")):
            found, parent = call(saver, "get_with_parent", at, *asked)
            assert found == call(saver, "get_tuple", at)
            source = found.metadata["source"] if found is not None else None
            if source in asked[0] and found.shown_writes is None and found.config != of_input:
                assert parent == call(saver, "get_partial", found.parent_config, ["a"])
                assert [name for _, name, _ in parent.pending_writes] == ["b", "d"]
            else:
                assert parent is None

    def test_of_a_parent_the_tasks_are_read_alone_where_all_have_known_paths(self, saver: Any, call: Any) -> None:
        asked = ("loop",), ["a"], {"~p", "~q"}
        long = ["w" * 900, *range(300)]
        grown = Grown(saver, call)
        first = grown.put({"a": 1, "b": ["x" * 3000]}, source="input")
        second = grown.put({"a": 2, "b": ["x" * 3000]}, source="loop")
        # a parent without tasks is read as it is
        found, parent = call(saver, "get_with_parent", config(), *asked)
        assert (found.config, parent) == (second, call(saver, "get_partial", first, ["a"]))
        call(saver, "put_writes", first, [("b", long), ("d", None)], "two", "~q")
        call(saver, "put_writes", first, [("b", [1])], "one", "~p")
        alone = [("one", "~p", [("b", [1])]), ("two", "~q", [("b", long), ("d", None)])]
        assert call(saver, "get_with_parent", config(), *asked) == (call(saver, "get_tuple", second), alone)
        # one path that is not among them, and the parent is read as it is
        call(saver, "put_writes", first, [("b", [2])], "three", "~r")
        found, parent = call(saver, "get_with_parent", config(), *asked)
        assert parent == call(saver, "get_partial", first, ["a"])
        assert [task for task, _, _ in parent.pending_writes] == ["one", "two", "two", "three"]

    def test_no_parent_is_read_with_a_checkpoint_that_has_lost_it(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        for number in range(3):
            grown.put({"a": number}, source="loop")
        call(saver, "prune", ["t"], keep_last=1)
        found, parent = call(saver, "get_with_parent", config(), ("loop",), ["a"])
        assert (found.checkpoint["channel_values"], found.parent_config, parent) == ({"a": 2}, None, None)

    # -- steps -------------------------------------------------------------------------------------------------------

    def test_steps_are_offered_together(self, saver: Any) -> None:
        assert steps_supported(saver)
        assert implements(saver, "open_writer")

    def test_what_cannot_be_stored_is_a_type_error(self, saver: Any, call: Any) -> None:
        first = Grown(saver, call).put({"a": 1})
        bad = checkpoint({"a": 2, "f": lambda: None}, {"a": 2, "f": 2})
        with pytest.raises(TypeError):
            call(saver, "put_step", first, bad, {}, {"a": 2, "f": 2}, [("t1", "", [("a", 1)])])
        found = call(saver, "get_tuple", config())
        assert (found.config, found.pending_writes) == (first, [])

    def test_another_head_stops_the_step_and_stores_nothing_of_it(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        first, second = grown.put({"a": 1}), grown.put({"a": 2})
        old, new = (at["configurable"]["checkpoint_id"] for at in (first, second))
        for expected in (old, None, "unknown"):
            made, tasks = checkpoint({"a": 3}, {"a": 3}), [("t1", "", [("a", 3)])]
            with pytest.raises(HeadMoved) as caught:
                call(saver, "put_step", first, made, {}, {"a": 3}, tasks, expected_head=expected)
            assert (caught.value.expected, caught.value.found) == (expected, new)
        assert call(saver, "get", config())["id"] == new
        assert call(saver, "get_tuple", first).pending_writes == []

    def test_a_writer_keeps_unmoved_values(self, saver: Any, call: Any) -> None:
        writer, at = saver.open_writer(config()), config()
        for number in range(3):
            made = checkpoint({"n": number, "same": "x" * 900}, {"n": number + 1, "same": 1})
            writer.add(Step(at, made, {"step": number}, {"n": number + 1}))
            at = config("t", made["id"])
        call(writer, "flush")
        assert [i.checkpoint["channel_values"]["n"] for i in call(saver, "list", config())] == [2, 1, 0]

    # -- lineage -----------------------------------------------------------------------------------------------------

    def test_a_head_is_found_with_its_thread_and_tasks_whatever_is_remembered_of_it(
        self, saver: Any, call: Any
    ) -> None:
        old = filled(saver, call, count=2)
        filled(saver, call, ns="child:1", count=1)
        gone = head(saver, call, Ref("t", "", None), None).thread
        call(saver, "delete_thread", "t")
        assert head(saver, call, Ref("t", "", None), gone)[:2] == (None, None)
        first, last = (at["configurable"]["checkpoint_id"] for at in filled(saver, call, count=2).configs)
        call(saver, "put_writes", config("t", last), [("n", 2)], "one more")
        call(saver, "put_writes", config("t", "not yet"), [("n", 2)], "task")
        now = head(saver, call, Ref("t", "", None), None).thread
        assert now not in (None, gone)
        for known in (None, now, gone):
            for id, name, its in (
                (None, last, ["one more", "task 1"]),
                (last, last, ["one more", "task 1"]),
                (first, first, ["task 0"]),
            ):
                thread, row, tasks = head(saver, call, Ref("t", "", id), known)
                assert thread == now
                assert row is not None
                assert row[:2] == ("", name)
                assert [task[:3] for task in tasks] == [("", name, task_id) for task_id in its]
            for ns, id in (("child:1", None), ("", old.config["configurable"]["checkpoint_id"]), ("", "not yet")):
                assert head(saver, call, Ref("t", ns, id), known)[:2] == (now, None)

    def test_a_lineage_is_the_nearest_first_with_all_task_rows(self, saver: Any, call: Any) -> None:
        grown = filled(saver, call, count=4)
        fork = call(saver, "put", grown.configs[1], checkpoint({"a": 1}), {}, {"a": 1})
        call(saver, "put_writes", grown.configs[1], [("n", 0)], "another", "~p")
        filled(saver, call, ns="child", count=2)
        filled(saver, call, "other", count=2)
        first, second, third, last = (at["configurable"]["checkpoint_id"] for at in grown.configs)
        fork_id = fork["configurable"]["checkpoint_id"]
        every = lineage(saver, call, last, None)
        assert [row.id for row in every[0]] == [last, third, second, first]
        assert {row.ns for row in every[0]} == {""}
        assert sorted((row.id, row.task_id) for row in every[1]) == sorted(
            [(first, "task 0"), (second, "another"), (second, "task 1"), (third, "task 2"), (last, "task 3")]
        )
        assert [row.id for row in lineage(saver, call, fork_id, None)[0]] == [fork_id, second, first]
        assert lineage(saver, call, "no such", None) == ([], [])

    @cases("limit", [0, 1, 3, 9])
    def test_a_lineage_has_at_most_so_many(self, saver: Any, call: Any, limit: int) -> None:
        grown = filled(saver, call, count=4)
        ids = [at["configurable"]["checkpoint_id"] for at in grown.configs[::-1]]
        rows, tasks = lineage(saver, call, ids[0], limit)
        assert [row.id for row in rows] == ids[:limit]
        assert {row.id for row in tasks} == set(ids[:limit])

    def test_a_lineage_goes_on_over_hidden_rows_and_ends_at_a_missing_one(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        for number in range(5):
            values = {"d": "seed"} if number == 2 else {"n": number}
            grown.put(values, changed=["d", "n"], counters_since_delta_snapshot={"d": [1, number]})
            call(saver, "put_writes", grown.config, [("d", number)], "task", "~p")
        ids = [at["configurable"]["checkpoint_id"] for at in grown.configs[::-1]]
        call(saver, "prune", ["t"])
        rows, tasks = lineage(saver, call, ids[0], None)
        assert [row.id for row in rows] == ids[:3]
        assert {row.id for row in tasks} == set(ids[:3])

    def test_a_lineage_ends_where_it_runs_in_a_circle(self, saver: Any, call: Any) -> None:
        for id, parent in (("1", "3"), ("2", "1"), ("3", "2")):
            call(saver, "put", config("t", parent), checkpoint({"a": 1}, id=id), {}, {"a": 1})
            call(saver, "put_writes", config("t", id), [("a", 1)], "task")
        assert [row.id for row in lineage(saver, call, "2", None)[0]] == ["2", "1", "3"]
        assert [row.id for row in lineage(saver, call, "2", 2)[0]] == ["2", "1"]
        call(saver, "put", config("t", "9"), checkpoint({"a": 1}, id="9"), {}, {"a": 1})
        assert [row.id for row in lineage(saver, call, "9", None)[0]] == ["9"]

    def test_sizes_are_those_of_the_stored_rows(self, saver: Any, call: Any) -> None:
        filled(saver, call, count=4)
        filled(saver, call, "other", count=1)

        async def found() -> tuple[Any, Any, Any]:
            async with saver._port.read() as view:
                thread = await view.thread("t")
                return await view.sizes(thread), await view.every_value(thread), await view.every_segment(thread)

        sizes, values, segments = call.run(found())
        assert sizes.values == {id: len(body) for id, body in values.items()}
        assert sizes.segments == {key: len(data) for key, data in segments.items()}
        assert len(values) > 3
        assert len(segments) > 1

    # -- upkeep ------------------------------------------------------------------------------------------------------

    def test_a_copy_over_a_thread_says_that_it_exists(self, saver: Any, call: Any) -> None:
        filled(saver, call)
        filled(saver, call, "copy", count=1)
        with pytest.raises(ValueError, match="exists"):
            call(saver, "copy_thread", "t", "copy")

    def test_what_prune_keeps_has_no_parent(self, saver: Any, call: Any) -> None:
        grown = filled(saver, call)
        call(saver, "prune", ["t"])
        assert call(saver, "get_tuple", grown.config).parent_config is None

    @cases("rules", [{"keep_last": 3}, {"keep_last": 1}, {"strategy": "delete"}])
    def test_a_report_counts_what_is_gone(self, saver: Any, call: Any, rules: Any) -> None:
        grown = Grown(saver, call)
        for number in range(9):
            values = {"d": "seed " * 500} if number == 4 else {"n": number, "text": f"{number} " * 900}
            counters = {} if number == 4 else {"d": [1, number]}
            grown.put(values, changed=["d", "n", "text"], counters_since_delta_snapshot=counters)
            call(saver, "put_writes", grown.config, [("d", "more " * 500), ("text", f"{number} " * 900)], "task", "~p")
            call(saver, "put_writes", grown.config, [("text", "other")], "other", "~p")
        before = stored(saver, call)
        (told,) = call(saver, "prune", ["t"], **rules).threads
        after = stored(saver, call)
        rows = [len(old) - len(new) for old, new in zip(before, after, strict=True)]
        assert [told.checkpoints, told.tasks, told.values, told.segments] == rows
        assert told.bytes == sum(map(sum, (each.values() for each in before))) - sum(
            map(sum, (each.values() for each in after))
        )
        assert told.kept + told.hidden == len(after[0])
        assert told.kept == len(call(saver, "list", config(ns=None)))

    def test_a_thread_that_cannot_be_pruned_is_named(self, saver: Any, call: Any) -> None:
        for name in ("a", "b", "c"):
            filled(saver, call, name)
        with failing_at_the_second(saver), pytest.raises(UnfinishedPrune) as caught:
            call(saver, "prune", ["a", "b", "c"], keep_last=2)
        caught.match(r"'b' could not be .* out of luck.*1 were done .'a'")
        assert caught.value.thread_id == "b"
        assert isinstance(caught.value.__cause__, OSError)
        assert [(one.thread_id, one.checkpoints) for one in caught.value.report.threads] == [("a", 2)]
        assert [len(call(saver, "list", config(name))) for name in ("a", "b", "c")] == [2, 4, 4]
        call(saver, "prune", ["a", "b", "c"], keep_last=2)
        assert [len(call(saver, "list", config(name))) for name in ("a", "b", "c")] == [2, 2, 2]

    def test_runs_that_could_not_be_deleted_everywhere_are_deleted_by_the_next_call(
        self, saver: Any, call: Any
    ) -> None:
        names = ("a", "b", "c")
        for name in names:
            grown = Grown(saver, call, name)
            for number in range(4):
                grown.put({"n": number, "text": "x" * 2000}, run_id=f"run {number % 2}")
        with failing_at_the_second(saver), pytest.raises(UnfinishedPrune, match="out of luck") as caught:
            call(saver, "delete_for_runs", ["run 1"])
        assert isinstance(caught.value.__cause__, OSError)
        (done,) = caught.value.report.threads
        assert {caught.value.thread_id, done.thread_id} < set(names)
        caught.match(rf"thread '{caught.value.thread_id}' .*1 were done .'{done.thread_id}'.; call again, .* same runs")
        assert sorted(len(call(saver, "list", config(name))) for name in names) == [2, 4, 4]
        call(saver, "delete_for_runs", ["run 1"])
        for name in names:
            assert [item.metadata["run_id"] for item in call(saver, "list", config(name))] == ["run 0"] * 2

    def test_prune_hides_what_a_delta_channel_is_rebuilt_from(self, saver: Any, call: Any) -> None:
        grown = Grown(saver, call)
        for number in range(4):
            values = {"d": "seed"} if number == 1 else {"n": number}
            grown.put(values, changed=["d", "n"], counters_since_delta_snapshot={"d": [1, number]})
            call(saver, "put_writes", grown.config, [("d", number), ("n", number)], "task", "~p")
        before = call(saver, "get_delta_channel_history", config=grown.config, channels=["d"])
        for _ in range(2):
            call(saver, "prune", ["t"])
            assert steps(call(saver, "list", config(ns=None))) == [2]
            for hidden in grown.configs[:3]:
                assert call(saver, "get_tuple", hidden) is None
            assert call(saver, "get_delta_channel_history", config=grown.config, channels=["d"]) == before

    # -- list --------------------------------------------------------------------------------------------------------

    def test_ids_that_many_threads_share_are_listed_once_each(self, saver: Any, call: Any) -> None:
        names = [("", id, f"t{thread}") for id in ("c", "b", "a") for thread in range(11)]
        for ns, id, thread_id in sorted(names):
            call(saver, "put", config(thread_id, ns=ns), checkpoint({"a": 1}, id=id), {"name": [id, thread_id]}, {})
        wanted = [[id, thread_id] for _, id, thread_id in sorted(names, key=lambda n: (-ord(n[1]), n[2]))]
        for limit in (None, 1, 8, 9, 11, 12, 30, 33, 34):
            found = call(saver, "list", None, limit=limit)
            assert [item.metadata["name"] for item in found] == wanted[:limit]
        found = call(saver, "list", None, filter={"source": None, "name": ["a", "t3"]})
        assert found == []
        found = call(saver, "list", None, filter={"name": ["a", "t3"]})
        assert [item.metadata["name"] for item in found] == [["a", "t3"]]
        found = call(saver, "list", None, before=config("t0", "c"), limit=12)
        assert [item.metadata["name"] for item in found] == wanted[11:23]

    def test_a_namespace_is_listed_whole_beside_others_that_were_stored_with_it(self, saver: Any, call: Any) -> None:
        for _ in range(3):
            spaces = ("", "child:1", "child:2", "child:1", "child:1|inner:1")
            first = {ns: next(iter(call(saver, "list", config(ns=ns), limit=1)), None) for ns in spaces}
            at = {ns: config(ns=ns) if found is None else found.config for ns, found in first.items()}
            opened = saver.open_writer(config())
            writers = {ns: opened.beside(config(ns=ns)) for ns in at}
            for number in range(9):
                for ns in spaces * (1 if number % 3 else 2):
                    made = checkpoint({"n": number}, {"n": number + 1})
                    writers[ns].add(Step(at[ns], made, {"step": number}, {"n": number + 1}))
                    at[ns] = config(ns=ns, id=made["id"])
            call(opened, "flush")
        every = [item.config["configurable"] for item in call(saver, "list", config(ns=None))]
        assert len(every) == 3 * 5 * 12
        for ns in dict.fromkeys(spaces):
            wanted = [name for name in every if name["checkpoint_ns"] == ns]
            for limit in (None, 1, 3, 8, 9, 30):
                found = [item.config["configurable"] for item in call(saver, "list", config(ns=ns), limit=limit)]
                assert found == wanted[:limit]
            found = [item.config["configurable"] for item in call(saver, "list", config(ns=ns), before=at[ns])]
            assert found == wanted[1:]

    # -- delta channels ----------------------------------------------------------------------------------------------

    def test_a_circle_of_parents_ends(self, saver: Any, call: Any) -> None:
        first = checkpoint({}, {"d": 1}, id="1")
        call(saver, "put", config("t", "2"), first, {}, {"d": 1})
        call(saver, "put", config("t", "1"), checkpoint({}, {"d": 2}, id="2"), {}, {"d": 2})
        call(saver, "put_writes", config("t", "1"), [("d", 1)], "t")
        call(saver, "put_writes", config("t", "2"), [("d", 2)], "t")
        found = call(saver, "get_delta_channel_history", config=config("t", "2"), channels=["d"])
        assert "seed" not in found["d"]
