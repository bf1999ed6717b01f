"""Nodes that handle another's error, limits of time, and defaults for all nodes (spec 2.3, 4.3, 4.4)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.acceptance.kit import Log, chain, fan, lines, say, thread
from tests.conftest import Call
from threadmark.errors import NodeError, NodeTimeoutError
from threadmark.graph import START, StateGraph
from threadmark.types import Command, RetryPolicy, TimeoutPolicy, interrupt

Node = Callable[[Any], Any]


def failing(*, runs: list[str] | None = None) -> Callable[[Log], Any]:
    def fail(state: Log) -> None:
        if runs is not None:
            runs.append("fail")
        raise ValueError("down")

    return fail


def handled(node: Node, handler: Any, *, runs: list[str] | None = None, **more: Any) -> StateGraph[Any]:
    """START -> a, which fails and has a handler -> b."""
    builder = StateGraph(Log).add_node("a", node(failing(runs=runs)), error_handler=node(handler), **more)
    return builder.add_node("b", node(say("b"))).add_edge(START, "a").add_edge("a", "b")


def test_a_handler_takes_over_from_a_node_that_failed(saver: Any, call: Call, node: Node) -> None:
    seen = []

    def handler(state: Log, error: NodeError) -> dict[str, list[str]]:
        seen.append((state, error.node, repr(error.error)))
        return {"log": ["handled"]}

    graph = handled(node, handler).compile(checkpointer=saver)
    found = call(graph, "invoke", {"log": ["in"]}, thread())
    assert found["log"][:2] == ["in", "handled"]
    assert seen == [({"log": ["in"]}, "a", "ValueError('down')")]
    assert call(graph, "get_state", thread()).next == ()


def test_a_handler_may_lead_elsewhere(saver: Any, call: Call, node: Node) -> None:
    def handler(state: Log, error: NodeError) -> Command[Any]:
        return Command(update={"log": ["handled"]}, goto="rescue")

    builder = handled(node, handler).add_node("rescue", node(say("rescue")))
    assert "rescue" in call(builder.compile(checkpointer=saver), "invoke", {"log": []}, thread())["log"]


def test_a_handler_comes_after_the_last_attempt(saver: Any, call: Call, node: Node) -> None:
    runs: list[str] = []

    def handler(state: Log, error: NodeError) -> dict[str, list[str]]:
        runs.append("handler")
        return {"log": ["handled"]}

    policy = RetryPolicy(0.001, jitter=False, retry_on=ValueError)
    call(handled(node, handler, runs=runs, retry_policy=policy).compile(), "invoke", {"log": []})
    assert runs == ["fail", "fail", "fail", "handler"]


def test_a_handler_that_fails_runs_again_alone(saver: Any, call: Call, node: Node) -> None:
    runs: list[str] = []
    down = [True]

    def handler(state: Log, error: NodeError) -> dict[str, list[str]]:
        runs.append(f"handler {error.error if isinstance(error.error, str) else repr(error.error)}")
        if down:
            raise RuntimeError("handler is down")
        return {"log": ["handled"]}

    graph = handled(node, handler, runs=runs).compile(checkpointer=saver)
    with pytest.raises(RuntimeError, match="handler is down"):
        call(graph, "invoke", {"log": []}, thread())
    down.clear()
    assert call(graph, "invoke", None, thread())["log"][0] == "handled"
    assert runs == ["fail", "handler ValueError('down')", "handler ValueError('down')"]


def test_a_sibling_of_a_handled_node_runs_once(saver: Any, call: Call, node: Node) -> None:
    runs: list[str] = []

    def sibling(state: Log) -> dict[str, list[str]]:
        runs.append("sibling")
        return {"log": ["sibling"]}

    def handler(state: Log, error: NodeError) -> dict[str, list[str]]:
        return {"log": ["handled"]}

    builder = handled(node, handler).add_node("s", node(sibling)).add_edge(START, "s")
    graph = builder.compile(checkpointer=saver)
    found = call(graph, "invoke", {"log": []}, thread())["log"]
    assert sorted(found[:2]) == ["handled", "sibling"]
    assert runs == ["sibling"]


def test_a_question_is_not_an_error_to_handle(saver: Any, call: Call, node: Node) -> None:
    def ask(state: Log) -> dict[str, list[str]]:
        return {"log": [interrupt("?")]}

    def handler(state: Log, error: NodeError) -> dict[str, list[str]]:
        return {"log": ["handled"]}

    builder = StateGraph(Log).add_node("a", node(ask), error_handler=node(handler)).add_edge(START, "a")
    graph = builder.compile(checkpointer=saver)
    assert "__interrupt__" in call(graph, "invoke", {"log": []}, thread())
    assert call(graph, "invoke", Command(resume="A"), thread()) == {"log": ["A"]}


def test_defaults_for_all_nodes_give_way_to_a_node_s_own(call: Call, node: Node) -> None:
    runs: list[str] = []

    def run(name: str) -> Any:
        def fail(state: Log) -> None:
            runs.append(name)
            raise ValueError(name)

        return fail

    quick = RetryPolicy(0.001, jitter=False, retry_on=ValueError)
    for name, own, expected in (("default", None, 3), ("own", quick._replace(max_attempts=2), 2)):
        runs.clear()
        builder = StateGraph(Log).set_node_defaults(retry_policy=quick)
        builder.add_node(name, node(run(name)), retry_policy=own).add_edge(START, name)
        with pytest.raises(ValueError, match=name):
            call(builder.compile(), "invoke", {"log": []})
        assert len(runs) == expected


# -- time


async def for_ever(state: Log) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    "timeout", [0.01, timedelta(milliseconds=10), TimeoutPolicy(run_timeout=0.01), TimeoutPolicy(idle_timeout=0.01)]
)
async def test_a_node_that_takes_too_long_is_stopped(saver: Any, timeout: Any) -> None:
    builder = chain("z").add_node("a", for_ever, timeout=timeout).add_edge("z", "a")
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(NodeTimeoutError) as raised:
        await graph.ainvoke({"log": []}, thread())
    assert (raised.value.node, raised.value.timeout) == ("a", 0.01)
    state = await graph.aget_state(thread())
    assert (state.next, state.values) == (("a",), {"log": ["z"]})
    assert "NodeTimeoutError" in state.tasks[0].error


async def test_a_node_that_was_stopped_is_tried_again() -> None:
    attempts: list[int] = []

    async def slow_at_first(state: Log) -> dict[str, list[str]]:
        attempts.append(1)
        if len(attempts) < 2:
            await asyncio.Event().wait()
        return {"log": ["done"]}

    policy = RetryPolicy(0.001, jitter=False)
    builder = StateGraph(Log).add_node("a", slow_at_first, timeout=0.01, retry_policy=policy).add_edge(START, "a")
    assert await builder.compile().ainvoke({"log": []}) == {"log": ["done"]}


async def test_a_superstep_that_takes_too_long_ends_the_run(saver: Any) -> None:
    async def quick(state: Log) -> dict[str, list[str]]:
        return {"log": ["quick"]}

    graph = fan(("quick", quick), ("slow", for_ever)).compile(checkpointer=saver)
    graph.step_timeout = 0.05
    with pytest.raises(TimeoutError):
        await graph.ainvoke({"log": []}, thread())
    state = await graph.aget_state(thread())
    assert (state.next, state.values) == (("slow",), {"log": ["quick"]})


def test_a_blocking_superstep_that_takes_too_long_ends_the_run(saver: Any) -> None:
    def slow(state: Log) -> dict[str, list[str]]:
        threading.Event().wait(1)  # a thread cannot be stopped: the run ends when it does
        return {"log": ["slow"]}

    graph = fan("quick", ("slow", slow)).compile(checkpointer=saver)
    graph.step_timeout = 0.05
    with pytest.raises(TimeoutError):
        graph.invoke({"log": []}, thread())
    assert "quick" in graph.get_state(thread()).values["log"]


def test_handlers_do_not_show_in_the_history_as_steps(saver: Any, call: Call, node: Node) -> None:
    def handler(state: Log, error: NodeError) -> dict[str, list[str]]:
        return {"log": ["handled"]}

    builder = StateGraph(Log).add_node("a", node(failing()), error_handler=node(handler)).add_edge(START, "a")
    graph = builder.compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    assert lines(call(graph, "get_state_history", thread())) == [
        "#0 p=- input/-1 [] (__start__)",
        "#1 p=0 loop/0 [] (a)",
        "#2 p=1 loop/1 [handled] ()",
    ]
