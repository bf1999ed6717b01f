"""A run is killed in the middle, and goes on in another process without doing anything twice.

    python examples/killed_and_resumed.py work.db

The program starts itself a second time as the worker and kills it while three of six letters are written.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict

from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.graph import START, StateGraph

CONFIG: Any = {"configurable": {"thread_id": "letters"}}
NAMES = ["Ada", "Blaise", "Carl", "Diophantus", "Emmy", "Fermat"]


class Office(TypedDict):
    """The names still to write to, and the letters written."""

    names: list[str]
    letters: Annotated[list[str], add]


def build(journal: Path) -> StateGraph[Office]:
    """One letter a superstep, until there is nobody left. Each writing is noted in ``journal``, outside the graph."""

    def write(state: Office) -> dict[str, Any]:
        name, *rest = state["names"]
        with journal.open("a") as file:
            print(name, file=file)
        if name == os.environ.get("DIE_AT"):
            os.kill(os.getpid(), signal.SIGKILL)
        return {"names": rest, "letters": [f"Dear {name}"]}

    builder: StateGraph[Office] = StateGraph(Office)
    builder.add_node("write", write)
    builder.add_edge(START, "write")
    builder.add_conditional_edges("write", lambda state: "write" if state["names"] else "__end__")
    return builder


def work(db: str) -> list[str]:
    """Begin, or go on where an earlier process was."""
    with SqliteSaver.from_conn_string(db) as saver:
        graph = build(Path(f"{db}.journal")).compile(checkpointer=saver)
        begun = saver.get_tuple(CONFIG) is not None
        result = graph.invoke(None if begun else {"names": NAMES, "letters": []}, CONFIG, durability="sync")
    letters: list[str] = result["letters"]
    return letters


def main() -> None:
    """Be the worker if the environment says so, else the one who kills it."""
    db = sys.argv[1] if len(sys.argv) > 1 else "letters.db"
    if "DIE_AT" in os.environ:
        work(db)
        return
    killed = subprocess.run([sys.executable, __file__, db], env={**os.environ, "DIE_AT": "Diophantus"}, check=False)
    print("the worker was killed by signal", -killed.returncode)
    letters = work(db)
    print("after the restart there are", len(letters), "letters:", ", ".join(letters))
    assert letters == [f"Dear {name}" for name in NAMES]
    # What was stored is not done again. The letter that was cut short is: its task starts from its first line.
    written = Path(f"{db}.journal").read_text().split()
    assert written == ["Ada", "Blaise", "Carl", "Diophantus", "Diophantus", "Emmy", "Fermat"]


if __name__ == "__main__":
    main()
