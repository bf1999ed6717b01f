"""The checkpoints page's own example, line by line: one graph, four checkpoints, and how to find them again."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from operator import add
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.runnables import RunnableConfig as LangChainConfig
from typing_extensions import TypedDict

from tests.acceptance.kit import id_of
from tests.conftest import Call
from threadmark.checkpoint.base import BaseCheckpointSaver
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.config import RunnableConfig
from threadmark.graph import END, START, StateGraph
from threadmark.types import PregelTask, StateSnapshot, interrupt


class State(TypedDict):
    foo: str
    bar: Annotated[list[str], add]


def node_a(state: State) -> dict[str, Any]:
    return {"foo": "a", "bar": ["a"]}


def node_b(state: State) -> dict[str, Any]:
    return {"foo": "b", "bar": ["b"]}


def workflow() -> StateGraph[State]:
    builder = StateGraph(State)
    builder.add_node(node_a)
    builder.add_node(node_b)
    builder.add_edge(START, "node_a")
    builder.add_edge("node_a", "node_b")
    builder.add_edge("node_b", END)
    return builder


config: RunnableConfig = {"configurable": {"thread_id": "1"}}


@pytest.fixture
def graph(saver: Any, call: Call) -> Any:
    compiled = workflow().compile(checkpointer=saver)
    assert call(compiled, "invoke", {"foo": "", "bar": []}, config) == {"foo": "b", "bar": ["a", "b"]}
    return compiled


@pytest.fixture
def history(graph: Any, call: Call) -> list[StateSnapshot]:
    return call(graph, "get_state_history", config)


def test_there_are_exactly_four_checkpoints_newest_first(history: list[StateSnapshot]) -> None:
    assert [(one.values, one.next) for one in history] == [
        ({"foo": "b", "bar": ["a", "b"]}, ()),
        ({"foo": "a", "bar": ["a"]}, ("node_b",)),
        ({"foo": "", "bar": []}, ("node_a",)),
        ({"bar": []}, ("__start__",)),
    ]


def test_metadata_says_where_each_came_from_and_what_was_written(history: list[StateSnapshot]) -> None:
    shown = [{key: one.metadata[key] for key in ("source", "writes", "step")} for one in history]
    assert shown == [
        {"source": "loop", "writes": {"node_b": {"foo": "b", "bar": ["b"]}}, "step": 2},
        {"source": "loop", "writes": {"node_a": {"foo": "a", "bar": ["a"]}}, "step": 1},
        {"source": "loop", "writes": None, "step": 0},
        {"source": "input", "writes": {"foo": "", "bar": []}, "step": -1},
    ]


def test_configs_form_a_chain_of_parents(history: list[StateSnapshot]) -> None:
    for one in history:
        assert one.config["configurable"].keys() == {"thread_id", "checkpoint_ns", "checkpoint_id"}
        assert one.config["configurable"]["thread_id"] == "1"
        assert one.config["configurable"]["checkpoint_ns"] == ""
    assert [one.parent_config for one in history] == [*(one.config for one in history[1:]), None]


def test_ids_and_times_rise(history: list[StateSnapshot]) -> None:
    ids = [id_of(one) for one in history]
    assert sorted(ids, reverse=True) == ids
    times = [one.created_at for one in history]
    assert sorted(times, reverse=True) == times
    assert all(time.endswith("+00:00") for time in times)


def test_tasks_are_those_still_to_run_with_what_they_wrote(history: list[StateSnapshot]) -> None:
    assert history[0].tasks == ()
    found = [one.tasks[0] for one in history[1:]]
    assert [(task.name, task.error, task.interrupts, task.state) for task in found] == [
        ("node_b", None, (), None),
        ("node_a", None, (), None),
        ("__start__", None, (), None),
    ]
    assert all(isinstance(task, PregelTask) for task in found)
    assert len({task.id for task in found}) == 3
    assert found[0].result == {"foo": "b", "bar": ["b"]}


def test_the_newest_state_is_the_first_of_the_history(graph: Any, call: Call, history: list[StateSnapshot]) -> None:
    assert call(graph, "get_state", config) == history[0]


def test_each_state_is_found_by_its_id(graph: Any, call: Call, history: list[StateSnapshot]) -> None:
    for one in history:
        by_id = {"configurable": {"thread_id": "1", "checkpoint_id": id_of(one)}}
        assert call(graph, "get_state", by_id) == one


def test_an_unknown_thread_or_id_is_empty(graph: Any, call: Call) -> None:
    for elsewhere in (
        {"configurable": {"thread_id": "2"}},
        {"configurable": {"thread_id": "1", "checkpoint_id": "1ef663ba-28fe-6528-8002-5a559208592c"}},
    ):
        found = call(graph, "get_state", elsewhere)
        assert (found.values, found.next, found.tasks, found.interrupts) == ({}, (), (), ())
        assert (found.metadata, found.created_at, found.parent_config) == (None, None, None)


def test_the_page_s_ways_to_find_a_checkpoint(saver: Any, call: Call, node: Callable[[Any], Any]) -> None:
    def ask(state: State) -> dict[str, Any]:
        return {"bar": [interrupt("go on?")]}

    builder = workflow()
    builder.add_node("ask", node(ask))
    builder.add_edge("node_b", "ask")
    graph = builder.compile(checkpointer=saver)
    call(graph, "invoke", {"foo": "", "bar": []}, config)
    call(graph, "update_state", config, {"foo": "edited"}, as_node="node_b")
    history = call(graph, "get_state_history", config)

    before_node_b = next(s for s in history if s.next == ("node_b",))
    assert before_node_b.values == {"foo": "a", "bar": ["a"]}
    step_2 = next(s for s in history if s.metadata["step"] == 2)
    assert step_2.values == {"foo": "b", "bar": ["a", "b"]}
    forks = [s for s in history if s.metadata["source"] == "update"]
    assert [s.values["foo"] for s in forks] == ["edited"]
    interrupted = next(s for s in history if s.tasks and any(t.interrupts for t in s.tasks))
    assert interrupted.next == ("ask",)
    assert interrupted.tasks[0].interrupts[0].value == "go on?"


def test_history_takes_filter_before_and_limit(graph: Any, call: Call, history: list[StateSnapshot]) -> None:
    def found(**query: Any) -> list[int]:
        return [one.metadata["step"] for one in call(graph, "get_state_history", config, **query)]

    assert found(filter={"source": "loop"}) == [2, 1, 0]
    assert found(filter={"source": "loop", "step": 1}) == [1]
    assert found(filter={"source": "update"}) == []
    assert found(limit=2) == [2, 1]
    assert found(limit=0) == []
    assert found(before=history[1].config) == [0, -1]
    assert found(before=history[1].config, limit=1) == [0]
    assert found(filter={"source": "input"}, before=history[0].config) == [-1]


def test_history_is_read_as_it_is_asked_for(graph: Any, saver: Any) -> None:
    for _ in range(20):
        graph.invoke({"foo": "", "bar": []}, config)
    first = next(iter(graph.get_state_history(config)))
    assert first.metadata["step"] == 20 * 4 + 2


def test_filtered_history_still_shows_what_was_written(graph: Any, call: Call) -> None:
    (only,) = call(graph, "get_state_history", config, filter={"step": 2})
    assert only.metadata["writes"] == {"node_b": {"foo": "b", "bar": ["b"]}}


def test_metadata_of_the_config_is_kept_and_can_be_filtered(saver: Any, call: Call) -> None:
    graph = workflow().compile(checkpointer=saver)
    call(graph, "invoke", {"foo": "", "bar": []}, {**config, "metadata": {"user": "ada", "try": 1}})
    call(graph, "invoke", {"foo": "", "bar": []}, {**config, "metadata": {"user": "bob", "try": 1}})
    mine = call(graph, "get_state_history", config, filter={"user": "ada"})
    assert [one.metadata["step"] for one in mine] == [2, 1, 0, -1]


def test_a_thread_goes_on_with_the_next_input(graph: Any, call: Call) -> None:
    assert call(graph, "invoke", {"foo": "again", "bar": ["more"]}, config) == {
        "foo": "b",
        "bar": ["a", "b", "more", "a", "b"],
    }
    history = call(graph, "get_state_history", config)
    assert [one.metadata["step"] for one in history] == [6, 5, 4, 3, 2, 1, 0, -1]
    assert history[3].metadata["source"] == "input"
    assert history[3].metadata["writes"] == {"foo": "again", "bar": ["more"]}
    assert history[3].values == {"foo": "b", "bar": ["a", "b"]}


def test_threads_do_not_see_each_other(graph: Any, call: Call) -> None:
    call(graph, "invoke", {"foo": "", "bar": ["other"]}, {"configurable": {"thread_id": 2}})
    assert call(graph, "get_state", config).values["bar"] == ["a", "b"]
    assert call(graph, "get_state", {"configurable": {"thread_id": "2"}}).values["bar"] == ["other", "a", "b"]


@pytest.mark.parametrize("annotation", [RunnableConfig, LangChainConfig], ids=["ours", "langchain"])
def test_a_node_of_the_root_graph_sees_an_empty_namespace(
    saver: Any, call: Call, node: Callable[[Any], Any], annotation: Any
) -> None:
    seen = []

    def my_node(state, config):  # type: ignore[no-untyped-def]
        seen.append(config)

    my_node.__annotations__ = {"state": State, "config": annotation}
    builder = StateGraph(State)
    builder.add_node("my_node", node(my_node))
    builder.add_edge(START, "my_node")
    call(builder.compile(checkpointer=saver), "invoke", {"foo": "", "bar": []}, config)
    assert seen[0]["configurable"]["checkpoint_ns"] == ""
    assert seen[0]["configurable"]["thread_id"] == "1"
    own = seen[0]["metadata"]["langgraph_checkpoint_ns"]
    assert own.startswith("my_node:")
    assert seen[0]["metadata"]["langgraph_node"] == "my_node"
    assert seen[0]["metadata"]["langgraph_step"] == 1


# -- savers as the page makes them -------------------------------------------------------------------------------------


def test_the_memory_saver_as_the_page_makes_it(call: Call) -> None:
    graph = workflow().compile(checkpointer=InMemorySaver())
    call(graph, "invoke", {"foo": "", "bar": []}, config)
    assert len(call(graph, "get_state_history", config)) == 4


def test_the_sqlite_saver_as_the_page_makes_it(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    connection = sqlite3.connect("checkpoint.db")
    saver = SqliteSaver(connection)
    graph = workflow().compile(checkpointer=saver)
    call(graph, "invoke", {"foo": "", "bar": []}, config)
    saver.close()
    connection.close()

    reopened = SqliteSaver(sqlite3.connect("checkpoint.db"))
    graph = workflow().compile(checkpointer=reopened)
    assert len(call(graph, "get_state_history", config)) == 4
    reopened.close()


class Minimal(BaseCheckpointSaver[int]):
    """The page's five methods and nothing more: no ``put_step``, whole numbers as versions, one colour."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = InMemorySaver()

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        return self.inner.put(config, checkpoint, metadata, new_versions)

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        self.inner.put_writes(config, writes, task_id, task_path)

    def get_tuple(self, config: Any) -> Any:
        return self.inner.get_tuple(config)

    def list(self, config: Any, *, filter: Any = None, before: Any = None, limit: Any = None) -> Any:
        return self.inner.list(config, filter=filter, before=before, limit=limit)

    def delete_thread(self, thread_id: str) -> None:
        self.inner.delete_thread(thread_id)


