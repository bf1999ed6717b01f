"""A run may be stopped at any moment, by a cancellation or by a listener who leaves; the next one ends all the same."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.acceptance.kit import Log, chain, fan, say, thread
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.sqlite.aio import AsyncSqliteSaver
from threadmark.errors import HeadMoved
from threadmark.graph import StateGraph

END = {"log": ["a", "b", "c"]}


def joined(*nodes: Any) -> StateGraph[Any]:
    """a and b at once, then c."""
    return fan(*nodes).add_node("c", say("c")).add_edge(["a", "b"], "c")


def slowly(word: str) -> Any:
    async def node(state: Log) -> dict[str, list[str]]:
        await asyncio.sleep(0)
        return {"log": [word]}

    return node


async def finished(graph: Any) -> Any:
    """Go on with the thread, or begin it if nothing was stored."""
    known = (await graph.aget_state(thread())).metadata is not None
    return await graph.ainvoke(None if known else {"log": []}, thread())


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_cancelled_at_any_turn_of_the_loop(durability: Any) -> None:
    turns, over = 0, False
    while not over:
        saver = AsyncSqliteSaver.from_conn_string(":memory:")
        graph = joined(("a", slowly("a")), ("b", slowly("b"))).compile(checkpointer=saver)
        run = asyncio.ensure_future(graph.ainvoke({"log": []}, thread(), durability=durability))
        for _ in range(turns):
            await asyncio.sleep(0)
        turns, over = turns + 1, run.done()
        run.cancel()
        await asyncio.wait([run])
        assert run.cancelled() or run.result() == END
        assert await finished(graph) == END
        saver.close()
    assert turns > 5


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_left_after_any_number_of_events(durability: Any) -> None:
    left, over = 0, False
    while not over:
        graph = joined("a", "b").compile(checkpointer=InMemorySaver())
        told = graph.stream(
            {"log": []}, thread(), durability=durability, stream_mode=["tasks", "values", "updates", "checkpoints"]
        )
        over = any(next(told, None) is None for _ in range(left + 1))
        told.close()
        left += 1
        known = graph.get_state(thread()).metadata is not None
        assert graph.invoke(None if known else {"log": []}, thread()) == END
    assert left > 10


def test_a_listener_who_raises_leaves(saver: Any) -> None:
    graph = joined("a", "b").compile(checkpointer=saver)
    with pytest.raises(KeyError):
        raise_at_first(graph.stream({"log": []}, thread()))
    assert graph.invoke(None, thread()) == END


def raise_at_first(told: Any) -> None:
    for _ in told:
        raise KeyError


async def test_a_stream_that_is_forgotten_stops(saver: Any) -> None:
    graph = joined(("a", slowly("a")), ("b", slowly("b"))).compile(checkpointer=saver)
    async for _ in graph.astream({"log": []}, thread()):
        break
    end = None
    while end is None:
        try:
            end = await finished(graph)
        except HeadMoved:
            continue  # the loop closes what is forgotten when it comes to it; what that stored is the new head
    assert end == END


def test_nothing_is_left_running(saver: Any) -> None:
    graph = joined("a", "b").compile(checkpointer=saver)
    for number in range(5):
        graph.invoke({"log": []}, thread(str(number)))
        told = graph.stream({"log": []}, thread(f"stream {number}"))
        next(told)
        told.close()
    for one in [one for one in threading.enumerate() if one.name == "threadmark-task"]:
        one.join(10)
        assert not one.is_alive()


def test_a_stream_may_be_read_from_several_threads(saver: Any) -> None:
    told = joined("a", "b").compile(checkpointer=saver).stream({"log": []}, thread())
    found: list[Any] = []

    def read() -> None:
        found.append(next(told, None))

    while not found or found[-1] is not None:
        reader = threading.Thread(target=read)
        reader.start()
        reader.join()
    assert sorted(name for one in found[:-1] for name in one) == ["a", "b", "c"]


async def test_a_cancelled_run_leaves_other_runs_alone(saver: Any) -> None:
    gate = asyncio.Event()

    async def wait(state: Log) -> dict[str, list[str]]:
        await gate.wait()
        return {"log": ["waited"]}

    graph = chain(("a", wait)).compile(checkpointer=saver)
    runs = [asyncio.ensure_future(graph.ainvoke({"log": []}, thread(str(number)))) for number in range(3)]
    await asyncio.sleep(0)
    runs[1].cancel()
    await asyncio.wait([runs[1]])
    gate.set()
    assert [await runs[number] for number in (0, 2)] == [{"log": ["waited"]}] * 2
