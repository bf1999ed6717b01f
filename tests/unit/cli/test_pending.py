"""Tasks read from a checkpoint without its graph agree with what the graph itself says."""

from __future__ import annotations

from collections.abc import Iterator
from operator import add
from threading import Event
from typing import Annotated, Any, TypedDict

import pytest

from threadmark.checkpoint.memory import InMemorySaver
from threadmark.cli import pending
from threadmark.graph import END, START, StateGraph
from threadmark.types import Command, Send, interrupt


class State(TypedDict, total=False):
    log: Annotated[list[str], add]


CONFIG: Any = {"configurable": {"thread_id": "1"}}


def say(word: str) -> Any:
    return lambda state: {"log": [word]}


def failing_after(other: Event) -> Any:
    def fail(state: State) -> Any:
        other.wait()
        raise ValueError("no luck")

    return fail


def ask(state: State) -> Any:
    return {"log": [interrupt("first?"), interrupt("second?")]}


def diamond() -> StateGraph[Any]:
    """One node, two at once, a join of both; the join's own name has a plus sign."""
    builder = StateGraph(State)
    for name in ("a", "b+x", "c", "d"):
        builder.add_node(name, say(name))
    builder.add_edge(START, "a")
    builder.add_edge("a", "b+x")
    builder.add_edge("a", "c")
    builder.add_edge(["b+x", "c"], "d")
    return builder


def uneven() -> StateGraph[Any]:
    """A join whose sources arrive in different supersteps, and a deferred node behind everything."""
    builder = StateGraph(State)
    for name in ("short", "long", "longer", "joined"):
        builder.add_node(name, say(name))
    builder.add_node("last", say("last"), defer=True)
    builder.add_edge(START, "short")
    builder.add_edge(START, "long")
    builder.add_edge("long", "longer")
    builder.add_edge(["short", "longer"], "joined")
    builder.add_edge("short", "last")
    builder.add_edge("joined", END)
    return builder


def fan_out() -> StateGraph[Any]:
    """Packets to one node beside a node that is merely triggered."""
    builder = StateGraph(State)
    builder.add_node("plan", say("plan"))
    builder.add_node("work", lambda arg: {"log": [str(arg)]})
    builder.add_node("beside", say("beside"))
    builder.add_edge(START, "plan")
    builder.add_edge("plan", "beside")
    builder.add_conditional_edges("plan", lambda state: [Send("work", n) for n in range(3)], ["work"])
    return builder


def asking() -> StateGraph[Any]:
    builder = StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_node("fine", say("fine"))
    builder.add_edge(START, "ask")
    builder.add_edge(START, "fine")
    return builder


def failing() -> StateGraph[Any]:
    """A node fails once its sibling has begun, since what has not begun by then does not run."""
    begun = Event()

    def fine(state: State) -> Any:
        begun.set()
        return {"log": ["fine"]}

    builder = StateGraph(State)
    builder.add_node("fine", fine)
    builder.add_node("fail", failing_after(begun))
    builder.add_edge(START, "fine")
    builder.add_edge(START, "fail")
    return builder


def looping() -> StateGraph[Any]:
    builder = StateGraph(State)
    builder.add_node(
        "turn", lambda state: Command(update={"log": ["."]}, goto="turn" if len(state["log"]) < 3 else END)
    )
    builder.add_edge(START, "turn")
    return builder


def nested() -> StateGraph[Any]:
    builder = StateGraph(State)
    builder.add_node("outer", asking().compile())
    builder.add_edge(START, "outer")
    return builder


GRAPHS = (diamond, uneven, fan_out, asking, failing, looping, nested)


def run(graph: Any, *inputs: Any) -> None:
    for input in inputs or ({"log": []},):
        try:
            graph.invoke(input, CONFIG)
        except ValueError:
            pass


def stored(saver: InMemorySaver) -> Iterator[Any]:
    return saver.list({"configurable": {"thread_id": "1", "checkpoint_ns": ""}})


@pytest.mark.parametrize("build", GRAPHS)
def test_every_checkpoint_of_a_history_has_the_tasks_that_the_graph_gives_it(build: Any) -> None:
    saver = InMemorySaver()
    graph = build().compile(checkpointer=saver)
    run(graph)
    history = list(graph.get_state_history(CONFIG))
    found = [pending.tasks(saved) for saved in stored(saver)]
    assert len(history) > 1
    assert [sorted((t.id, t.node) for t in tasks) for tasks in found] == [
        sorted((task.id, task.name) for task in snapshot.tasks) for snapshot in history
    ]


@pytest.mark.parametrize("build", GRAPHS)
def test_what_is_next_and_who_asks_is_what_the_live_state_says(build: Any) -> None:
    saver = InMemorySaver()
    graph = build().compile(checkpointer=saver)
    run(graph)
    state = graph.get_state(CONFIG)
    tasks = pending.tasks(next(stored(saver)))
    assert sorted(pending.to_run(tasks)) == sorted(state.next)
    asked = [(question.id, question.value) for task in tasks for question in task.questions]
    assert asked == [(question.id, question.value) for question in state.interrupts]


def test_a_question_that_was_answered_is_open_no_more() -> None:
    saver = InMemorySaver()
    graph = asking().compile(checkpointer=saver)
    run(graph, {"log": []}, Command(resume="one"))
    (asks,) = [task for task in pending.tasks(next(stored(saver))) if task.node == "ask"]
    assert [question.value for question in asks.questions] == ["second?"]
    assert asks.status == "asks"
    run(graph, Command(resume="two"))
    before, after = list(stored(saver))[1::-1]
    assert [(t.node, t.status, t.questions) for t in pending.tasks(before)] == [
        ("ask", "finished", ()),
        ("fine", "finished", ()),
    ]
    assert pending.tasks(after) == []


def test_a_failed_task_has_its_error_and_its_sibling_its_output() -> None:
    saver = InMemorySaver()
    run(failing().compile(checkpointer=saver))
    tasks = pending.tasks(next(stored(saver)))
    assert {task.node: (task.status, task.error) for task in tasks} == {
        "fail": ("failed", "ValueError('no luck')"),
        "fine": ("finished", None),
    }
    assert pending.outputs(tasks) == {"fine": {"log": ["fine"]}}
    assert pending.to_run(tasks) == ["fail"]


def test_a_packet_shows_what_was_sent_and_all_outputs_of_a_node_are_listed() -> None:
    saver = InMemorySaver()
    run(fan_out().compile(checkpointer=saver))
    tasks = pending.tasks(list(stored(saver))[1])
    assert [(task.node, task.sent) for task in tasks if task.sent is not None] == [
        ("work", 0),
        ("work", 1),
        ("work", 2),
    ]
    assert pending.outputs(tasks) == {
        "work": [{"log": ["0"]}, {"log": ["1"]}, {"log": ["2"]}],
        "beside": {"log": ["beside"]},
    }


def test_a_node_that_a_command_goes_to_is_next() -> None:
    saver = InMemorySaver()
    graph = asking().compile(checkpointer=saver)
    run(graph, {"log": []}, Command(goto="fine"))
    assert sorted(pending.to_run(pending.tasks(next(stored(saver))))) == sorted(graph.get_state(CONFIG).next)


def test_the_state_of_a_single_value_is_the_value() -> None:
    assert pending.output([("__root__", 5), ("branch:to:b", None)]) == 5
    assert pending.output([("__no_writes__", None)]) is None
    assert pending.output([("log", ["a"]), ("join:a+b:c", "a")]) == {"log": ["a"]}
