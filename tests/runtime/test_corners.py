"""Where two features meet: early answers and children, breakpoints inside, edits of a child's past (spec 5, 6, 7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from tests.acceptance.kit import Log, fan, thread
from tests.conftest import Call
from tests.runtime.kit import PLACES, Body, calling, graph_of, placed
from threadmark.types import Command, Durability, interrupt

Node = Callable[[Any], Any]
NESTED = ("child", "called", "three levels")


@pytest.mark.parametrize("place", PLACES)
def test_an_early_answer_is_used_once(saver: Any, call: Call, node: Node, place: str) -> None:
    body = Body()
    actions = [(name, placed(place, name, node(body.asking(name, "?")), call)) for name in "xy"]
    graph = fan(*actions).compile(checkpointer=saver, interrupt_before=["x"])
    call(graph, "invoke", {"log": []}, thread())
    call(graph, "invoke", Command(resume="early"), thread())
    for _ in range(2):
        assert len(call(graph, "get_state", thread()).interrupts) == 1
        call(graph, "invoke", None, thread())
    log = call(graph, "invoke", Command(resume="late"), thread())["log"]
    assert sorted(word.partition(":")[2] for word in log) == ["early", "late"]


class Form(BaseModel):
    age: int


@pytest.mark.parametrize("place", PLACES)
def test_a_second_answer_that_does_not_fit_leaves_the_question_open(
    saver: Any, call: Call, node: Node, place: str
) -> None:
    def ask(state: Log) -> Any:
        return {"log": [str(interrupt("age?", response_schema=Form).age)]}

    graph = graph_of(("n", placed(place, "n", node(ask), call)), checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    pause = call(graph, "get_state", thread())
    assert call(graph, "invoke", Command(resume={"age": 1}), pause.config) == {"log": ["1"]}
    with pytest.raises(ValueError, match="age"):
        call(graph, "invoke", Command(resume={"age": "old"}), pause.config)
    assert "__interrupt__" in call(graph, "invoke", None, thread())
    assert len(call(graph, "get_state", thread()).interrupts) == 1
    assert call(graph, "invoke", Command(resume={"age": 2}), thread()) == {"log": ["2"]}


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("place", NESTED)
def test_a_breakpoint_inside_stops_the_whole(
    saver: Any, call: Call, node: Node, place: str, durability: Durability
) -> None:
    body = Body()
    inner = graph_of(*((name, node(body.saying(name))) for name in ("s1", "s2", "s3")))
    inner.plan.interrupt_before = frozenset({"s2"})
    inner.plan.interrupt_after = frozenset({"s2"})
    nested = placed(place, "n", None, call, graph=inner)
    graph = graph_of(("n", nested), ("end", node(body.saying("end"))), checkpointer=saver)
    seen = []
    inputs: list[Any] = [{"log": []}, None, None]
    for input in inputs:
        call(graph, "invoke", input, thread(), durability=durability)
        seen.append((list(body.ran), call(graph, "get_state", thread()).next))
    assert seen == [
        (["s1"], ("n",)),
        (["s1", "s2"], ("n",)),
        (["s1", "s2", "s3", "end"], ()),
    ]


@pytest.mark.parametrize("true", [False, True])
def test_an_edit_of_a_child_s_past_is_gone_on_with(saver: Any, call: Call, node: Node, true: bool) -> None:
    body = Body()
    inner = graph_of(
        *((name, node(body.saying(name))) for name in ("s1", "s2", "s3")), checkpointer=True if true else None
    )
    graph = graph_of(("n", inner), ("end", node(body.saying("end"))), checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    before = list(saver.list(thread()))
    ns = next(ns for row in before if (ns := row.config["configurable"]["checkpoint_ns"]))
    history = call(graph, "get_state_history", thread(checkpoint_ns=ns))
    past = next(one for one in history if one.next == ("s2",))
    made = call(graph, "update_state", past.config, {"log": ["edit"]}, as_node="s1")
    body.ran.clear()
    assert call(graph, "invoke", None, made)["log"] == ["s1", "edit", "s2", "s3", "end"]
    assert body.ran == ["s2", "s3", "end"]
    rows = {(row.config["configurable"]["checkpoint_ns"], row.checkpoint["id"]): row for row in saver.list(thread())}
    for row in before:
        assert rows[row.config["configurable"]["checkpoint_ns"], row.checkpoint["id"]] == row


@pytest.mark.parametrize("place", NESTED)
def test_a_question_in_a_replayed_child_is_answered_on_the_new_branch(
    saver: Any, call: Call, node: Node, place: str
) -> None:
    """Answers given after a travel go on with the branch that the travel made, and to nowhere else."""
    body = Body()
    nested = placed(place, "n", node(body.asking("ask", "1?", "2?")), call, before=node(body.saying("before")))
    graph = graph_of(("n", nested), checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    call(graph, "invoke", Command(resume="a"), thread())
    call(graph, "invoke", Command(resume="b"), thread())
    rows = [row for row in saver.list(thread()) if "branch:to:ask" in row.checkpoint["channel_values"]]
    call(graph, "invoke", None, {"configurable": rows[-1].config["configurable"]})
    for answer, value in (("c", "1?"), ("d", "2?")):
        (question,) = call(graph, "get_state", thread()).interrupts
        assert question.value == value
        done = call(graph, "invoke", Command(resume={question.id: answer}), thread())
    assert done["log"] == ["before", "ask:c", "ask:d"]
    assert body.ran.count("before") == 1


@pytest.mark.parametrize("place", NESTED)
def test_a_router_inside_that_failed_is_asked_again_and_its_node_is_not(
    saver: Any, call: Call, node: Node, place: str
) -> None:
    from threadmark.graph import END, START, StateGraph

    body = Body()
    mended: list[int] = []

    def route(state: Log) -> str:
        body.ran.append("route")
        if not mended:
            raise ValueError("no way")
        return "s2"

    builder: StateGraph[Any] = StateGraph(Log)
    builder.add_node("s1", node(body.saying("s1")))
    builder.add_node("s2", node(body.saying("s2")))
    builder.add_edge(START, "s1")
    builder.add_conditional_edges("s1", node(route), ["s2", END])
    graph = graph_of(("n", placed(place, "n", None, call, graph=builder.compile())), checkpointer=saver)
    with pytest.raises(ValueError, match="no way"):
        call(graph, "invoke", {"log": []}, thread())
    mended.append(1)
    assert call(graph, "invoke", None, thread()) == {"log": ["s1", "s2"]}
    assert body.ran == ["s1", "route", "route", "s2"]


def test_children_called_one_after_the_other_where_the_second_fails(saver: Any, call: Call, node: Node) -> None:
    body = Body()
    mended: list[int] = []
    one = calling(graph_of(("one", node(body.saying("one")))), call)
    two = calling(graph_of(("two", node(body.failing("two", mended)))), call)

    def both(state: Log) -> Any:
        return {"log": [*one(state)["log"], *two(state)["log"]]}

    async def both_on_loop(state: Log) -> Any:
        return {"log": [*(await one(state))["log"], *(await two(state))["log"]]}

    graph = graph_of(("n", both_on_loop if call.colour == "async" else both), checkpointer=saver)
    with pytest.raises(ValueError, match="two is down"):
        call(graph, "invoke", {"log": []}, thread())
    mended.append(1)
    assert call(graph, "invoke", None, thread()) == {"log": ["one", "two"]}
    assert body.ran == ["one", "two", "two"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("place", NESTED)
@pytest.mark.parametrize("true", [False, True])
def test_an_old_pause_is_answered_after_another_turn(
    saver: Any, call: Call, node: Node, place: str, true: bool, durability: Durability
) -> None:
    body = Body()
    ask, before = node(body.asking("ask", "?")), node(body.saying("before"))
    graph = graph_of(("n", placed(place, "n", ask, call, before=before, true=true)), checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread(), durability=durability)
    pause = call(graph, "get_state", thread())
    call(graph, "invoke", {"log": ["turn 2"]}, thread(), durability=durability)
    body.ran.clear()
    for answer in ("late", "later"):
        done = call(graph, "invoke", Command(resume=answer), pause.config, durability=durability)
        assert done["log"][-2:] == ["before", f"ask:{answer}"]
    assert body.ran == ["ask", "ask"]
