"""Pausing and answering: breakpoints, questions, several at once, by id and bare (spec 5)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy
import pytest
from pydantic import BaseModel, ValidationError

from tests.acceptance.kit import Log, chain, fan, id_of, lines, say, thread
from tests.conftest import Call
from threadmark.errors import InvalidUpdateError, UnknownInterruptError
from threadmark.graph import START, StateGraph
from threadmark.ids import interrupt_id
from threadmark.types import Command, Interrupt, RetryPolicy, Send, interrupt, is_invalid_resume

Node = Callable[[Any], Any]


def asks(*questions: str) -> Any:
    """A node that asks each question in turn and logs the answers."""

    def ask(state: Log) -> dict[str, list[Any]]:
        return {"log": [interrupt(question) for question in questions]}

    return ask


def asked(result: Any) -> list[Any]:
    return [one.value for one in result["__interrupt__"]]


# -- breakpoints


def test_before_and_after_named_nodes(saver: Any, call: Call) -> None:
    graph = chain("a", "b", "c").compile(checkpointer=saver, interrupt_before=["b"], interrupt_after=["b"])
    assert call(graph, "invoke", {"log": []}, thread()) == {"log": ["a"]}
    assert call(graph, "get_state", thread()).next == ("b",)
    assert call(graph, "invoke", None, thread()) == {"log": ["a", "b"]}
    assert call(graph, "get_state", thread()).next == ("c",)
    assert call(graph, "invoke", None, thread()) == {"log": ["a", "b", "c"]}
    assert call(graph, "get_state", thread()).next == ()
    assert len(call(graph, "get_state_history", thread())) == 5


def test_a_star_stops_everywhere_but_at_the_hidden_start(saver: Any, call: Call) -> None:
    graph = chain("a", "b").compile(checkpointer=saver)
    stops = []
    given: Any = {"log": []}
    for _ in range(3):
        call(graph, "invoke", given, thread(), interrupt_before="*")
        given = None
        stops.append(call(graph, "get_state", thread()).next)
    assert stops == [("a",), ("b",), ()]
    given, stops = {"log": []}, []
    for _ in range(3):
        call(graph, "invoke", given, thread("2"), interrupt_after="*")
        given = None
        stops.append(call(graph, "get_state", thread("2")).next)
    assert stops == [("b",), (), ()]


def test_a_breakpoint_leaves_nothing_in_the_result_and_works_without_a_saver(call: Call) -> None:
    graph = chain("a", "b").compile(interrupt_before=["b"])
    assert call(graph, "invoke", {"log": []}) == {"log": ["a"]}


def test_a_breakpoint_that_names_no_node_is_ignored_at_a_call(call: Call) -> None:
    assert call(chain("a").compile(), "invoke", {"log": []}, interrupt_before=["nowhere"]) == {"log": ["a"]}


def test_new_input_at_a_breakpoint_starts_again(saver: Any, call: Call) -> None:
    graph = chain("a", "b").compile(checkpointer=saver, interrupt_before=["b"])
    call(graph, "invoke", {"log": []}, thread())
    assert call(graph, "invoke", {"log": ["new"]}, thread()) == {"log": ["a", "new", "a"]}
    assert call(graph, "get_state", thread()).next == ("b",)


def test_an_update_at_a_breakpoint_does_not_stop_again(saver: Any, call: Call) -> None:
    graph = chain("a", "b", "c").compile(checkpointer=saver, interrupt_before=["b"])
    call(graph, "invoke", {"log": []}, thread())
    call(graph, "update_state", thread(), {"log": ["edited"]})
    assert call(graph, "get_state", thread()).next == ("b",)
    assert call(graph, "invoke", None, thread()) == {"log": ["a", "edited", "b", "c"]}


def test_a_breakpoint_in_a_loop_stops_each_time(saver: Any, call: Call) -> None:
    graph = chain("a", "b").add_edge("b", "a").compile(checkpointer=saver, interrupt_before=["a"])
    call(graph, "invoke", {"log": []}, thread())
    for turn in range(3):
        assert call(graph, "get_state", thread()).values["log"] == ["a", "b"] * turn
        call(graph, "invoke", None, thread())


# -- one question


def test_a_question_pauses_and_its_answer_goes_on(saver: Any, call: Call, node: Node) -> None:
    graph = chain("a", ("ask", node(asks("name?"))), "b").compile(checkpointer=saver)
    paused = call(graph, "invoke", {"log": []}, thread())
    assert paused["log"] == ["a"]
    assert asked(paused) == ["name?"]
    state = call(graph, "get_state", thread())
    assert state.next == ("ask",)
    assert list(state.interrupts) == list(state.tasks[0].interrupts) == paused["__interrupt__"]
    assert state.interrupts[0].id == interrupt_id(f"ask:{state.tasks[0].id}", 0)
    assert call(graph, "invoke", Command(resume="Ada"), thread()) == {"log": ["a", "Ada", "b"]}
    done = call(graph, "get_state", thread())
    assert (done.next, done.interrupts) == ((), ())


@pytest.mark.parametrize("answer", [0, False, "", [], {"any": "dict"}, {"a" * 31: 1}, (1, 2), b"x"])
def test_any_value_but_none_is_an_answer(saver: Any, call: Call, node: Node, answer: Any) -> None:
    graph = chain(("ask", node(asks("?")))).compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    assert call(graph, "invoke", Command(resume=answer), thread())["log"] == [answer]


def test_none_is_an_answer_when_it_is_addressed(saver: Any, call: Call, node: Node) -> None:
    graph = chain(("ask", node(asks("?")))).compile(checkpointer=saver)
    (question,) = call(graph, "invoke", {"log": []}, thread())["__interrupt__"]
    assert call(graph, "invoke", Command(resume={question.id: None}), thread())["log"] == [None]


def test_going_on_without_an_answer_asks_again(saver: Any, call: Call, node: Node) -> None:
    graph = chain(("ask", node(asks("?")))).compile(checkpointer=saver)
    first = call(graph, "invoke", {"log": []}, thread())
    assert call(graph, "invoke", None, thread()) == first
    assert call(graph, "invoke", Command(resume="A"), thread()) == {"log": ["A"]}


def test_two_questions_of_one_node_are_asked_one_after_the_other(saver: Any, call: Call, node: Node) -> None:
    graph = chain(("ask", node(asks("q1", "q2", "q3")))).compile(checkpointer=saver)
    result = call(graph, "invoke", {"log": []}, thread())
    ids = []
    for question, answer in (("q1", "A"), ("q2", "B"), ("q3", "C")):
        assert asked(result) == [question]
        ids.append(result["__interrupt__"][0].id)
        state = call(graph, "get_state", thread())
        assert state.next == ("ask",)
        assert [one.value for one in state.interrupts] == [question]
        result = call(graph, "invoke", Command(resume=answer), thread())
    assert result == {"log": ["A", "B", "C"]}
    task = call(graph, "get_state_history", thread())[1].tasks[0].id
    assert ids == [interrupt_id(f"ask:{task}", number) for number in range(3)]
    assert len(call(graph, "get_state_history", thread())) == 3


def test_a_node_starts_again_from_its_first_line(saver: Any, call: Call, node: Node) -> None:
    starts = []

    def ask(state: Log) -> dict[str, list[str]]:
        starts.append(1)
        return {"log": [interrupt("q1"), interrupt("q2")]}

    graph = chain(("ask", node(ask))).compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    call(graph, "invoke", Command(resume="A"), thread())
    call(graph, "invoke", Command(resume="B"), thread())
    assert len(starts) == 3


def test_a_broad_except_swallows_the_question(saver: Any, call: Call, node: Node) -> None:
    def ask(state: Log) -> dict[str, list[str]]:
        try:
            return {"log": [interrupt("?")]}
        except Exception:
            return {"log": ["swallowed"]}

    graph = chain(("ask", node(ask))).compile(checkpointer=saver)
    assert call(graph, "invoke", {"log": []}, thread()) == {"log": ["swallowed"]}


def test_a_question_is_never_tried_again(saver: Any, call: Call, node: Node) -> None:
    starts = []

    def ask(state: Log) -> dict[str, list[str]]:
        starts.append(1)
        return {"log": [interrupt("?")]}

    builder = StateGraph(Log).add_node("ask", node(ask), retry_policy=RetryPolicy(retry_on=Exception))
    graph = builder.add_edge(START, "ask").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    assert len(starts) == 1


def test_an_answer_survives_a_failure_behind_it(saver: Any, call: Call, node: Node) -> None:
    down = [True]

    def ask(state: Log) -> dict[str, list[str]]:
        answer = interrupt("?")
        if down:
            raise ValueError("down")
        return {"log": [answer]}

    graph = chain(("ask", node(ask))).compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    with pytest.raises(ValueError, match="down"):
        call(graph, "invoke", Command(resume="A"), thread())
    down.clear()
    assert call(graph, "invoke", None, thread()) == {"log": ["A"]}


def test_without_a_saver_a_question_shows_but_cannot_be_answered(call: Call, node: Node) -> None:
    graph = chain(("ask", node(asks("?")))).compile()
    assert asked(call(graph, "invoke", {"log": []})) == ["?"]
    with pytest.raises(RuntimeError, match="checkpointer"):
        call(graph, "invoke", Command(resume="A"))


def test_outside_a_node_nobody_can_be_asked() -> None:
    with pytest.raises(RuntimeError, match="running node"):
        interrupt("?")


def test_new_input_drops_an_open_question(saver: Any, call: Call, node: Node) -> None:
    graph = chain("a", ("ask", node(asks("?")))).compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    again = call(graph, "invoke", {"log": ["new"]}, thread())
    assert again["log"] == ["a", "new", "a"]
    assert len(call(graph, "get_state", thread()).interrupts) == 1
    assert call(graph, "invoke", Command(resume="A"), thread())["log"] == ["a", "new", "a", "A"]


def test_a_single_value_state_shows_its_question_alone(saver: Any, call: Call, node: Node) -> None:
    graph = chain(("ask", node(lambda state: state + interrupt("how much?"))), schema=int).compile(checkpointer=saver)
    assert asked(call(graph, "invoke", 1, thread())) == ["how much?"]
    assert call(graph, "invoke", Command(resume=2), thread()) == 3


def test_an_answer_given_before_it_was_asked_for_is_taken_once(saver: Any, call: Call, node: Node) -> None:
    down = [True]

    def ask(state: Log) -> dict[str, list[Any]]:
        return {"log": [interrupt("?").tolist()]}

    def fail(state: Log) -> None:
        if down:
            raise ValueError("down")

    graph = fan(("a", node(ask)), ("b", node(fail))).compile(checkpointer=saver, interrupt_before="*")
    call(graph, "invoke", {"log": []}, thread())
    with pytest.raises(ValueError, match="down"):
        call(graph, "invoke", Command(resume=numpy.arange(3)), thread())
    down.clear()
    assert call(graph, "invoke", None, thread()) == {"log": [[0, 1, 2]]}


# -- several questions


def several(node: Node, saver: Any) -> Any:
    return fan(("p", node(asks("p?"))), ("q", node(asks("q?"))), "r").compile(checkpointer=saver)


def test_questions_of_parallel_tasks_are_all_shown(saver: Any, call: Call, node: Node) -> None:
    graph = several(node, saver)
    assert sorted(asked(call(graph, "invoke", {"log": []}, thread()))) == ["p?", "q?"]
    state = call(graph, "get_state", thread())
    assert state.next == ("p", "q")
    assert [one.value for one in state.interrupts] == ["p?", "q?"]
    assert state.values == {"log": ["r"]}
    record = call(graph, "get_state", state.config)
    assert (record.values, record.next) == ({"log": []}, ("p", "q", "r"))


def test_a_bare_answer_to_several_questions_is_refused(saver: Any, call: Call, node: Node) -> None:
    graph = several(node, saver)
    questions = call(graph, "invoke", {"log": []}, thread())["__interrupt__"]
    before = list(saver.list(thread()))
    with pytest.raises(UnknownInterruptError) as raised:
        call(graph, "invoke", Command(resume="A"), thread())
    assert raised.value.reason == "ambiguous"
    assert set(raised.value.pending_ids) == {one.id for one in questions}
    assert list(saver.list(thread())) == before


def test_answers_by_id_reach_their_questions(saver: Any, call: Call, node: Node) -> None:
    graph = several(node, saver)
    questions = call(graph, "invoke", {"log": []}, thread())["__interrupt__"]
    answers = {one.id: one.value.upper() for one in questions}
    assert call(graph, "invoke", Command(resume=answers), thread()) == {"log": ["P?", "Q?", "r"]}


def test_some_answers_now_and_the_rest_later(saver: Any, call: Call, node: Node) -> None:
    graph = several(node, saver)
    questions = {one.value: one.id for one in call(graph, "invoke", {"log": []}, thread())["__interrupt__"]}
    result = call(graph, "invoke", Command(resume={questions["q?"]: "Q"}), thread())
    assert asked(result) == ["p?"]
    state = call(graph, "get_state", thread())
    assert (state.next, [one.value for one in state.interrupts]) == (("p",), ["p?"])
    assert len(call(graph, "get_state_history", thread())) == 2
    assert call(graph, "invoke", Command(resume="P"), thread()) == {"log": ["P", "Q", "r"]}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [({"0" * 32: "x"}, "not_pending"), ({}, "empty_map"), ({"0" * 32: "x", "1" * 32: 1}, "not_pending")],
)
def test_an_answer_to_no_open_question_is_refused_and_leaves_no_trace(
    saver: Any, call: Call, node: Node, answer: Any, reason: str
) -> None:
    graph = several(node, saver)
    questions = call(graph, "invoke", {"log": []}, thread())["__interrupt__"]
    before = list(saver.list(thread()))
    with pytest.raises(UnknownInterruptError) as raised:
        call(graph, "invoke", Command(resume=answer), thread())
    assert raised.value.reason == reason
    assert raised.value.interrupt_ids == tuple(answer)
    assert all(one.id in str(raised.value) for one in questions)
    assert list(saver.list(thread())) == before


def test_an_answer_when_nothing_is_asked_is_refused(saver: Any, call: Call) -> None:
    graph = chain("a").compile(checkpointer=saver)
    with pytest.raises(UnknownInterruptError):
        call(graph, "invoke", Command(resume="A"), thread())
    assert list(saver.list(None)) == []
    call(graph, "invoke", {"log": []}, thread())
    with pytest.raises(UnknownInterruptError):
        call(graph, "invoke", Command(resume="A"), thread())
    assert len(list(saver.list(thread()))) == 3


def test_an_answered_question_is_not_open_any_more(saver: Any, call: Call, node: Node) -> None:
    graph = several(node, saver)
    questions = {one.value: one.id for one in call(graph, "invoke", {"log": []}, thread())["__interrupt__"]}
    call(graph, "invoke", Command(resume={questions["q?"]: "Q"}), thread())
    with pytest.raises(UnknownInterruptError):
        call(graph, "invoke", Command(resume={questions["q?"]: "again"}), thread())
    assert call(graph, "invoke", Command(resume={questions["p?"]: "P"}), thread()) == {"log": ["P", "Q", "r"]}


def test_a_task_that_asked_and_one_that_failed(saver: Any, call: Call, node: Node) -> None:
    down = [True]
    going = threading.Event()

    def ask(state: Log) -> dict[str, list[str]]:
        going.set()
        return {"log": [interrupt("?")]}

    def fail(state: Log) -> dict[str, list[str]]:
        going.wait(10)
        if down:
            raise ValueError("down")
        return {"log": ["mended"]}

    graph = fan(("ask", node(ask)), ("fail", node(fail))).compile(checkpointer=saver)
    with pytest.raises(ValueError, match="down"):
        call(graph, "invoke", {"log": []}, thread())
    state = call(graph, "get_state", thread())
    assert [one.value for one in state.interrupts] == ["?"]
    assert state.next == ("ask", "fail")
    down.clear()
    assert call(graph, "invoke", Command(resume="A"), thread()) == {"log": ["A", "mended"]}


def test_packets_that_ask_have_questions_of_their_own(saver: Any, call: Call, node: Node) -> None:
    builder = StateGraph(Log).add_node("w", node(lambda state: {"log": [interrupt(f"{state}?")]}))
    builder.add_conditional_edges(START, lambda state: [Send("w", n) for n in range(3)])
    graph = builder.compile(checkpointer=saver)
    questions = call(graph, "invoke", {"log": []}, thread())["__interrupt__"]
    assert len({one.id for one in questions}) == 3
    answers = {one.id: one.value for one in questions}
    assert call(graph, "invoke", Command(resume=answers), thread()) == {"log": ["0?", "1?", "2?"]}


def test_two_questions_asked_at_once_in_one_task_differ(saver: Any) -> None:
    ids = set()

    def ask(state: Log) -> dict[str, list[str]]:
        from contextvars import copy_context

        found: list[Any] = [None, None]

        def one(place: int) -> None:
            try:
                interrupt(f"q{place}")
            except Exception as signal:
                found[place] = signal

        workers = [threading.Thread(target=copy_context().run, args=(one, place)) for place in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        ids.update(question.id for signal in found for question in signal.args[0])
        raise found[0]

    chain(("ask", ask)).compile(checkpointer=saver).invoke({"log": []}, thread())
    assert len(ids) == 2


# -- answers with a form


class Approval(BaseModel):
    ok: bool
    why: str = ""


def test_an_answer_is_put_into_the_form_that_was_asked_for(saver: Any, call: Call, node: Node) -> None:
    got = []

    def ask(state: Log) -> None:
        got.append(interrupt("go?", response_schema=Approval))

    graph = chain(("ask", node(ask))).compile(checkpointer=saver)
    (question,) = call(graph, "invoke", {"log": []}, thread())["__interrupt__"]
    assert question.response_schema["properties"].keys() == {"ok", "why"}
    with pytest.raises(ValidationError) as raised:
        call(graph, "invoke", Command(resume={"why": "no ok"}), thread())
    assert is_invalid_resume(raised.value)
    assert [one.value for one in call(graph, "get_state", thread()).interrupts] == ["go?"]
    call(graph, "invoke", Command(resume={"ok": True}), thread())
    assert got == [Approval(ok=True)]


def test_a_json_schema_is_only_shown(saver: Any, call: Call, node: Node) -> None:
    graph = chain(("ask", node(lambda state: {"log": [interrupt("?", response_schema={"type": "integer"})]}))).compile(
        checkpointer=saver
    )
    (question,) = call(graph, "invoke", {"log": []}, thread())["__interrupt__"]
    assert question == Interrupt("?", question.id, {"type": "integer"})
    assert call(graph, "invoke", Command(resume="text"), thread()) == {"log": ["text"]}


# -- commands as input


def test_a_command_updates_the_newest_state_without_a_new_checkpoint(saver: Any, call: Call) -> None:
    graph = chain("a").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    assert call(graph, "invoke", Command(update={"log": ["u"]}), thread()) == {"log": ["a", "u"]}
    assert len(call(graph, "get_state_history", thread())) == 3
    assert call(graph, "get_state", thread()).values == {"log": ["a", "u"]}
    assert call(graph, "invoke", {"log": ["next"]}, thread()) == {"log": ["a", "u", "next", "a"]}


def test_a_command_goes_to_a_node_of_a_finished_thread(saver: Any, call: Call) -> None:
    graph = chain("a", "b").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    assert call(graph, "invoke", Command(goto="b"), thread()) == {"log": ["a", "b", "b"]}
    assert call(graph, "invoke", Command(goto=Send("b", {})), thread()) == {"log": ["a", "b", "b", "b"]}
    assert call(graph, "get_state", thread()).next == ()


def test_a_command_that_goes_elsewhere_does_not_cancel_a_question(saver: Any, call: Call, node: Node) -> None:
    builder = chain(("ask", node(asks("?"))))
    graph = builder.add_node("b", say("b")).compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    result = call(graph, "invoke", Command(goto="b"), thread())
    assert asked(result) == ["?"]
    assert call(graph, "invoke", Command(resume="A"), thread()) == {"log": ["A", "b"]}


def test_a_command_to_nowhere_leaves_nothing_behind(saver: Any, call: Call, caplog: pytest.LogCaptureFixture) -> None:
    graph = chain("a").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    call(graph, "invoke", Command(goto="nowhere"), thread())
    assert "nowhere" in caplog.text
    caplog.clear()
    call(graph, "invoke", None, thread())
    assert caplog.text == ""
    assert saver.get_tuple(thread()).pending_writes == []


def test_a_command_for_a_parent_is_refused_at_the_root(saver: Any, call: Call) -> None:
    graph = chain("a").compile(checkpointer=saver)
    with pytest.raises(InvalidUpdateError, match="parent"):
        call(graph, "invoke", Command(graph=Command.PARENT, goto="a"), thread())
    with pytest.raises(TypeError, match=r"Command\.goto"):
        call(graph, "invoke", Command(goto=[3]), thread())
    assert list(saver.list(None)) == []


# -- two answers to one pause


def test_each_answer_to_one_paused_checkpoint_makes_a_branch(saver: Any, call: Call, node: Node) -> None:
    graph = chain(("ask", node(asks("?"))), "b").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    pause = call(graph, "get_state", thread())
    assert call(graph, "invoke", Command(resume="1"), pause.config) == {"log": ["1", "b"]}
    assert call(graph, "invoke", Command(resume="2"), pause.config) == {"log": ["2", "b"]}
    assert call(graph, "invoke", Command(resume={pause.interrupts[0].id: "3"}), pause.config) == {"log": ["3", "b"]}
    ends = [one.values["log"] for one in call(graph, "get_state_history", thread()) if not one.next]
    assert ends == [["3", "b"], ["2", "b"], ["1", "b"]]


def test_a_late_answer_on_an_old_branch_is_used(saver: Any, call: Call, node: Node) -> None:
    graph = chain(("ask", node(asks("?")))).compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    pause = call(graph, "get_state", thread())
    call(graph, "update_state", thread(), {"log": ["moved on"]}, as_node="ask")
    assert call(graph, "invoke", Command(resume="LATE"), pause.config) == {"log": ["LATE"]}
    newest = call(graph, "get_state", thread())
    assert (newest.values, newest.metadata["source"], newest.metadata["step"]) == ({"log": ["LATE"]}, "loop", 1)
    assert newest.parent_config == pause.config


def test_answering_at_the_head_by_id_keeps_finished_siblings(saver: Any, call: Call, node: Node) -> None:
    ran: list[str] = []

    def sibling(state: Log) -> dict[str, list[str]]:
        ran.append("sibling")
        return {"log": ["s"]}

    graph = fan(("ask", node(asks("?"))), ("sibling", node(sibling))).compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    head = call(graph, "get_state", thread())
    assert call(graph, "invoke", Command(resume="A"), thread(checkpoint_id=id_of(head))) == {"log": ["A", "s"]}
    assert ran == ["sibling"]
    assert lines(call(graph, "get_state_history", thread()))[2:] == ["#2 p=1 loop/1 [A s] ()"]
