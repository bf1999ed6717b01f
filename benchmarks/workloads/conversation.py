"""One thread, a thousand turns: a list that grows by a question and an answer, kept by a plain reducer."""

from __future__ import annotations

import importlib
import itertools
import json
import operator
import os
import statistics
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Annotated, Any, TypedDict

from benchmarks.clock import milliseconds, peak, resident, stored
from benchmarks.counting import enabled
from benchmarks.registry import Figures, Workload, enter_all
from benchmarks.savers import saver
from benchmarks.servers import postgres_server
from benchmarks.servers import stored as stored_in
from benchmarks.systems import OURS, SYSTEMS, System
from benchmarks.words import message, messages

# The turns whose time is looked at, and how many around each are taken together.
WINDOW = 20


class Talk(TypedDict):
    """The state: all that was said."""

    messages: Annotated[list[dict[str, object]], operator.add]


def all_added(state: list[dict[str, object]], writes: Sequence[list[dict[str, object]]]) -> list[dict[str, object]]:
    """The reducer of a delta channel: of many writes at once."""
    return [*state, *itertools.chain.from_iterable(writes)]


def build(system: System, *, delta: bool = False) -> Any:
    """One node that answers; ``delta`` keeps what was said in a delta channel."""

    def answer(state: dict[str, Any]) -> dict[str, Any]:
        return {"messages": [message(len(state["messages"]))]}

    builder = system.StateGraph(_state(system, delta=delta))
    builder.add_node("answer", answer)
    builder.add_edge(system.START, "answer")
    builder.add_edge("answer", system.END)
    return builder


def _state(system: System, *, delta: bool) -> Any:
    if not delta:
        return Talk
    fields: Any = {"messages": Annotated[list[dict[str, object]], system.DeltaChannel(all_added)]}
    return TypedDict("TalkByDelta", fields)  # type: ignore[operator]  # a channel of one system or the other


CONFIG = {"configurable": {"thread_id": "talk"}}


