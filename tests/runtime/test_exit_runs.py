"""Runs in ``exit``: only the last checkpoint is made, and what else is asked for is there when it is asked for."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import pytest

from threadmark.checkpoint.memory import InMemorySaver
from threadmark.config import get_config
from threadmark.graph import START, StateGraph
from threadmark.runtime import get_runtime
from threadmark.types import Command, interrupt

CONFIG: Any = {"configurable": {"thread_id": "1"}}


def careful(old: list[int], new: list[int]) -> list[int]:
    """A reducer that refuses a 3."""
    if 3 in new:
        raise ValueError("no 3")
    return old + new


class State(TypedDict, total=False):
    n: int
    log: Annotated[list[int], careful]


def chain(saver: Any, count: int, see: Any = lambda number: None) -> Any:
    def node(number: int) -> Any:
        def run(state: State) -> State:
            see(number)
            return {"n": number, "log": [number]}

        return run

    builder = StateGraph(State)
    names = [f"node_{number}" for number in range(count)]
    for number, name in enumerate(names):
        builder.add_node(name, node(number))
    for before, after in zip([START, *names], names, strict=False):
        builder.add_edge(before, after)
    return builder.compile(checkpointer=saver)


def test_one_checkpoint_is_made_and_shows_what_made_it() -> None:
    saver = InMemorySaver()
    graph = chain(saver, 3)
    graph.invoke({"n": -1}, CONFIG, durability="exit")
    (only,) = graph.get_state_history(CONFIG)
    assert (only.values, only.next) == ({"n": 2, "log": [0, 1, 2]}, ())
    assert only.metadata == {"source": "loop", "step": 3, "parents": {}, "writes": {"node_2": {"n": 2, "log": [2]}}}


def test_a_superstep_that_fails_leaves_the_one_before_and_what_its_tasks_wrote() -> None:
    saver = InMemorySaver()
    graph = chain(saver, 5)
    with pytest.raises(ValueError, match="no 3"):
        graph.invoke({"n": -1}, CONFIG, durability="exit")
    state = graph.get_state(CONFIG)
    assert (state.values, state.next) == ({"n": 2, "log": [0, 1, 2]}, ("node_3",))
    assert [task.result for task in state.tasks] == [{"n": 3, "log": [3]}]
    (stored,) = saver.list(CONFIG)
    assert stored.metadata["step"] == 3
    assert set(stored.checkpoint["versions_seen"]) == {"__input__", "__start__", "node_0", "node_1", "node_2"}


def test_ids_that_nodes_have_seen_are_those_that_are_stored() -> None:
    saver, seen = InMemorySaver(), list[tuple[Any, Any]]()

    def see(number: int) -> None:
        if number in (1, 2):
            info = get_runtime().execution_info
            seen.append((get_config()["configurable"]["checkpoint_map"][""], info and info.checkpoint_id))
        if number == 2:
            assert interrupt("go on?") == "yes"

    graph = chain(saver, 3, see)
    graph.invoke({"n": -1}, CONFIG, durability="exit")
    asked = graph.get_state(CONFIG)
    assert [id for id, _ in seen] == [id for _, id in seen] == sorted({id for id, _ in seen})
    assert asked.config["configurable"]["checkpoint_id"] == seen[-1][0]
    assert graph.invoke(Command(resume="yes"), CONFIG, durability="exit")["n"] == 2
    assert len(list(saver.list(CONFIG))) == 2


def test_who_listens_to_checkpoints_is_told_of_each() -> None:
    saver = InMemorySaver()
    told = list(chain(saver, 3).stream({"n": -1}, CONFIG, stream_mode="checkpoints", durability="exit"))
    assert [event["metadata"]["step"] for event in told] == [-1, 0, 1, 2, 3]
    (only,) = saver.list(CONFIG)
    assert only.checkpoint["id"] == told[-1]["config"]["configurable"]["checkpoint_id"]


def test_a_second_run_hangs_its_last_checkpoint_on_that_of_the_first() -> None:
    saver = InMemorySaver()
    graph = chain(saver, 2)
    for turn in range(3):
        graph.invoke({"n": -1}, CONFIG, durability="exit")
        found = list(saver.list(CONFIG))
        assert len(found) == turn + 1
        assert found[0].checkpoint["channel_values"]["log"] == [0, 1] * (turn + 1)
    parents = [item.parent_config and item.parent_config["configurable"]["checkpoint_id"] for item in found]
    assert parents == [found[1].checkpoint["id"], found[2].checkpoint["id"], None]
