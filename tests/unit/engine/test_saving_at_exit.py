"""A run that still goes on when the interpreter is leaving saves what it has, and comes to its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys, threading, time
from typing import TypedDict
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.graph import START, StateGraph

class State(TypedDict):
    n: int

leaving = threading.main_thread()

def wait(state):
    leaving.join()  # until the main thread has ended and no more threads can be started
    return {"n": state["n"] + 1}

saver = SqliteSaver.from_conn_string(sys.argv[1])
graph = StateGraph(State).add_node("wait", wait).add_edge(START, "wait").compile(checkpointer=saver)
config = {"configurable": {"thread_id": "1"}}
threading.Thread(target=graph.invoke, args=({"n": 1}, config), kwargs={"durability": "async"}).start()
"""


def test_a_run_that_outlives_the_main_thread_is_saved(tmp_path: Path) -> None:
    file = str(tmp_path / "c.db")
    done = subprocess.run([sys.executable, "-c", PROGRAM, file], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    read = (
        "import sys; from threadmark.checkpoint.sqlite import SqliteSaver\n"
        "saver = SqliteSaver.from_conn_string(sys.argv[1])\n"
        "print(saver.get({'configurable': {'thread_id': '1'}})['channel_values'])"
    )
    found = subprocess.run([sys.executable, "-c", read, file], capture_output=True, text=True, timeout=60)
    assert found.stdout.strip() == "{'n': 2}"
