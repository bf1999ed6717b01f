"""A program that runs a graph on PostgreSQL to its end, and says what it does; somebody kills it meanwhile.

``python -m tests.acceptance.postgres_victim URL SCHEMA COLOUR DURABILITY LOG``
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from operator import add
from typing import Annotated, Any, TypedDict

from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.checkpoint.postgres.aio import AsyncPostgresSaver
from threadmark.graph import END, START, StateGraph

STEPS = 60
CONFIG: Any = {"configurable": {"thread_id": "job"}, "recursion_limit": STEPS + 10}


class Job(TypedDict):
    done: Annotated[list[int], add]
    text: Annotated[str, add]


def graph_of(saver: Any, log: int | None = None) -> Any:
    """One node that runs again and again; each run is noted before it does anything."""

    def work(state: Job) -> dict[str, Any]:
        number = len(state["done"])
        if log is not None:
            os.write(log, f"{number}\n".encode())
        time.sleep(0.003)
        return {"done": [number], "text": f"{number:060} "}

    builder = StateGraph(Job)
    builder.add_node("work", work)
    builder.add_edge(START, "work")
    builder.add_conditional_edges("work", lambda state: "work" if len(state["done"]) < STEPS else END, ["work", END])
    return builder.compile(checkpointer=saver)


def main(url: str, schema: str, colour: str, durability: Any, path: str) -> None:
    """Begin, or go on where a dead process was."""
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    if colour == "sync":
        with PostgresSaver.from_conn_string(url, schema=schema) as saver:
            graph = graph_of(saver, log)
            given = None if graph.get_state(CONFIG).metadata else {"done": [], "text": ""}
            graph.invoke(given, CONFIG, durability=durability)
        return

    async def awaited() -> None:
        async with AsyncPostgresSaver.from_conn_string(url, schema=schema) as saver:
            graph = graph_of(saver, log)
            given = None if (await graph.aget_state(CONFIG)).metadata else {"done": [], "text": ""}
            await graph.ainvoke(given, CONFIG, durability=durability)

    asyncio.run(awaited())


if __name__ == "__main__":
    main(*sys.argv[1:])
