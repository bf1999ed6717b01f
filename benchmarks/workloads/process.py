"""A process for every turn of a conversation, as a small web worker is: import, open, run, end."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time

from benchmarks.counting import enabled
from benchmarks.registry import Figures, Workload, enter_all
from benchmarks.systems import System

TURNS = 6
# Written for both systems; nothing else is loaded, since the harness would hide what a system has to load itself.
TURN = """
import operator, sys
from typing import Annotated, TypedDict
from {package}.checkpoint.sqlite import SqliteSaver
from {package}.graph import END, START, StateGraph
class Talk(TypedDict):
    messages: Annotated[list, operator.add]
builder = StateGraph(Talk)
builder.add_node("answer", lambda state: {{"messages": [f"answer {{len(state['messages'])}}"]}})
builder.add_edge(START, "answer")
builder.add_edge("answer", END)
with SqliteSaver.from_conn_string(sys.argv[1]) as saver:
    graph = builder.compile(checkpointer=saver)
    found = graph.invoke({{"messages": ["question"]}}, {{"configurable": {{"thread_id": "talk"}}}})
print(len(found["messages"]))
"""


def measure(system: System) -> Figures:
    if enabled():
        return {}
    program = TURN.format(package=system.package)
    walls, cpus = [], []
    for turn in range(TURNS):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-I", "-c", program, str(system.database)], capture_output=True, text=True, check=True
        )
        walls.append(time.perf_counter() - began)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert int(done.stdout) == 2 * turn + 2
    # The first one makes the tables, and perhaps compiles what was never imported.
    return {"wall ms/turn": statistics.median(walls[1:]) * 1e3, "cpu ms/turn": statistics.median(cpus[1:]) * 1e3}


enter_all(
    (Workload("process.sqlite", measure, "a cold process for each turn, import included", goals={"cpu ms/turn": 3}),)
)
