"""What is special about some pauses (spec 5; house 1.7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from tests.acceptance.kit import Log, chain, fan, thread
from tests.conftest import Call
from tests.runtime.kit import Body, calling, graph_of
from threadmark.errors import UnknownInterruptError
from threadmark.types import Command, interrupt

Node = Callable[[Any], Any]


def test_a_new_answer_to_an_earlier_question_asks_the_later_ones_again(saver: Any, call: Call, node: Node) -> None:
    graph = graph_of(("n", node(Body().asking("ask", "1?", "2?"))), checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    pause = call(graph, "get_state", thread())
    call(graph, "invoke", Command(resume="one"), thread())
    call(graph, "invoke", Command(resume={pause.interrupts[0].id: "uno"}), pause.config)
    (question,) = call(graph, "get_state", thread()).interrupts
    assert question.value == "2?"
    assert call(graph, "invoke", Command(resume="two"), thread())["log"] == ["ask:uno", "ask:two"]


def test_a_second_answer_without_the_checkpoint_is_refused(saver: Any, call: Call, node: Node) -> None:
    graph = fan(*((name, node(Body().asking(name, f"{name}?"))) for name in "ab")).compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    pause = call(graph, "get_state", thread())
    first, other = (question.id for question in pause.interrupts)
    call(graph, "invoke", Command(resume={first: "1"}), thread())
    with pytest.raises(UnknownInterruptError, match=other):
        call(graph, "invoke", Command(resume={first: "2"}), thread())
    # at the checkpoint it makes a branch, on which the sibling's question is still open
    call(graph, "invoke", Command(resume={first: "2"}), pause.config)
    assert [question.value for question in call(graph, "get_state", thread()).interrupts] == ["b?"]
    assert call(graph, "invoke", Command(resume="B"), thread())["log"] == ["a:2", "b:B"]
    # and the first branch can be gone on with where it was left
    assert call(graph, "invoke", Command(resume={other: "late"}), pause.config)["log"] == ["a:1", "b:late"]


def test_open_and_answered_questions_answered_in_one_go(saver: Any, call: Call, node: Node) -> None:
    graph = fan(*((name, node(Body().asking(name, f"{name}?"))) for name in "ab")).compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    pause = call(graph, "get_state", thread())
    first, other = (question.id for question in pause.interrupts)
    call(graph, "invoke", Command(resume={first: "1"}), thread())
    done = call(graph, "invoke", Command(resume={first: "2", other: "B"}), pause.config)
    assert done == {"log": ["a:2", "b:B"]}


def test_a_bare_answer_before_any_question_goes_to_the_first_that_asks(saver: Any, call: Call, node: Node) -> None:
    graph = chain("a", ("b", node(Body().asking("b", "?")))).compile(checkpointer=saver, interrupt_before=["a"])
    call(graph, "invoke", {"log": []}, thread())
    assert call(graph, "invoke", Command(resume="early"), thread())["log"] == ["a", "b:early"]


def test_an_early_answer_that_nobody_takes_is_no_answer_later(saver: Any, call: Call, node: Node) -> None:
    graph = chain("a", ("b", node(Body().asking("b", "?")))).compile(checkpointer=saver, interrupt_before=["a", "b"])
    call(graph, "invoke", {"log": []}, thread())
    call(graph, "invoke", Command(resume="early"), thread())
    shown = call(graph, "invoke", None, thread())
    assert [question.value for question in shown["__interrupt__"]] == ["?"]


class Form(BaseModel):
    age: int


def test_after_a_misfit_going_on_without_an_answer_asks_again(saver: Any, call: Call, node: Node) -> None:
    def ask(state: Log) -> dict[str, list[str]]:
        return {"log": [str(interrupt("age?", response_schema=Form).age)]}

    graph = chain(("ask", node(ask))).compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    with pytest.raises(ValueError, match="age"):
        call(graph, "invoke", Command(resume={"age": "old"}), thread())
    for _ in range(2):
        assert "__interrupt__" in call(graph, "invoke", None, thread())
        assert len(call(graph, "get_state", thread()).interrupts) == 1
    assert call(graph, "invoke", Command(resume={"age": 7}), thread()) == {"log": ["7"]}


def test_a_misfit_in_a_child_leaves_its_question_open(saver: Any, call: Call, node: Node) -> None:
    def ask(state: Log) -> dict[str, list[str]]:
        return {"log": [str(interrupt("age?", response_schema=Form).age)]}

    inner = graph_of(("ask", node(ask)))
    graph = fan(("x", inner), ("y", calling(inner, call))).compile(checkpointer=saver)
    shown = call(graph, "invoke", {"log": []}, thread())["__interrupt__"]
    good, bad = (question.id for question in shown)
    with pytest.raises(ValueError, match="age"):
        call(graph, "invoke", Command(resume={good: {"age": 1}, bad: {"age": "old"}}), thread())
    assert [question.id for question in call(graph, "get_state", thread()).interrupts][-1:] == [bad]
    call(graph, "invoke", None, thread())
    assert [question.id for question in call(graph, "get_state", thread()).interrupts] == [bad]
    assert call(graph, "invoke", Command(resume={"age": 7}), thread()) == {"log": ["1", "7"]}


def test_a_child_without_a_saver_starts_again(saver: Any, call: Call, node: Node) -> None:
    body = Body()
    inner = graph_of(("s", node(body.saying("s"))), ("ask", node(body.asking("ask", "?"))), checkpointer=False)
    graph = graph_of(("n", calling(inner, call)), checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    pause = call(graph, "get_state", thread())
    assert call(graph, "invoke", Command(resume="1"), thread()) == {"log": ["s", "ask:1"]}
    assert call(graph, "invoke", Command(resume="2"), pause.config) == {"log": ["s", "ask:2"]}
    assert body.ran == ["s", "ask"] * 3
    assert {row.config["configurable"]["checkpoint_ns"] for row in saver.list(thread())} == {""}


def test_a_question_in_a_node_between_two_called_graphs(saver: Any, call: Call, node: Node) -> None:
    body = Body()
    one = graph_of(("one", node(body.asking("one", "1?"))))
    two = graph_of(("two", node(body.asking("two", "2?"))))
    first, second = calling(one, call), calling(two, call)

    def both(state: Log) -> Any:
        return {"log": [*first(state)["log"], interrupt("between?"), *second(state)["log"]]}

    async def both_async(state: Log) -> Any:
        return {"log": [*(await first(state))["log"], interrupt("between?"), *(await second(state))["log"]]}

    graph = graph_of(("n", both_async if call.colour == "async" else both), checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    for answer, asked in (("A", "1?"), ("B", "between?"), ("C", "2?")):
        (question,) = call(graph, "get_state", thread()).interrupts
        assert question.value == asked
        done = call(graph, "invoke", Command(resume=answer), thread())
    assert done["log"] == ["one:A", "B", "two:C"]
    assert body.ran == ["one", "one", "two", "two"]
