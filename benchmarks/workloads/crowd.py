"""Many conversations at once over one store: what a server does, on an event loop, in threads and in processes."""

from __future__ import annotations

import asyncio
import json
import operator
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypedDict

from benchmarks.counting import enabled
from benchmarks.registry import Figures, Workload, enter_all
from benchmarks.savers import async_pooled, async_saver, place, pooled, saver
from benchmarks.systems import OURS, SYSTEMS, System
from benchmarks.words import message, messages

CONVERSATIONS = 64
TURNS = {"sqlite": 4, "postgres": 20, "redis": 20}
THREADS, PROCESSES = 16, 4
POOL, SIZES = 10, (1, 2, 4, 10)


@contextmanager
def crowded(system: System, kind: str, where: str) -> Iterator[Any]:
    """A saver that many may use at once."""
    with pooled(system, where, POOL) if kind == "postgres" else saver(system, kind, where) as opened:
        yield opened


@asynccontextmanager
async def crowded_async(system: System, kind: str) -> AsyncIterator[Any]:
    """The same for awaited calls."""
    with place(system, kind) as where:
        async with async_pooled(system, where, POOL) if kind == "postgres" else async_saver(system, kind) as opened:
            yield opened


class Talk(TypedDict):
    """The state: all that was said."""

    messages: Annotated[list[dict[str, object]], operator.add]


def compiled(system: System, checkpointer: Any, *, asynchronous: bool) -> Any:
    """One node that answers."""
    messages(2 * max(TURNS.values()))  # their texts are not made while the clock runs

    def answer(state: Talk) -> dict[str, Any]:
        return {"messages": [message(len(state["messages"]))]}

    async def answer_async(state: Talk) -> dict[str, Any]:
        await asyncio.sleep(0)
        return answer(state)

    builder = system.StateGraph(Talk)
    builder.add_node("answer", answer_async if asynchronous else answer)
    builder.add_edge(system.START, "answer")
    builder.add_edge("answer", system.END)
    return builder.compile(checkpointer=checkpointer)


def talk(graph: Any, thread: str, turns: int) -> list[float]:
    """All turns of one conversation; the seconds that each took."""
    config, times = {"configurable": {"thread_id": thread}}, []
    for turn in range(turns):
        began = time.perf_counter()
        result = graph.invoke({"messages": [message(2 * turn)]}, config)
        times.append(time.perf_counter() - began)
        assert len(result["messages"]) == 2 * turn + 2
    return times


async def talk_async(graph: Any, thread: str, turns: int) -> list[float]:
    """The same, awaited."""
    config, times = {"configurable": {"thread_id": thread}}, []
    for turn in range(turns):
        began = time.perf_counter()
        result = await graph.ainvoke({"messages": [message(2 * turn)]}, config)
        times.append(time.perf_counter() - began)
        assert len(result["messages"]) == 2 * turn + 2
    return times


def from_a_loop(system: System, kind: str) -> Figures:
    async def main() -> Figures:
        async with crowded_async(system, kind) as opened:
            graph = compiled(system, opened, asynchronous=True)
            await talk_async(graph, "first", 1)
            cpu, began = time.process_time(), time.perf_counter()
            all_of_it = (talk_async(graph, str(number), TURNS[kind]) for number in range(CONVERSATIONS))
            times = await asyncio.gather(*all_of_it)
            wall, cpu = time.perf_counter() - began, time.process_time() - cpu
        return {**figures(wall, times), "cpu us/run": cpu / (CONVERSATIONS * TURNS[kind]) * 1e6}

    return asyncio.run(main())


def some_from_threads(graph: Any, numbers: Sequence[int], threads: int, turns: int) -> list[list[float]]:
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda number: talk(graph, str(number), turns), numbers))


