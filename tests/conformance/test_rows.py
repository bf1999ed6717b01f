"""Our savers read as many rows by id, and of the newest, at 10,000 checkpoints as at 10: counted at their port."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.conformance.calls import Caller
from threadmark.checkpoint.conformance.checks.reads import LONG, SHORT, grow
from threadmark.checkpoint.conformance.kit import config
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.sqlite import SqliteSaver


class CountedPort:
    """A port that counts the rows which its views hand out."""

    def __init__(self, port: Any) -> None:
        self._port = port
        self.rows = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Any]:
        async with self._port.read() as view:
            yield CountedView(view, self)


class CountedView:
    def __init__(self, view: Any, port: CountedPort) -> None:
        self._view, self._counter = view, port

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._view, name)

        async def counted(*args: Any, **kwargs: Any) -> Any:
            found = await method(*args, **kwargs)
            many = isinstance(found, (list, dict))
            self._counter.rows += len(found) if many else found is not None
            return found

        return counted


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_rows_of_a_read(kind: str) -> None:
    saver: Any = InMemorySaver() if kind == "memory" else SqliteSaver.from_conn_string(":memory:")
    saver._caches = Caches(scale=0)
    port = saver._port = CountedPort(saver._port)
    call = Caller("sync", lambda _: None)

    def rows_of(ids: list[str]) -> int:
        port.rows = 0
        for asked in (*(config("t", id) for id in ids), config()):
            assert saver.get_tuple(asked) is not None
        assert len(list(saver.list(config(), limit=1))) == 1
        return port.rows

    ids = grow(saver, call, SHORT, None)
    short = rows_of(ids)
    assert short >= SHORT
    ids += grow(saver, call, LONG - SHORT, ids[-1])
    assert (
        rows_of([ids[n * (LONG // SHORT)] for n in range(SHORT)]) <= short * 1.25
    )  # one more row where a map is kept as a change
    saver.close()
