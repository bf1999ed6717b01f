"""Many threads and tasks on one saver: nothing lost, commits shared, cancelled calls finished."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypedDict

import pytest

from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.saver import Saver
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import HeadMoved
from threadmark.graph import END, START, StateGraph


@pytest.fixture(params=["file", "in memory", "dicts"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Saver]:
    if request.param == "dicts":
        yield InMemorySaver()
        return
    name = str(tmp_path / "threads.db") if request.param == "file" else ":memory:"
    with SqliteSaver.from_conn_string(name, synchronous="OFF") as saver:
        yield saver


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[SqliteSaver]:
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        yield saver


def conversation(saver: Saver, thread_id: str, turns: int) -> None:
    at, rows = config(thread_id), list[str]()
    for turn in range(turns):
        rows = [*rows, f"{thread_id} says {turn} " * 20]
        tasks = [(f"task {turn}", "~p", [("rows", rows)])] if turn else []
        at = saver.put_step(
            at, checkpoint({"rows": rows}, {"rows": turn + 1}), {"step": turn}, {"rows": turn + 1}, tasks
        )
        found = saver.get_tuple(config(thread_id))
        assert found is not None
        assert found.checkpoint["channel_values"] == {"rows": rows}


def test_threads_do_not_disturb_each_other(saver: Saver) -> None:
    names = [f"thread {number}" for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: conversation(saver, name, 15), names))
    for name in names:
        found = list(saver.list(config(name)))
        assert [item.metadata["step"] for item in found] == list(range(14, -1, -1))
        assert all(item.pending_writes for item in found[1:])


def test_tasks_that_end_together_lose_no_write(saver: Saver) -> None:
    at = saver.put(config(), checkpoint({"a": 1}), {}, {"a": 1})
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda n: saver.put_writes(at, [("a", n), ("b", "x" * 400)], f"task {n:02}"), range(48)))
    found = saver.get_tuple(at)
    assert found is not None
    assert found.pending_writes is not None
    assert [write[2] for write in found.pending_writes if write[1] == "a"] == list(range(48))


def test_one_task_written_by_many_threads_at_once(saver: Saver) -> None:
    at = saver.put(config(), checkpoint({"a": 1}), {}, {"a": 1})
    writes = [("a", "first"), ("__error__", "e")]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: saver.put_writes(at, [*writes, (f"c{n}", n)], "task"), range(24)))
    found = saver.get_tuple(at)
    assert found is not None
    assert found.pending_writes is not None
    assert [write[1] for write in found.pending_writes][:2] == ["__error__", "a"]
    assert len(found.pending_writes) == 3


async def test_conversations_on_one_event_loop(saver: Saver) -> None:
    async def converse(thread_id: str) -> None:
        at, rows = config(thread_id), list[str]()
        for turn in range(6):
            rows = [*rows, f"{thread_id} says {turn} " * 20]
            made = checkpoint({"rows": rows}, {"rows": turn + 1})
            at = await saver.aput_step(at, made, {"step": turn}, {"rows": turn + 1}, [])
            found = await saver.aget_tuple(config(thread_id))
            assert found is not None
            assert found.checkpoint["channel_values"] == {"rows": rows}

    await asyncio.gather(*(converse(f"thread {number}") for number in range(24)))
    assert len([item async for item in saver.alist(None)]) == 24 * 6


# -- commits are shared ----------------------------------------------------------------------------------------------


def transactions(saver: SqliteSaver) -> list[str]:
    """The commits of a saver from now on."""
    said: list[str] = []
    saver.conn.set_trace_callback(lambda statement: said.append(statement) if statement == "COMMIT" else None)
    return said


def held_until(saver: SqliteSaver, waiting: int, starts: list[Callable[[], Any]]) -> list[BaseException | None]:
    """Start these calls while the saver is busy, and let them go when all of them wait."""
    outcome: list[BaseException | None] = [None] * len(starts)

    def run(number: int) -> None:
        try:
            starts[number]()
        except BaseException as error:
            outcome[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(starts))]
    turn = threading.Event()
    with saver._turn:
        for thread in threads:
            thread.start()
        while len(saver._queue) < waiting:
            turn.wait(0.002)
    for thread in threads:
        thread.join()
    return outcome


def test_steps_that_wait_together_are_committed_together(on_disk: SqliteSaver) -> None:
    firsts = [on_disk.put(config(f"t{n}"), checkpoint({"a": n}), {}, {"a": 1}) for n in range(10)]
    said = transactions(on_disk)
    calls = [
        lambda at=at: on_disk.put(at, checkpoint({"a": "x" * 500}, {"a": 2}), {}, {"a": 2})  # type: ignore[misc]
        for at in firsts
    ]
    assert held_until(on_disk, 10, calls) == [None] * 10
    assert len(said) <= 2
    assert all(on_disk.get(config(f"t{n}"))["channel_values"] == {"a": "x" * 500} for n in range(10))  # type: ignore[index]


def test_a_refused_step_does_not_take_the_others_with_it(on_disk: SqliteSaver) -> None:
    firsts = [on_disk.put(config(f"t{n}"), checkpoint({"a": n}), {}, {"a": 1}) for n in range(4)]

    def step(at: Any, expected: str | None) -> None:
        made = checkpoint({"a": "new"}, {"a": 2})
        on_disk.put_step(at, made, {}, {"a": 2}, [("task", "", [("a", 1)])], expected_head=expected)

    ids = [at["configurable"]["checkpoint_id"] for at in firsts]
    calls = [
        lambda n=n: step(firsts[n], ids[n] if n != 2 else "elsewhere")  # type: ignore[misc]
        for n in range(4)
    ]
    outcome = held_until(on_disk, 4, calls)
    assert [type(error) for error in outcome] == [type(None), type(None), HeadMoved, type(None)]
    values = [on_disk.get(config(f"t{n}"))["channel_values"]["a"] for n in range(4)]  # type: ignore[index]
    assert values == ["new", "new", 2, "new"]
    assert on_disk.get_tuple(firsts[2]).pending_writes == []  # type: ignore[union-attr]


def test_a_step_that_spoils_the_transaction_fails_alone(on_disk: SqliteSaver) -> None:
    on_disk.conn.execute(
        "CREATE TRIGGER full BEFORE INSERT ON checkpoint WHEN new.step = 13 BEGIN SELECT RAISE(ABORT, 'no room'); END"
    )
    calls = [
        lambda n=n: on_disk.put(config(f"t{n}"), checkpoint({"a": n}), {"step": n}, {"a": 1})  # type: ignore[misc]
        for n in (11, 12, 13, 14)
    ]
    outcome = held_until(on_disk, 4, calls)
    assert [error is None for error in outcome] == [True, True, False, True]
    assert sorted(item.metadata["step"] for item in on_disk.list(None)) == [11, 12, 14]


async def test_awaited_steps_are_committed_together(on_disk: SqliteSaver) -> None:
    said = transactions(on_disk)
    with on_disk._turn:
        calls = [
            asyncio.create_task(on_disk.aput(config(f"t{n}"), checkpoint({"a": n}), {"step": n}, {"a": 1}))
            for n in range(20)
        ]
        while len(on_disk._queue) < 19:
            await asyncio.sleep(0.002)
    await asyncio.gather(*calls)
    assert len(said) <= 3
    assert len(list(on_disk.list(None))) == 20


# -- a cancelled call is finished ------------------------------------------------------------------------------------


async def test_a_cancelled_put_is_stored_before_the_cancellation_is_heard(on_disk: SqliteSaver) -> None:
    made = checkpoint({"a": 1})
    with on_disk._turn:
        call = asyncio.create_task(on_disk.aput(config(), made, {}, {"a": 1}))
        await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.sleep(0.01)
        assert not call.done()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert on_disk.get(config("t", made["id"])) is not None


async def test_a_cancelled_read_does_no_harm(on_disk: SqliteSaver) -> None:
    at = await on_disk.aput(config(), checkpoint({"a": 1}), {}, {"a": 1})
    call = asyncio.create_task(on_disk.aget_tuple(at))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await on_disk.aget(at)) is not None


async def test_a_listing_that_is_left_early_holds_nothing(on_disk: SqliteSaver) -> None:
    at = config()
    for number in range(5):
        at = await on_disk.aput(at, checkpoint({"a": number}, {"a": number}), {}, {"a": number})
    async for item in on_disk.alist(config()):
        assert item.checkpoint["channel_values"] == {"a": 4}
        break
    for item in on_disk.list(config()):
        on_disk.delete_thread("t")
        assert item.checkpoint["channel_values"] == {"a": 4}
    assert [item async for item in on_disk.alist(config())] == []


async def test_steps_that_a_run_makes_while_it_waits_for_its_turn_share_a_commit(on_disk: SqliteSaver) -> None:
    class Count(TypedDict):
        n: int

    builder = StateGraph(Count)
    for name in "abcde":
        builder.add_node(name, lambda state: {"n": state["n"] + 1})
    for before, after in itertools.pairwise([START, *"abcde", END]):
        builder.add_edge(before, after)
    graph = builder.compile(checkpointer=on_disk)
    statements: list[str] = []
    on_disk.conn.set_trace_callback(statements.append)
    with on_disk._turn:
        runs = [asyncio.ensure_future(graph.ainvoke({"n": 0}, config(str(number)))) for number in range(8)]
        while len(on_disk._queue) < len(runs):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert not any(run.done() for run in runs)
    assert [await run for run in runs] == [{"n": 5}] * 8
    on_disk.conn.set_trace_callback(None)
    assert statements.count("COMMIT") == 1
    for number in range(8):
        assert len([*on_disk.list(config(str(number)))]) == 7
