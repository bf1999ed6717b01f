"""Two runs on one thread at once: one goes through, the other is told; no update is lost without a word."""

from __future__ import annotations

import operator
import threading
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import HeadMoved
from threadmark.graph import START, StateGraph

CONFIG = {"configurable": {"thread_id": "1"}}


class State(TypedDict):
    seen: Annotated[list[str], operator.add]


def saver_of(kind: str, folder: Path) -> Any:
    return InMemorySaver() if kind == "memory" else SqliteSaver.from_conn_string(str(folder / "c.db"))


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_the_slower_of_two_runs_is_refused(kind: str, durability: str, tmp_path: Path) -> None:
    started, go_on = threading.Event(), threading.Event()

    def slow(state: State) -> dict[str, list[str]]:
        if state["seen"][-1] == "first":
            started.set()
            assert go_on.wait(30)
        return {"seen": [f"did {state['seen'][-1]}"]}

    saver = saver_of(kind, tmp_path)
    graph = StateGraph(State).add_node("slow", slow).add_edge(START, "slow").compile(checkpointer=saver)
    graph.invoke({"seen": ["before"]}, CONFIG)
    raised: list[BaseException] = []

    def first() -> None:
        try:
            graph.invoke({"seen": ["first"]}, CONFIG, durability=durability)  # type: ignore[arg-type]
        except HeadMoved as error:
            raised.append(error)

    thread = threading.Thread(target=first)
    thread.start()
    assert started.wait(30)
    while durability == "async" and graph.get_state(CONFIG).next != ("slow",):
        pass  # its first checkpoints are on their way; before they are stored the other run would be the slower one
    graph.invoke({"seen": ["second"]}, CONFIG)
    go_on.set()
    thread.join(30)
    assert len(raised) == 1
    seen = graph.get_state(CONFIG).values["seen"]
    assert seen[-2:] == ["second", "did second"]
    assert graph.invoke({"seen": ["third"]}, CONFIG)["seen"][-2:] == ["third", "did third"]


def test_an_update_made_meanwhile_is_not_lost() -> None:
    graph: Any = None

    def node(state: State) -> dict[str, list[str]]:
        graph.update_state(CONFIG, {"seen": ["edited"]}, as_node="node")
        return {"seen": ["node"]}

    graph = StateGraph(State).add_node("node", node).add_edge(START, "node").compile(checkpointer=InMemorySaver())
    with pytest.raises(HeadMoved):
        graph.invoke({"seen": []}, CONFIG, durability="sync")
    assert graph.get_state(CONFIG).values["seen"] == ["edited"]