def measure(system: System, *, kind: str, turns: int, cold: bool = False, delta: bool = False) -> Figures:
    """Runs the turns; ``cold`` opens the saver anew for each, as a process that serves one turn does."""
    if enabled():
        return {}
    walls: list[float] = []
    cpus: list[float] = []
    sizes: dict[int, int] = {}
    messages(2 * turns)  # their texts are not made while the clock runs
    with ExitStack() as stack:
        graph = _open(system, kind, stack, delta=delta)
        weigh = _weight(system, kind, graph.checkpointer)
        memory = resident()
        for turn in range(turns):
            if cold:
                stack.close()
                graph = _open(system, kind, stack)
            cpu, began = time.process_time(), time.perf_counter()
            result = graph.invoke({"messages": [message(2 * turn)]}, CONFIG)
            walls.append(time.perf_counter() - began)
            cpus.append(time.process_time() - cpu)
            assert len(result["messages"]) == 2 * turn + 2
            if kind != "memory" and turn + 1 in (turns // 2, turns):
                sizes[turn + 1] = weigh()
        figures = _times(walls, cpus)
        figures |= _growth(system, cpus, result)
        figures["memory MB more"] = peak() - memory
        if sizes:
            figures["stored MB"] = sizes[turns] / 1e6
            figures["bytes/turn, 2nd half"] = (sizes[turns] - sizes[turns // 2]) / (turns - turns // 2)
        figures |= _reads(graph)
    if kind == "sqlite" and not delta:
        figures["get_state ms, cold"] = _cold_read(system, 2 * turns)
        figures |= _heads(system, 2 * turns)
    return figures


def _open(system: System, kind: str, stack: ExitStack, *, delta: bool = False) -> Any:
    return build(system, delta=delta).compile(checkpointer=stack.enter_context(saver(system, kind)))


def _weight(system: System, kind: str, opened: Any) -> Callable[[], int]:
    """How many bytes are stored, when it is called."""
    if kind == "redis":
        return partial(_in_redis, opened)
    if kind == "postgres":
        return lambda: stored_in(postgres_server(system.folder))
    if kind == "mongodb":
        return partial(_in_mongodb, opened)
    if kind == "cosmosdb":
        return partial(_in_cosmosdb, opened)
    return partial(stored, system.database)


def _in_redis(opened: Any) -> int:
    """Bytes of the server's memory that its keys take."""
    return sum(opened.client.memory_usage(key, samples=0) for key in opened.client.scan_iter())


def _in_mongodb(opened: Any) -> int:
    """Bytes of all documents as BSON; what indexes take, and compression by the server spares, is not in it."""
    from bson.raw_bson import RawBSONDocument

    codec = opened.collection.codec_options.with_options(document_class=RawBSONDocument)
    return sum(len(document.raw) for document in opened.collection.with_options(codec).find())


def _in_cosmosdb(opened: Any) -> int:
    """Bytes of all items as JSON, with what the service adds to each, as the fake of the tests counts them."""
    endpoint = opened._items.place.rpartition(" at ")[2]
    with urllib.request.urlopen(f"{endpoint}_fake") as answer:
        return int(json.load(answer)["stored"])


def _times(walls: list[float], cpus: list[float]) -> Figures:
    figures = {"total s": sum(walls), "cpu s": sum(cpus)}
    for turn in (100, len(walls)):
        figures[f"turn {turn} ms"] = _around(walls, turn)
        figures[f"turn {turn} cpu ms"] = _around(cpus, turn)
    return figures


def _around(times: list[float], turn: int) -> float:
    return statistics.median(times[turn - WINDOW : turn]) * 1e3


def _growth(system: System, cpus: list[float], state: Any) -> Figures:
    """What a turn costs more at the end than at the hundredth, in units of writing and reading the state once."""
    module = importlib.import_module(f"{system.package}.checkpoint.serde.jsonplus")
    serde = module.JsonPlusSerializer()
    once = []
    for _ in range(15):
        began = time.process_time()
        serde.loads_typed(serde.dumps_typed(state["messages"]))
        once.append(time.process_time() - began)
    unit = statistics.median(once) * 1e3
    more = _around(cpus, len(cpus)) - _around(cpus, 100)
    return {"state written and read, cpu ms": unit, "turn above turn 100, times that": more / unit}


def _reads(graph: Any) -> Figures:
    return {
        "get_state ms": milliseconds(lambda: graph.get_state(CONFIG)),
        "first of history ms": milliseconds(lambda: next(graph.get_state_history(CONFIG))),
    }


def _cold_read(system: System, length: int) -> float:
    """A new saver each time, as a new process has it; opening it is not counted."""
    walls = []
    for _ in range(5):
        with ExitStack() as stack:
            graph = _open(system, "sqlite", stack)
            began = time.perf_counter()
            snapshot = graph.get_state(CONFIG)
            walls.append(time.perf_counter() - began)
            assert len(snapshot.values["messages"]) == length
    return statistics.median(walls) * 1e3


def _heads(system: System, length: int) -> Figures:
    """Processor time of reading the newest checkpoint, by a saver that remembers nothing and by one that does."""
    cpus: tuple[list[float], list[float]] = [], []
    for _ in range(9):
        with saver(system, "sqlite") as opened:
            for found in cpus:
                began = time.process_time()
                head = opened.get_tuple(CONFIG)
                found.append(time.process_time() - began)
                assert len(head.checkpoint["channel_values"]["messages"]) == length
                del head
    cold, warm = (statistics.median(found) * 1e3 for found in cpus)
    return {"head cpu ms, cold": cold, "head cpu ms, warm": warm}


TURNS, LONG = 1_000, 10_000
# The surrogate orders all checkpoints to find the newest: a thousand turns take it half an hour.
ON_MONGODB = TURNS if os.environ.get("MONGODB_URI") else 200
enter_all(
    (
        Workload(
            "conversation.memory",
            partial(measure, kind="memory", turns=TURNS),
            f"{TURNS} turns with the memory saver",
            limits={"memory MB more": 20},
        ),
        Workload(
            "conversation.sqlite",
            partial(measure, kind="sqlite", turns=TURNS),
            f"{TURNS} turns with the SQLite saver",
            limits={"stored MB": 4},
            goals={"total s": 4, "get_state ms": 1, "head cpu ms, cold": 0.5, "head cpu ms, warm": 1},
        ),
        Workload(
            "conversation.delta",
            partial(measure, kind="sqlite", turns=TURNS, delta=True),
            f"{TURNS} turns with the SQLite saver, kept in a delta channel",
        ),
        Workload(
            "conversation.postgres",
            partial(measure, kind="postgres", turns=TURNS),
            f"{TURNS} turns with the Postgres saver",
            limits={"stored MB": 6},
        ),
        Workload(
            "conversation.redis",
            partial(measure, kind="redis", turns=TURNS),
            f"{TURNS} turns with the Redis saver",
            systems=(OURS,),
            limits={"stored MB": 6},
        ),
        Workload(
            "conversation.mongodb",
            partial(measure, kind="mongodb", turns=ON_MONGODB),
            f"{ON_MONGODB} turns with the MongoDB saver",
            systems=(OURS,),
            limits={"stored MB": 5 * ON_MONGODB / TURNS, "bytes/turn, 2nd half": 5e6 / TURNS},
        ),
        Workload(
            "conversation.cosmosdb",
            partial(measure, kind="cosmosdb", turns=TURNS),
            f"{TURNS} turns with the Cosmos DB saver",
            systems=(OURS,),
            limits={"stored MB": 6},
        ),
        Workload(
            "conversation.cold",
            partial(measure, kind="sqlite", turns=TURNS, cold=True),
            f"{TURNS} turns, a new saver object for each",
            systems=(OURS,),
            limits={"stored MB": 4.8},
        ),
        Workload(
            "conversation.long",
            partial(measure, kind="sqlite", turns=LONG),
            f"{LONG} turns with the SQLite saver",
            systems=(OURS,),
            limits={"bytes/turn, 2nd half": 4_000},
            bounds={"turn above turn 100, times that": 1.5},
        ),
        Workload(
            "conversation.short",
            partial(measure, kind="sqlite", turns=200),
            "200 turns, for a quick look",
            systems=SYSTEMS,
            limits={"stored MB": 1},
        ),
    )
)
