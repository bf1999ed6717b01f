"""Which question an answer is for, decided without a run (spec 5.4)."""

from __future__ import annotations

from typing import Any

import pytest

from threadmark.channels.base import MISSING
from threadmark.engine.interrupts import addressed, answered_ids, is_map, stored_answers, stored_bare_answer
from threadmark.errors import UnknownInterruptError
from threadmark.ids import NULL_TASK_ID, interrupt_id
from threadmark.types import Interrupt

A, B, OTHER = "a" * 32, "b" * 32, "c" * 32
ASKED = [Interrupt("?", A), Interrupt("?", B)]


@pytest.mark.parametrize(
    ("answer", "yes"),
    [
        ({A: 1}, True),
        ({A: 1, B: 2}, True),
        ({}, True),
        ({A: 1, "x": 2}, False),
        ({A.upper(): 1}, False),
        ({A + "0": 1}, False),
        ({f"{A}\n": 1}, False),
        ({1: 1}, False),
        ([A], False),
        (A, False),
        (None, False),
    ],
)
def test_which_answers_are_addressed_by_id(answer: Any, yes: bool) -> None:
    assert is_map(answer) is yes


def test_an_answer_finds_its_question() -> None:
    assert addressed({A: 1}, ASKED, pending_tasks=True) == ({A: 1}, MISSING)
    assert addressed({A: 1, B: None}, ASKED, pending_tasks=True) == ({A: 1, B: None}, MISSING)
    assert addressed("yes", ASKED[:1], pending_tasks=True) == ({A: "yes"}, MISSING)
    assert addressed("yes", [], pending_tasks=True) == ({}, "yes")


@pytest.mark.parametrize(
    ("answer", "asked", "pending", "reason"),
    [
        ("yes", ASKED, True, "ambiguous"),
        ({OTHER: 1}, ASKED, True, "not_pending"),
        ({A: 1, OTHER: 1}, ASKED, True, "not_pending"),
        ({}, ASKED, True, "empty_map"),
        ("yes", [], False, "not_pending"),
        ({A: 1}, [], False, "not_pending"),
    ],
)
def test_an_answer_to_no_question_is_refused(answer: Any, asked: Any, pending: bool, reason: str) -> None:
    with pytest.raises(UnknownInterruptError) as raised:
        addressed(answer, asked, pending_tasks=pending)
    assert raised.value.reason == reason
    assert raised.value.pending_ids == tuple(one.id for one in asked)


def test_what_a_task_s_stored_answers_close() -> None:
    assert answered_ids("n:1", []) == set()
    assert answered_ids("n:1", [("__resume__", ["x", "y"])]) == {interrupt_id("n:1", 0), interrupt_id("n:1", 1)}


@pytest.mark.parametrize(
    ("pending", "by_id", "bare"),
    [
        ({}, {}, MISSING),
        ({NULL_TASK_ID: [("__resume__", "yes")]}, {}, "yes"),
        ({NULL_TASK_ID: [("log", 1), ("__resume__", {A: 1})]}, {A: 1}, MISSING),
        ({NULL_TASK_ID: [("__resume__", {})]}, {}, MISSING),
        ({NULL_TASK_ID: [("__resume__", "yes")], "t": [("__resume__", ["yes"])]}, {}, MISSING),
        ({NULL_TASK_ID: [("__resume__", "yes")], "t": [("__resume__", ["no"])]}, {}, "yes"),
    ],
)
def test_answers_that_wait_in_storage(pending: Any, by_id: Any, bare: Any) -> None:
    assert stored_answers(pending) == by_id
    assert stored_bare_answer(pending) == bare or stored_bare_answer(pending) is bare
