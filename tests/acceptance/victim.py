"""A program that kills itself with SIGKILL at a chosen call of its saver, and one that goes on where it was.

``python -m tests.acceptance.victim`` forks a process for each command that it reads. ``log`` in the given folder says
what ran and what the saver acknowledged, in order. A kill takes nothing away that was handed to the system, as a power
cut would, so nothing here waits for a disk.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.acceptance.kit import Log, lines, thread
from tests.services.forks import serve
from threadmark.checkpoint.base import BaseCheckpointSaver, Step, StepWriter
from threadmark.checkpoint.saver import Saver
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.config import RunnableConfig
from threadmark.graph import START, StateGraph
from threadmark.types import Command, Send, interrupt

PACKETS = 2


class Diary:
    """Lines that survive the process that wrote them."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, line: str) -> None:
        os.write(self._file, f"{line}\n".encode())


class Fate:
    """Counts the calls of the saver that runs make, and kills the process before or after the chosen one."""

    running = False

    def __init__(self, diary: Diary, at: int, when: str) -> None:
        self.diary, self.at, self.when = diary, at, when
        self.calls = 0
        self._lock = threading.Lock()

    def enter(self) -> int:
        if not self.running:
            return 0
        with self._lock:
            self.calls += 1
            if (self.calls, self.when) == (self.at, "before"):
                os.kill(os.getpid(), signal.SIGKILL)
            return self.calls

    def leave(self, number: int, tasks: list[str]) -> None:
        if tasks:
            self.diary.note("stored " + " ".join(tasks))
        if (number, self.when) == (self.at, "after"):
            os.kill(os.getpid(), signal.SIGKILL)


class Noting(Saver):
    """Before a saver of ours: as the engine uses it, whole supersteps, one transaction each or several in one."""

    fate: Fate

    def get_tuple(self, config: Any) -> Any:
        number = self.fate.enter()
        found = super().get_tuple(config)
        self.fate.leave(number, [])
        return found

    async def aget_tuple(self, config: Any) -> Any:
        number = self.fate.enter()
        found = await super().aget_tuple(config)
        self.fate.leave(number, [])
        return found

    def put_step(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any, writes: Any, **more: Any) -> Any:
        number = self.fate.enter()
        found = super().put_step(config, checkpoint, metadata, new_versions, writes, **more)
        self.fate.leave(number, [one[0] for one in writes])
        return found

    async def aput_step(
        self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any, writes: Any, **more: Any
    ) -> Any:
        number = self.fate.enter()
        found = await super().aput_step(config, checkpoint, metadata, new_versions, writes, **more)
        self.fate.leave(number, [one[0] for one in writes])
        return found

    def open_writer(self, config: Any) -> StepWriter:
        return GroupingWriter(self.fate, super().open_writer(config))


class Grouping(Noting, SqliteSaver):
    """On a file."""


class GroupingWriter(StepWriter):
    def __init__(self, fate: Fate, inner: StepWriter) -> None:
        self.fate, self.inner = fate, inner
        self.added: list[str] = []

    def add(self, step: Step) -> None:
        self.inner.add(step)
        self.added.extend(one[0] for one in step.writes)

    def flush(self) -> None:
        number, tasks = self.fate.enter(), list(self.added)
        self.inner.flush()
        self.fate.leave(number, tasks)

    async def aflush(self) -> None:
        number, tasks = self.fate.enter(), list(self.added)
        await self.inner.aflush()
        self.fate.leave(number, tasks)


class Plain(BaseCheckpointSaver[str]):
    """A saver of the five methods only: a superstep's writes and its checkpoint are calls of their own."""

    fate: Fate

    def __init__(self, inner: SqliteSaver) -> None:
        super().__init__(serde=inner.serde)
        self.inner = inner

    def get_next_version(self, current: Any, channel: None) -> Any:
        return self.inner.get_next_version(current, channel)

    def _told(self, call: Callable[[], Any], tasks: list[str]) -> Any:
        number = self.fate.enter()
        found = call()
        self.fate.leave(number, tasks)
        return found

    def get_tuple(self, config: Any) -> Any:
        return self._told(lambda: self.inner.get_tuple(config), [])

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        return self._told(lambda: self.inner.put(config, checkpoint, metadata, new_versions), [])

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        self._told(lambda: self.inner.put_writes(config, writes, task_id, task_path), [task_id])

    def list(self, config: Any, **query: Any) -> Any:
        return self.inner.list(config, **query)


