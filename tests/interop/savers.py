"""Every saver of ours that goes into LangGraph's graphs, and how a test opens one."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiosqlite

from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.checkpoint.sqlite.aio import AsyncSqliteSaver

KEY = b"0123456789abcdef"


def _file(folder: Path, opened: ExitStack, serde: Any = None) -> Any:
    path = str(folder / "threads.db")
    return opened.enter_context(SqliteSaver.from_conn_string(path, synchronous="OFF", serde=serde))


def _encrypted(folder: Path, opened: ExitStack) -> Any:
    return _file(folder, opened, EncryptedSerializer.from_pycryptodome_aes(key=KEY))


def _memory(folder: Path, opened: ExitStack) -> Any:
    return InMemorySaver()


@asynccontextmanager
async def _over_aiosqlite(folder: Path) -> AsyncIterator[Any]:
    async with aiosqlite.connect(folder / "awaited.db") as conn:
        yield AsyncSqliteSaver(conn)


OURS: dict[str, Callable[[Path, ExitStack], Any]] = {"memory": _memory, "sqlite": _file, "encrypted": _encrypted}
"""Savers of both colours, by name."""
AWAITED: dict[str, Callable[[Path], Any]] = {"aiosqlite": _over_aiosqlite}
"""Savers that an event loop opens and drives."""


@contextmanager
def opened(name: str, folder: Path, runner: asyncio.Runner) -> Iterator[Any]:
    """A saver on an empty store."""
    with ExitStack() as stack:
        if name in OURS:
            yield OURS[name](folder, stack)
            return
        awaited = AWAITED[name](folder)
        try:
            yield runner.run(awaited.__aenter__())
        finally:
            runner.run(awaited.__aexit__(None, None, None))


@asynccontextmanager
async def fresh(name: str, folder: Path) -> AsyncIterator[Any]:
    """The same within an event loop, in a folder of its own."""
    inside = Path(tempfile.mkdtemp(dir=folder))
    with ExitStack() as stack:
        if name in OURS:
            yield OURS[name](inside, stack)
        else:
            async with AWAITED[name](inside) as saver:
                yield saver