def by_size_of_pool(system: System, kind: str) -> Figures:
    """What a run costs 16 threads that share more and more connections."""
    found = {}
    with place(system, kind) as where:
        for size in SIZES:
            with pooled(system, where, size) as opened:
                graph = compiled(system, opened, asynchronous=False)
                talk(graph, f"first {size}", 1)
                names = [f"{size} {number}" for number in range(CONVERSATIONS)]
                began = time.perf_counter()
                with ThreadPoolExecutor(THREADS) as workers:
                    times = list(workers.map(partial(talk, graph, turns=TURNS[kind] // 4), names))
                wall = time.perf_counter() - began
                found[f"wall us/run, pool of {size}"] = wall / sum(map(len, times)) * 1e6
    return found


def from_threads(system: System, kind: str) -> Figures:
    with place(system, kind) as where, crowded(system, kind, where) as opened:
        graph = compiled(system, opened, asynchronous=False)
        talk(graph, "first", 1)
        cpu, began = time.process_time(), time.perf_counter()
        times = some_from_threads(graph, range(CONVERSATIONS), THREADS, TURNS[kind])
        wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    return {**figures(wall, times), "cpu us/run": cpu / (CONVERSATIONS * TURNS[kind]) * 1e6}


def from_processes(system: System, kind: str) -> Figures:
    with place(system, kind) as where:
        with crowded(system, kind, where) as opened:
            talk(compiled(system, opened, asynchronous=False), "first", 1)
        command = [sys.executable, "-c", PROGRAM, system.package, kind, where, str(TURNS[kind])]
        started = [
            subprocess.Popen([*command, str(which)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for which in range(PROCESSES)
        ]
        for each in started:
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        began = time.perf_counter()
        for each in started:
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        told = [each.communicate()[0] for each in started]
        wall = time.perf_counter() - began
    return figures(wall, [times for one in told for times in json.loads(one)])


PROGRAM = f"import sys, {__name__} as crowd; crowd.process(*sys.argv[1:4], *map(int, sys.argv[4:]))"


def process(package: str, kind: str, where: str, turns: int, which: int) -> None:
    """What each of several processes does: the conversations of its share, four at a time."""
    system = System(package, Path("unused"))
    with crowded(system, kind, where) as opened:
        graph = compiled(system, opened, asynchronous=False)
        talk(graph, f"first {which}", 1)
        print("ready", flush=True)
        sys.stdin.readline()
        numbers = range(which, CONVERSATIONS, PROCESSES)
        print(json.dumps(some_from_threads(graph, numbers, THREADS // PROCESSES, turns)))


def figures(wall: float, times: Sequence[Sequence[float]]) -> Figures:
    """What a run costs when many are under way, and how long it takes for whoever waits for it."""
    every = sorted(one for conversation in times for one in conversation)
    found = {"wall us/run": wall / len(every) * 1e6}
    cuts = statistics.quantiles(every, n=100)
    return found | {f"latency ms, {at} %": cuts[at - 1] * 1e3 for at in (50, 95, 99)}


def measure(system: System, *, kind: str, way: Callable[[System, str], Figures]) -> Figures:
    return {} if enabled() else way(system, kind)


WAYS = {"": from_a_loop, "threads": from_threads, "processes": from_processes, "pool": by_size_of_pool}
TOLD = {
    "": "awaited",
    "threads": f"from {THREADS} threads",
    "processes": f"from {PROCESSES} processes",
    "pool": f"from {THREADS} threads, by the number of connections",
}
# The peer's saver wants modules that plain Redis does not have.
ONLY_OURS = ("redis",)

enter_all(
    tuple(
        Workload(
            name=".".join(part for part in ("crowd", kind, suffix) if part),
            measure=partial(measure, kind=kind, way=WAYS[suffix]),
            systems=(OURS,) if kind in ONLY_OURS else SYSTEMS,
            about=f"{CONVERSATIONS} conversations of {TURNS[kind]} turns at once, saver {kind}, {TOLD[suffix]}",
            goals={"wall us/run": 6} if kind == "sqlite" else {},
        )
        for kind, suffixes in (("sqlite", [""]), ("postgres", WAYS), ("redis", ["", "threads", "processes"]))
        for suffix in suffixes
    )
)
