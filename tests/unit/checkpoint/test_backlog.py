"""What an in-memory saver stores later: nobody can tell."""

from __future__ import annotations

import itertools
import os
import sys
from contextlib import nullcontext
from typing import Any

import pytest

from threadmark.checkpoint.backlog import LONGEST
from threadmark.checkpoint.base import Step
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.errors import HeadMoved


def run(saver: InMemorySaver, thread: str, steps: int, at: Any = None) -> list[str]:
    """Steps of one run, each on the head that the one before has made; their ids."""
    writer, made = saver.open_writer(config(thread)), list[str]()
    head = at
    for number in range(steps):
        held = checkpoint({"n": number}, {"n": number + 1})
        writes = [("task", "path", [("n", number)])] if head else []
        writer.add(Step(config(thread, head), held, {"step": number}, {"n": number + 1}, writes, None, head))
        writer.flush()
        head = held["id"]
        made.append(head)
    return made


def rows(saver: InMemorySaver) -> int:
    """Checkpoints that are stored already."""
    return sum(len(found) for shelf in saver._port._shelves.values() for found in shelf.checkpoints.values())  # type: ignore[attr-defined]


def test_steps_of_a_run_wait_until_somebody_reads() -> None:
    saver = InMemorySaver()
    made = run(saver, "a", 5)
    assert rows(saver) == 0
    assert [item.config["configurable"]["checkpoint_id"] for item in saver.list(config("a"))] == made[::-1]
    assert rows(saver) == 5
    assert [write[2] for item in saver.list(config("a")) for write in item.pending_writes or ()] == [4, 3, 2, 1]


async def test_awaited_reading_finds_them_too() -> None:
    saver = InMemorySaver()
    made = run(saver, "a", 3)
    found = await saver.aget_tuple(config("a"))
    assert found is not None
    assert found.config["configurable"]["checkpoint_id"] == made[-1]


def test_no_more_than_a_bounded_number_waits() -> None:
    saver = InMemorySaver()
    run(saver, "a", LONGEST)
    assert rows(saver) == 0
    run(saver, "b", 2)
    assert rows(saver) == LONGEST + 2


def test_a_long_first_step_counts_and_a_short_one_takes_no_more_than_its_rows() -> None:
    saver = InMemorySaver()
    for number in range(LONGEST + 10):
        saver.put(config(str(number)), checkpoint({"n": number}), {}, {"n": 1})
    assert rows(saver) == LONGEST + 10  # nobody said that they were the first
    for number in range(LONGEST + 10):
        run(saver, f"short {number}", 1)
    assert rows(saver) == LONGEST + 10
    for number in range(LONGEST):
        writer = saver.open_writer(config(f"long {number}"))
        writer.add(Step(config(f"long {number}"), checkpoint({"n": "x" * 1000}), {}, {"n": 1}, (), None, None))
        writer.flush()
    assert rows(saver) == 2 * LONGEST + 10
    assert len(saver.thread_ids()) == 3 * LONGEST + 20


def test_a_step_that_does_not_find_its_head_is_refused_at_once() -> None:
    saver = InMemorySaver()
    made = run(saver, "a", 4)
    with pytest.raises(HeadMoved):
        run(saver, "a", 1, at=made[1])
    run(saver, "a", 2, at=made[-1])
    assert len(list(saver.list(config("a")))) == 6


def test_what_is_deleted_meanwhile_is_missed_at_once() -> None:
    saver = InMemorySaver()
    made = run(saver, "a", 4)
    saver.delete_thread("a")
    with pytest.raises(HeadMoved):
        run(saver, "a", 1, at=made[-1])
    assert list(saver.list(None)) == []


def test_a_put_between_the_steps_moves_the_head() -> None:
    saver = InMemorySaver()
    made = run(saver, "a", 4)
    newer = saver.put(config("a", made[-1]), checkpoint({"n": 9}, {"n": 9}), {}, {"n": 9})
    with pytest.raises(HeadMoved):
        run(saver, "a", 1, at=made[-1])
    found = saver.get_tuple(config("a"))
    assert found is not None
    assert found.config == newer


def test_stopping_a_reader_costs_nothing_that_was_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    saver = InMemorySaver()
    made = run(saver, "a", 4)

    async def stopped(*args: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(saver._port, "add_task", stopped)
        with pytest.raises(KeyboardInterrupt):
            saver.get_tuple(config("a"))
    assert [item.config["configurable"]["checkpoint_id"] for item in saver.list(config("a"))] == made[::-1]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, TimeoutError, RecursionError])