def graph_of(diary: Diary, saver: Any) -> Any:
    """plan -> packets and a node beside them -> a barrier -> a question."""

    def noted(word: Callable[[Any], str]) -> Callable[..., dict[str, list[str]]]:
        def run(state: Any, config: RunnableConfig) -> dict[str, list[str]]:
            diary.note("ran " + config["metadata"]["langgraph_checkpoint_ns"].partition(":")[2])
            return {"log": [word(state)]}

        return run

    def ask(state: Log, config: RunnableConfig) -> dict[str, list[str]]:
        return {"log": [interrupt("go on?")]}

    builder = StateGraph(Log)
    builder.add_node("plan", noted(lambda state: "plan"))
    builder.add_node("work", noted(lambda state: f"work {state}"))
    builder.add_node("beside", noted(lambda state: "beside"))
    builder.add_node("join", noted(lambda state: "join"))
    builder.add_node("ask", ask)
    builder.add_edge(START, "plan")
    builder.add_edge("plan", "beside")
    builder.add_conditional_edges("plan", lambda state: [Send("work", number) for number in range(PACKETS)])
    builder.add_edge(["work", "beside"], "join")
    builder.add_edge("join", "ask")
    return builder.compile(checkpointer=saver)


def opened(folder: Path, kind: str, fate: Fate) -> Any:
    """A saver on the folder's file whose calls are counted."""
    made = Grouping.from_conn_string(str(folder / "checkpoints.db"), synchronous="OFF")
    saver: Any = made if kind == "grouping" else Plain(made)
    made.fate = Fate(fate.diary, -1, "never") if saver is not made else fate
    saver.fate = fate
    return saver


def call(graph: Any, colour: str, method: str, *args: Any, **kwargs: Any) -> Any:
    if colour == "sync":
        return getattr(graph, method)(*args, **kwargs)
    return asyncio.run(getattr(graph, "a" + method)(*args, **kwargs))


def go_on(graph: Any, fate: Fate, colour: str, durability: str) -> Any:
    """Whatever a program does that finds the thread as it is: begin, go on, or answer. The state then."""
    state = call(graph, colour, "get_state", thread())
    while state.next or state.metadata is None:
        if state.metadata is None:
            given: Any = {"log": ["in"]}
        else:
            given = Command(resume="yes") if state.interrupts else None
        fate.running = True
        call(graph, colour, "invoke", given, thread(), durability=durability)
        fate.running = False
        state = call(graph, colour, "get_state", thread())
    return state


def die(folder: str, kind: str, colour: str, durability: str, at: int, when: str) -> None:
    """Run until the ``at``-th call of the saver, and no further."""
    place = Path(folder)
    diary = Diary(place)
    fate = Fate(diary, at, when)
    go_on(graph_of(diary, opened(place, kind, fate)), fate, colour, durability)
    diary.note("survived")


def recover(folder: str, kind: str, colour: str, durability: str) -> None:
    """Look at what a dead process left, go on to the end, and write down both."""
    place = Path(folder)
    diary = Diary(place)
    diary.note("resumed")
    fate = Fate(diary, -1, "never")
    graph = graph_of(diary, opened(place, kind, fate))
    found = call(graph, colour, "get_state", thread())
    end = go_on(graph, fate, colour, durability)
    history = lines(list(graph.get_state_history(thread())))
    report = {
        "found": None if found.metadata is None else {"next": found.next, "log": found.values.get("log", [])},
        "log": end.values["log"],
        "next": end.next,
        "history": history,
    }
    (place / "report.json").write_text(json.dumps(report), encoding="utf-8")


COMMANDS: dict[str, Callable[..., None]] = {"die": die, "recover": recover}


if __name__ == "__main__":
    serve(lambda name, *args: COMMANDS[name](*args))
