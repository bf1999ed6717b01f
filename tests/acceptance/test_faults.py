"""When something goes wrong: what is kept, what runs again, what is raised (spec 4)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.kit import Log, chain, fan, lines, say, thread
from tests.conftest import Call
from threadmark.errors import GraphDrained, MissingNodeError, NodeCancelledError
from threadmark.graph import END, START, StateGraph
from threadmark.runtime import RunControl
from threadmark.types import RetryPolicy, Send

Node = Callable[[Any], Any]


class Flaky:
    """Nodes that count their runs, and fail as long as their name is in ``down``."""

    def __init__(self, *down: str) -> None:
        self.down = set(down)
        self.runs: dict[str, int] = {}
        self.lock = threading.Lock()

    def node(self, name: str) -> Callable[[Any], dict[str, list[str]]]:
        def run(state: Any) -> dict[str, list[str]]:
            with self.lock:
                self.runs[name] = self.runs.get(name, 0) + 1
            if name in self.down:
                raise ValueError(f"{name} is down")
            return {"log": [name]}

        return run

    def mend(self) -> None:
        self.down.clear()
        self.runs.clear()


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_only_what_failed_runs_again(saver: Any, call: Call, node: Node, durability: str) -> None:
    flaky = Flaky("d")
    graph = fan(*((name, node(flaky.node(name))) for name in "abcd")).compile(checkpointer=saver)
    with pytest.raises(ValueError, match="d is down"):
        call(graph, "invoke", {"log": []}, thread(), durability=durability)
    state = call(graph, "get_state", thread())
    assert (state.next, state.values) == (("d",), {"log": ["a", "b", "c"]})
    flaky.mend()
    assert call(graph, "invoke", None, thread(), durability=durability) == {"log": ["a", "b", "c", "d"]}
    assert flaky.runs == {"d": 1}


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_many_that_end_at_once_lose_nothing(saver: Any, call: Call, durability: str) -> None:
    flaky = Flaky("n4")
    together = threading.Barrier(9)

    def meeting(name: str) -> Any:
        def run(state: Log) -> dict[str, list[str]]:
            if flaky.down:
                together.wait(10)
            return flaky.node(name)(state)

        return run

    names = [f"n{number}" for number in range(9)]
    graph = fan(*((name, meeting(name)) for name in names)).compile(checkpointer=saver)
    with pytest.raises(ValueError, match="n4 is down"):
        call(graph, "invoke", {"log": []}, thread(), durability=durability)
    left = call(graph, "get_state", thread()).next
    assert "n4" in left
    flaky.mend()
    assert call(graph, "invoke", None, thread(), durability=durability) == {"log": names}
    assert flaky.runs.keys() <= set(left)
    if call.colour == "sync":
        assert (left, flaky.runs) == (("n4",), {"n4": 1})


def test_a_failing_packet_leaves_the_others_their_results(saver: Any, call: Call, node: Node) -> None:
    flaky = Flaky("w3")

    def work(state: Any) -> dict[str, list[str]]:
        return flaky.node(f"w{state}")(state)

    builder = StateGraph(Log).add_node("w", node(work))
    builder.add_conditional_edges(START, lambda state: [Send("w", n) for n in range(4)])
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(ValueError, match="w3 is down"):
        call(graph, "invoke", {"log": []}, thread())
    flaky.mend()
    assert call(graph, "invoke", None, thread()) == {"log": ["w0", "w1", "w2", "w3"]}
    assert flaky.runs == {"w3": 1}


def test_a_blocking_run_waits_for_running_siblings_and_keeps_them(saver: Any) -> None:
    failed = threading.Event()

    def slow(state: Log) -> dict[str, list[str]]:
        assert failed.wait(10)
        return {"log": ["slow"]}

    def fail(state: Log) -> None:
        failed.set()
        raise ValueError("down")

    graph = fan(("slow", slow), ("fail", fail)).compile(checkpointer=saver)
    for turn in range(20):
        with pytest.raises(ValueError, match="down"):
            graph.invoke({"log": []}, thread(str(turn)))
        assert graph.get_state(thread(str(turn))).next == ("fail",)
        failed.clear()


def test_of_several_errors_one_is_raised_and_all_are_stored(saver: Any, call: Call) -> None:
    together = threading.Barrier(2, timeout=10)

    def fail(name: str) -> Any:
        def run(state: Log) -> None:
            together.wait()
            raise ValueError(name)

        return run

    graph = fan(("a", fail("a")), ("b", fail("b"))).compile(checkpointer=saver)
    with pytest.raises(ValueError, match=r"[ab]") as raised:
        call(graph, "invoke", {"log": []}, thread())
    assert "During task with name" in raised.value.__notes__[-1]
    state = call(graph, "get_state", thread())
    if call.colour == "sync":
        assert [task.error for task in state.tasks] == ["ValueError('a')", "ValueError('b')"]
    assert state.next == ("a", "b")


def test_a_router_that_failed_is_asked_again_and_its_node_is_not(saver: Any, call: Call, node: Node) -> None:
    flaky = Flaky("route")

    def route(state: Log) -> str:
        flaky.node("route")(state)
        return "b"

    builder = StateGraph(Log).add_node("a", node(flaky.node("a"))).add_node("b", node(flaky.node("b")))
    builder.add_edge(START, "a").add_conditional_edges("a", node(route), ["b", END])
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(ValueError, match="route is down"):
        call(graph, "invoke", {"log": []}, thread())
    assert call(graph, "get_state", thread()).next == ("a",)
    with pytest.raises(ValueError, match="route is down"):
        call(graph, "invoke", None, thread())
    flaky.mend()
    assert call(graph, "invoke", None, thread()) == {"log": ["a", "b"]}
    assert flaky.runs == {"route": 1, "b": 1}
    assert lines(call(graph, "get_state_history", thread())) == [
        "#0 p=- input/-1 [] (__start__)",
        "#1 p=0 loop/0 [] (a)",
        "#2 p=1 loop/1 [a] (b)",
        "#3 p=2 loop/2 [a b] ()",
    ]


def test_a_node_that_wrote_nothing_is_not_run_again_for_its_router(saver: Any, call: Call, node: Node) -> None:
    flaky = Flaky("route")

    def a(state: Log) -> None:
        flaky.node("a")(state)

    def route(state: Log) -> str:
        flaky.node("route")(state)
        return "b"

    builder = chain(("a", node(a))).add_node("b", say("b")).add_conditional_edges("a", node(route))
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(ValueError, match="route is down"):
        call(graph, "invoke", {"log": []}, thread())
    assert call(graph, "get_state", thread()).next == ("a",)
    flaky.mend()
    assert call(graph, "invoke", None, thread()) == {"log": ["b"]}
    assert flaky.runs == {"route": 1}
    assert call(graph, "get_state_history", thread())[2].tasks[0].result == {}


def test_a_router_that_needs_more_than_the_state_gets_its_node_s_result_anew(
    saver: Any, call: Call, node: Node
) -> None:
    flaky = Flaky("route")

    def a(state: Log) -> dict[str, Any]:
        return {**flaky.node("a")(state), "where": "b"}

    def route(state: Any) -> str:
        flaky.node("route")(state)
        return str(state["where"])

    builder = chain(("a", node(a))).add_node("b", say("b")).add_conditional_edges("a", node(route))
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(ValueError, match="route is down"):
        call(graph, "invoke", {"log": []}, thread())
    flaky.mend()
    assert call(graph, "invoke", None, thread()) == {"log": ["a", "b"]}
    assert flaky.runs == {"a": 1, "route": 1}


def test_of_two_routers_both_are_asked_again(saver: Any, call: Call, node: Node) -> None:
    flaky = Flaky("two")

    def one(state: Log) -> str:
        return "b"

    def two(state: Log) -> str:
        flaky.node("two")(state)
        return "c"

    builder = StateGraph(Log).add_node("a", node(flaky.node("a"))).add_node("b", say("b")).add_node("c", say("c"))
    builder.add_edge(START, "a").add_conditional_edges("a", node(one)).add_conditional_edges("a", node(two))
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(ValueError, match="two is down"):
        call(graph, "invoke", {"log": []}, thread())
    flaky.mend()
    assert call(graph, "invoke", None, thread()) == {"log": ["a", "b", "c"]}
    assert flaky.runs == {"two": 1}


def test_a_failing_router_beside_a_failing_node(saver: Any, call: Call, node: Node) -> None:
    flaky = Flaky("route", "x")

    def route(state: Log) -> str:
        flaky.node("route")(state)
        return "b"

    builder = fan(("a", node(flaky.node("a")))).add_node("b", say("b"))
    builder.add_node("x", node(flaky.node("x"))).add_edge(START, "x").add_conditional_edges("a", node(route))
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(ValueError, match="down"):
        call(graph, "invoke", {"log": []}, thread())
    flaky.down.discard("x")
    with pytest.raises(ValueError, match="down"):
        call(graph, "invoke", None, thread())
    flaky.mend()
    assert call(graph, "invoke", None, thread()) == {"log": ["a", "x", "b"]}
    assert "a" not in flaky.runs


def test_a_router_from_the_start_that_failed(saver: Any, call: Call, node: Node) -> None:
    flaky = Flaky("route")

    def route(state: Log) -> str:
        flaky.node("route")(state)
        return "b"

    builder = StateGraph(Log).add_node("b", say("b")).add_conditional_edges(START, node(route))
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(ValueError, match="route is down"):
        call(graph, "invoke", {"log": ["in"]}, thread())
    assert call(graph, "get_state", thread()).next == ("__start__",)
    flaky.mend()
    assert call(graph, "invoke", None, thread()) == {"log": ["in", "b"]}


def test_a_failed_thread_always_reads(saver: Any, call: Call, node: Node) -> None:
    class Unpicklable(Exception):
        def __init__(self) -> None:
            super().__init__(threading.Lock())

    def fail(state: Log) -> None:
        raise Unpicklable

    graph = chain(("a", node(fail))).compile(checkpointer=saver)
    with pytest.raises(Unpicklable):
        call(graph, "invoke", {"log": []}, thread())
    assert "Unpicklable" in call(graph, "get_state", thread()).tasks[0].error
    assert len(call(graph, "get_state_history", thread())) == 2


def test_a_value_that_cannot_be_stored_fails_the_run_and_names_itself(saver: Any, call: Call, node: Node) -> None:
    graph = chain("a", ("bad", node(lambda state: {"log": [threading.Lock()]}))).compile(checkpointer=saver)
    with pytest.raises(TypeError, match="log"):
        call(graph, "invoke", {"log": []}, thread())
    assert call(graph, "get_state", thread()).values == {"log": ["a"]}
    assert call(graph, "get_state", thread()).next == ("bad",)


@pytest.mark.parametrize("signal", [StopIteration, StopAsyncIteration])
def test_an_iterator_that_ran_dry_is_an_error_like_others(saver: Any, call: Call, signal: type[Exception]) -> None:
    def run(state: Log) -> None:
        raise signal

    for name, builder in (("1", chain(("a", run))), ("2", fan(("a", run), "b"))):
        graph = builder.compile(checkpointer=saver)
        with pytest.raises(RuntimeError, match=signal.__name__):
            call(graph, "invoke", {"log": []}, thread(name))
        assert "a" in call(graph, "get_state", thread(name)).next


# -- trying again


def test_a_retry_policy_tries_again(saver: Any, call: Call, node: Node) -> None:
    attempts: list[int] = []

    def run(state: Log, runtime: Any) -> dict[str, list[str]]:
        attempts.append(runtime.execution_info.node_attempt)
        if len(attempts) < 3:
            raise ConnectionError("passing")
        return {"log": ["a"]}

    policy = RetryPolicy(initial_interval=0.001, jitter=False)
    builder = StateGraph(Log).add_node("a", node(run), retry_policy=policy).add_edge(START, "a")
    assert call(builder.compile(checkpointer=saver), "invoke", {"log": []}, thread()) == {"log": ["a"]}
    assert attempts == [1, 2, 3]


@pytest.mark.parametrize(
    ("policy", "error", "runs"),
    [
        (RetryPolicy(0.001, jitter=False), ConnectionError, 3),
        (RetryPolicy(0.001, jitter=False, max_attempts=2), ConnectionError, 2),
        (RetryPolicy(0.001, jitter=False), ValueError, 1),
        (RetryPolicy(0.001, jitter=False, retry_on=ValueError), ValueError, 3),
        (RetryPolicy(0.001, jitter=False, retry_on=(KeyError, ValueError)), ValueError, 3),
        (RetryPolicy(0.001, jitter=False, retry_on=lambda error: False), ConnectionError, 1),
        (
            [RetryPolicy(0.001, max_attempts=4, retry_on=KeyError, jitter=False), RetryPolicy(0.001, jitter=False)],
            KeyError,
            4,
        ),
    ],
)
def test_how_often_a_node_is_tried(call: Call, node: Node, policy: Any, error: type[Exception], runs: int) -> None:
    attempts: list[int] = []

    def run(state: Log) -> None:
        attempts.append(1)
        raise error("down")

    builder = StateGraph(Log).add_node("a", node(run), retry_policy=policy).add_edge(START, "a")
    with pytest.raises(error):
        call(builder.compile(), "invoke", {"log": []})
    assert len(attempts) == runs


# -- stopped from outside


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_stops_the_program_is_not_swallowed(saver: Any, stop: type[BaseException]) -> None:
    def run(state: Log) -> None:
        if stopping:
            raise stop

    stopping = [True]
    graph = chain("a", ("b", run)).compile(checkpointer=saver)
    with pytest.raises(stop):
        graph.invoke({"log": []}, thread())
    state = graph.get_state(thread())
    assert (state.values, state.next, state.tasks[0].error) == ({"log": ["a"]}, ("b",), None)
    stopping.clear()
    assert graph.invoke(None, thread()) == {"log": ["a"]}


def test_what_stops_the_program_keeps_finished_siblings(saver: Any) -> None:
    done = threading.Event()

    def a(state: Log) -> dict[str, list[str]]:
        done.set()
        return {"log": ["a"]}

    def b(state: Log) -> None:
        if stopping:
            done.wait(10)
            raise KeyboardInterrupt

    stopping = [True]
    graph = fan(("a", a), ("b", b)).compile(checkpointer=saver)
    with pytest.raises(KeyboardInterrupt):
        graph.invoke({"log": []}, thread())
    assert graph.get_state(thread()).values == {"log": ["a"]}
    stopping.clear()
    assert graph.invoke(None, thread()) == {"log": ["a"]}


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_a_cancelled_run_can_be_gone_on_with(saver: Any, durability: str) -> None:
    started = asyncio.Event()
    ran: list[str] = []
    blocked = [True]

    async def ok(state: Log) -> dict[str, list[str]]:
        ran.append("ok")
        return {"log": ["ok"]}

    async def slow(state: Log) -> dict[str, list[str]]:
        started.set()
        if blocked:
            await asyncio.Event().wait()
        return {"log": ["slow"]}

    graph = chain("a").add_node("ok", ok).add_node("slow", slow).add_edge("a", "ok").add_edge("a", "slow")
    compiled = graph.compile(checkpointer=saver)
    run = asyncio.ensure_future(compiled.ainvoke({"log": []}, thread(), durability=durability))
    await started.wait()
    await asyncio.sleep(0)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    state = await compiled.aget_state(thread())
    assert (state.values, state.next) == ({"log": ["a", "ok"]}, ("slow",))
    assert state.tasks[1].error == "CancelledError()"
    blocked.clear()
    assert await compiled.ainvoke(None, thread()) == {"log": ["a", "ok", "slow"]}
    assert ran == ["ok"]


def test_a_node_that_cancels_itself_has_failed(saver: Any, call: Call, node: Node) -> None:
    def run(state: Log) -> None:
        raise asyncio.CancelledError

    graph = chain(("a", node(run))).compile(checkpointer=saver)
    with pytest.raises(NodeCancelledError, match="'a'"):
        call(graph, "invoke", {"log": []}, thread())
    assert call(graph, "get_state", thread()).next == ("a",)


def test_a_drain_stops_between_two_supersteps(saver: Any, call: Call, node: Node) -> None:
    control = RunControl()

    def run(state: Log) -> dict[str, list[str]]:
        control.request_drain("deploy")
        return {"log": ["b"]}

    graph = chain("a", ("b", node(run)), "c").compile(checkpointer=saver)
    with pytest.raises(GraphDrained) as raised:
        call(graph, "invoke", {"log": []}, thread(), control=control)
    assert raised.value.reason == "deploy"
    assert call(graph, "get_state", thread()).next == ("c",)
    assert call(graph, "invoke", None, thread()) == {"log": ["a", "b", "c"]}


# -- a graph that has changed under its threads


def test_a_pending_node_that_is_gone_is_named(saver: Any, call: Call) -> None:
    old = chain("a", "b").compile(checkpointer=saver, interrupt_before=["b"])
    call(old, "invoke", {"log": []}, thread())
    new = chain("a", "c").compile(checkpointer=saver)
    with pytest.raises(MissingNodeError, match="'b'"):
        call(new, "invoke", None, thread())
    assert call(new, "get_state", thread()).values == {"log": ["a"]}
    assert call(new, "invoke", {"log": ["new"]}, thread()) == {"log": ["a", "new", "a", "c"]}


def test_a_pending_packet_whose_node_is_gone_is_named(saver: Any, call: Call) -> None:
    def builder(name: str) -> StateGraph[Any]:
        made = chain("a").add_node(name, say(name))
        return made.add_conditional_edges("a", lambda state: Send(name, {}))

    call(builder("b").compile(checkpointer=saver, interrupt_before=["b"]), "invoke", {"log": []}, thread())
    with pytest.raises(MissingNodeError, match="'b'"):
        call(builder("c").compile(checkpointer=saver), "invoke", None, thread())


def test_a_new_key_is_empty_on_old_threads(saver: Any, call: Call, node: Node) -> None:
    from tests.acceptance.test_schemas import Whole

    call(chain("a").compile(checkpointer=saver), "invoke", {"log": ["old"]}, thread())
    graph = chain(("b", node(lambda state: {"answer": str(sorted(state))})), schema=Whole).compile(checkpointer=saver)
    assert call(graph, "invoke", {"question": "?"}, thread()) == {
        "log": ["old", "a"],
        "question": "?",
        "answer": "['log', 'question']",
    }


def test_a_reducer_that_fails_names_its_key_and_who_wrote(saver: Any, call: Call) -> None:
    graph = fan(("a", lambda state: {"log": 5}), ("b", lambda state: {"log": ["b"]})).compile(checkpointer=saver)
    with pytest.raises(TypeError) as raised:
        call(graph, "invoke", {"log": []}, thread())
    assert any("'log'" in note and "a" in note for note in raised.value.__notes__)
