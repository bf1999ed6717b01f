"""The demo's graph, written to be read: list, fan out, join, ask, write.

::

    START -> list_packages -> measure (one task a package) -> add_up -> ask -> write_report -> END
                                                                          `-> END, when the answer is no

Every node is a plain function of the state. Nothing in this file knows about files of checkpoints, threads, progress
bars or prompts: those are the business of whoever runs the graph (``attend.py`` does). With a saver each finished
task is on disk before the next superstep begins, so a run that was killed goes on with the tasks that are left.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from fnmatch import fnmatch
from operator import add
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from threadmark.cli.demo import html, markdown, packages
from threadmark.cli.demo.census import Census, census
from threadmark.cli.demo.packages import Found, Package
from threadmark.graph import END, START, StateGraph
from threadmark.runtime import Runtime
from threadmark.types import Command, Send, interrupt


class State(TypedDict, total=False):
    """What a thread of the demo holds. The first four are its input; nodes fill in the rest."""

    python: str
    only: str
    limit: int
    folder: str

    version: str
    found: list[Found]
    # A reducer: what the many tasks of one superstep return is added, in the order in which they were sent.
    measured: Annotated[list[Package], add]
    census: Census
    approved: bool
    written: list[str]


@dataclass(frozen=True, slots=True)
class Context:
    """Of one run, and never stored: ``pace`` is how many seconds a task dawdles, so that people can interrupt it."""

    pace: float = 0.0


def list_packages(state: State) -> dict[str, Any]:
    """Ask the interpreter where it looks, and list what is installed there."""
    version, found = packages.find(state["python"])
    wanted = [item for item in found if fnmatch(packages.name_of(item), state["only"].lower())]
    if found and not wanted:
        raise packages.NoMatch(state["only"], [packages.name_of(item) for item in found])
    return {"version": version, "found": wanted[: state["limit"] or None]}


def one_task_each(state: State) -> list[Send] | Literal["add_up"]:
    """The fan-out: one task for every package, all of them in one superstep."""
    return [Send("measure", item) for item in state["found"]] or "add_up"


def measure(found: Found, runtime: Runtime[Context]) -> dict[str, Any]:
    """Weigh one package. Its input is what was sent to it, not the state."""
    time.sleep(runtime.context.pace)
    return {"measured": [packages.measured(found)]}


def add_up(state: State) -> dict[str, Any]:
    """The join: it runs once, when every package has been measured."""
    return {"census": census(state["version"], state.get("measured", []))}


def ask(state: State) -> Command[str]:
    """Pause until a person has answered. The run may end here and go on days later in another process."""
    result = state["census"]
    approved = interrupt(
        {
            "question": f"Write the report to {state['folder']}?",
            "packages": len(result.packages),
            "files": result.files,
            "bytes": result.bytes,
        }
    )
    return Command(update={"approved": bool(approved)}, goto="write_report" if approved else END)


def write_report(state: State) -> dict[str, Any]:
    """Write the files. Done twice it does no harm, which a node with an effect outside must see to itself."""
    folder = Path(state["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    pages = {"report.md": markdown.page(state["census"]), "report.html": html.page(state["census"])}
    for name, text in pages.items():
        draft = folder / f".{name}.draft"
        draft.write_text(text, encoding="utf-8")
        draft.replace(folder / name)  # nobody ever sees half a report
    return {"written": [str(folder / name) for name in pages]}


def build() -> StateGraph[State]:
    """The graph before it is compiled, so that the caller chooses the saver."""
    builder: StateGraph[State] = StateGraph(State, context_schema=Context)
    builder.add_node(list_packages)
    builder.add_node(measure)
    builder.add_node(add_up)
    builder.add_node(ask)
    builder.add_node(write_report)
    builder.add_edge(START, "list_packages")
    builder.add_conditional_edges("list_packages", one_task_each, ["measure", "add_up"])
    builder.add_edge("measure", "add_up")
    builder.add_edge("add_up", "ask")
    builder.add_edge("write_report", END)
    return builder
