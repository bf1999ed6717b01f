"""A cache in a file: shared between objects, threads and reopenings."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from threadmark.cache.base import CacheError
from threadmark.cache.sqlite import SqliteCache

KEY = (("a",), "k")


def test_entries_outlive_the_object(tmp_path: Path) -> None:
    with SqliteCache[Any](path=tmp_path / "c.db") as first:
        first.set({KEY: ({"v": (1, 2)}, None)})
    with SqliteCache[Any](path=tmp_path / "c.db") as second:
        assert second.get([KEY]) == {KEY: {"v": (1, 2)}}


def test_threads_and_objects_share_a_file(tmp_path: Path) -> None:
    caches: list[SqliteCache[Any]] = [SqliteCache(path=tmp_path / "c.db") for _ in range(2)]

    def work(number: int) -> None:
        for turn in range(20):
            caches[number % 2].set({(("t", str(number)), str(turn)): (turn, 60)})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    keys = [(("t", str(number)), str(turn)) for number in range(6) for turn in range(20)]
    assert len(caches[0].get(keys)) == 120
    for cache in caches:
        cache.close()
        cache.close()


async def test_async_callers_share_it_too(tmp_path: Path) -> None:
    with SqliteCache[Any](path=tmp_path / "c.db") as cache:
        await asyncio.gather(*(cache.aset({(("a",), str(n)): (n, None)}) for n in range(10)))
        found = await cache.aget([(("a",), str(n)) for n in range(10)])
        assert sorted(found.values()) == list(range(10))


def test_a_file_that_is_none_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "c.db").write_bytes(b"this is no database" * 100)
    with pytest.raises(CacheError, match=r"c\.db"):
        SqliteCache[Any](path=tmp_path / "c.db")
    with pytest.raises(CacheError, match="missing"):
        SqliteCache[Any](path=tmp_path / "missing" / "c.db")
