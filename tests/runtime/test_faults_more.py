"""Savers that fail, cancellations at every point, retries, handlers, limits (spec 4, 9; house 5)."""

from __future__ import annotations

import asyncio
import builtins
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.kit import Log, chain, fan, say, thread
from tests.conftest import Call
from tests.runtime.kit import Body, calling, graph_of, placed
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import GraphDrained, NodeError, NodeTimeoutError
from threadmark.graph import START, StateGraph
from threadmark.runtime import RunControl
from threadmark.types import Command, Durability, RetryPolicy, StreamMode, TimeoutPolicy, interrupt

Node = Callable[[Any], Any]


# -- a saver that fails ------------------------------------------------------------------------------------------------


class DiskFull(Exception):
    pass


class Failing:
    """A saver of somebody else: the contract's plain methods, of which the ``bad``-th write fails, once or for good."""

    def __init__(self, bad: int | None = None) -> None:
        self.inner = InMemorySaver()
        self.bad = bad
        self.acknowledged: builtins.list[tuple[str, str, Any]] = []
        self.writes = 0

    def get_next_version(self, current: Any, channel: None) -> Any:
        return self.inner.get_next_version(current, channel)

    def get_tuple(self, config: Any) -> Any:
        return self.inner.get_tuple(config)

    def list(self, config: Any, **query: Any) -> Any:
        return self.inner.list(config, **query)

    def _write(self) -> None:
        number, self.writes = self.writes, self.writes + 1
        if number == self.bad:
            raise DiskFull(f"write {number}")

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        self._write()
        made = self.inner.put(config, checkpoint, metadata, new_versions)
        own = made["configurable"]
        self.acknowledged.append(("checkpoint", own["checkpoint_ns"], own["checkpoint_id"]))
        return made

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        self._write()
        self.inner.put_writes(config, writes, task_id, task_path)
        self.acknowledged.append(("writes", config["configurable"]["checkpoint_id"], task_id))

    def lost(self) -> builtins.list[Any]:
        """What was acknowledged and is not there."""
        rows = builtins.list(self.inner.list(None))
        there: set[Any] = {
            ("checkpoint", row.config["configurable"]["checkpoint_ns"], row.checkpoint["id"]) for row in rows
        }
        for row in rows:
            there |= {("writes", row.checkpoint["id"], task_id) for task_id, _, _ in row.pending_writes or ()}
        return [one for one in self.acknowledged if one not in there]


@pytest.mark.parametrize("durability", ["sync", "async"])
@pytest.mark.parametrize("place", ["root", "child", "called"])
def test_whichever_write_fails_the_run_stops_and_goes_on_later(
    call: Call, node: Node, place: str, durability: str
) -> None:
    number = 0
    while True:
        body = Body()
        saver = Failing(number)
        builder: StateGraph[Any] = StateGraph(Log)
        builder.add_node("a", node(body.saying("a")))
        builder.add_node("b", placed(place, "b", node(body.saying("b")), call))
        builder.add_node("c", node(body.saying("c")))
        builder.add_edge(START, "a")
        builder.add_edge(START, "b")
        builder.add_edge(["a", "b"], "c")
        graph = builder.compile()
        graph.checkpointer = saver
        try:
            call(graph, "invoke", {"log": []}, thread(), durability=durability)
        except DiskFull:
            pass
        else:
            break
        assert saver.lost() == []
        # the disk is mended: what was acknowledged is not done again, the rest is
        head = call(graph, "get_state", thread())
        done = call(graph, "invoke", None if head.next else {"log": []}, thread(), durability=durability)
        assert done == {"log": ["a", "b", "c"]}
        assert saver.lost() == []
        number += 1
    assert number == saver.writes
    assert number >= 6


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_saver_that_fails_while_a_question_is_stored(call: Call, node: Node, durability: str) -> None:
    number = 0
    while True:
        saver = Failing(number)
        graph = graph_of(("n", placed("child", "n", node(Body().asking("ask", "?")), call)))
        graph.checkpointer = saver
        try:
            call(graph, "invoke", {"log": []}, thread(), durability=durability)
        except DiskFull:
            number += 1
            assert saver.lost() == []
        else:
            break
    assert number > 0
    saver.bad = None
    assert call(graph, "invoke", Command(resume="A"), thread(), durability=durability) == {"log": ["ask:A"]}


