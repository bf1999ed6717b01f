"""Graphs in graphs: savers, namespaces, looking into them, commands to parents, threads and loops (spec 7)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.kit import Log, say, thread
from tests.conftest import Call
from tests.runtime.kit import PLACES, Body, calling, graph_of, placed
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.config import RunnableConfig, get_config
from threadmark.errors import ColourError, ParentCommand
from threadmark.graph import START, StateGraph
from threadmark.types import Command, Send, interrupt

Node = Callable[[Any], Any]


def namespaces(saver: Any, id: str = "1") -> set[str]:
    """Those of the thread, with ids of tasks replaced by a star."""
    found = {row.config["configurable"]["checkpoint_ns"] for row in saver.list(thread(id))}
    return {
        "|".join(level.partition(":")[0] + (":*" if ":" in level else "") for level in ns.split("|")) for ns in found
    }


# -- whose saver, which namespace --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kept", "inside"), [(None, {"", "n:*"}), (True, {"", "n"}), (False, {""})], ids=["None", "True", "False"]
)
@pytest.mark.parametrize("place", ["child", "called"])
def test_what_a_child_keeps(saver: Any, call: Call, place: str, kept: Any, inside: set[str]) -> None:
    inner = graph_of(("say", say("in")), checkpointer=kept)
    nested = inner if place == "child" else calling(inner, call)
    call(graph_of(("n", nested), checkpointer=saver), "invoke", {"log": []}, thread())
    assert namespaces(saver) == inside


def test_a_child_s_own_saver_gives_way_to_its_parent_s(saver: Any, call: Call) -> None:
    own = InMemorySaver()
    inner = graph_of(("say", say("in")), checkpointer=own)
    call(graph_of(("n", inner), checkpointer=saver), "invoke", {"log": []}, thread())
    assert (namespaces(saver), list(own.list(None))) == ({"", "n:*"}, [])


def test_without_a_saver_above_a_child_keeps_nothing(call: Call) -> None:
    own = InMemorySaver()
    inner = graph_of(("say", say("in")), checkpointer=own)
    assert call(graph_of(("n", inner)), "invoke", {"log": []}) == {"log": ["in"]}
    assert list(own.list(None)) == []


def test_the_root_cannot_keep_its_state_on_a_parent(call: Call) -> None:
    with pytest.raises(RuntimeError, match="checkpointer=True"):
        call(graph_of(("say", say("x")), checkpointer=True), "invoke", {"log": []}, thread())


def test_thread_state_grows_from_turn_to_turn_and_invocation_state_does_not(saver: Any, call: Call) -> None:
    for kept, expected in ((True, ["in", "in"]), (None, ["in"])):
        inner = graph_of(("say", say("in")), checkpointer=kept)
        graph = graph_of(("n", calling(inner, call)), checkpointer=saver)
        config = thread(f"t{kept}")
        call(graph, "invoke", {"log": []}, config)
        call(graph, "invoke", {"log": []}, config)
        newest = max(
            (row for row in saver.list(config) if row.config["configurable"]["checkpoint_ns"]),
            key=lambda row: row.checkpoint["id"],
        )
        assert newest.checkpoint["channel_values"]["log"] == expected


def test_the_namespace_that_a_node_sees_is_its_graph_s(saver: Any, call: Call, node: Node) -> None:
    seen: dict[str, tuple[str, str]] = {}

    def look(name: str) -> Any:
        def at(state: Log, config: RunnableConfig) -> None:
            seen[name] = (config["configurable"]["checkpoint_ns"], config["metadata"]["langgraph_checkpoint_ns"])
            assert get_config()["configurable"]["checkpoint_ns"] == seen[name][0]

        return at

    deepest = graph_of(("deep", node(look("deep"))))
    middle = graph_of(("mid", node(look("mid"))), ("inner", calling(deepest, call)))
    graph = graph_of(("top", node(look("top"))), ("n", middle), checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    stored = {row.config["configurable"]["checkpoint_ns"] for row in saver.list(thread())}
    assert {ns for ns, _ in seen.values()} == stored
    assert seen["top"][0] == ""
    assert seen["deep"][0].startswith(seen["mid"][0] + "|inner:")
    for ns, own in seen.values():
        assert own.startswith(ns + "|" if ns else "")
    assert seen["deep"][1].count("|") == 2


def test_metadata_names_the_checkpoints_around(saver: Any, call: Call, node: Node) -> None:
    body = Body()
    graph = graph_of(("n", placed("three levels", "n", node(body.asking("ask", "?")), call)), checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    rows = {row.config["configurable"]["checkpoint_ns"]: row for row in reversed(list(saver.list(thread())))}
    root, middle, deepest = sorted(rows, key=len)
    assert rows[deepest].metadata["parents"] == {
        root: rows[root].checkpoint["id"],
        middle: rows[middle].checkpoint["id"],
    }
    assert rows[middle].metadata["parents"] == {root: rows[root].checkpoint["id"]}
    assert rows[root].metadata["parents"] == {}


def test_calls_of_one_task_are_numbered(saver: Any, call: Call) -> None:
    inner = graph_of(("say", say("in")))
    once = calling(inner, call)

    def twice(state: Log) -> Any:
        return {"log": [*once(state)["log"], *once(state)["log"]]}

    async def twice_async(state: Log) -> Any:
        return {"log": [*(await once(state))["log"], *(await once(state))["log"]]}

    graph = graph_of(("n", twice_async if call.colour == "async" else twice), checkpointer=saver)
    assert call(graph, "invoke", {"log": []}, thread()) == {"log": ["in", "in"]}
    assert namespaces(saver) == {"", "n:*", "n:*|1"}


def test_parallel_packets_to_one_child_have_states_of_their_own(saver: Any, call: Call, node: Node) -> None:
    body = Body()

    def ask(state: Log) -> dict[str, list[str]]:
        return {"log": [f"{state['log'][0]}={interrupt(state['log'][0])}"]}

    builder: StateGraph[Any] = StateGraph(Log)
    builder.add_node("n", graph_of(("ask", node(ask))))
    builder.add_conditional_edges(START, lambda state: [Send("n", {"log": [word]}) for word in "xyz"])
    graph = builder.compile(checkpointer=saver)
    shown = call(graph, "invoke", {"log": []}, thread())["__interrupt__"]
    assert len({question.id for question in shown}) == 3
    answers = {question.id: question.value.upper() for question in shown if question.value != "y"}
    call(graph, "invoke", Command(resume=answers), thread())
    done = call(graph, "invoke", Command(resume="Y"), thread())
    assert done["log"] == ["x", "x=X", "y", "y=Y", "z", "z=Z"]
    assert len({row.config["configurable"]["checkpoint_ns"] for row in saver.list(thread())}) == 4
    assert body.ran == []


def test_a_call_with_a_thread_of_its_own_is_a_root(saver: Any, call: Call) -> None:
    inner = graph_of(("say", say("in")), checkpointer=saver)

    def node(state: Log) -> Any:
        return {"log": inner.invoke({"log": []}, thread("other"))["log"]}

    async def anode(state: Log) -> Any:
        return {"log": (await inner.ainvoke({"log": []}, thread("other")))["log"]}

    graph = graph_of(("n", anode if call.colour == "async" else node), checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    assert (namespaces(saver, "1"), namespaces(saver, "other")) == ({""}, {""})


# -- failures, and what is kept ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("place", PLACES)
def test_what_was_done_before_a_failure_is_not_done_again(
    saver: Any, call: Call, node: Node, place: str, durability: str
) -> None:
    body = Body()
    mended: list[int] = []
    nested = placed(place, "n", node(body.failing("bad", mended)), call, before=node(body.saying("before")))
    graph = graph_of(("n", nested), ("end", node(body.saying("end"))), checkpointer=saver)
    for _ in range(2):
        with pytest.raises(ValueError, match="bad is down"):
            call(graph, "invoke", {"log": []} if not body.ran else None, thread(), durability=durability)
        assert call(graph, "get_state", thread()).next == ("n",)
    mended.append(1)
    body.ran.clear()
    assert call(graph, "invoke", None, thread(), durability=durability)["log"][-2:] == ["bad", "end"]
    assert body.ran == ["bad", "end"]


@pytest.mark.parametrize("place", PLACES)
def test_an_error_tells_where_it_happened(saver: Any, call: Call, node: Node, place: str) -> None:
    nested = placed(place, "n", node(Body().failing("bad", [])), call)
    graph = graph_of(("n", nested), checkpointer=saver)
    with pytest.raises(ValueError, match="bad is down") as caught:
        call(graph, "invoke", {"log": []}, thread())
    notes = caught.value.__notes__
    innermost = "n" if place == "root" else "ask"
    stored = max((row.config["configurable"]["checkpoint_ns"] for row in saver.list(thread())), key=len)
    assert f"'{innermost}'" in notes[0]
    assert f"namespace {stored!r}" in notes[0]
    assert "at step 1" in notes[0]


def test_exit_stores_a_child_that_is_done_only_with_thread_state(saver: Any, call: Call) -> None:
    for kept, inside in ((None, {""}), (True, {"", "n"})):
        graph = graph_of(("n", graph_of(("say", say("in")), checkpointer=kept)), checkpointer=saver)
        call(graph, "invoke", {"log": []}, thread(f"e{kept}"), durability="exit")
        assert namespaces(saver, f"e{kept}") == inside


# -- looking in --------------------------------------------------------------------------------------------------------


def test_snapshots_of_children_in_tasks(saver: Any, call: Call, node: Node) -> None:
    body = Body()
    inner = graph_of(("s", node(body.saying("s"))), ("ask", node(body.asking("ask", "?"))))
    middle = graph_of(("inner", inner))
    graph = graph_of(("n", middle), checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    plain = call(graph, "get_state", thread()).tasks[0].state
    assert plain["configurable"]["checkpoint_ns"].startswith("n:")
    deep = call(graph, "get_state", thread(), subgraphs=True).tasks[0].state
    deepest = deep.tasks[0].state
    assert (deep.next, deepest.next) == (("inner",), ("ask",))
    assert deepest.values == {"log": ["s"]}
    assert [question.value for question in deepest.interrupts] == ["?"]
    assert deepest.interrupts == deep.interrupts == call(graph, "get_state", thread()).interrupts
    for one, graph_of_it in ((deep, graph), (deepest, graph)):
        again = call(graph_of_it, "get_state", one.config)
        assert (again.values, again.next) == (one.values, one.next)
        history = call(graph_of_it, "get_state_history", {"configurable": _without_id(one.config)})
        assert [h.config["configurable"]["checkpoint_ns"] for h in history] == [
            one.config["configurable"]["checkpoint_ns"]
        ] * len(history)
        assert history[0].values == one.values


def _without_id(config: Any) -> dict[str, Any]:
    own = config["configurable"]
    return {"thread_id": own["thread_id"], "checkpoint_ns": own["checkpoint_ns"]}


def test_an_update_to_a_namespace_that_is_none_is_refused(saver: Any, call: Call) -> None:
    graph = graph_of(("n", graph_of(("say", say("in")))), checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    with pytest.raises(ValueError, match="elsewhere"):
        call(graph, "update_state", thread(checkpoint_ns="elsewhere:1"), {"log": ["x"]})


# -- commands to a parent ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["child", "called", "three levels"])
def test_a_command_to_the_parent_updates_and_leads_there(saver: Any, call: Call, node: Node, place: str) -> None:
    def leave(state: Log) -> Any:
        return Command(graph=Command.PARENT, update={"log": ["left"]}, goto="other")

    builder: StateGraph[Any] = StateGraph(Log)
    builder.add_node("n", placed(place, "n", node(leave), call))
    builder.add_node("other", say("other"))
    builder.add_edge(START, "n")
    graph = builder.compile(checkpointer=saver)
    if place == "three levels":  # the parent of the innermost graph is the middle one
        inner = call(graph, "invoke", {"log": []}, thread())
        assert inner == {"log": ["left"]}
    else:
        assert call(graph, "invoke", {"log": []}, thread()) == {"log": ["left", "other"]}
    assert call(graph, "get_state", thread()).next == ()


def test_a_command_to_a_node_by_name_passes_the_graphs_between(saver: Any, call: Call, node: Node) -> None:
    deepest = graph_of(("go", node(lambda state: Command(graph="n", update={"log": ["to n"]}))))
    middle = graph_of(("inner", graph_of(("again", calling(deepest, call)))), ("after", say("after")))
    graph = graph_of(("n", middle), ("end", say("end")), checkpointer=saver)
    assert call(graph, "invoke", {"log": []}, thread()) == {"log": ["to n", "end"]}


def test_at_the_root_a_command_to_the_parent_surfaces(call: Call, node: Node) -> None:
    graph = graph_of(("n", node(lambda state: Command(graph=Command.PARENT, goto="x"))))
    with pytest.raises(ParentCommand):
        call(graph, "invoke", {"log": []})


# -- threads and loops -------------------------------------------------------------------------------------------------


def nested_fans(levels: int, call: Call, node: Node) -> Any:
    """Three parallel nodes, each of which is such a graph, ``levels`` deep."""
    builder: StateGraph[Any] = StateGraph(Log)
    for name in "abc":
        if levels == 1:
            action: Any = node(say(name))
        else:
            inner = nested_fans(levels - 1, call, node)
            action = inner if name == "a" else calling(inner, call)
        builder.add_node(name, action)
        builder.add_edge(START, name)
    return builder.compile()


@pytest.mark.parametrize("modes", ["values", ["updates", "custom"]])
def test_one_at_a_time_three_levels_deep_comes_to_its_end(saver: Any, call: Call, node: Node, modes: Any) -> None:
    graph = nested_fans(3, call, node)
    graph.checkpointer = saver
    config = {**thread(), "max_concurrency": 1}
    done: list[Any] = []

    def run() -> None:
        done.append(call(graph, "stream", {"log": []}, config, stream_mode=modes, subgraphs=True))

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    worker.join(60)
    assert done
    assert len(call(graph, "get_state", thread()).values["log"]) >= 27


class LoopOnly:
    """A saver with ``a`` methods alone, which work only on the loop that it was made on."""

    def __init__(self) -> None:
        self.inner = InMemorySaver()
        self.loop = asyncio.get_running_loop()
        self.calls = 0

    def get_next_version(self, current: Any, channel: None) -> Any:
        return self.inner.get_next_version(current, channel)

    def _here(self) -> None:
        assert asyncio.get_running_loop() is self.loop
        self.calls += 1

    async def aget_tuple(self, config: Any) -> Any:
        self._here()
        return self.inner.get_tuple(config)

    async def alist(self, config: Any, **query: Any) -> Any:
        self._here()
        for row in self.inner.list(config, **query):
            yield row

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        self._here()
        return self.inner.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        self._here()
        self.inner.put_writes(config, writes, task_id, task_path)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_a_plain_node_on_a_loop_calls_a_child_with_a_saver_of_that_loop(durability: str) -> None:
    saver = LoopOnly()
    body = Body()
    inner = graph_of(("s", body.saying("s")), ("ask", body.asking("ask", "?")))

    def plain(state: Log) -> Any:
        return {"log": inner.invoke({"log": []})["log"]}

    graph = graph_of(("n", plain), ("end", body.saying("end")))
    graph.checkpointer = saver
    async with asyncio.timeout(60):
        shown = await graph.ainvoke({"log": []}, thread(), durability=durability)
        assert [question.value for question in shown["__interrupt__"]] == ["?"]
        done = await graph.ainvoke(Command(resume="A"), thread(), durability=durability)
    assert done == {"log": ["s", "ask:A", "end"]}
    assert body.ran == ["s", "ask", "ask", "end"]
    assert saver.calls > 0


async def test_a_saver_of_a_loop_refuses_a_blocking_run_there() -> None:
    graph = graph_of(("say", say("x")))
    graph.checkpointer = LoopOnly()
    with pytest.raises(ColourError, match="ainvoke"):
        graph.invoke({"log": []}, thread())


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_a_saver_with_blocking_methods_alone_serves_a_loop(durability: str) -> None:
    class Blocking:
        def __init__(self) -> None:
            self.inner = InMemorySaver()
            for name in ("get_next_version", "get_tuple", "list", "put", "put_writes"):
                setattr(self, name, getattr(self.inner, name))

    graph = graph_of(("n", graph_of(("s", say("s")))), ("end", say("end")))
    graph.checkpointer = Blocking()
    assert await graph.ainvoke({"log": []}, thread(), durability=durability) == {"log": ["s", "end"]}
    assert (await graph.aget_state(thread())).values == {"log": ["s", "end"]}
