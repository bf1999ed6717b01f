"""``python -m threadmark.interop.conformance [STORE ...]``: LangGraph's own conformance package over our savers.

Each saver is wrapped by ``as_langgraph_saver``, as in a graph of LangGraph's. Without a store: the memory saver and
SQLite. A store is what ``open_saver`` takes. Needs ``langgraph-checkpoint-conformance``.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.names import without_secrets
from threadmark.checkpoint.open import open_saver
from threadmark.interop.langgraph import as_langgraph_saver

__all__ = ["main", "report_on"]

PASSED, FAILED, WRONG_USE = 0, 1, 2
EVERYTHING = "FULL"


async def report_on(name: str, opened: Callable[[], Any]) -> Any:
    """The official report on one saver. ``opened`` makes a fresh one, to be used with ``async with``, each time."""
    from langgraph.checkpoint.conformance import checkpointer_test, validate

    @checkpointer_test(name=name)
    async def wrapped() -> AsyncIterator[Any]:
        async with opened() as saver:
            yield as_langgraph_saver(saver)

    return await validate(wrapped)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the result is its exit status: 0 all passed, 1 something failed, 2 wrong use."""
    parser = argparse.ArgumentParser(prog="python -m threadmark.interop.conformance", description=__doc__)
    parser.add_argument("store", nargs="*", default=["memory", ":memory:"], help="memory, or what open_saver takes")
    good = True
    for store in parser.parse_args(arguments).store:
        try:
            report = asyncio.run(report_on(without_secrets(store), lambda store=store: _open(store)))  # type: ignore[misc]
        except ImportError as error:
            sys.stderr.write(f"{error}; pip install langgraph langgraph-checkpoint-conformance\n")
            return WRONG_USE
        except ValueError as error:
            sys.stderr.write(f"{error}\n")
            return WRONG_USE
        report.print_report()
        good = good and report.conformance_level().startswith(EVERYTHING)
    return PASSED if good else FAILED


def _open(store: str) -> Any:
    return InMemorySaver() if store == "memory" else open_saver(store)


if __name__ == "__main__":
    sys.exit(main())
