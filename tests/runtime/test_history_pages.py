"""Whole histories: read in pages, looked at without runs, and every snapshot its caller's own."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.graph import END, START, StateGraph


class State(TypedDict, total=False):
    n: int
    notes: list[str]
    log: Annotated[list[str], operator.add]


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "memory":
        yield InMemorySaver()
        return
    with SqliteSaver.from_conn_string(str(tmp_path / "a.db")) as opened:
        yield opened


def graph(saver: Any, rounds: int) -> Any:
    builder = StateGraph(State)
    builder.add_node("zeta", lambda state: {"n": state["n"] + 1, "log": ["zeta"]})
    builder.add_node("beta", lambda state: {"log": ["beta"]})
    builder.add_node("alpha", lambda state: {"log": ["alpha"]})
    builder.add_edge(START, "zeta")
    builder.add_conditional_edges("zeta", lambda state: END if state["n"] >= rounds else ["beta", "alpha"])
    builder.add_edge("alpha", "zeta")
    return builder.compile(checkpointer=saver)


CONFIG: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 500}


def test_each_snapshot_of_a_long_history_is_what_get_state_shows(saver: Any) -> None:
    app = graph(saver, 60)
    app.invoke({"n": 0, "notes": ["kept"]}, CONFIG)
    history = list(app.get_state_history(CONFIG))
    assert len(history) == 121
    assert history == [app.get_state(snapshot.config) for snapshot in history]


def test_what_is_next_stands_in_the_order_of_the_graph(saver: Any) -> None:
    app = graph(saver, 3)
    app.invoke({"n": 0}, CONFIG)
    shown = [snapshot.next for snapshot in app.get_state_history(CONFIG)]
    both = ("beta", "alpha")
    assert shown == [(), ("zeta",), both, ("zeta",), both, ("zeta",), ("__start__",)]


def test_changing_the_values_of_a_snapshot_changes_no_other(saver: Any) -> None:
    app = graph(saver, 10)
    app.invoke({"n": 0, "notes": ["kept"]}, CONFIG)
    history = app.get_state_history(CONFIG)
    for snapshot in islice(history, 12):
        assert snapshot.values["notes"] == ["kept"]
        snapshot.values["notes"].append("changed")
        snapshot.values["log"].clear()
        snapshot.config["configurable"]["thread_id"] = "2"
        snapshot.metadata["parents"]["x"] = "y"
    assert next(history).values["notes"] == ["kept"]
    assert [len(snapshot.values["log"]) for snapshot in app.get_state_history(CONFIG)][:2] == [28, 27]
    assert app.get_state(CONFIG).metadata["parents"] == {}


def test_a_limit_ends_in_the_middle_of_a_page(saver: Any) -> None:
    app = graph(saver, 20)
    app.invoke({"n": 0}, CONFIG)
    every = list(app.get_state_history(CONFIG))
    for limit in (0, 1, 2, 7, 21, 22):
        assert list(app.get_state_history(CONFIG, limit=limit)) == every[:limit]
    found = list(app.get_state_history(CONFIG, filter={"source": "loop"}, limit=9))
    assert found == [snapshot for snapshot in every if snapshot.metadata["source"] == "loop"][:9]
