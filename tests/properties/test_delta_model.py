"""A delta channel equals a plain reducer channel in every snapshot, whatever a thread goes through (spec 8).

The graph writes the same to two channels, one of each kind. Random programs invoke, resume, update, fork, replay,
prune, copy and migrate; after each operation every snapshot of the history must hold equal values in both, live and
reloaded by a saver that remembers nothing.
"""

from __future__ import annotations

import operator
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from threadmark.channels import DeltaChannel
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.graph import START, StateGraph
from threadmark.types import Command, Overwrite, interrupt

PLANS = ["add", "add", "nothing", "overwrite", "ask", "fail"]
DURABILITIES = ["sync", "async", "exit"]


def fold(value: list[str], writes: Sequence[list[str]]) -> list[str]:
    return [*value, *(item for write in writes for item in write)]


def both(write: Any) -> dict[str, Any]:
    return {"delta": write, "plain": write}


class OnPurpose(Exception):
    """What a node raises when its plan is to fail."""


class World:
    """The node functions, and what makes them fail once."""

    def __init__(self) -> None:
        self.healthy = True

    def first(self, state: Any) -> Any:
        return both([f"first of {len(state['plain'])}"])

    def left(self, state: Any) -> Any:
        match state.get("plan"):
            case "nothing":
                return None
            case "overwrite":
                return both(Overwrite(["over", str(len(state["plain"]))]))
            case "ask":
                return both([f"told {interrupt('what?')}"])
            case "fail" if not self.healthy:
                raise OnPurpose
        return both(["left", f"of {len(state['plain'])}"])

    def right(self, state: Any) -> Any:
        return both([f"right of {len(state['plain'])}"])

    def last(self, state: Any) -> Any:
        return both([f"last of {len(state['plain'])}"]) if len(state["plain"]) % 3 else None

    def graphs(self, saver: Any, frequency: int) -> list[Any]:
        """The graph with a delta channel, and the same before or after a migration, with plain ones only."""
        delta: Any = Annotated[list[str], DeltaChannel(fold, snapshot_frequency=frequency)]
        plain: Any = Annotated[list[str], operator.add]
        made = []
        for kind in (delta, plain):
            fields: Any = {"delta": kind, "plain": plain, "plan": str}
            builder = StateGraph(TypedDict("State", fields))  # type: ignore[operator]
            for name in ("first", "left", "right", "last"):
                builder.add_node(name, getattr(self, name))
            builder.add_edge(START, "first").add_edge("first", "left").add_edge("first", "right")
            builder.add_edge(["left", "right"], "last")
            made.append(builder.compile(checkpointer=saver))
        return made


class Program:
    """One thread and its copies, and the operations on them."""

    def __init__(self, open_saver: Callable[[], Any], frequency: int) -> None:
        self.open_saver, self.frequency = open_saver, frequency
        self.world, self.thread, self.copies, self.kind = World(), "t0", 0, 0
        self.reload()

    def reload(self) -> None:
        self.saver = self.open_saver()
        self.graphs = self.world.graphs(self.saver, self.frequency)

    @property
    def graph(self) -> Any:
        return self.graphs[self.kind]

    @property
    def config(self) -> Any:
        return {"configurable": {"thread_id": self.thread}}

    def run(self, given: Any, config: Any, durability: str) -> None:
        try:
            result = self.graph.invoke(given, config, durability=durability)
        except OnPurpose:
            pass
        else:
            if result is not None:
                assert result.get("delta", []) == result.get("plain", [])

    def some_config(self, place: int) -> Any:
        """The config of some checkpoint, or of the newest when there is none."""
        history = list(self.graph.get_state_history(self.config))
        return history[place % len(history)].config if history else self.config

    # -- operations --------------------------------------------------------------------------------------------------

    def invoke(self, place: int, plan: str, durability: str) -> None:
        self.world.healthy = False
        self.run({**both([f"in {place}"]), "plan": plan}, self.config, durability)

    def resume(self, place: int, plan: str, durability: str) -> None:
        self.world.healthy = True
        state = self.graph.get_state(self.config)
        if state.next:
            self.run(Command(resume=place) if state.interrupts else None, self.config, durability)

    def fork(self, place: int, plan: str, durability: str) -> None:
        self.run({**both([f"fork {place}"]), "plan": plan}, self.some_config(place), durability)

    def replay(self, place: int, plan: str, durability: str) -> None:
        at = self.some_config(place)
        if self.graph.get_state(at).next:
            self.run(None, at, durability)

    def update(self, place: int, plan: str, durability: str) -> None:
        at = self.config if place % 2 else self.some_config(place // 2)
        write: Any = Overwrite([f"set {place}"]) if plan == "overwrite" else [f"update {place}"]
        self.graph.update_state(at, both(write), as_node=["first", "left", "last"][place % 3])

    def prune(self, place: int, plan: str, durability: str) -> None:
        self.saver.prune([self.thread])

    def copy(self, place: int, plan: str, durability: str) -> None:
        self.copies += 1
        source, self.thread = self.thread, f"t{self.copies}"
        if self.saver.get_tuple({"configurable": {"thread_id": source}}) is None:
            self.thread = source
            return
        self.saver.copy_thread(source, self.thread)
        self.check(source)
        if place % 2:
            self.saver.delete_thread(source)

    def migrate(self, place: int, plan: str, durability: str) -> None:
        self.kind = 1 - self.kind

    # -- what must hold ----------------------------------------------------------------------------------------------

    def check(self, thread: str | None = None) -> list[Any]:
        config = {"configurable": {"thread_id": thread or self.thread}}
        seen = []
        for graph in self.graphs:
            states = list(graph.get_state_history(config))
            for state in states:
                assert state.values.get("delta", []) == state.values.get("plain", [])
            seen.append([(s.config, s.values.get("plain", []), s.next) for s in states])
        return seen


OPERATIONS = ["invoke", "invoke", "resume", "fork", "replay", "update", "prune", "copy", "migrate", "reload"]
STEPS = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 11), st.sampled_from(PLANS), st.sampled_from(DURABILITIES)),
    min_size=1,
    max_size=9,
)


def play(open_saver: Callable[[], Any], frequency: int, steps: list[tuple[str, int, str, str]]) -> None:
    program = Program(open_saver, frequency)
    program.invoke(0, steps[0][2], steps[0][3])
    for name, *arguments in steps:
        if name == "reload":
            program.reload()
        else:
            getattr(program, name)(*arguments)
        program.check()
    live = program.check()
    program.reload()
    assert program.check() == live


@settings(max_examples=40)
@given(frequency=st.sampled_from([1, 2, 3, 100]), steps=STEPS)
def test_in_memory(frequency: int, steps: list[tuple[str, int, str, str]]) -> None:
    saver = InMemorySaver()

    def reopened() -> InMemorySaver:
        saver._caches = Caches(scale=0)
        return saver

    play(reopened, frequency, steps)


@settings(max_examples=25)
@given(frequency=st.sampled_from([1, 2, 3, 100]), steps=STEPS)
def test_in_a_file(frequency: int, steps: list[tuple[str, int, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        path = str(Path(folder) / "threads.db")

        def reopened() -> SqliteSaver:
            saver = SqliteSaver.from_conn_string(path, synchronous="OFF")
            return opened.enter_context(saver)

        play(reopened, frequency, steps)
