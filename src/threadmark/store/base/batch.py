"""A store whose async calls are gathered: those made in one turn of the event loop become one ``abatch``."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Sequence
from typing import Any

from threadmark.store.base import BaseStore
from threadmark.store.base.items import Op, PutOp, Result

Waiting = tuple[asyncio.Future[Any], Op]


class AsyncBatchedBaseStore(BaseStore):
    """Base for stores over a network. A backend writes ``batch`` and ``abatch``; make it inside a running loop.

    Equal reads of one turn are done once, and of several writes to one key only the last.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Waiting] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._ensure_task()

    def __del__(self) -> None:
        task = getattr(self, "_task", None)
        if task is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(task.cancel)

    def _ensure_task(self) -> None:
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(_serve(self._queue, weakref.ref(self)))

    async def _aone(self, op: Op) -> Result:
        self._ensure_task()
        future: asyncio.Future[Result] = self._loop.create_future()
        self._queue.put_nowait((future, op))
        return await future


async def _serve(queue: asyncio.Queue[Waiting], store: weakref.ref[AsyncBatchedBaseStore]) -> None:
    while True:
        waiting = [await queue.get()]
        await asyncio.sleep(0)  # calls that were started in the same turn come along
        while not queue.empty():
            waiting.append(queue.get_nowait())
        asked = [entry for entry in waiting if not entry[0].done()]
        alive = store()
        if alive is None:
            return
        if asked:
            await _answer(alive, asked)
        del alive, asked, waiting


async def _answer(store: AsyncBatchedBaseStore, asked: Sequence[Waiting]) -> None:
    ops, places = distinct([op for _, op in asked])
    try:
        results = await store.abatch(ops)
    except BaseException as error:
        for future, _ in asked:
            if not future.done():
                future.set_exception(error if isinstance(error, Exception) else asyncio.CancelledError())
        if not isinstance(error, Exception):
            raise
        return
    for (future, _), place in zip(asked, places, strict=True):
        if not future.done():
            future.set_result(results[place])


def distinct(ops: Sequence[Op]) -> tuple[list[Op], list[int]]:
    """Operations without repetitions, and for each one given its place among them."""
    out: list[Op] = []
    puts: dict[tuple[tuple[str, ...], str], int] = {}
    places: list[int] = []
    for op in ops:
        if isinstance(op, PutOp):
            place = puts.setdefault((op.namespace, op.key), len(out))
            out[place : place + 1] = [op]
        else:
            place = next((at for at, known in enumerate(out) if known == op and type(known) is type(op)), len(out))
            out[place : place + 1] = [op]
        places.append(place)
    return out, places


__all__ = ["AsyncBatchedBaseStore"]
