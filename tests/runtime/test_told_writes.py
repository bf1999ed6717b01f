"""What made a checkpoint is told the same by a look at it and by the history, which reads its parent whole."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.kit import Log, chain, fan, say, thread
from tests.conftest import Call
from tests.runtime.kit import Body, graph_of
from tests.runtime.over import double, node, over
from threadmark.channels import UntrackedValue
from threadmark.checkpoint.base import CheckpointTuple
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.constants import TAG_HIDDEN
from threadmark.engine.port import SaverPort
from threadmark.graph import END, START, StateGraph
from threadmark.types import Command, Send


def same_both_ways(graph: Any, call: Call, config: Any = None) -> list[Any]:
    """``metadata["writes"]`` of every snapshot, newest first; "absent" where there is none."""
    history = list(call(graph, "get_state_history", config or thread()))
    assert history
    for item in history:
        looked = call(graph, "get_state", item.config)
        assert looked.metadata == item.metadata
        assert list(looked.metadata) == list(item.metadata)
    assert call(graph, "get_state", config or thread()).metadata == history[0].metadata
    return [item.metadata.get("writes", "absent") for item in history]


def test_a_chain_and_nodes_side_by_side(saver: Any, call: Call) -> None:
    graph = fan("a", "b").compile(checkpointer=saver)
    call(graph, "invoke", {"log": ["in"]}, thread())
    both = {"a": {"log": ["a"]}, "b": {"log": ["b"]}}
    assert same_both_ways(graph, call)[-3:] == [both, None, {"log": ["in"]}]


def test_packets(saver: Any, call: Call) -> None:
    builder: StateGraph[Any] = StateGraph(Log)
    builder.add_node("a", say("a"))
    builder.add_node("b", say("b"))
    builder.add_conditional_edges("a", lambda state: [Send("b", {"log": []}), Send("b", {"log": []}), "b"])
    builder.add_edge(START, "a")
    graph = builder.compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    assert same_both_ways(graph, call)[0] == {"b": [{"log": ["b"]}] * 3}


def test_updates_by_hand_and_forks(saver: Any, call: Call) -> None:
    graph = chain("a", "b").compile(checkpointer=saver, interrupt_before=["b"])
    call(graph, "invoke", {"log": []}, thread())
    paused = call(graph, "get_state", thread()).config
    call(graph, "update_state", thread(), {"log": ["by hand"]}, as_node="a")
    assert same_both_ways(graph, call)[0] == {"a": {"log": ["by hand"]}}
    # another branch from a checkpoint that an update hangs on: what was done by hand is not shown as the task's
    call(graph, "invoke", None, paused)
    assert same_both_ways(graph, call)[0] == {"b": {"log": ["b"]}}
    call(graph, "update_state", thread(), None, as_node="__copy__")
    assert same_both_ways(graph, call)[0] is None


def test_answers_errors_and_commands(saver: Any, call: Call) -> None:
    until: list[Any] = []
    body = Body()

    def fixed(state: Log) -> Command[Any]:
        return Command(update={"log": ["commanded"]}, goto="end")

    builder: StateGraph[Any] = StateGraph(Log)
    builder.add_node("asks", body.asking("asks", "?"))
    builder.add_node("fails", body.failing("fails", until))
    builder.add_node("commands", fixed, destinations=("end",))
    builder.add_node("end", say("end"))
    builder.add_edge(START, "asks")
    builder.add_edge("asks", "fails")
    builder.add_edge("asks", "commands")
    builder.add_edge("fails", END)
    graph = builder.compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    same_both_ways(graph, call)
    with pytest.raises(ValueError, match="down"):
        call(graph, "invoke", Command(resume="yes"), thread())
    assert same_both_ways(graph, call)[0] == {"asks": {"log": ["asks:yes"]}}
    until.append(1)
    call(graph, "invoke", None, thread())
    assert same_both_ways(graph, call)[:2] == [
        {"end": {"log": ["end"]}},
        {"commands": {"log": ["commanded"]}, "fails": {"log": ["fails"]}},
    ]


def test_a_command_that_writes_to_a_paused_thread(saver: Any, call: Call) -> None:
    graph = graph_of(("asks", Body().asking("asks", "?")), ("b", say("b")), checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    call(graph, "invoke", Command(resume="yes", update={"log": ["meanwhile"]}), thread())
    assert same_both_ways(graph, call)[0] == {"b": {"log": ["b"]}}


def test_children(saver: Any, call: Call) -> None:
    child = graph_of(("x", say("x")), ("y", Body().asking("y", "?")))
    graph = graph_of(("child", child), ("b", say("b")), checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    inner = call(graph, "get_state", thread(), subgraphs=True).tasks[0].state.config
    assert same_both_ways(graph, call, {"configurable": {**thread()["configurable"], **inner["configurable"]}})
    call(graph, "invoke", Command(resume="yes"), thread())
    assert same_both_ways(graph, call)[0] == {"b": {"log": ["b"]}}


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_every_durability(saver: Any, call: Call, durability: str) -> None:
    graph = chain("a", "b").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread(), durability=durability)
    assert same_both_ways(graph, call)[0] == {"b": {"log": ["b"]}}


def test_a_graph_whose_nodes_have_other_triggers_now(saver: Any, call: Call) -> None:
    old = chain("a", "b").compile(checkpointer=saver)
    call(old, "invoke", {"log": []}, thread())
    builder: StateGraph[Any] = StateGraph(Log)
    for name in ("a", "b", "c"):
        builder.add_node(name, say(name))
    builder.add_edge(START, "a")
    builder.add_edge(START, "c")
    builder.add_edge(["a", "c"], "b")
    assert same_both_ways(builder.compile(checkpointer=saver), call) == [
        "absent",
        {"a": {"log": ["a"]}},
        None,
        {"log": []},
    ]
    assert same_both_ways(chain("a", "c").compile(checkpointer=saver), call)[0] == "absent"


def test_a_trigger_that_is_never_stored(saver: Any, call: Call) -> None:
    nodes = {"first": node("in", double, to="mid"), "second": node("mid", double, to="out")}
    graph = over(nodes, channels={"in": UntrackedValue(int)}, checkpointer=saver)
    call(graph, "invoke", 1, thread())
    assert same_both_ways(graph, call) == [{"second": {"out": 4}}, "absent", None]


def test_a_hidden_node_beside_others(saver: Any, call: Call) -> None:
    hidden = node("in", double, to="mid").meta(TAG_HIDDEN)
    nodes = {"hidden": hidden, "seen": node("in", double, to="more"), "last": node("mid", double, to="out")}
    graph = over(nodes, checkpointer=saver)
    call(graph, "invoke", 1, thread())
    assert same_both_ways(graph, call) == [{"last": {"out": 4}}, {"seen": {"more": 2}}, 1]
    # by its task alone nobody knows that no other one was due beside it
    assert "hidden" not in {node.name for node in graph.plan.by_path.values()}


def test_a_parent_that_was_pruned(saver: Any, call: Call) -> None:
    graph = chain("a", "b").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    call(saver, "prune", ["1"])
    assert same_both_ways(graph, call) == ["absent"]


def test_of_the_parent_only_the_tasks_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with SqliteSaver.from_conn_string(":memory:") as saver:
        graph = chain("a", "b").compile(checkpointer=saver)
        graph.invoke({"log": []}, thread())
        found: list[Any] = []
        get = saver.get_with_parent
        monkeypatch.setattr(SaverPort, "get_partial", None)
        monkeypatch.setattr(type(saver), "get_with_parent", lambda self, *asked: found.append(get(*asked)) or found[-1])
        assert graph.get_state(thread()).metadata["writes"] == {"b": {"log": ["b"]}}
        ((checkpoint, parent),) = found
        assert isinstance(checkpoint, CheckpointTuple)
        ((_, path, writes),) = parent
        assert (path, dict(writes)["log"]) == ("~__pregel_pull, b", ["b"])
