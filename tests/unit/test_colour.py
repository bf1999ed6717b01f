"""The bridge between blocking callers and event loops."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from threadmark.colour import Worker, drive, drive_iter, offload, refuse_inside_loop, running_loop, settled, whole
from threadmark.errors import ColourError


async def answer(value: int) -> int:
    return value


async def fails() -> int:
    raise KeyError("inside")


async def suspends() -> None:
    await asyncio.sleep(0)


def test_driving_gives_the_result_or_the_error() -> None:
    assert drive(answer(3)) == 3
    with pytest.raises(KeyError, match="inside"):
        drive(fails())


def test_what_suspends_is_refused_and_closed() -> None:
    closed = []

    async def waits() -> None:
        try:
            await suspends()
        finally:
            closed.append(True)

    with pytest.raises(ColourError, match="'a'"):
        drive(waits())
    assert closed == [True]


async def counting(log: list[str]) -> AsyncIterator[int]:
    try:
        for number in range(3):
            yield number
    finally:
        log.append("closed")


def test_a_stream_is_driven_item_by_item_and_closed_with_its_iterator() -> None:
    log: list[str] = []
    assert list(drive_iter(counting(log))) == [0, 1, 2]
    assert log == ["closed"]
    half = drive_iter(counting(log))
    assert next(half) == 0
    half.close()  # type: ignore[attr-defined]
    assert log == ["closed", "closed"]


async def test_a_running_loop_is_known_and_kept_from_blocking() -> None:
    assert running_loop() is asyncio.get_running_loop()
    with pytest.raises(ColourError, match="aput"):
        refuse_inside_loop("put", "aput")


def test_without_a_loop_nothing_is_refused() -> None:
    assert running_loop() is None
    refuse_inside_loop("put", "aput")


async def test_offloaded_work_runs_in_the_worker_s_thread() -> None:
    worker = Worker("test")

    async def where() -> int:
        return threading.get_ident()

    try:
        found = {await offload(worker, where) for _ in range(3)}
        assert len(found) == 1
        assert threading.get_ident() not in found
        with pytest.raises(KeyError):
            await offload(worker, fails)
    finally:
        worker.close()
    worker.close()


def test_a_worker_finishes_what_it_was_given_before_it_ends() -> None:
    worker, done = Worker("test"), []
    futures = [worker.submit(lambda number=number: done.append(number)) for number in range(20)]  # type: ignore[misc]
    worker.close()
    assert done == list(range(20))
    assert all(future.done() for future in futures)
    assert worker.submit(lambda: 7).result() == 7
    worker.close()


def test_a_worker_of_several_threads_runs_as_many_jobs_at_once() -> None:
    worker, all_there = Worker("test", 3), threading.Barrier(3)
    futures = [worker.submit(all_there.wait) for _ in range(3)]
    assert sorted(future.result(60) for future in futures) == [0, 1, 2]
    idents = {worker.submit(threading.get_ident).result() for _ in range(5)}
    assert threading.get_ident() not in idents
    more = [worker.submit(all_there.wait) for _ in range(6)]
    worker.close()
    assert sorted(future.result(0) for future in more) == [0, 0, 1, 1, 2, 2]


async def in_a_task(op: Any) -> Any:
    return await settled(asyncio.ensure_future(op))


async def in_the_same_task(op: Any) -> Any:
    return await whole(op)


WAYS = pytest.mark.parametrize("way", [in_a_task, in_the_same_task])
Way = Callable[[Any], Awaitable[Any]]


@WAYS
async def test_a_cancelled_caller_waits_for_what_it_began(way: Way) -> None:
    gate, done = asyncio.Event(), []

    async def slow() -> None:
        await gate.wait()
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        done.append(True)

    task = asyncio.ensure_future(way(slow()))
    await asyncio.sleep(0)
    task.cancel("once")
    await asyncio.sleep(0)
    task.cancel("twice")
    await asyncio.sleep(0)
    assert not task.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == [True]


async def test_a_cancelled_caller_of_a_worker_waits_for_what_it_began() -> None:
    worker, gate, done = Worker("test"), threading.Event(), []

    def slow() -> None:
        gate.wait(60)
        done.append(True)

    task = asyncio.ensure_future(worker.run(slow))
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.sleep(0.01)
    assert not task.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == [True]
    assert await worker.run(lambda: 7) == 7
    worker.close()


async def test_many_callers_of_a_worker_each_hear_of_their_own() -> None:
    worker = Worker("test", 3)

    def job(number: int) -> int:
        if number % 3 == 0:
            raise KeyError(number)
        return number

    found = await asyncio.gather(*(worker.run(partial(job, number)) for number in range(50)), return_exceptions=True)
    worker.close()
    told = [each.args[0] if isinstance(each, KeyError) else each for each in found]
    assert told == list(range(50))
    assert [isinstance(each, KeyError) for each in found] == [number % 3 == 0 for number in range(50)]


def test_a_worker_serves_one_loop_after_the_other_and_outlives_one_that_ends_early() -> None:
    worker, gate = Worker("test"), threading.Event()

    async def leave() -> None:
        waiting = worker.run(lambda: gate.wait(60))
        waiting.send(None)  # handed in, and nobody will wait: the loop closes first
        waiting.close()

    asyncio.run(leave())
    gate.set()

    async def answered() -> int:
        return await worker.run(lambda: 7)

    assert [asyncio.run(answered()) for _ in range(3)] == [7, 7, 7]
    worker.close()


async def test_an_error_of_a_worker_s_job_leaves_no_cycle_behind() -> None:
    class Heavy:
        pass

    worker, alive = Worker("test"), weakref.WeakSet[Heavy]()

    def fail() -> None:
        heavy = Heavy()
        alive.add(heavy)
        raise KeyError

    gc.disable()
    try:
        with suppress(KeyError):
            await worker.run(fail)
        worker.close()
        assert not alive
    finally:
        gc.enable()


@WAYS
@pytest.mark.parametrize("turns", range(1, 6))
async def test_cancelled_at_any_turn_an_operation_runs_to_its_end(way: Way, turns: int) -> None:
    done = []

    async def slow() -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        done.append(True)

    task = asyncio.ensure_future(way(slow()))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):  # it may have been over
        await task
    assert done == [True]


@WAYS
async def test_what_an_operation_gives_or_raises_arrives(way: Way) -> None:
    loop = asyncio.get_running_loop()

    async def late(value: int) -> int:
        await asyncio.sleep(0.001)
        return value

    async def failing() -> None:
        broken = loop.create_future()
        loop.call_soon(broken.set_exception, KeyError("waited for"))
        await broken

    async def recovering() -> str:
        try:
            await failing()
        except KeyError:
            await asyncio.sleep(0)
        return "recovered"

    assert await way(answer(1)) == 1
    assert await way(late(2)) == 2
    assert await way(recovering()) == "recovered"
    with pytest.raises(KeyError, match="inside"):
        await way(fails())
    with pytest.raises(KeyError, match="waited for"):
        await way(failing())


@WAYS
async def test_a_future_that_is_cancelled_inside_is_no_cancellation_of_the_caller(way: Way) -> None:
    loop = asyncio.get_running_loop()

    async def inner() -> str:
        gone = loop.create_future()
        loop.call_soon(gone.cancel)
        try:
            await gone
        except asyncio.CancelledError:
            return "noticed"
        return "not noticed"

    assert await way(inner()) == "noticed"


@WAYS
async def test_the_cancellation_is_what_the_caller_hears_of(way: Way) -> None:
    async def failing_late() -> None:
        await asyncio.sleep(0.001)
        raise KeyError("late")

    task = asyncio.ensure_future(way(failing_late()))
    await asyncio.sleep(0)
    task.cancel("why")
    with pytest.raises(asyncio.CancelledError):
        await task


@WAYS
async def test_a_time_limit_of_the_caller_ends_after_the_operation(way: Way) -> None:
    done = []

    async def slow() -> None:
        await asyncio.sleep(0.02)
        done.append(True)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await way(slow())
    assert done == [True]
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_a_closed_caller_closes_its_operation() -> None:
    closed = []

    async def waits() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            closed.append(True)

    caller = in_the_same_task(waits())
    caller.send(None)  # type: ignore[attr-defined]
    caller.close()  # type: ignore[attr-defined]
    assert closed == [True]