class AsyncOnly(BaseCheckpointSaver[int]):
    """The same with only the methods that the page's own class has: those of the other colour."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = InMemorySaver()

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        return self.inner.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        self.inner.put_writes(config, writes, task_id, task_path)

    async def aget_tuple(self, config: Any) -> Any:
        return self.inner.get_tuple(config)

    async def alist(self, config: Any, *, filter: Any = None, before: Any = None, limit: Any = None) -> Any:
        for one in self.inner.list(config, filter=filter, before=before, limit=limit):
            yield one

    async def adelete_thread(self, thread_id: str) -> None:
        self.inner.delete_thread(thread_id)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_saver_of_the_page_s_five_methods_serves_both_colours(call: Call, durability: str) -> None:
    graph = workflow().compile(checkpointer=Minimal())
    call(graph, "invoke", {"foo": "", "bar": []}, config, durability=durability)
    assert call(graph, "get_state", config).values == {"foo": "b", "bar": ["a", "b"]}
    steps = [one.metadata["step"] for one in call(graph, "get_state_history", config)]
    assert steps == ([2] if durability == "exit" else [2, 1, 0, -1])
    assert call(graph, "invoke", {"bar": ["2"]}, config, durability=durability)["bar"] == ["a", "b", "2", "a", "b"]


async def test_a_saver_of_async_methods_serves_event_loops() -> None:
    graph = workflow().compile(checkpointer=AsyncOnly())
    await graph.ainvoke({"foo": "", "bar": []}, config)
    assert [one.metadata["step"] async for one in graph.aget_state_history(config)] == [2, 1, 0, -1]


def test_a_saver_of_async_methods_refuses_a_blocking_call_before_anything_runs() -> None:
    from threadmark.errors import ColourError

    ran = []
    builder = StateGraph(State)
    builder.add_node("one", lambda state: ran.append(1))
    builder.add_edge(START, "one")
    graph = builder.compile(checkpointer=AsyncOnly())
    with pytest.raises(ColourError, match="ainvoke"):
        graph.invoke({"foo": "", "bar": []}, config)
    with pytest.raises(ColourError, match="aget_state"):
        graph.get_state(config)
    assert ran == []