def test_reading_that_fails_stops_the_run_before_it_begins(call: Call, node: Node) -> None:
    body = Body()

    class Unreadable(Failing):
        def get_tuple(self, config: Any) -> Any:
            raise DiskFull("cannot read")

    graph = graph_of(("n", node(body.saying("n"))))
    graph.checkpointer = Unreadable()
    with pytest.raises(DiskFull):
        call(graph, "invoke", {"log": []}, thread())
    assert body.ran == []


# -- what is told is on disk -------------------------------------------------------------------------------------------


def watch(event: tuple[str, Any], path: Path, seen: list[str]) -> None:
    """Note what an event tells, and that disk is not behind it."""
    mode, payload = event
    with closing(sqlite3.connect(path)) as file:
        ids = {row[0] for row in file.execute("SELECT id FROM checkpoint")}
        tasks = {row[0] for row in file.execute("SELECT task_id FROM task")}
    if mode == "checkpoints":
        assert payload["config"]["configurable"]["checkpoint_id"] in ids
    if mode == "tasks" and "result" in payload:
        assert payload["id"] in tasks
    seen.append(mode)


@pytest.mark.parametrize("shape", ["chain", "fan", "child"])
def test_in_sync_nothing_is_told_before_it_is_on_disk(tmp_path: Path, shape: str) -> None:
    path = tmp_path / "c.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = _shaped(shape).compile(checkpointer=saver)
        seen: list[str] = []
        modes: list[StreamMode] = ["values", "updates", "tasks", "checkpoints"]
        for event in graph.stream({"log": []}, thread(), stream_mode=modes, durability="sync"):
            watch(event, path, seen)
        assert set(seen) == set(modes)


@pytest.mark.parametrize("shape", ["chain", "fan", "child"])
async def test_in_sync_nothing_is_told_before_it_is_on_disk_on_a_loop(tmp_path: Path, shape: str) -> None:
    path = tmp_path / "c.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = _shaped(shape).compile(checkpointer=saver)
        seen: list[str] = []
        modes: list[StreamMode] = ["values", "updates", "tasks", "checkpoints"]
        async for event in graph.astream({"log": []}, thread(), stream_mode=modes, durability="sync"):
            watch(event, path, seen)
        assert set(seen) == set(modes)


def _shaped(shape: str) -> StateGraph[Any]:
    if shape == "chain":
        return chain("a", "b", "c")
    if shape == "fan":
        return fan("a", "b", "c")
    return chain("a", ("n", graph_of(("x", say("x")), ("y", say("y")))), "c")


# -- cancellation ------------------------------------------------------------------------------------------------------


def trace(rows: list[Any]) -> list[Any]:
    """What is stored, without what differs from run to run."""
    out = []
    for row in rows:
        ns = row.config["configurable"]["checkpoint_ns"].partition(":")[0]
        writes = sorted((name, repr(value)) for _, name, value in row.pending_writes)
        out.append((ns, row.metadata["source"], row.metadata["step"], writes))
    return sorted(out)


async def stopped_at(point: str, durability: Durability, place: str) -> tuple[list[Any], list[str]]:
    """Cancel a run when ``point`` has been reached; the trace that it leaves, and what ran in all."""
    reached = asyncio.Event()
    ran: list[str] = []
    hold = [True]

    def step(name: str) -> Any:
        async def run(state: Log) -> Any:
            ran.append(name)
            if hold and name == point:
                reached.set()
                await asyncio.Event().wait()
            return {"log": [name]}

        return run

    inner = graph_of(("s1", step("s1")), ("s2", step("s2")))

    async def called(state: Log) -> Any:
        return {"log": (await inner.ainvoke({"log": []}))["log"]}

    saver = InMemorySaver()
    builder: StateGraph[Any] = StateGraph(Log)
    builder.add_node("a", step("a"))
    builder.add_node("n", inner if place == "child" else called)
    builder.add_node("quick", step("quick"))
    builder.add_node("end", step("end"))
    builder.add_edge(START, "a")
    builder.add_edge("a", "n")
    builder.add_edge("a", "quick")
    builder.add_edge(["n", "quick"], "end")
    graph = builder.compile(checkpointer=saver)
    job = asyncio.ensure_future(graph.ainvoke({"log": []}, thread(), durability=durability))
    await reached.wait()
    for _ in range(20):  # siblings get as far as they can
        await asyncio.sleep(0)
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    left = trace(list(saver.list(thread())))
    hold.clear()
    done = await graph.ainvoke(None, thread(), durability=durability)
    assert sorted(set(done["log"])) == ["a", "end", "quick", "s1", "s2"]
    return left, ran


