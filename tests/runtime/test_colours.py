"""Graphs of one colour called from nodes of the other (house 5)."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.acceptance.kit import Log, fan, say, thread
from tests.runtime.kit import Body, graph_of
from threadmark.func import entrypoint, task
from threadmark.types import Command, Durability

DURABILITIES = pytest.mark.parametrize("durability", ["sync", "async", "exit"])


def inner_of(body: Body) -> Any:
    return graph_of(("s", body.saying("s")), ("ask", body.asking("ask", "?")))


@DURABILITIES
async def test_a_plain_node_on_a_loop_calls_a_plain_graph(saver: Any, durability: Durability) -> None:
    body = Body()
    inner = inner_of(body)
    graph = graph_of(
        ("n", lambda state: {"log": inner.invoke({"log": []})["log"]}), ("end", say("end")), checkpointer=saver
    )
    async with asyncio.timeout(60):
        shown = await graph.ainvoke({"log": []}, thread(), durability=durability)
        assert [question.value for question in shown["__interrupt__"]] == ["?"]
        done = await graph.ainvoke(Command(resume="A"), thread(), durability=durability)
    assert done == {"log": ["s", "ask:A", "end"]}
    assert body.ran == ["s", "ask", "ask"]


@DURABILITIES
async def test_several_plain_nodes_on_a_loop_call_plain_graphs_at_once(saver: Any, durability: Durability) -> None:
    inner = graph_of(*((name, say(name)) for name in "xyz"))

    def node(state: Log) -> Any:
        return {"log": inner.invoke({"log": []})["log"]}

    graph = fan(*((f"n{number}", node) for number in range(6))).compile(checkpointer=saver)
    async with asyncio.timeout(60):
        done = await graph.ainvoke({"log": []}, {**thread(), "max_concurrency": 3}, durability=durability)
    assert done["log"] == ["x", "y", "z"] * 6


@DURABILITIES
def test_a_plain_node_runs_a_loop_of_its_own(saver: Any, durability: Durability) -> None:
    body = Body()
    inner = inner_of(body)

    def node(state: Log) -> Any:
        return {"log": asyncio.run(inner.ainvoke({"log": []}))["log"]}

    graph = graph_of(("n", node), ("end", say("end")), checkpointer=saver)
    shown = graph.invoke({"log": []}, thread(), durability=durability)
    assert [question.value for question in shown["__interrupt__"]] == ["?"]
    assert graph.invoke(Command(resume="A"), thread(), durability=durability) == {"log": ["s", "ask:A", "end"]}
    assert body.ran == ["s", "ask", "ask"]


def test_a_node_s_own_threads_call_graphs_in_its_context(saver: Any) -> None:
    inner = graph_of(("x", say("x")))

    def node(state: Log) -> Any:
        with ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(contextvars.copy_context().run, inner.invoke, {"log": []}) for _ in range(3)]
            return {"log": [word for job in jobs for word in job.result()["log"]]}

    graph = graph_of(("n", node), checkpointer=saver)
    assert graph.invoke({"log": []}, thread()) == {"log": ["x", "x", "x"]}
    namespaces = {row.config["configurable"]["checkpoint_ns"] for row in saver.list(thread())}
    assert len(namespaces) == 4


async def test_a_coroutine_calls_several_graphs_at_once(saver: Any) -> None:
    inner = graph_of(("x", say("x")), ("y", say("y")))

    async def node(state: Log) -> Any:
        found = await asyncio.gather(*(inner.ainvoke({"log": []}) for _ in range(4)))
        return {"log": [word for one in found for word in one["log"]]}

    graph = graph_of(("n", node), checkpointer=saver)
    assert (await graph.ainvoke({"log": []}, thread()))["log"] == ["x", "y"] * 4
    assert len({row.config["configurable"]["checkpoint_ns"] for row in saver.list(thread())}) == 5


@DURABILITIES
async def test_a_blocking_call_in_a_coroutine_ends(saver: Any, durability: Durability) -> None:
    """It stops the loop while it runs, as any blocking call does; it must not wait for that loop."""
    inner = graph_of(("x", say("x")))

    async def node(state: Log) -> Any:
        return {"log": inner.invoke({"log": []})["log"]}

    graph = graph_of(("n", node), ("end", say("end")), checkpointer=saver)
    done: list[Any] = []

    def run() -> None:
        try:
            done.append(asyncio.run(graph.ainvoke({"log": []}, thread(), durability=durability)))
        except Exception as error:
            done.append(error)

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    await asyncio.to_thread(worker.join, 60)
    assert done == [{"log": ["x", "end"]}]


async def test_a_plain_workflow_on_a_loop(saver: Any) -> None:
    ran: list[int] = []

    @task
    def double(x: int) -> int:
        ran.append(x)
        return 2 * x

    @entrypoint(checkpointer=saver)
    def flow(x: int) -> Any:
        return [one.result() for one in [double(n) for n in range(x)]]

    async with asyncio.timeout(60):
        assert await flow.ainvoke(4, thread()) == [0, 2, 4, 6]
        assert await flow.ainvoke(3, {**thread("2"), "max_concurrency": 1}) == [0, 2, 4]


@pytest.mark.parametrize("colour", ["blocking", "loop"])
async def test_many_threads_of_one_graph_at_once(saver: Any, colour: str) -> None:
    body = Body()
    graph = graph_of(("n", inner_of(body)), ("end", say("end")), checkpointer=saver)
    names = [f"t{number}" for number in range(8)]

    async def on_loop(name: str) -> Any:
        await graph.ainvoke({"log": []}, thread(name))
        return await graph.ainvoke(Command(resume=name), thread(name))

    def blocking(name: str) -> Any:
        graph.invoke({"log": []}, thread(name))
        return graph.invoke(Command(resume=name), thread(name))

    run: Callable[[str], Any] = on_loop if colour == "loop" else lambda name: asyncio.to_thread(blocking, name)
    done = await asyncio.gather(*(run(name) for name in names))
    assert done == [{"log": ["s", f"ask:{name}", "end"]} for name in names]


async def test_more_waiting_nodes_than_threads_on_a_loop() -> None:
    @task
    def echo(x: str) -> str:
        return x

    def node(state: Log) -> Any:
        return {"log": [echo("x").result()]}

    graph = fan(*((f"n{number}", node) for number in range(40))).compile()
    async with asyncio.timeout(60):
        assert (await graph.ainvoke({"log": []}))["log"] == ["x"] * 40