@pytest.mark.parametrize("after", range(6))
def test_stopping_a_reader_half_way_neither(
    monkeypatch: pytest.MonkeyPatch, after: int, stop: type[BaseException]
) -> None:
    saver = InMemorySaver()
    made, port, left = run(saver, "a", 5), saver._port, after
    put = port.put_checkpoint  # type: ignore[attr-defined]

    async def stopped(*args: Any) -> None:
        nonlocal left
        if not left:
            raise stop
        left -= 1
        await put(*args)

    with monkeypatch.context() as patch:
        patch.setattr(port, "put_checkpoint", stopped)
        with pytest.raises(stop) if after < 5 else nullcontext():
            saver.get_tuple(config("a"))
    made += run(saver, "a", 2, at=made[-1])
    found = list(saver.list(config("a")))
    assert [item.config["configurable"]["checkpoint_id"] for item in found] == made[::-1]
    assert [[write[2] for write in item.pending_writes or ()] for item in found[1:5]] == [[1], [0], [4], [3]]


@pytest.mark.filterwarnings("ignore:coroutine")  # one that was made just before
def test_stopping_a_reader_between_two_lines_neither() -> None:
    left = 0

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal left
        if event == "line" and "threadmark/checkpoint" in frame.f_code.co_filename:
            left -= 1
            if left < 0:
                raise TimeoutError
        return trace

    before = sys.gettrace()
    for lines in itertools.count():
        saver, left, stopped = InMemorySaver(), lines, False
        made = run(saver, "a", 3)
        try:
            sys.settrace(trace)
            saver.get_tuple(config("a"))
        except TimeoutError:
            stopped = True
        finally:
            sys.settrace(before)
        found = [item.config["configurable"]["checkpoint_id"] for item in saver.list(config("a"))]
        assert found == made[::-1], lines
        if not stopped:
            break
    assert lines > 300


def test_a_thread_is_deleted_whatever_is_wrong_with_what_waits_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    saver = InMemorySaver()
    run(saver, "bad", 3)
    made = run(saver, "good", 3)
    put = saver._port.put_checkpoint  # type: ignore[attr-defined]

    async def refused(thread: Any, row: Any) -> None:
        if row.id not in made:
            raise ValueError("no")
        await put(thread, row)

    monkeypatch.setattr(saver._port, "put_checkpoint", refused)
    with pytest.raises(ValueError, match="no"):
        saver.get_tuple(config("bad"))
    with pytest.raises(ValueError, match="no"):
        list(saver.list(None))
    saver.copy_thread("good", "copy")
    saver.delete_thread("bad")
    assert len(list(saver.list(None))) == 6
    assert sorted(saver.thread_ids()) == ["copy", "good"]


def test_clones_of_a_saver_share_what_waits_in_a_forked_child() -> None:
    saver = InMemorySaver()
    clone = saver.with_allowlist([])
    made = run(saver, "a", 4)
    child = os.fork()
    if child == 0:
        try:
            found = [len(list(each.list(config("a")))) for each in (saver, clone, saver)]
            more = run(clone, "a", 1, at=made[-1])
            ok = found == [4] * 3 and saver.get(config("a"))["id"] == more[0]  # type: ignore[index]
        finally:
            os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_forked_child_has_them() -> None:
    saver = InMemorySaver()
    made = run(saver, "a", 4)
    child = os.fork()
    if child == 0:
        found = saver.get_tuple(config("a"))
        os._exit(0 if found is not None and found.checkpoint["id"] == made[-1] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_is_put_on_something_that_waits_carries_its_values_over() -> None:
    saver = InMemorySaver()
    for ns in ("", "child:1"):
        first = saver.put(config(ns=ns), checkpoint({"a": 1, "b": "old"}), {}, {"a": 1, "b": 1})
        second = saver.put(first, checkpoint({"a": 2, "b": "new"}, {"a": 2, "b": 1}), {}, {"a": 2})
        found = saver.get(second)
        assert found is not None
        assert found["channel_values"] == {"a": 2, "b": "old"}


def test_steps_of_child_graphs_wait_with_those_of_their_parent() -> None:
    saver = InMemorySaver()
    made = run(saver, "a", 2)
    parent, child = saver.open_writer(config("a")), saver.open_writer(config("a", ns="child"))
    inner = list[str]()
    for number in range(3):
        held = checkpoint({"n": number}, {"n": number + 1})
        at = config("a", inner[-1] if inner else None, ns="child")
        child.add(Step(at, held, {"step": number}, {"n": number + 1}))
        child.flush()
        inner.append(held["id"])
    held = checkpoint({"n": 9}, {"n": 9})
    parent.add(Step(config("a", made[-1]), held, {"step": 2}, {"n": 9}, (), None, made[-1]))
    parent.flush()
    assert rows(saver) == 0
    found = [item.config["configurable"]["checkpoint_id"] for item in saver.list(config("a", ns="child"))]
    assert found == inner[::-1]
    # What a child has stored without asking for its head tells nobody where the head is.
    child.add(Step(config("a", inner[-1], ns="child"), checkpoint({"n": 4}, {"n": 4}), {"step": 3}, {"n": 4}))
    child.flush()
    child.add(Step(config("a", inner[-1], ns="child"), checkpoint({"n": 5}), {}, {"n": 5}, (), None, inner[-1]))
    with pytest.raises(HeadMoved):
        child.flush()
