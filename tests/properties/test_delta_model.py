"""A delta channel equals a plain reducer channel in every snapshot, whatever a thread goes through (spec 8).

The graph writes the same to two channels, one of each kind. Random programs invoke, resume, update, fork, replay,
prune, copy, exchange the graph and move to another store; after each operation every snapshot of the history must hold
equal values in both, live and reloaded by a saver that remembers nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any

from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from tests.properties.stores import emptied, in_memory, programs
from tests.services.places import Place
from threadmark.channels import DeltaChannel
from threadmark.graph import START, StateGraph
from threadmark.interop.migration import migrate
from threadmark.interop.own_store import OwnSource, OwnTarget
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

    def __init__(self, here: Callable[[], Any], there: Callable[[], Any], frequency: int) -> None:
        self.open_saver, self.open_other, self.frequency = here, there, frequency
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
        rules: dict[str, Any] = {"keep_last": [1, 2, 4, None][place % 4], "ns": ["", None][place % 2]}
        if rules["keep_last"] is None or place % 3 == 0:
            made = self.graph.get_state(self.some_config(place)).created_at
            rules["older_than"] = None if made is None else datetime.fromisoformat(made)
        self.saver.prune([self.thread], **(rules if place else {}))

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

    def change(self, place: int, plan: str, durability: str) -> None:
        """Exchange the graph: the delta channel for a plain one, or back."""
        self.kind = 1 - self.kind

    def carry(self, place: int, plan: str, durability: str) -> None:
        """Go on in another store, where the thread may have been before."""
        before, other = self.check(), self.open_other()
        source, target = OwnSource("here", self.saver), OwnTarget("there", other)
        for outcome in migrate(source, target, self.saver.thread_ids() and [self.thread], replace=True):
            assert outcome.state in ("copied", "there already"), outcome
        self.open_saver, self.open_other = self.open_other, self.open_saver
        self.reload()
        assert self.check() == before

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


OPERATIONS = ["invoke", "invoke", "resume", "fork", "replay", "update", "prune", "copy", "change", "carry", "reload"]
Steps = list[tuple[str, int, str, str]]
FREQUENCIES = st.sampled_from([1, 2, 3, 100])
STEPS = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 11), st.sampled_from(PLANS), st.sampled_from(DURABILITIES)),
    min_size=1,
    max_size=9,
)


def play(here: Callable[[], Any], there: Callable[[], Any], frequency: int, steps: Steps) -> None:
    program = Program(here, there, frequency)
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


@programs(40)
@given(frequency=FREQUENCIES, steps=STEPS)
def test_in_memory(frequency: int, steps: Steps) -> None:
    play(in_memory(), in_memory(), frequency, steps)


@programs(25)
@given(frequency=FREQUENCIES, steps=STEPS)
def test_in_a_file(frequency: int, steps: Steps, file: Place) -> None:
    with emptied(file) as reopened:
        play(reopened, in_memory(), frequency, steps)


@programs(8)
@given(frequency=FREQUENCIES, steps=STEPS)
def test_on_servers(frequency: int, steps: Steps, server: Place) -> None:
    with emptied(server) as reopened:
        play(reopened, in_memory(), frequency, steps)
