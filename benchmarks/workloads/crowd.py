"""Many conversations at once over one SQLite file: what a server does."""

from __future__ import annotations

import asyncio
import operator
import time
from typing import Annotated, Any, TypedDict

from benchmarks.counting import enabled
from benchmarks.registry import Figures, Workload, enter_all
from benchmarks.savers import async_saver
from benchmarks.systems import System
from benchmarks.words import message

CONVERSATIONS, TURNS = 64, 4


class Talk(TypedDict):
    """The state: all that was said."""

    messages: Annotated[list[dict[str, object]], operator.add]


def measure(system: System) -> Figures:
    if enabled():
        return {}

    async def answer(state: Talk) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"messages": [message(len(state["messages"]))]}

    builder = system.StateGraph(Talk)
    builder.add_node("answer", answer)
    builder.add_edge(system.START, "answer")
    builder.add_edge("answer", system.END)

    async def main() -> Figures:
        async with async_saver(system, "sqlite") as opened:
            graph = builder.compile(checkpointer=opened)

            async def talk(thread: str, turns: int) -> None:
                config = {"configurable": {"thread_id": thread}}
                for turn in range(turns):
                    result = await graph.ainvoke({"messages": [message(2 * turn)]}, config)
                    assert len(result["messages"]) == 2 * turn + 2

            await talk("first", 1)
            cpu, began = time.process_time(), time.perf_counter()
            await asyncio.gather(*(talk(str(number), TURNS) for number in range(CONVERSATIONS)))
            wall, cpu = time.perf_counter() - began, time.process_time() - cpu
        runs = CONVERSATIONS * TURNS
        return {"wall us/run": wall / runs * 1e6, "cpu us/run": cpu / runs * 1e6}

    return asyncio.run(main())


enter_all(
    (
        Workload(
            "crowd.sqlite",
            measure,
            f"{CONVERSATIONS} conversations of {TURNS} turns at once, awaited",
            goals={"wall us/run": 6},
        ),
    )
)
