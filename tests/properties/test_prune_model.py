"""A prune removes what its rules say and changes nothing else, whatever the thread went through.

Random programs invoke, answer, fork, update and prune a graph with a child that keeps its state on the thread, one that
does not, one inside the other, and a delta channel in each. Before a prune the thread is copied. After it: every
checkpoint that is left reads as in the copy; those that the rules keep are left, of the graph itself no others; each
runs again, is answered or answered anew as it is in the copy.
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
from threadmark.errors import ThreadmarkError
from threadmark.graph import START, StateGraph
from threadmark.types import Command, interrupt

DURABILITIES = ["sync", "async", "exit"]


def fold(value: list[str], writes: Sequence[list[str]]) -> list[str]:
    return [*value, *(item for write in writes for item in write)]


def both(write: list[str]) -> dict[str, Any]:
    return {"delta": write, "plain": write}


def graph_over(saver: Any, frequency: int) -> Any:
    """Two levels of children: ``kept`` remembers its state between the turns, ``fresh`` does not."""
    delta: Any = Annotated[list[str], DeltaChannel(fold, snapshot_frequency=frequency)]
    fields: Any = {"delta": delta, "plain": Annotated[list[str], operator.add], "ask": str}
    state: Any = TypedDict("State", fields)  # type: ignore[operator]

    def says(name: str) -> Callable[[Any], Any]:
        def node(state: Any) -> Any:
            heard = f" told {interrupt(name)}" if name in state.get("ask", "").split() else ""
            return both([f"{name} of {len(state['plain'])}{heard}"])

        return node

    def child(name: str, below: Any = None, **kind: Any) -> Any:
        builder = StateGraph(state).add_node("one", says(f"{name}-one"))
        builder.add_node("two", says(f"{name}-two") if below is None else below)
        return builder.add_edge(START, "one").add_edge("one", "two").compile(**kind)

    inner = child("inner")
    builder = StateGraph(state).add_node("first", says("first"))
    builder.add_node("kept", child("kept", inner, checkpointer=True)).add_node("fresh", child("fresh", inner))
    builder.add_edge(START, "first").add_edge("first", "kept").add_edge("kept", "fresh")
    return builder.compile(checkpointer=saver)


class Program:
    """One thread, and what is done to it."""

    def __init__(self, open_saver: Callable[[], Any], frequency: int) -> None:
        self.open_saver, self.frequency, self.copies, self.turns = open_saver, frequency, 0, 0
        self.reload()

    def reload(self, *_: Any) -> None:
        self.saver = self.open_saver()
        self.graph = graph_over(self.saver, self.frequency)

    def config(self, id: str | None = None, thread: str = "t") -> Any:
        named = {"thread_id": thread, "checkpoint_ns": ""}
        return {"configurable": named if id is None else {**named, "checkpoint_id": id}}

    def ids(self, ns: str | None = "", thread: str = "t") -> list[tuple[str, str]]:
        named = {"thread_id": thread} if ns is None else {"thread_id": thread, "checkpoint_ns": ns}
        found = [item.config["configurable"] for item in self.saver.list({"configurable": named})]
        return [(each["checkpoint_ns"], each["checkpoint_id"]) for each in found]

    def run(self, given: Any, config: Any, durability: str) -> Any:
        return self.graph.invoke(given, config, durability=durability)

    # -- operations --------------------------------------------------------------------------------------------------

    def invoke(self, place: int, ask: str, durability: str) -> None:
        self.turns += 1
        self.run({**both([f"in {self.turns}"]), "ask": ask}, self.config(), durability)

    def answer(self, place: int, ask: str, durability: str) -> None:
        if self.graph.get_state(self.config()).interrupts:
            self.run(Command(resume=f"answer {place}"), self.config(), durability)

    def fork(self, place: int, ask: str, durability: str) -> None:
        ids = self.ids()
        at = self.config(ids[place % len(ids)][1])
        given = {**both([f"fork {place}"]), "ask": ask} if place % 2 else None
        if given is not None or self.graph.get_state(at).next:
            self.run(given, at, durability)

    def update(self, place: int, ask: str, durability: str) -> None:
        self.graph.update_state(self.config(), both([f"update {place}"]), as_node=["first", "kept"][place % 2])

    def prune(self, place: int, ask: str, durability: str) -> None:
        spaces = [None, "", *sorted({ns for ns, _ in self.ids(None)})]
        ns = spaces[place % len(spaces)]
        keep = [1, 2, 3, None][place % 4]
        ids = self.ids()
        stamp = self.graph.get_state(self.config(ids[place % len(ids)][1])).created_at
        by_age = keep is None or place % 3 == 0
        rules: dict[str, Any] = {"keep_last": keep, "older_than": datetime.fromisoformat(stamp) if by_age else None}
        Prune(self, rules, ns).check()


class Prune:
    """One prune of the thread, and what must hold of it."""

    def __init__(self, program: Program, rules: dict[str, Any], ns: str | None) -> None:
        self.program, self.rules, self.ns = program, rules, ns
        self.saver = program.saver

    def check(self) -> None:
        copy = self.copied("t")
        before, told = self.rows(copy), self.expected()
        forecast = self.saver.prune(["t"], **self.rules, ns=self.ns, dry_run=True)
        assert self.rows("t") == before
        report = self.saver.prune(["t"], **self.rules, ns=self.ns)
        assert (report.threads, report.dry_run) == (forecast.threads, False)
        after = self.rows("t")
        assert report.total("kept") == len(after)
        assert all(before[name] == row for name, row in after.items())
        assert told <= after.keys()
        assert {name for name in after if name[0] == ""} == {name for name in told if name[0] == ""}
        more = self.saver.prune(["t"], **self.rules, ns=self.ns)
        assert more.threads[0].kept == report.threads[0].kept
        assert [more.total(what) for what in ("checkpoints", "tasks", "values", "segments", "bytes")] == [0] * 5
        for _, id in sorted(name for name in after if name[0] == "")[-3:]:
            again = self.runs_again(after["", id], id)
            assert self.future("t", id, again=again) == self.future(copy, id, again=again)
        self.saver.delete_thread(copy)

    def copied(self, source: str) -> str:
        self.program.copies += 1
        target = f"copy {self.program.copies}"
        self.saver.copy_thread(source, target)
        return target

    def rows(self, thread: str) -> dict[tuple[str, str], Any]:
        """Every checkpoint with all that is said of it, but its parent."""
        found = {}
        for item in self.saver.list({"configurable": {"thread_id": thread}}):
            at = item.config["configurable"]
            found[at["checkpoint_ns"], at["checkpoint_id"]] = item.checkpoint, item.metadata, item.pending_writes
        return found

    def expected(self) -> set[tuple[str, str]]:
        """What the rules keep of each namespace, those of tasks aside, which go with these."""
        kept, cutoff = set(), self.rules["older_than"]
        for ns in {ns for ns, _ in self.program.ids(None) if ":" not in ns}:
            for rank, name in enumerate(self.program.ids(ns)):
                made = self.saver.get(
                    {"configurable": {"thread_id": "t", "checkpoint_ns": ns, "checkpoint_id": name[1]}}
                )
                young = cutoff is not None and datetime.fromisoformat(made["ts"]) >= cutoff
                if (self.ns is not None and ns != self.ns) or rank < (self.rules["keep_last"] or 1) or young:
                    kept.add(name)
        return kept

    def runs_again(self, row: Any, id: str) -> bool:
        """Whether a run from there can be expected to find its children as they were.

        Not under the newest when only that is kept, and not under an update or a fork whose parent is gone: the
        children of these begin with what they had before the parent.
        """
        if self.rules == {"keep_last": 1, "older_than": None}:
            return False
        parent = self.saver.get_tuple(self.program.config(id)).parent_config
        return parent is not None or row[1].get("source") not in ("update", "fork")

    def future(self, thread: str, id: str, *, again: bool) -> list[Any]:
        """The state at a checkpoint, and what comes of it: run again, answered, answered anew, with what it asks."""
        seen = []
        program = self.program
        state = program.graph.get_state(program.config(id, thread), subgraphs=True)
        seen.append((state.values, state.next, [one.value for one in state.interrupts]))
        entries = [Command(resume="first"), {**both(["more"]), "ask": "kept-one"}]
        for entered in (*([None] if again else []), *entries):
            scratch = self.copied(thread)
            try:
                program.run(entered, program.config(id, scratch), "sync")
            except ThreadmarkError as error:  # nothing asks here, or nothing is left to do
                seen.append(type(error))
            state = program.graph.get_state(program.config(None, scratch))
            while state.interrupts:
                seen.append((state.values, state.next, [one.value for one in state.interrupts]))
                program.run(Command(resume="then"), program.config(None, scratch), "sync")
                state = program.graph.get_state(program.config(None, scratch))
            seen.append((state.values, state.next))
            self.saver.delete_thread(scratch)
        return seen


ASKS = ["", "first", "kept-one", "inner-two", "inner-one fresh-one", "kept-one inner-two fresh-one", "fresh-one"]
OPERATIONS = ["invoke", "invoke", "answer", "answer", "fork", "update", "prune", "reload"]
Steps = list[tuple[str, int, str, str]]
FREQUENCIES = st.sampled_from([1, 2, 3, 100])
STEPS = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 11), st.sampled_from(ASKS), st.sampled_from(DURABILITIES)),
    min_size=1,
    max_size=6,
)


def play(open_saver: Callable[[], Any], frequency: int, steps: Steps) -> None:
    program = Program(open_saver, frequency)
    program.invoke(0, steps[0][2], steps[0][3])
    for name, *arguments in steps:
        getattr(program, name)(*arguments)
    program.reload()
    program.prune(steps[-1][1], "", "")


@programs(20)
@given(frequency=FREQUENCIES, steps=STEPS)
def test_in_memory(frequency: int, steps: Steps) -> None:
    play(in_memory(), frequency, steps)


@programs(10)
@given(frequency=FREQUENCIES, steps=STEPS)
def test_in_a_file(frequency: int, steps: Steps, file: Place) -> None:
    with emptied(file) as reopened:
        play(reopened, frequency, steps)


@programs(3)
@given(frequency=FREQUENCIES, steps=STEPS)
def test_on_servers(frequency: int, steps: Steps, server: Place) -> None:
    with emptied(server) as reopened:
        play(reopened, frequency, steps)
