"""What wakes a task of an event loop, and what lets so many in at once."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import pytest

from threadmark.checkpoint.postgres.aio import AwaitedGate
from threadmark.checkpoint.postgres.awaited import Bell
from threadmark.checkpoint.postgres.driver import BlockingGate
from threadmark.colour import drive, whole

# -- bells -------------------------------------------------------------------------------------------------------------


async def ringing(bell: Bell, log: list[Any], times: int) -> None:
    for number in range(times):
        try:
            await bell
        except KeyError as error:
            log.append(error.args[0])
        else:
            log.append(number)


@pytest.mark.parametrize("wrapped", [False, True])
async def test_a_bell_wakes_its_task_at_once_time_after_time(wrapped: bool) -> None:
    loop, log = asyncio.get_running_loop(), list[Any]()
    bell = Bell(loop)
    op = ringing(bell, log, 3)
    task = asyncio.ensure_future(whole(op) if wrapped else op)
    await asyncio.sleep(0)
    seen: list[list[Any]] = []

    def ring(error: BaseException | None) -> None:
        bell.ring(error)
        seen.append(list(log))

    for error in (None, KeyError("broken"), None):
        loop.call_soon(ring, error)
        await asyncio.sleep(0)
    assert seen == [[0], [0, "broken"], [0, "broken", 2]]
    await task


async def test_a_bell_that_nobody_waits_for_does_nothing() -> None:
    bell = Bell(asyncio.get_running_loop())
    bell.ring(KeyError("for nobody"))
    assert not bell.cancel()
    log: list[Any] = []
    task = asyncio.ensure_future(ringing(bell, log, 1))
    await asyncio.sleep(0)
    assert log == []
    asyncio.get_running_loop().call_soon(bell.ring)
    await task
    assert log == [0]


@pytest.mark.parametrize("wrapped", [False, True])
async def test_a_cancelled_task_hears_of_it_and_the_bell_rings_again_later(wrapped: bool) -> None:
    loop, log = asyncio.get_running_loop(), list[Any]()
    bell = Bell(loop)
    op = ringing(bell, log, 1)
    task = asyncio.ensure_future(whole(op) if wrapped else op)
    await asyncio.sleep(0)
    task.cancel("enough")
    bell_rang = loop.call_soon(bell.ring)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not bell_rang.cancelled()
    assert log == ([0] if wrapped else [])
    again = asyncio.ensure_future(ringing(bell, log, 1))
    await asyncio.sleep(0)
    loop.call_soon(bell.ring)
    await again
    assert log[-1] == 0


async def test_a_task_is_woken_in_its_own_context() -> None:
    loop, variable = asyncio.get_running_loop(), contextvars.ContextVar("variable", default="none")
    bell = Bell(loop)

    async def asked() -> str:
        variable.set("the task's")
        await bell
        return variable.get()

    task = asyncio.ensure_future(asked())
    await asyncio.sleep(0)
    loop.call_soon(bell.ring, context=contextvars.Context())
    assert await task == "the task's"
    assert variable.get() == "none"


# -- gates -------------------------------------------------------------------------------------------------------------


def test_a_gate_for_threads_has_so_many_places() -> None:
    gate = BlockingGate(2)
    assert [drive(gate.enter(0.001)) for _ in range(3)] == [True, True, False]
    gate.leave()
    assert [drive(gate.enter(0.001)) for _ in range(2)] == [True, False]


async def test_a_gate_for_tasks_lets_them_in_in_their_order() -> None:
    gate, order = AwaitedGate(2), list[int]()

    async def work(number: int) -> None:
        assert await gate.enter(60)
        order.append(number)
        await asyncio.sleep(0)
        gate.leave()

    await asyncio.gather(*(work(number) for number in range(7)))
    assert order == list(range(7))


async def test_whoever_gives_up_at_a_gate_takes_no_place() -> None:
    gate = AwaitedGate(1)
    assert await gate.enter(60)
    assert not await gate.enter(0.001)
    waiting = asyncio.ensure_future(gate.enter(60))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    gate.leave()
    assert await gate.enter(0.001)


async def test_a_place_that_was_given_to_a_cancelled_task_is_not_lost() -> None:
    gate = AwaitedGate(1)
    assert await gate.enter(60)
    waiting = asyncio.ensure_future(gate.enter(60))
    await asyncio.sleep(0)
    gate.leave()
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    assert await gate.enter(0.001)


def test_a_gate_for_tasks_is_free_again_on_the_next_loop() -> None:
    gate = AwaitedGate(1)
    for _ in range(3):
        assert asyncio.run(gate.enter(0.001))
