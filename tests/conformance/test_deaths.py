"""A graph over a saver of somebody's own, which dies before or after each of its calls: going on gives the same end."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from tests.conformance.savers import example
from threadmark.graph import START, StateGraph

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict):
    log: Annotated[list[str], operator.add]


class Died(Exception):
    """Stands for the death of the process."""


class Dying(example("shelve_saver").ShelveSaver):  # type: ignore[misc]
    """Dies before or after one of its writing calls, counted from 1."""

    dies_at, before = 0, True

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.calls: list[str] = []  # shared with the copy that the graph uses

    def _call(self, method: Any, *args: Any) -> Any:
        self.calls.append(method.__name__)
        dies = len(self.calls) == self.dies_at
        if dies and self.before:
            raise Died
        result = method(*args)
        if dies:
            raise Died
        return result

    def put(self, *args: Any) -> Any:
        return self._call(super().put, *args)

    def put_writes(self, *args: Any) -> None:
        self._call(super().put_writes, *args)


def graph_on(saver: Any) -> Any:
    builder = StateGraph(State)
    for name in "abcd":
        builder.add_node(name, lambda state, name=name: {"log": [f"{name}{len(state['log'])}"]})
    builder.add_edge(START, "a").add_edge("a", "b").add_edge("a", "c").add_edge(["b", "c"], "d")
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_run_goes_on_where_its_saver_died(tmp_path: Path, durability: str, before: bool) -> None:
    for place in range(1, 40):
        path = str(tmp_path / f"notes{place}")
        saver = Dying(path)
        saver.dies_at, saver.before = place, before
        try:
            graph_on(saver).invoke({"log": ["in"]}, CONFIG, durability=durability)
        except Died:
            pass
        died = len(saver.calls) >= place
        saver.close()
        saver = Dying(path)
        graph = graph_on(saver)
        given = None if saver.get_tuple(CONFIG) is not None else {"log": ["in"]}
        if given is not None or graph.get_state(CONFIG).next:
            graph.invoke(given, CONFIG)
        assert graph.get_state(CONFIG).values["log"] == ["in", "a1", "b2", "c2", "d4"]
        saver.close()
        if not died:
            assert place > 1
            return
    raise AssertionError("the run made more calls than were tried")
