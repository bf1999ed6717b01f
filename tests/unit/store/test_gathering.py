"""A store that gathers its async calls: one batch a turn of the event loop, and nothing done twice."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterable

import pytest

from threadmark.store.base import GetOp, InvalidNamespaceError, Op, PutOp, Result
from threadmark.store.base.batch import AsyncBatchedBaseStore, distinct
from threadmark.store.memory import InMemoryStore


class Remote(AsyncBatchedBaseStore):
    """Writes down what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[Op]] = []
        self.inner = InMemoryStore()
        self.broken = False

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return self.inner.batch(ops)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        self.asked.append(list(ops))
        if self.broken:
            raise ConnectionError("gone")
        return await self.inner.abatch(ops)


async def test_calls_of_one_turn_become_one_batch() -> None:
    store = Remote()
    await asyncio.gather(*(store.aput(("a",), key, {"v": key}) for key in "xyz"))
    found = await asyncio.gather(store.aget(("a",), "x"), store.asearch(("a",)), store.alist_namespaces())
    assert [len(batch) for batch in store.asked] == [3, 3]
    assert found[0] is not None
    assert (found[0].value, len(found[1]), found[2]) == ({"v": "x"}, 3, [("a",)])


async def test_equal_reads_are_done_once_and_the_last_write_counts() -> None:
    store = Remote()
    await asyncio.gather(store.aput(("a",), "k", {"v": 1}), store.aput(("a",), "k", {"v": 2}))
    first, second = await asyncio.gather(store.aget(("a",), "k"), store.aget(("a",), "k"))
    assert store.asked == [[PutOp(("a",), "k", {"v": 2})], [GetOp(("a",), "k")]]
    assert first == second
    assert first is not None
    assert first.value == {"v": 2}


def test_places_of_repetitions() -> None:
    get, other = GetOp(("a",), "k"), GetOp(("a",), "l")
    ops, places = distinct([get, PutOp(("a",), "k", {"v": 1}), other, get, PutOp(("a",), "k", None)])
    assert ops == [get, PutOp(("a",), "k", None), other]
    assert places == [0, 1, 2, 0, 1]


async def test_an_error_reaches_every_caller_and_the_next_call_works() -> None:
    store = Remote()
    store.broken = True
    results = await asyncio.gather(store.aget(("a",), "x"), store.aget(("a",), "y"), return_exceptions=True)
    assert [type(result) for result in results] == [ConnectionError, ConnectionError]
    store.broken = False
    assert await store.aget(("a",), "x") is None


async def test_a_cancelled_call_does_not_disturb_the_others() -> None:
    store = Remote()
    given_up = asyncio.create_task(store.aget(("a",), "x"))
    other = asyncio.create_task(store.aget(("a",), "y"))
    await asyncio.sleep(0)
    given_up.cancel()
    assert await other is None
    with pytest.raises(asyncio.CancelledError):
        await given_up


async def test_addresses_are_checked_before_anything_is_sent() -> None:
    store = Remote()
    with pytest.raises(InvalidNamespaceError):
        await store.aput((), "k", {})
    assert store.asked == []


async def test_a_store_that_is_let_go_ends_its_task() -> None:
    store = Remote()
    await store.aput(("a",), "k", {})
    before = len(asyncio.all_tasks())
    del store
    gc.collect()
    for _ in range(3):
        await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == before - 1
