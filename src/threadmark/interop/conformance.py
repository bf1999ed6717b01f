"""``python -m threadmark.interop.conformance [STORE ...]``: LangGraph's own conformance package over our savers.

Each saver is wrapped by ``as_langgraph_saver``, as in a graph of LangGraph's, and examined in both colours: its
blocking methods, each in a thread, and its awaited ones, of the saver for event loops where a store has one of its own.
Without a store: the memory saver and SQLite. A store is what ``open_saver`` takes; threads are made in it. Needs
``langgraph-checkpoint-conformance``.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, Final

from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.names import without_secrets
from threadmark.checkpoint.open import open_saver
from threadmark.interop.langgraph import as_langgraph_saver

__all__ = ["COLOURS", "examined", "main", "report_on"]

PASSED, FAILED, WRONG_USE = 0, 1, 2
EVERYTHING: Final = "FULL"
COLOURS: Final = ("blocking", "awaited")
_FOR_LOOPS: Final = {
    "cosmosdb": "cosmosdb:CosmosDBSaver",
    "mongodb": "mongodb.aio:AsyncMongoDBSaver",
    "postgres": "postgres.aio:AsyncPostgresSaver",
    "postgresql": "postgres.aio:AsyncPostgresSaver",
    "redis": "redis.aio:AsyncRedisSaver",
    "rediss": "redis.aio:AsyncRedisSaver",
    "sqlite": "sqlite.aio:AsyncSqliteSaver",
}
"""The savers that an event loop drives, by the scheme of their URLs."""


async def report_on(name: str, opened: Callable[[], Any], *, blocking: bool = False) -> Any:
    """The official report on one saver. ``opened`` makes a fresh one, to be used with ``async with``, each time.

    ``blocking`` examines its blocking methods, where the package asks for the awaited ones.
    """
    from langgraph.checkpoint.conformance import checkpointer_test, validate

    from threadmark.interop.drop_in import blocking_only

    @checkpointer_test(name=name)
    async def wrapped() -> AsyncIterator[Any]:
        async with opened() as saver:
            found = as_langgraph_saver(saver)
            yield blocking_only(found) if blocking else found

    return await validate(wrapped)


def examined(store: str, colour: str) -> Any:
    """The official report on the saver of a store in one colour. ValueError for a store that nothing opens."""
    blocking = colour == COLOURS[0]
    opened = _blocking if blocking else _awaited
    name = f"{without_secrets(store)} ({colour})"
    return asyncio.run(report_on(name, lambda: opened(store), blocking=blocking))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the result is its exit status: 0 all passed, 1 something failed, 2 wrong use."""
    parser = argparse.ArgumentParser(prog="python -m threadmark.interop.conformance", description=__doc__)
    parser.add_argument("store", nargs="*", default=["memory", ":memory:"], help="memory, or what open_saver takes")
    good = True
    for store in parser.parse_args(arguments).store:
        for colour in COLOURS:
            try:
                report = examined(store, colour)
            except ImportError as error:
                sys.stderr.write(f"{error}; pip install langgraph langgraph-checkpoint-conformance\n")
                return WRONG_USE
            except ValueError as error:
                sys.stderr.write(f"{error}\n")
                return WRONG_USE
            report.print_report()
            good = good and report.conformance_level().startswith(EVERYTHING)
    return PASSED if good else FAILED


@asynccontextmanager
async def _blocking(store: str) -> AsyncIterator[Any]:
    saver = InMemorySaver() if store == "memory" else open_saver(store)
    try:
        yield saver
    finally:
        saver.close()


@asynccontextmanager
async def _awaited(store: str) -> AsyncIterator[Any]:
    scheme = store.partition("://")[0].partition("+")[0] if "://" in store else "sqlite"
    if store == "memory":
        yield InMemorySaver()
    elif scheme in _FOR_LOOPS:
        module, _, name = _FOR_LOOPS[scheme].partition(":")
        kind = getattr(import_module(f"threadmark.checkpoint.{module}"), name)
        async with kind.from_conn_string(store) as saver:
            yield saver
    else:
        async with open_saver(store) as saver:
            yield saver


if __name__ == "__main__":
    sys.exit(main())