@pytest.mark.parametrize("place", ["child", "called"])
@pytest.mark.parametrize("point", ["a", "s1", "s2", "quick", "end"])
async def test_a_cancelled_run_leaves_the_same_trace_in_every_durability(point: str, place: str) -> None:
    durabilities: list[Durability] = ["sync", "async", "exit"]
    left = {durability: await stopped_at(point, durability, place) for durability in durabilities}
    assert left["sync"] == left["async"]
    rows, ran = left["exit"]
    assert ran == left["sync"][1]
    newest: dict[str, Any] = {}
    for ns, source, step, writes in left["sync"][0]:
        if ns not in newest or step > newest[ns][1]:
            newest[ns] = (source, step, writes)
    # ``exit`` keeps the newest of each graph that has not ended, with the same writes on it
    assert {ns: (source, step, writes) for ns, source, step, writes in rows}.items() <= newest.items()
    assert ("", *newest[""]) in rows


class Slow(Failing):
    """Its operations on a loop take a while; ``half_done`` names those that were begun and not ended."""

    def __init__(self) -> None:
        super().__init__()
        self.half_done: list[str] = []

    async def aget_tuple(self, config: Any) -> Any:
        return self.get_tuple(config)

    async def aput(self, *args: Any) -> Any:
        self.half_done.append("put")
        for _ in range(3):
            await asyncio.sleep(0)
        self.half_done.remove("put")
        return self.put(*args)

    async def aput_writes(self, *args: Any) -> None:
        self.half_done.append("put_writes")
        for _ in range(3):
            await asyncio.sleep(0)
        self.half_done.remove("put_writes")
        self.put_writes(*args)


@pytest.mark.parametrize("when", range(1, 12))
async def test_a_cancelled_call_never_leaves_a_saver_s_operation_half_done(when: int) -> None:
    saver = Slow()

    async def breathe(state: Log) -> Any:
        await asyncio.sleep(0)
        return {"log": ["x"]}

    graph = graph_of(("a", breathe), ("b", breathe), ("c", breathe))
    graph.checkpointer = saver
    job = asyncio.ensure_future(graph.ainvoke({"log": []}, thread(), durability="sync"))
    for _ in range(when):
        await asyncio.sleep(0)
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    assert saver.half_done == []
    done = await graph.ainvoke(None if saver.acknowledged else {"log": []}, thread(), durability="sync")
    assert done == {"log": ["x", "x", "x"]}


