"""Random programs of invoke, fail, ask, answer, update, fork and replay against a small model of what must be so.

The graph: ``a``, then at once ``m`` and ``n``, then ``end``. ``n`` calls a graph ``s1 -> ask -> s2``, one or two levels
down. After each step of a program, what has run, what the thread shows, and every checkpoint of its history are
compared with the model: so no stored checkpoint ever changes, and nothing runs that need not.
"""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.acceptance.kit import Log, thread
from tests.conftest import Call
from tests.runtime.kit import calling, graph_of, placed
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import UnknownInterruptError
from threadmark.graph import START, StateGraph
from threadmark.types import Command, interrupt

INSIDE = ("s1", "ask", "s2")
AFTER = {"__start__": ("a",), "a": ("m", "n"), "m": ("end",), "n": ("end",), "end": ()}


class Down(Exception):
    """What a failing node raises."""


# -- the model ---------------------------------------------------------------------------------------------------------


@dataclass
class Due:
    """What storage knows of one task that is due."""

    done: tuple[str, ...] | None = None
    """What it wrote, when it has finished."""
    inside: list[str] = field(default_factory=list)
    """For ``n``: what its graph has written so far."""
    asked: bool = False
    answer: str | None = None


@dataclass
class Point:
    """A checkpoint."""

    values: tuple[str, ...]
    next: tuple[str, ...]
    parent: int | None
    source: str
    due: dict[str, Due] = field(default_factory=dict)
    early: str | None = None
    """An answer that was given before the question."""

    def __post_init__(self) -> None:
        for name in self.next:
            self.due.setdefault(name, Due())

    @property
    def question_is_open(self) -> bool:
        task = self.due.get("n")
        return task is not None and task.asked and task.answer is None and task.done is None

    @property
    def question_has_an_answer(self) -> bool:
        task = self.due.get("n")
        return task is not None and task.asked and task.answer is not None


class Model:
    def __init__(self) -> None:
        self.points: list[Point] = []
        self.down: set[str] = set()
        self.ran: list[str] = []

    @property
    def head(self) -> Point:
        return self.points[-1]

    def add(self, values: tuple[str, ...], next: tuple[str, ...], parent: int | None, source: str) -> int:
        self.points.append(Point(values, next, parent, source))
        return len(self.points) - 1

    def invoke(self, word: str) -> str:
        before = self.head if self.points else None
        parent = len(self.points) - 1 if before else None
        at = self.add(before.values if before else (), ("__start__",), parent, "input")
        return self.run(at, word)

    def run(self, at: int, word: str = "") -> str:
        """Run from a checkpoint on; ``done``, ``asked`` or ``down``."""
        while self.points[at].next:
            point = self.points[at]
            told = [self.task(point, name, word) for name in point.next if point.due[name].done is None]
            for outcome in ("down", "asked"):
                if outcome in told:
                    return outcome
            written = tuple(item for name in sorted(point.next) for item in point.due[name].done or ())
            following = {name for before in point.next for name in AFTER[before]}
            early, at = point.early, self.add(point.values + written, tuple(sorted(following)), at, "loop")
            self.points[at].early = None if point.due.get("n") else early
        return "done"

    def task(self, point: Point, name: str, word: str) -> str:
        task = point.due[name]
        if name == "__start__":
            task.done = (word,)
            return "done"
        if name != "n":
            self.ran.append(name)
            if name in self.down:
                return "down"
            task.done = (name,)
            return "done"
        for step in INSIDE[len(task.inside) :]:
            self.ran.append(step)
            if step == "ask":
                task.answer, point.early = task.answer or point.early, None if task.answer is None else point.early
                if task.answer is None:
                    task.asked = True
                    return "asked"
                task.inside.append(f"ask:{task.answer}")
            elif step in self.down:
                return "down"
            else:
                task.inside.append(step)
        task.done = tuple(task.inside)
        return "done"

    def fork(self, at: int) -> int:
        """The same place once more, as a child of ``at``: everything that is due there runs afresh."""
        point = self.points[at]
        return self.add(point.values, point.next, at, "fork")

    def answer_again(self, at: int, answer: str) -> int:
        """A branch beside ``at``: finished siblings keep their results, the question has another answer."""
        old = self.points[at]
        new = self.add(old.values, old.next, old.parent, "fork")
        self.points[new].due["m"].done = old.due["m"].done
        self.points[new].due["n"] = Due(inside=["s1"], asked=False, answer=answer)
        return new

    def shown(self) -> tuple[tuple[str, ...], tuple[str, ...], int]:
        """(values, next, open questions) of the thread as it stands."""
        point = self.head
        done = tuple(item for name in sorted(point.next) for item in point.due[name].done or ())
        left = tuple(name for name in point.next if point.due[name].done is None)
        return point.values + done, left, int(point.question_is_open)


