"""Twenty graphs of LangGraph's, each with what its user does."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import sleep
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.config import get_stream_writer
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Overwrite, RetryPolicy, Send, interrupt
from pydantic import BaseModel

from tests.interop.play import Play


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Wide(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    item: str
    note: dict[str, Any]


def _gather(state: list[Any], writes: Sequence[Any]) -> list[Any]:
    return [*state, *(item for write in writes for item in write)]


class Deltas(TypedDict):
    log: Annotated[list[str], DeltaChannel(_gather, snapshot_frequency=3)]
    plain: str


@dataclass
class Order:
    number: int
    lines: list[str]


class Customer(BaseModel):
    name: str
    orders: list[int] = []


class Shop(TypedDict, total=False):
    order: Order
    customer: Customer
    log: Annotated[list[str], operator.add]


ALLOWED = [Shop]
"""What the graphs' own classes need of a saver of ours."""


def say(word: str) -> Callable[[Any], dict[str, list[str]]]:
    return lambda state: {"log": [word]}


def chain(*nodes: str | tuple[str, Any], schema: Any = Log) -> Any:
    builder = StateGraph(schema)
    before = START
    for item in nodes:
        name, action = (item, say(item)) if isinstance(item, str) else item
        builder.add_node(name, action)
        builder.add_edge(before, name)
        before = name
    return builder


def ask(*questions: Any) -> Callable[[Any], dict[str, list[str]]]:
    return lambda state: {"log": [str(interrupt(question)) for question in questions]}


def a_chain(play: Play) -> None:
    play.compile(chain("a", "b", "c"))
    play.run({"log": ["x"]})
    play.run({"log": ["y"]})
    play.state()
    play.history()
    play.history(limit=2)
    play.history(filter={"source": "input"})


def a_barrier(play: Play) -> None:
    builder = StateGraph(Log)
    for name in "abcd":
        builder.add_node(name, say(name))
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")
    builder.add_edge("a", "c")
    builder.add_edge(["b", "c"], "d")
    play.compile(builder)
    play.run({"log": ["x"]})
    play.run({"log": ["y"]})
    play.history()


def deferred(play: Play) -> None:
    builder = StateGraph(Log)
    for name in ("a", "b", "b2", "c"):
        builder.add_node(name, say(name))
    builder.add_node("d", say("d"), defer=True)
    for source, target in ((START, "a"), ("a", "b"), ("b", "b2"), ("b2", "d"), ("a", "c"), ("c", "d")):
        builder.add_edge(source, target)
    play.compile(builder)
    play.run({"log": []})
    play.history()


def a_loop(play: Play) -> None:
    builder = StateGraph(Log)
    builder.add_node("turn", say("turn"))
    builder.add_edge(START, "turn")
    builder.add_conditional_edges("turn", lambda state: "turn" if len(state["log"]) < 5 else END)
    play.compile(builder)
    play.run({"log": []})
    play.run({"log": []}, durability="sync")
    play.history()


def sends(play: Play) -> None:
    builder = StateGraph(Wide)
    builder.add_node("split", lambda state: {"log": ["split"]})
    builder.add_node("work", lambda state: {"log": [f"did {state['item']}"]})
    builder.add_edge(START, "split")
    builder.add_conditional_edges("split", lambda state: [Send("work", {"item": name}) for name in "pqrs"], ["work"])
    play.compile(builder)
    play.run({"log": []})
    play.history()


def one_question(play: Play) -> None:
    play.compile(chain("a", ("asks", ask({"q": "name?"})), "z"))
    play.run({"log": []})
    play.state()
    play.run(Command(resume="Ada"))
    play.state()
    play.history()


def questions_in_turn(play: Play) -> None:
    play.compile(chain(("asks", ask("first?", "second?"))))
    play.run({"log": []})
    play.run(Command(resume="1"))
    play.state()
    play.run(Command(resume="2"))
    play.history()


def questions_side_by_side(play: Play) -> None:
    def second(state: Any) -> dict[str, list[str]]:
        sleep(0.1)  # questions are listed as they come
        return ask("q?")(state)

    builder = StateGraph(Log)
    for name, action in (("p", ask("p?")), ("q", second)):
        builder.add_node(name, action)
        builder.add_edge(START, name)
    play.compile(builder)
    play.run({"log": []})
    asked = play.state().interrupts
    play.run(Command(resume={asked[0].id: "one"}))
    play.state()
    play.run(Command(resume="two"))
    play.history()


def breakpoints(play: Play) -> None:
    play.compile(chain("a", "b", "c"), interrupt_before=["b"], interrupt_after=["b"])
    play.run({"log": []})
    play.state()
    play.run(None)
    play.state()
    play.run(None)
    play.history()


def a_failure(play: Play) -> None:
    down = [True]

    def fails(state: Any) -> dict[str, list[str]]:
        if down:
            # LangGraph may lose what a sibling has just written when a node fails at the same moment.
            sleep(0.2)
            raise ValueError("down")
        return {"log": ["up"]}

    builder = StateGraph(Log)
    builder.add_node("ok", say("ok"))
    builder.add_node("z", fails)
    builder.add_edge(START, "ok")
    builder.add_edge(START, "z")
    play.compile(builder)
    play.run({"log": []})
    play.state()
    down.clear()
    play.run(None)
    play.history()


