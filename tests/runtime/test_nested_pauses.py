"""Questions wherever they are asked: in the root graph, in children, in graphs called inside nodes (spec 5, 7.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.kit import Log, thread
from tests.conftest import Call
from tests.runtime.kit import PLACES, Body, graph_of, placed
from threadmark.errors import UnknownInterruptError
from threadmark.graph import START, StateGraph
from threadmark.types import Command

Node = Callable[[Any], Any]

pytestmark = pytest.mark.parametrize("place", PLACES)


@pytest.fixture
def body() -> Body:
    return Body()


def open_questions(call: Call, graph: Any) -> list[Any]:
    return [question.value for question in call(graph, "get_state", thread()).interrupts]


def ids(call: Call, graph: Any) -> list[str]:
    return [question.id for question in call(graph, "get_state", thread()).interrupts]


def parallel(saver: Any, call: Call, place: str, *actions: tuple[str, Any]) -> Any:
    """START -> all at once -> end."""
    builder: Any = StateGraph(Log)
    for name, action in actions:
        builder.add_node(name, placed(place, name, action, call))
        builder.add_edge(START, name)
    builder.add_node("end", lambda state: {"log": ["end"]})
    builder.add_edge([name for name, _ in actions], "end")
    return builder.compile(checkpointer=saver)


# -- one question ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("by_id", [False, True])
def test_one_question_and_its_answer(
    saver: Any, call: Call, node: Node, place: str, body: Body, durability: str, by_id: bool
) -> None:
    ask = placed(place, "n", node(body.asking("ask", "?")), call, before=node(body.saying("before")))
    graph = graph_of(("n", ask), ("end", node(body.saying("end"))), checkpointer=saver)
    shown = call(graph, "invoke", {"log": []}, thread(), durability=durability)
    (question,) = shown["__interrupt__"]
    state = call(graph, "get_state", thread())
    assert (state.next, state.interrupts, state.tasks[0].interrupts) == (("n",), (question,), (question,))
    call(graph, "invoke", None, thread(), durability=durability)
    assert ids(call, graph) == [question.id]
    answer = {question.id: "A"} if by_id else "A"
    body.ran.clear()
    done = call(graph, "invoke", Command(resume=answer), thread(), durability=durability)
    assert done["log"][-2:] == ["ask:A", "end"]
    assert body.ran == ["ask", "end"]  # what was before the question in its graph does not run again
    final = call(graph, "get_state", thread())
    assert (final.next, final.interrupts, final.tasks) == ((), (), ())


@pytest.mark.parametrize("by_id", [False, True])
def test_questions_of_one_node_come_one_after_the_other(
    saver: Any, call: Call, node: Node, place: str, body: Body, by_id: bool
) -> None:
    ask = placed(place, "n", node(body.asking("ask", "1?", "2?", "3?")), call)
    graph = graph_of(("n", ask), checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    seen: list[str] = []
    for number in "123":
        (question,) = call(graph, "get_state", thread()).interrupts
        assert question.value == f"{number}?"
        assert question.id not in seen
        seen.append(question.id)
        answer: Any = {question.id: number} if by_id else number
        done = call(graph, "invoke", Command(resume=answer), thread())
    assert done["log"] == ["ask:1", "ask:2", "ask:3"]


def test_an_old_id_is_refused_when_the_next_question_is_open(
    saver: Any, call: Call, node: Node, place: str, body: Body
) -> None:
    graph = graph_of(("n", placed(place, "n", node(body.asking("ask", "1?", "2?")), call)), checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    (first,) = ids(call, graph)
    call(graph, "invoke", Command(resume="1"), thread())
    (second,) = ids(call, graph)
    with pytest.raises(UnknownInterruptError, match=second):
        call(graph, "invoke", Command(resume={first: "again"}), thread())
    assert open_questions(call, graph) == ["2?"]


@pytest.mark.parametrize("answer", [{"0" * 32: "x"}, {}])
def test_what_answers_nothing_is_refused_and_leaves_no_trace(
    saver: Any, call: Call, node: Node, place: str, body: Body, answer: Any
) -> None:
    graph = graph_of(("n", placed(place, "n", node(body.asking("ask", "?")), call)), checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    (open_id,) = ids(call, graph)
    stored = list(saver.list(None))
    with pytest.raises(UnknownInterruptError, match=open_id) as caught:
        call(graph, "invoke", Command(resume=answer, update={"log": ["never"]}, goto="n"), thread())
    assert list(caught.value.pending_ids) == [open_id]
    assert list(saver.list(None)) == stored


@pytest.mark.parametrize("answer", ["x", {"0" * 32: "x"}, {}])
def test_an_answer_to_a_finished_thread_is_refused_and_leaves_no_trace(
    saver: Any, call: Call, node: Node, place: str, body: Body, answer: Any
) -> None:
    graph = graph_of(("n", placed(place, "n", node(body.saying("say")), call)), checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    stored = list(saver.list(None))
    with pytest.raises(UnknownInterruptError, match=r"nothing|none"):
        call(graph, "invoke", Command(resume=answer), thread())
    assert list(saver.list(None)) == stored


def test_an_answer_outlives_a_failure_behind_it(saver: Any, call: Call, node: Node, place: str, body: Body) -> None:
    mended: list[int] = []

    def ask_and_fail(state: Any) -> Any:
        answer = body.asking("ask", "?")(state)
        if not mended:
            raise ValueError("down")
        return answer

    graph = graph_of(("n", placed(place, "n", node(ask_and_fail), call)), checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    with pytest.raises(ValueError, match="down"):
        call(graph, "invoke", Command(resume="A"), thread())
    failed = call(graph, "get_state", thread())
    assert (failed.next, failed.interrupts) == (("n",), ())
    mended.append(1)
    assert call(graph, "invoke", None, thread())["log"] == ["ask:A"]


def test_a_second_answer_to_one_pause_makes_a_branch(
    saver: Any, call: Call, node: Node, place: str, body: Body
) -> None:
    graph = graph_of(
        ("n", placed(place, "n", node(body.asking("ask", "?")), call)),
        ("end", node(body.saying("end"))),
        checkpointer=saver,
    )
    call(graph, "invoke", {"log": []}, thread())
    pause = call(graph, "get_state", thread())
    for answer in ("1", "2", {pause.interrupts[0].id: "3"}):
        stored = list(saver.list(thread()))
        done = call(graph, "invoke", Command(resume=answer), pause.config)
        assert done["log"] == [f"ask:{answer if isinstance(answer, str) else 3}", "end"]
        if answer != "1":
            now = {row.config["configurable"]["checkpoint_id"]: row for row in saver.list(thread())}
            assert all(now[row.config["configurable"]["checkpoint_id"]] == row for row in stored)
    ends = [one.values["log"] for one in call(graph, "get_state_history", thread()) if not one.next]
    assert ends == [["ask:3", "end"], ["ask:2", "end"], ["ask:1", "end"]]


def test_a_second_answer_to_the_second_question_keeps_the_first_answer(
    saver: Any, call: Call, node: Node, place: str, body: Body
) -> None:
    graph = graph_of(("n", placed(place, "n", node(body.asking("ask", "1?", "2?")), call)), checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    call(graph, "invoke", Command(resume="one"), thread())
    pause = call(graph, "get_state", thread())
    (question,) = pause.interrupts
    assert call(graph, "invoke", Command(resume="two"), thread())["log"] == ["ask:one", "ask:two"]
    for answer in ("zwei", {question.id: "drei"}):
        done = call(graph, "invoke", Command(resume=answer), pause.config)
        word = answer if isinstance(answer, str) else "drei"
        assert done["log"] == ["ask:one", f"ask:{word}"]


@pytest.mark.parametrize("true", [False, True])
@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize("apart", [False, True])
def test_an_earlier_question_takes_another_answer_by_its_old_id(
    saver: Any, call: Call, node: Node, place: str, body: Body, apart: bool, finished: bool, true: bool
) -> None:
    """The later question is of the same node, or of the next one in its graph. What the root shows of a node with a
    graph inside is the later question only."""
    kept = True if true and place != "root" else None
    if apart:
        inner = [(name, node(body.asking(name, f"{name}?"))) for name in ("one", "two")]
    else:
        inner = [("one", node(body.asking("one", "one?", "two?")))]
    asking = inner
    if place != "root":
        asking = [("n", placed(place, "n", None, call, graph=graph_of(*inner, checkpointer=kept), true=bool(kept)))]
    graph = graph_of(*asking, ("end", node(body.saying("end"))), checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    (first,) = ids(call, graph)
    asked_at = call(graph, "get_state", thread()).config
    call(graph, "invoke", Command(resume="1"), thread())
    pause = call(graph, "get_state", thread())
    (second,) = pause.interrupts
    if not (apart and place == "root"):  # else the two nodes pause at two checkpoints
        assert asked_at == pause.config
    later = "two" if apart else "one"
    before = ["one:1", f"{later}:2", "end"]
    if finished:
        assert call(graph, "invoke", Command(resume="2"), thread())["log"] == before
    stored = list(saver.list(thread()))

    shown = call(graph, "invoke", Command(resume={first: "uno"}), asked_at)
    (question,) = shown["__interrupt__"]
    assert question.value == "two?"
    assert question.id not in (first, second.id)
    assert call(graph, "invoke", Command(resume="due"), thread())["log"] == ["one:uno", f"{later}:due", "end"]

    kept_rows = {(own["checkpoint_ns"], own["checkpoint_id"]): row for row, own in _named(saver)}
    assert all(kept_rows[own["checkpoint_ns"], own["checkpoint_id"]] == row for row, own in _named(stored))
    if not finished:  # the first branch is still at its question
        assert call(graph, "invoke", Command(resume="2"), pause.config)["log"] == before


def _named(rows: Any) -> list[tuple[Any, Any]]:
    rows = rows if isinstance(rows, list) else list(rows.list(thread()))
    return [(row, row.config["configurable"]) for row in rows]


def test_an_id_that_nobody_asked_is_refused_at_an_old_checkpoint_too(
    saver: Any, call: Call, node: Node, place: str, body: Body
) -> None:
    graph = graph_of(("n", placed(place, "n", node(body.asking("ask", "1?", "2?")), call)), checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    (first,) = ids(call, graph)
    call(graph, "invoke", Command(resume="1"), thread())
    pause = call(graph, "get_state", thread())
    stored = list(saver.list(None))
    for answer in ({"0" * 32: "x"}, {first: "x", "0" * 32: "y"}):
        with pytest.raises(UnknownInterruptError, match=pause.interrupts[0].id):
            call(graph, "invoke", Command(resume=answer), pause.config)
    assert list(saver.list(None)) == stored


# -- several questions -------------------------------------------------------------------------------------------------


def test_parallel_questions_bare_partial_and_last(saver: Any, call: Call, node: Node, place: str, body: Body) -> None:
    graph = parallel(
        saver,
        call,
        place,
        *((name, node(body.asking(name, f"{name}?"))) for name in "abc"),
        ("d", node(body.saying("d"))),
    )
    shown = call(graph, "invoke", {"log": []}, thread())["__interrupt__"]
    by_value = {question.value: question.id for question in shown}
    assert sorted(by_value) == ["a?", "b?", "c?"]
    assert len(set(by_value.values())) == 3
    stored = list(saver.list(None))
    with pytest.raises(UnknownInterruptError) as caught:
        call(graph, "invoke", Command(resume="X"), thread())
    assert set(caught.value.pending_ids) == set(by_value.values())
    assert list(saver.list(None)) == stored
    body.ran.clear()
    call(graph, "invoke", Command(resume={by_value["b?"]: "B"}), thread())
    state = call(graph, "get_state", thread())
    assert (state.next, [question.value for question in state.interrupts]) == (("a", "c"), ["a?", "c?"])
    with pytest.raises(UnknownInterruptError):
        call(graph, "invoke", Command(resume={by_value["b?"]: "again"}), thread())
    call(graph, "invoke", Command(resume={by_value["c?"]: "C"}), thread())
    assert open_questions(call, graph) == ["a?"]
    done = call(graph, "invoke", Command(resume="A"), thread())
    assert done["log"] == ["a:A", "b:B", "c:C", "d", "end"]
    assert body.ran.count("b") == 1
    assert "d" not in body.ran


def test_parallel_questions_answered_at_once(saver: Any, call: Call, node: Node, place: str, body: Body) -> None:
    graph = parallel(saver, call, place, *((name, node(body.asking(name, f"{name}?"))) for name in "ab"))
    shown = call(graph, "invoke", {"log": []}, thread())["__interrupt__"]
    answers = {question.id: question.value.upper() for question in shown}
    assert call(graph, "invoke", Command(resume=answers), thread())["log"] == ["a:A?", "b:B?", "end"]


def test_parallel_nodes_with_two_questions_each(saver: Any, call: Call, node: Node, place: str, body: Body) -> None:
    graph = parallel(saver, call, place, *((name, node(body.asking(name, f"{name}1", f"{name}2"))) for name in "ab"))
    call(graph, "invoke", {"log": []}, thread())
    for _ in range(2):
        state = call(graph, "get_state", thread())
        answers = {question.id: question.value for question in state.interrupts}
        assert len(answers) == 2
        done = call(graph, "invoke", Command(resume=answers), thread())
    assert done["log"] == ["a:a1", "a:a2", "b:b1", "b:b2", "end"]


def test_one_of_two_branches_at_the_second_question(saver: Any, call: Call, node: Node, place: str, body: Body) -> None:
    graph = parallel(saver, call, place, *((name, node(body.asking(name, f"{name}1", f"{name}2"))) for name in "ab"))
    call(graph, "invoke", {"log": []}, thread())
    first = {question.value: question.id for question in call(graph, "get_state", thread()).interrupts}
    call(graph, "invoke", Command(resume={first["a1"]: "x"}), thread())
    assert open_questions(call, graph) == ["a2", "b1"]
    now = {question.value: question.id for question in call(graph, "get_state", thread()).interrupts}
    assert now["b1"] == first["b1"]
    call(graph, "invoke", Command(resume={now["a2"]: "y"}), thread())
    call(graph, "invoke", Command(resume="z"), thread())
    assert open_questions(call, graph) == ["b2"]
    assert call(graph, "invoke", Command(resume="w"), thread())["log"] == ["a:x", "a:y", "b:z", "b:w", "end"]


def test_a_second_answer_to_one_of_two_keeps_the_sibling(
    saver: Any, call: Call, node: Node, place: str, body: Body
) -> None:
    graph = parallel(saver, call, place, *((name, node(body.asking(name, f"{name}?"))) for name in "ab"))
    call(graph, "invoke", {"log": []}, thread())
    pause = call(graph, "get_state", thread())
    by_value = {question.value: question.id for question in pause.interrupts}
    call(graph, "invoke", Command(resume={by_value["a?"]: "1", by_value["b?"]: "2"}), thread())
    body.ran.clear()
    done = call(graph, "invoke", Command(resume={by_value["b?"]: "other"}), pause.config)
    assert done["log"] == ["a:1", "b:other", "end"]
    assert body.ran == ["b"]


# -- with other things -------------------------------------------------------------------------------------------------


def test_an_answer_with_an_update_and_a_target(saver: Any, call: Call, node: Node, place: str, body: Body) -> None:
    builder: StateGraph[Any] = StateGraph(Log)
    builder.add_node("n", placed(place, "n", node(body.asking("ask", "?")), call))
    builder.add_node("aside", node(body.saying("aside")))
    builder.add_edge(START, "n")
    graph = builder.compile(checkpointer=saver)
    call(graph, "invoke", {"log": ["x"]}, thread())
    done = call(graph, "invoke", Command(resume="A", update={"log": ["u"]}, goto="aside"), thread())
    assert done["log"][:2] == ["x", "u"]
    assert done["log"][-1] == "ask:A"
    assert "aside" in done["log"]


def test_new_input_drops_the_question(saver: Any, call: Call, node: Node, place: str, body: Body) -> None:
    graph = graph_of(("n", placed(place, "n", node(body.asking("ask", "?")), call)), checkpointer=saver)
    call(graph, "invoke", {"log": ["1"]}, thread())
    (old,) = ids(call, graph)
    call(graph, "invoke", {"log": ["2"]}, thread())
    (new,) = ids(call, graph)
    assert new != old
    with pytest.raises(UnknownInterruptError):
        call(graph, "invoke", Command(resume={old: "x"}), thread())
    assert call(graph, "invoke", Command(resume="A"), thread())["log"][-1] == "ask:A"


def test_an_update_in_place_of_the_node_drops_the_question(
    saver: Any, call: Call, node: Node, place: str, body: Body
) -> None:
    graph = graph_of(
        ("n", placed(place, "n", node(body.asking("ask", "?")), call)),
        ("end", node(body.saying("end"))),
        checkpointer=saver,
    )
    call(graph, "invoke", {"log": []}, thread())
    call(graph, "update_state", thread(), {"log": ["by hand"]}, as_node="n")
    state = call(graph, "get_state", thread())
    assert (state.next, state.interrupts) == (("end",), ())
    assert call(graph, "invoke", None, thread())["log"] == ["by hand", "end"]
    assert "ask" not in body.ran[1:]


def test_a_replay_before_the_question_asks_again(saver: Any, call: Call, node: Node, place: str, body: Body) -> None:
    graph = graph_of(
        ("n", placed(place, "n", node(body.asking("ask", "?")), call)),
        ("end", node(body.saying("end"))),
        checkpointer=saver,
    )
    call(graph, "invoke", {"log": []}, thread())
    pause = call(graph, "get_state", thread())
    call(graph, "invoke", Command(resume="1"), thread())
    stored = list(saver.list(thread()))
    shown = call(graph, "invoke", None, pause.config)
    assert [question.value for question in shown["__interrupt__"]] == ["?"]
    assert call(graph, "invoke", Command(resume="2"), thread())["log"] == ["ask:2", "end"]
    now = {row.config["configurable"]["checkpoint_id"]: row for row in saver.list(thread())}
    assert all(now[row.config["configurable"]["checkpoint_id"]] == row for row in stored)