# -- the machine -------------------------------------------------------------------------------------------------------


class Machine(RuleBasedStateMachine):
    colour = "sync"
    on_disk = False

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.call = Call(self.colour, self.stack.enter_context(asyncio.Runner()))
        self.model = Model()
        self.ran: list[str] = []
        self.count = 0
        if self.on_disk:
            folder = self.stack.enter_context(tempfile.TemporaryDirectory())
            self.saver: Any = self.stack.enter_context(SqliteSaver.from_conn_string(str(Path(folder) / "c.db")))
        else:
            self.saver = InMemorySaver()

    def teardown(self) -> None:
        self.stack.close()

    def step(self, name: str) -> Any:
        def run(state: Log) -> dict[str, list[str]]:
            self.ran.append(name)
            if name in self.model.down:
                raise Down(name)
            return {"log": [f"ask:{interrupt('?')}" if name == "ask" else name]}

        async def run_on_loop(state: Log) -> dict[str, list[str]]:
            return run(state)

        return run_on_loop if self.colour == "async" else run

    @initialize(place=st.sampled_from(["called", "three levels"]), durability=st.sampled_from(["sync", "async"]))
    def build(self, place: str, durability: str) -> None:
        self.durability = durability
        inner = graph_of(*((name, self.step(name)) for name in INSIDE))
        nested = calling(inner, self.call) if place == "called" else calling(self.two_levels(inner), self.call)
        builder: StateGraph[Any] = StateGraph(Log)
        for name, action in (("a", self.step("a")), ("m", self.step("m")), ("n", nested), ("end", self.step("end"))):
            builder.add_node(name, action)
        builder.add_edge(START, "a")
        for before, names in AFTER.items():
            for name in names if before != "__start__" else ():
                builder.add_edge(before, name)
        self.graph = builder.compile(checkpointer=self.saver)

    def two_levels(self, inner: Any) -> Any:
        return placed("three levels", "n", None, self.call, graph=inner)

    def run(self, input: Any, config: Any, expected: str) -> None:
        """Make the call; the model has been told already what comes of it."""
        try:
            shown = self.call(self.graph, "invoke", input, config, durability=self.durability)
        except Down:
            assert expected == "down"
        else:
            assert expected == ("asked" if "__interrupt__" in shown else "done")

    def config(self, at: int) -> Any:
        return self.history()[at].config

    def history(self) -> list[Any]:
        return list(self.call(self.graph, "get_state_history", thread()))[::-1]

    def word(self) -> str:
        self.count += 1
        return f"w{self.count}"

    def some(self, data: st.DataObject, wanted: Any) -> int:
        """One of the checkpoints that are ``wanted``."""
        found = [at for at, point in enumerate(self.model.points) if wanted(point)]
        return int(data.draw(st.sampled_from(found)))

    # -- rules -----------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(["a", "s1", "s2", "end"]))
    def break_or_mend(self, name: str) -> None:
        self.model.down ^= {name}

    @precondition(lambda self: len(self.model.points) < 40)
    @rule()
    def invoke(self) -> None:
        word = self.word()
        self.run({"log": [word]}, thread(), self.model.invoke(word))

    @precondition(lambda self: self.model.points)
    @rule()
    def go_on(self) -> None:
        self.run(None, thread(), self.model.run(len(self.model.points) - 1))

    @precondition(lambda self: self.model.points and self.model.head.question_is_open)
    @rule(by_id=st.booleans(), addressed=st.booleans())
    def answer(self, by_id: bool, addressed: bool) -> None:
        word = self.word()
        self.model.head.due["n"].answer = word
        (question,) = self.call(self.graph, "get_state", thread()).interrupts
        at = self.config(len(self.model.points) - 1) if addressed else thread()
        answer = {question.id: word} if by_id else word
        self.run(Command(resume=answer), at, self.model.run(len(self.model.points) - 1))

    @precondition(lambda self: self.model.points and not self.model.head.next)
    @rule()
    def answer_nothing(self) -> None:
        with pytest.raises(UnknownInterruptError):
            self.call(self.graph, "invoke", Command(resume="x"), thread())

    @precondition(lambda self: any(point.question_has_an_answer for point in self.model.points))
    @rule(data=st.data())
    def answer_again(self, data: st.DataObject) -> None:
        at = self.some(data, lambda point: point.question_has_an_answer)
        word, config = self.word(), self.config(at)
        self.run(Command(resume=word), config, self.model.run(self.model.answer_again(at, word)))

    @precondition(lambda self: any(point.question_is_open for point in self.model.points[:-1]))
    @rule(data=st.data())
    def answer_late(self, data: st.DataObject) -> None:
        """The first answer to a question of an old checkpoint: all of its superstep runs there, the child goes on."""
        at = self.some(data, lambda point: point.question_is_open and point is not self.model.head)
        word, config, point = self.word(), self.config(at), self.model.points[at]
        point.due["m"].done = None
        point.due["n"].answer = word
        self.run(Command(resume=word), config, self.model.run(at))

    @precondition(lambda self: self.model.points)
    @rule(data=st.data(), as_node=st.sampled_from(["a", "m", "n", "end"]))
    def update(self, data: st.DataObject, as_node: str) -> None:
        at, word = self.some(data, lambda point: True), self.word()
        self.call(self.graph, "update_state", self.config(at), {"log": [word]}, as_node=as_node)
        self.model.add((*self.model.points[at].values, word), tuple(sorted(AFTER[as_node])), at, "update")

    @precondition(lambda self: self.model.points and len(self.model.points) < 40)
    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        at = self.some(data, lambda point: point.next != ("__start__",))
        config, point = self.config(at), self.model.points[at]
        if point is self.model.head and point.source in ("update", "fork"):
            fresh = Point(point.values, point.next, point.parent, point.source)
            point.due, point.early = fresh.due, None
            self.run(None, config, self.model.run(at))
        else:
            self.run(None, config, self.model.run(self.model.fork(at)))

    # -- what must hold --------------------------------------------------------------------------------------------

    @invariant()
    def what_ran(self) -> None:
        assert sorted(self.ran) == sorted(self.model.ran)

    @invariant()
    def what_is_shown(self) -> None:
        if self.model.points:
            state = self.call(self.graph, "get_state", thread())
            values = tuple(state.values.get("log", ()))
            assert (values, tuple(sorted(state.next)), len(state.interrupts)) == self.model.shown()

    @invariant()
    def what_is_stored(self) -> None:
        if not self.model.points:
            return
        history = self.history()
        numbers = {one.config["configurable"]["checkpoint_id"]: number for number, one in enumerate(history)}
        stored = [
            (
                tuple(one.values.get("log", ())),
                tuple(sorted(one.next)),
                one.parent_config and numbers[one.parent_config["configurable"]["checkpoint_id"]],
                one.metadata["source"],
            )
            for one in history
        ]
        assert stored == [(point.values, point.next, point.parent, point.source) for point in self.model.points]


class OnLoop(Machine):
    colour = "async"


class OnDisk(Machine):
    on_disk = True


class OnDiskAndLoop(Machine):
    colour = "async"
    on_disk = True


def program(machine: type[Machine], examples: int) -> Any:
    case = machine.TestCase
    case.settings = settings(max_examples=examples, stateful_step_count=16)
    return case


TestInMemory = program(Machine, 30)
TestInMemoryOnLoop = program(OnLoop, 30)
TestOnDisk = program(OnDisk, 15)
TestOnDiskOnLoop = program(OnDiskAndLoop, 15)