def a_retry(play: Play) -> None:
    tries: list[int] = []

    def flaky(state: Any) -> dict[str, list[str]]:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("again")
        return {"log": [f"try {len(tries)}"]}

    builder = chain("a")
    builder.add_node("flaky", flaky, retry_policy=RetryPolicy(initial_interval=0.001, jitter=False))
    builder.add_edge("a", "flaky")
    play.compile(builder)
    play.run({"log": []})
    play.history()


def children(play: Play) -> None:
    inner = chain("i", ("asks", ask("inner?")), "j").compile()
    play.compile(chain("a", ("child", inner), "z"))
    play.run({"log": ["x"]})
    play.state(subgraphs=True)
    play.run(Command(resume="yes"))
    play.state()
    play.history()


def grandchildren(play: Play) -> None:
    innermost = chain(("asks", ask("deep?")), "k").compile()
    inner = chain("i", ("deep", innermost)).compile()
    play.compile(chain(("child", inner), "z"))
    play.run({"log": []})
    asked = play.state(subgraphs=True)
    play.history(asked.tasks[0].state.config)
    play.run(Command(resume="yes"))
    play.history()


def a_child_with_a_memory(play: Play) -> None:
    inner = chain("i", "j").compile(checkpointer=True)
    play.compile(chain("a", ("child", inner)))
    play.run({"log": ["x"]})
    play.run({"log": ["y"]})
    play.history()
    play.history({"configurable": {"thread_id": "1", "checkpoint_ns": "child"}})


def travel(play: Play) -> None:
    play.compile(chain("a", "b", "c"))
    play.run({"log": ["x"]})
    at_b = next(one for one in play.history() if one.next == ("b",))
    play.run(None, at_b)
    play.history()
    play.update({"log": ["edited"]}, at_b, as_node="a")
    play.run(None)
    play.state()
    play.history()


def commands(play: Play) -> None:
    builder = StateGraph(Wide)
    builder.add_node("a", lambda state: Command(update={"note": {"seen": 1}, "log": ["a"]}, goto="c"))
    builder.add_node("b", say("b"))
    builder.add_node("c", ask("where?"))
    builder.add_edge(START, "a")
    play.compile(builder)
    play.run({"log": []})
    play.run(Command(resume="here", update={"log": ["told"]}, goto="b"))
    play.state()
    play.history()


def messages(play: Play) -> None:
    def answer(state: Any) -> dict[str, Any]:
        call = {"name": "look", "args": {"at": "it"}, "id": "c1", "type": "tool_call"}
        return {
            "messages": [
                AIMessage("looking", id="m2", tool_calls=[call]),
                ToolMessage("seen", id="m4", tool_call_id="c1"),
            ]
        }

    builder = StateGraph(Chat)
    builder.add_node("answer", answer)
    builder.add_node("forget", lambda state: {"messages": [RemoveMessage("m1")]})
    builder.add_edge(START, "answer")
    builder.add_edge("answer", "forget")
    play.compile(builder)
    play.run({"messages": [HumanMessage("hello", id="m1")]})
    play.run({"messages": [HumanMessage("again", id="m3")]})
    play.history()


def overwriting(play: Play) -> None:
    play.compile(chain("a", ("fresh", lambda state: {"log": Overwrite(["fresh"])}), "z"))
    play.run({"log": ["x"]})
    play.update({"log": Overwrite(["edited"])}, as_node="a")
    play.run(None)
    play.history()


def deltas(play: Play) -> None:
    play.compile(chain("a", "b", "c", ("d", ask("more?")), schema=Deltas))
    for word in "xy":
        play.run({"log": [word], "plain": word})
        play.run(Command(resume="yes"))
    past = play.history()
    at_c = next(one for one in past if one.next == ("c",))
    play.update({"log": ["forked"]}, at_c, as_node="b")
    play.run(None)
    play.run({"log": ["end"]}, durability="exit")
    play.history()


def own_classes(play: Play) -> None:
    def order(state: Any) -> dict[str, Any]:
        return {"order": Order(1, ["tea"]), "customer": Customer(name="Ada", orders=[1])}

    def more(state: Any) -> dict[str, Any]:
        get_stream_writer()({"so far": state["order"].lines})
        return {"order": Order(2, [*state["order"].lines, "milk"]), "log": [state["customer"].name]}

    play.compile(chain(("order", order), ("more", more), schema=Shop), interrupt_before=["more"])
    play.run({"log": []})
    play.state()
    play.run(None)
    play.history()


def a_workflow(play: Play) -> None:
    @task
    def square(number: int) -> int:
        return number * number

    @entrypoint(checkpointer=play.checkpointer)
    def work(numbers: list[int], *, previous: Any = None) -> Any:
        squares = [square(number).result() for number in numbers]
        answer = interrupt({"squares": squares})
        return entrypoint.final(value=[*squares, answer], save=sum(squares) + (previous or 0))

    play.graph = work
    play.run([1, 2, 3])
    play.state()
    play.run(Command(resume="fine"))
    play.run([4])
    play.run(Command(resume="good"))
    play.history()


SCENARIOS: dict[str, Callable[[Play], None]] = {
    each.__name__: each
    for each in (
        a_chain, a_barrier, deferred, a_loop, sends, one_question, questions_in_turn, questions_side_by_side,
        breakpoints, a_failure, a_retry, children, grandchildren, a_child_with_a_memory, travel, commands, messages,
        overwriting, deltas, own_classes, a_workflow,
    )
}  # fmt: skip
