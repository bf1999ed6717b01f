"""The victim's job on Cosmos DB: it kills itself with SIGKILL before or after a chosen batch, and is taken up again.

``python -m tests.acceptance.cosmosdb_victim`` forks a process for each command that it reads.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.acceptance import victim
from tests.acceptance.kit import lines, thread
from tests.services.forks import serve
from threadmark.checkpoint.cosmosdb import CosmosDBSaver, CosmosDBSaverSync


class Blocking(victim.Noting, CosmosDBSaverSync):
    """Notes what it acknowledges."""


class Awaited(victim.Noting, CosmosDBSaver):
    """The same on an event loop."""


KINDS: dict[str, Any] = {"sync": Blocking, "async": Awaited}


def opened(text: str, colour: str, diary: victim.Diary) -> Any:
    """A saver that notes what it acknowledges, and the fate that says whether a run is under way."""
    saver = KINDS[colour].from_conn_string(text)
    saver.fate = victim.Fate(diary, -1, "never")
    return saver


def die(folder: str, text: str, colour: str, durability: str, at: int, when: str) -> None:
    """Run until the ``at``-th batch, and no further."""
    diary = victim.Diary(Path(folder))
    saver = opened(text, colour, diary)
    batch, sent = saver._items.batch, 0

    async def counted(partition: str, operations: Sequence[Any]) -> Any:
        nonlocal sent
        sent += 1
        if (sent, when) == (at, "before"):
            os.kill(os.getpid(), signal.SIGKILL)
        found = await batch(partition, operations)
        if (sent, when) == (at, "after"):
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    saver._items.batch = counted
    if colour == "sync":
        victim.go_on(victim.graph_of(diary, saver), saver.fate, colour, durability)
    else:
        asyncio.run(go_on(victim.graph_of(diary, saver), durability))
    diary.note("survived")


async def go_on(graph: Any, durability: str) -> None:
    """Whatever a program on an event loop does that finds the thread as it is."""
    state = await graph.aget_state(thread())
    while state.next or state.metadata is None:
        given: Any = {"log": ["in"]} if state.metadata is None else None
        if state.interrupts:
            given = victim.Command(resume="yes")
        await graph.ainvoke(given, thread(), durability=durability)
        state = await graph.aget_state(thread())


def recover(folder: str, text: str, durability: str) -> None:
    """Look at what a dead process left, go on to the end, and write down both."""
    place = Path(folder)
    diary = victim.Diary(place)
    diary.note("resumed")
    saver = opened(text, "sync", diary)
    graph = victim.graph_of(diary, saver)
    found = graph.get_state(thread())
    end = victim.go_on(graph, saver.fate, "sync", durability)
    report = {
        "found": None if found.metadata is None else {"next": found.next, "log": found.values.get("log", [])},
        "log": end.values["log"],
        "next": end.next,
        "history": lines(list(graph.get_state_history(thread()))),
    }
    (place / "report.json").write_text(json.dumps(report), encoding="utf-8")


COMMANDS: dict[str, Callable[..., None]] = {"die": die, "recover": recover}


if __name__ == "__main__":
    serve(lambda name, *args: COMMANDS[name](*args))