# -- trying again ------------------------------------------------------------------------------------------------------


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Nobody waits; what would have been waited is noted."""
    waits: list[float] = []

    async def asleep(seconds: float, *rest: Any) -> None:
        waits.append(seconds)

    monkeypatch.setattr("threadmark.engine.attempt.time.sleep", waits.append)
    monkeypatch.setattr("threadmark.engine.attempt.asyncio", _Asyncio(asleep))
    return waits


class _Asyncio:
    """The module with another ``sleep``."""

    def __init__(self, sleep: Any) -> None:
        self.sleep = sleep

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)


def test_waits_grow_up_to_their_limit(call: Call, node: Node, waited: list[float]) -> None:
    policy = RetryPolicy(
        initial_interval=1, backoff_factor=3, max_interval=10, max_attempts=5, jitter=False, retry_on=ValueError
    )
    builder: StateGraph[Any] = StateGraph(Log)
    builder.add_node("bad", node(Body().failing("bad", [])), retry_policy=policy)
    builder.add_edge(START, "bad")
    with pytest.raises(ValueError, match="bad"):
        call(builder.compile(), "invoke", {"log": []})
    assert waited == [1.0, 3.0, 9.0, 10.0]


def test_jitter_adds_up_to_a_second(
    call: Call, node: Node, waited: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random, "uniform", lambda low, high: (low + high) / 4)
    policy = RetryPolicy(initial_interval=1, max_attempts=2, jitter=True, retry_on=ValueError)
    builder: StateGraph[Any] = StateGraph(Log)
    builder.add_node("bad", node(Body().failing("bad", [])), retry_policy=policy)
    builder.add_edge(START, "bad")
    with pytest.raises(ValueError, match="bad"):
        call(builder.compile(), "invoke", {"log": []})
    assert waited == [1.25]


def test_each_error_has_its_policy(call: Call, node: Node, waited: list[float]) -> None:
    errors = [KeyError("k"), ValueError("v"), KeyError("k"), ValueError("v"), ValueError("v")]

    def bad(state: Log) -> Any:
        if errors:
            raise errors.pop(0)
        return {"log": ["done"]}

    policies = [
        RetryPolicy(initial_interval=1, max_attempts=9, jitter=False, backoff_factor=1, retry_on=KeyError),
        RetryPolicy(
            initial_interval=5,
            max_attempts=9,
            jitter=False,
            backoff_factor=1,
            retry_on=lambda error: isinstance(error, ValueError),
        ),
    ]
    builder: StateGraph[Any] = StateGraph(Log)
    builder.add_node("bad", node(bad), retry_policy=policies)
    builder.add_edge(START, "bad")
    assert call(builder.compile(), "invoke", {"log": []}) == {"log": ["done"]}
    assert waited == [1, 5, 1, 5, 5]


@pytest.mark.parametrize("place", ["child", "called"])
def test_a_child_that_is_tried_again_goes_on_where_it_was(
    saver: Any, call: Call, node: Node, place: str, waited: list[float]
) -> None:
    body = Body()
    fails = [1, 1]

    def bad(state: Log) -> Any:
        body.ran.append("bad")
        if fails:
            fails.pop()
            raise ConnectionError("down")
        return {"log": ["bad"]}

    builder: StateGraph[Any] = StateGraph(Log)
    builder.add_node(
        "n",
        placed(place, "n", node(bad), call, before=node(body.saying("before"))),
        retry_policy=RetryPolicy(jitter=False),
    )
    builder.add_edge(START, "n")
    assert call(builder.compile(checkpointer=saver), "invoke", {"log": []}, thread()) == {"log": ["before", "bad"]}
    assert body.ran == ["before", "bad", "bad", "bad"]


def test_an_answer_is_kept_from_attempt_to_attempt(saver: Any, call: Call, node: Node, waited: list[float]) -> None:
    attempts: list[Any] = []

    def ask(state: Log) -> Any:
        answer = interrupt("?")
        attempts.append(answer)
        if len(attempts) < 3:
            raise ConnectionError("down")
        return {"log": [answer]}

    builder: StateGraph[Any] = StateGraph(Log)
    builder.add_node("ask", node(ask), retry_policy=RetryPolicy(jitter=False))
    builder.add_edge(START, "ask")
    graph = builder.compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    assert call(graph, "invoke", Command(resume="A"), thread()) == {"log": ["A"]}
    assert attempts == ["A", "A", "A"]


# -- error handlers ----------------------------------------------------------------------------------------------------


def handled(handler: Any, *, bad: Any, saver: Any = None, retry: Any = None) -> Any:
    builder: StateGraph[Any] = StateGraph(Log)
    builder.add_node("bad", bad, error_handler=handler, retry_policy=retry)
    builder.add_node("other", say("other"))
    builder.add_node("end", say("end"))
    builder.add_edge(START, "bad")
    builder.add_edge(START, "other")
    builder.add_edge("bad", "end")
    return builder.compile(checkpointer=saver)


def test_a_handler_runs_once_when_attempts_are_used_up(saver: Any, call: Call, node: Node, waited: list[float]) -> None:
    body = Body()

    def handle(state: Log, error: NodeError) -> Any:
        body.ran.append("handler")
        return Command(update={"log": [f"{error.node}: {error.error}"]}, goto="end")

    graph = handled(
        node(handle),
        bad=node(body.failing("bad", [])),
        saver=saver,
        retry=RetryPolicy(max_attempts=2, retry_on=ValueError, jitter=False),
    )
    done = call(graph, "invoke", {"log": []}, thread())
    assert done == {"log": ["bad: bad is down", "other", "end"]} or sorted(done["log"]) == sorted(
        ["bad: bad is down", "other", "end"]
    )
    assert body.ran == ["bad", "bad", "handler"]
    assert call(graph, "get_state", thread()).next == ()


def test_a_handler_that_failed_runs_again_and_its_node_does_not(saver: Any, call: Call, node: Node) -> None:
    body = Body()
    mended: list[int] = []

    def handle(state: Log, error: NodeError) -> Any:
        body.ran.append("handler")
        if not mended:
            raise RuntimeError("the handler is down")
        return {"log": [f"handled {error.node}"]}

    graph = handled(node(handle), bad=node(body.failing("bad", [])), saver=saver)
    with pytest.raises(RuntimeError, match="handler is down"):
        call(graph, "invoke", {"log": []}, thread())
    mended.append(1)
    done = call(graph, "invoke", None, thread())
    assert "handled bad" in done["log"]
    assert done["log"].count("other") == 1
    assert body.ran == ["bad", "handler", "handler"]


def test_a_handler_may_ask(saver: Any, call: Call, node: Node) -> None:
    body = Body()

    def handle(state: Log, error: NodeError) -> Any:
        return {"log": [f"handled: {interrupt('what now?')}"]}

    graph = handled(node(handle), bad=node(body.failing("bad", [])), saver=saver)
    shown = call(graph, "invoke", {"log": []}, thread())
    assert [question.value for question in shown["__interrupt__"]] == ["what now?"]
    done = call(graph, "invoke", Command(resume="go on"), thread())
    assert "handled: go on" in done["log"]
    assert body.ran == ["bad"]


# -- limits ------------------------------------------------------------------------------------------------------------


async def test_a_node_that_runs_too_long_is_stopped_and_may_be_tried_again() -> None:
    ran: list[str] = []

    async def slow(state: Log) -> Any:
        ran.append("slow")
        if len(ran) == 1:
            await asyncio.Event().wait()
        return {"log": ["done"]}

    builder: StateGraph[Any] = StateGraph(Log)
    builder.add_node(
        "slow",
        slow,
        timeout=TimeoutPolicy(run_timeout=0.01),
        retry_policy=RetryPolicy(initial_interval=0, jitter=False),
    )
    builder.add_edge(START, "slow")
    assert await builder.compile().ainvoke({"log": []}) == {"log": ["done"]}
    assert len(ran) == 2


async def test_a_node_that_runs_too_long_fails_the_run(saver: Any) -> None:
    async def slow(state: Log) -> Any:
        await asyncio.Event().wait()

    builder: StateGraph[Any] = StateGraph(Log)
    builder.add_node("slow", slow, timeout=0.01)
    builder.add_edge(START, "slow")
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(NodeTimeoutError, match="slow"):
        await graph.ainvoke({"log": []}, thread())
    assert (await graph.aget_state(thread())).next == ("slow",)


async def test_a_step_that_takes_too_long_fails_the_run_and_keeps_what_ended(saver: Any) -> None:
    async def slow(state: Log) -> Any:
        await asyncio.Event().wait()

    graph = fan("quick", ("slow", slow)).compile(checkpointer=saver)
    graph.step_timeout = 0.05
    with pytest.raises(TimeoutError):
        await graph.ainvoke({"log": []}, thread())
    state = await graph.aget_state(thread())
    assert (state.next, state.values) == (("slow",), {"log": ["quick"]})


# -- a drain -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["child", "called"])
def test_a_drain_inside_a_child_stops_there(saver: Any, call: Call, node: Node, place: str) -> None:
    control = RunControl()
    body = Body()

    def drain(state: Log) -> Any:
        body.ran.append("drain")
        control.request_drain("deploy")
        return {"log": ["drained"]}

    inner = graph_of(("drain", node(drain)), ("after", node(body.saying("after"))))
    graph = graph_of(("n", inner if place == "child" else calling(inner, call)), checkpointer=saver)
    with pytest.raises(GraphDrained, match="deploy"):
        call(graph, "invoke", {"log": []}, thread(), control=control)
    assert body.ran == ["drain"]
    assert call(graph, "get_state", thread()).next == ("n",)
    assert call(graph, "invoke", None, thread()) == {"log": ["drained", "after"]}
    assert body.ran == ["drain", "after"]
