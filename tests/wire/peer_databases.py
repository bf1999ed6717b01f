"""Makes a small database with the LangGraph that is installed where this runs:

    python peer_databases.py peer_0_2.db

It was run once with each of the releases 0.2.60, 0.4.10, 0.6.11, 1.0.10 and 1.2.24, each in an environment of its own
with the ``langgraph-checkpoint-sqlite`` of its time, and with 0.2.76 beside ``langgraph-checkpoint`` 2.1, which makes
it write format 2. It imports nothing else, so that every release can run it. A file
is never made anew: what an old release stored has to be readable for ever.
"""

from __future__ import annotations

import operator
import sqlite3
import sys
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt


class State(TypedDict, total=False):
    log: Annotated[list, operator.add]
    messages: Annotated[list, add_messages]
    note: Any
    item: str


def say(word: str) -> Any:
    return lambda state: {"log": [word]}


def inner() -> Any:
    builder = StateGraph(State)
    builder.add_node("before", say("before"))
    builder.add_node("asks", lambda state: {"log": [f"inner {interrupt('inner?')}"]})
    builder.add_edge(START, "before")
    builder.add_edge("before", "asks")
    return builder


def graph(down: list) -> Any:
    """Two workers by ``Send``, a question, a graph in the graph that asks as well, and a node that may fail."""

    def split(state: Any) -> Any:
        return {"log": ["split"], "note": NOTE, "messages": [AIMessage("split", id="m2")]}

    def check(state: Any) -> Any:
        if down:
            raise ValueError("down")
        return {"log": ["checked"]}

    builder = StateGraph(State)
    builder.add_node("split", split)
    builder.add_node("work", lambda state: {"log": [f"did {state['item']}"]})
    builder.add_node("asks", lambda state: {"log": [f"outer {interrupt('outer?')}"]})
    builder.add_node("child", inner().compile())
    builder.add_node("check", check)
    builder.add_edge(START, "split")
    builder.add_conditional_edges(
        "split", lambda state: [Send("work", {"item": "p"}), Send("work", {"item": "q"}), "asks", "child"]
    )
    builder.add_edge(["asks", "child"], "check")
    return builder


def chain() -> Any:
    """Two nodes, one after the other."""
    builder = StateGraph(State)
    builder.add_node("a", say("a"))
    builder.add_node("b", say("b"))
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")
    return builder


NOTE: dict = {"set": {1}, "pair": (1, 2), "bytes": b"\x00\xff", "deep": [None, 1.5]}


def fill(saver: Any, threads: tuple = ("paused", "finished", "failed")) -> None:
    """Threads in these states, and one of a chain, on any saver."""
    down: list = []
    app = graph(down).compile(checkpointer=saver)
    start = {"log": ["start"], "messages": [HumanMessage("hello", id="m1")]}
    for thread in threads:
        config = {"configurable": {"thread_id": thread}, "metadata": {"who": "someone"}}
        app.invoke(start, config)
        if thread == "paused":
            continue
        down[:] = [True] if thread == "failed" else []
        answers = {}
        for task in app.get_state(config).tasks:
            for asked in task.interrupts:
                answers[asked.value] = getattr(asked, "id", None) or getattr(asked, "interrupt_id", None)
        given = Command(resume={id: question.rstrip("?") for question, id in answers.items()})
        if not all(answers.values()):
            given = Command(resume="given")  # the oldest releases have no ids, and give an answer to all that ask
        try:
            app.invoke(given, config)
        except ValueError:
            pass
    simple = chain().compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "chain"}}
    simple.invoke({"log": ["x"]}, config)
    simple.invoke({"log": ["y"]}, config)


def main(path: str) -> None:
    saver = SqliteSaver(sqlite3.connect(path, check_same_thread=False))
    fill(saver)
    saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    saver.conn.execute("PRAGMA journal_mode=DELETE")
    saver.conn.close()


if __name__ == "__main__":
    main(sys.argv[1])
