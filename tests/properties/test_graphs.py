"""Random graphs give the same states and histories in both colours, on every saver, and when stopped at every step."""

from __future__ import annotations

import asyncio
import itertools
import operator
import tempfile
from collections.abc import Callable, Iterator
from contextlib import aclosing, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from threadmark import ids
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.checkpoint.step_writer import Writer
from threadmark.graph import START, StateGraph
from threadmark.types import Command, Send, interrupt

ENOUGH = 6
"""Node runs after which routers lead nowhere, so that every graph ends."""


class State(TypedDict):
    log: Annotated[list[str], operator.add]
    runs: Annotated[int, operator.add]
    names: Annotated[set[str], operator.or_]


@dataclass(frozen=True)
class Step:
    """A node: what it writes and asks, and where it leads."""

    words: int = 1
    asks: int = 0
    defer: bool = False
    edges: tuple[int, ...] = ()
    """Later nodes."""
    routes: tuple[tuple[int | tuple[int, int], ...], ...] = ()
    """Sets of targets of which the router takes one: nodes, and (node, number of packets)."""
    commands: tuple[int | tuple[int, int], ...] = ()
    """Targets of the Command that it returns; none: it returns a dict."""


@dataclass(frozen=True)
class Shape:
    """A graph."""

    steps: tuple[Step, ...]
    entries: tuple[int, ...] = (0,)
    barriers: tuple[tuple[tuple[int, ...], int], ...] = ()
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    count = draw(st.integers(1, 5))
    index = st.integers(0, count - 1)
    target = st.one_of(index, st.tuples(index, st.integers(1, 3)))
    some = st.lists(index, max_size=2, unique=True).map(tuple)

    def step(number: int) -> st.SearchStrategy[Step]:
        later = st.sampled_from(range(number + 1, count)) if number + 1 < count else None
        return st.builds(
            Step,
            words=st.integers(0, 2),
            asks=st.sampled_from([0, 0, 0, 1, 2]),
            defer=st.sampled_from([False, False, False, True]),
            edges=st.just(()) if later is None else st.lists(later, max_size=2, unique=True).map(tuple),
            routes=st.lists(st.lists(target, max_size=2).map(tuple), max_size=2).map(tuple),
            commands=st.one_of(st.just(()), st.lists(target, max_size=2).map(tuple)),
        )

    barrier = st.tuples(st.lists(index, min_size=1, max_size=3, unique=True).map(tuple), index)
    return Shape(
        steps=tuple(draw(step(number)) for number in range(count)),
        entries=tuple(draw(st.lists(index, min_size=1, max_size=3, unique=True))),
        barriers=tuple(draw(st.lists(barrier.filter(lambda one: one[1] > max(one[0])), max_size=2, unique=True))),
        before=draw(some),
        after=draw(some),
    )


# -- a shape as a graph


def name(number: int) -> str:
    return f"n{number}"


def leads_to(targets: tuple[int | tuple[int, int], ...], runs: int) -> list[str | Send]:
    """Where to go after so many runs: nowhere when it is enough."""
    found: list[str | Send] = []
    for target in targets if runs < ENOUGH else ():
        if isinstance(target, int):
            found.append(name(target))
        else:
            found += [Send(name(target[0]), packet) for packet in range(target[1])]
    return found


def body(number: int, step: Step) -> Callable[[Any], Any]:
    def node(state: Any) -> Any:
        mark = f"{name(number)}@{state['runs'] if isinstance(state, dict) else f'packet {state}'}"
        answers = [interrupt(f"{mark}?{question}") for question in range(step.asks)]
        update = {"log": [mark] * step.words + answers, "runs": 1, "names": {name(number)}}
        if not step.commands:
            return update
        runs = state["runs"] if isinstance(state, dict) else ENOUGH
        return Command(update=update, goto=leads_to(step.commands, runs))

    return node


def router(step: Step) -> Callable[[State], list[str | Send]]:
    def route(state: State) -> list[str | Send]:
        return leads_to(step.routes[state["runs"] % len(step.routes)], state["runs"])

    return route


def awaited(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    async def coroutine(state: Any) -> Any:
        await asyncio.sleep(0)
        return function(state)

    return coroutine


def built(shape: Shape, saver: Any, *, coroutines: bool) -> Any:
    colour: Callable[[Any], Any] = awaited if coroutines else lambda function: function
    builder = StateGraph(State)
    for number, step in enumerate(shape.steps):
        builder.add_node(name(number), colour(body(number, step)), defer=step.defer)
    for entry in shape.entries:
        builder.add_edge(START, name(entry))
    for number, step in enumerate(shape.steps):
        for target in step.edges:
            builder.add_edge(name(number), name(target))
        if step.routes:
            builder.add_conditional_edges(name(number), colour(router(step)))
    for sources, target in shape.barriers:
        builder.add_edge([name(source) for source in sources], name(target))
    return builder.compile(
        checkpointer=saver,
        interrupt_before=[name(number) for number in shape.before],
        interrupt_after=[name(number) for number in shape.after],
    )


# -- ways to bring a thread to its end

INPUT: dict[str, Any] = {"log": ["in"], "runs": 0, "names": set()}


@dataclass(frozen=True)
class Way:
    """How a graph is run: its colour, and how it is stopped and gone on with."""

    runner: asyncio.Runner | None = None
    options: tuple[tuple[str, Any], ...] = ()
    one_answer_at_a_time: bool = False
    close_streams: bool = False

    def call(self, target: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        if self.runner is None:
            return getattr(target, method)(*args, **kwargs)
        return self.runner.run(getattr(target, "a" + method)(*args, **kwargs))

    def turn(self, graph: Any, value: Any, config: Any) -> None:
        """One call: to the next pause, or to the first news that the stream tells."""
        options = dict(self.options)
        if not self.close_streams:
            self.call(graph, "invoke", value, config, **options)
        elif self.runner is None:
            with closing(graph.stream(value, config, **options)) as told:
                next(filter(is_news, told), None)
        else:
            self.runner.run(first(graph.astream(value, config, **options)))

    def history(self, graph: Any, config: Any) -> list[Any]:
        if self.runner is None:
            return list(graph.get_state_history(config))
        return self.runner.run(collected(graph.aget_state_history(config)))

    def finish(self, graph: Any, config: Any, value: Any = INPUT, at: Any = None) -> None:
        """Run to the end, beginning with ``value``, at the checkpoint ``at`` if there is one."""
        for _ in range(200):
            self.turn(graph, value, at or config)
            at = None
            state = self.call(graph, "get_state", config)
            if not state.next:
                return
            answers = {one.id: f"!{one.value}" for one in state.interrupts}
            if self.one_answer_at_a_time:
                answers = dict(itertools.islice(answers.items(), 1))
            value = Command(resume=answers) if answers else None
        raise AssertionError("the graph does not end")


async def collected(stream: Any) -> list[Any]:
    return [one async for one in stream]


async def first(stream: Any) -> None:
    async with aclosing(stream):
        async for event in stream:
            if is_news(event):
                break


def is_news(event: Any) -> bool:
    """Whether a task has ended now; the others are results found in storage."""
    return "__metadata__" not in event


def counters(versions: Any) -> dict[str, int]:
    return {channel: int(str(version).partition(".")[0]) for channel, version in versions.items()}


def trace(graph: Any, saver: Any, config: Any) -> list[Any]:
    """A thread's history without ids and times, and without what only tells of breakpoints passed."""
    found = []
    for one in graph.get_state_history(config):
        checkpoint = saver.get_tuple(one.config).checkpoint
        seen = {node: counters(versions) for node, versions in checkpoint["versions_seen"].items()}
        seen.pop("__interrupt__", None)
        found.append(
            {
                "metadata": {key: one.metadata.get(key) for key in ("source", "step", "writes")},
                "values": one.values,
                "next": one.next,
                "tasks": [
                    (task.name, task.path, task.result, [question.value for question in task.interrupts])
                    for task in one.tasks
                ],
                "versions": counters(checkpoint["channel_versions"]),
                "seen": seen,
                "stored": checkpoint["channel_values"],
                "updated": checkpoint["updated_channels"],
            }
        )
    return found


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as one:
        yield one


@pytest.fixture(scope="module")
def sqlite() -> Iterator[SqliteSaver]:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "checkpoints.db")
        with SqliteSaver.from_conn_string(path, synchronous="OFF") as saver:
            yield saver


threads = itertools.count()


def ran(shape: Shape, saver: Any, way: Way) -> tuple[Any, list[Any]]:
    graph = built(shape, saver, coroutines=way.runner is not None)
    config = {"configurable": {"thread_id": str(next(threads))}}
    way.finish(graph, config)
    reader = graph if way.runner is None else built(shape, saver, coroutines=False)
    return way.call(graph, "get_state", config).values, trace(reader, saver, config)


@settings(max_examples=30)
@given(shape=shapes())
@example(shape=Shape((Step(asks=2), Step(asks=1), Step()), entries=(0, 1), barriers=(((0, 1), 2),), before=(2,)))
@example(shape=Shape((Step(routes=((0, (1, 3)), ()), edges=(1,)), Step(asks=1, defer=True)), after=(0, 1)))
@example(shape=Shape((Step(commands=(0, (1, 2))), Step(words=0, routes=((0,),))), entries=(0, 1)))
def test_every_way_gives_the_same_history(shape: Shape, runner: asyncio.Runner, sqlite: SqliteSaver) -> None:
    memory = InMemorySaver()
    values, expected = ran(shape, memory, Way())
    ways = {
        "another durability": (memory, Way(options=(("durability", "sync"),))),
        "on a loop": (memory, Way(runner)),
        "on disk": (sqlite, Way()),
        "on disk and a loop": (sqlite, Way(runner, options=(("durability", "sync"),))),
        "stopped before each step": (memory, Way(options=(("interrupt_before", "*"),))),
        "stopped behind each step": (sqlite, Way(options=(("interrupt_after", "*"),))),
        "stopped behind each step on a loop": (memory, Way(runner, options=(("interrupt_after", "*"),))),
        "left after each thing told": (memory, Way(close_streams=True)),
        "left after each thing told on a loop": (sqlite, Way(runner, close_streams=True)),
        "left after each thing told, in sync": (memory, Way(close_streams=True, options=(("durability", "sync"),))),
        "answered one by one": (sqlite, Way(one_answer_at_a_time=True)),
    }
    for what, (saver, way) in ways.items():
        found, history = ran(shape, saver, way)
        assert found == values, what
        assert history == expected, what


@contextmanager
def nothing_by_chance() -> Iterator[pytest.MonkeyPatch]:
    """Ids and versions that follow from what was before, and one time for all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ids, "checkpoint_id", lambda _, after=None: f"{int(after or '0', 16) + 1:032x}")
        patch.setattr(ids, "version_after", lambda current: f"{int(current or 0) + 1:032}")
        patch.setattr(ids, "timestamp", lambda _=None: "2026-01-01T00:00:00.000000+00:00")
        yield patch


@settings(max_examples=30)
@given(shape=shapes())
@example(shape=Shape((Step(edges=(1,)), Step(asks=1, edges=(2,)), Step(routes=((1,), ()), edges=(3,)), Step(words=0))))
def test_what_is_said_briefly_is_what_would_have_been_stored(
    shape: Shape, runner: asyncio.Runner, sqlite: SqliteSaver
) -> None:
    """By a journal, and by a step that says only what it has not in common with the last one."""
    for way, on_disk in itertools.product((Way(), Way(runner, close_streams=True)), (False, True)):
        stored = []
        for brief, follows in ((False, False), (False, True), (True, True)):
            saver: Any = sqlite if on_disk else InMemorySaver()
            graph = built(shape, saver, coroutines=way.runner is not None)
            assert graph.plan.is_brief
            graph.plan.is_brief = brief
            config: Any = {"configurable": {"thread_id": "1"}}
            sqlite.delete_thread("1")
            with nothing_by_chance() as patch:
                if not follows:
                    patch.setattr(Writer, "follow", lambda *_: False)
                way.finish(graph, config)
                stored.append(list(saver.list(config)))
        assert stored[1:] == stored[:1] * 2


@settings(max_examples=30)
@given(shape=shapes())
@example(shape=Shape((Step(edges=(1,)), Step(asks=1, edges=(2,)), Step(routes=((1,), ()), edges=(3,)), Step(words=0))))
def test_the_last_checkpoint_of_a_run_is_the_same_if_it_is_made_at_the_end(
    shape: Shape, runner: asyncio.Runner, sqlite: SqliteSaver
) -> None:
    exit: Any = (("durability", "exit"),)
    for way in (Way(options=exit), Way(runner, options=exit), Way(options=exit, close_streams=True)):
        found = []
        for at_the_end in (False, True):
            graph = built(shape, sqlite, coroutines=way.runner is not None)
            assert graph.plan.is_steady
            graph.plan.is_steady = at_the_end
            config: Any = {"configurable": {"thread_id": str(next(threads))}}
            way.finish(graph, config)
            found.append(trace(built(shape, sqlite, coroutines=False), sqlite, config))
        assert found[0] == found[1]


@settings(max_examples=20)
@given(shape=shapes())
def test_exit_gives_the_same_state(shape: Shape, runner: asyncio.Runner, sqlite: SqliteSaver) -> None:
    values, _ = ran(shape, InMemorySaver(), Way())
    for saver, way in (
        (InMemorySaver(), Way(options=(("durability", "exit"),))),
        (sqlite, Way(runner, options=(("durability", "exit"),))),
        (sqlite, Way(options=(("durability", "exit"), ("interrupt_after", "*")))),
        (sqlite, Way(runner, close_streams=True, options=(("durability", "exit"),))),
    ):
        assert ran(shape, saver, way)[0] == values


@settings(max_examples=25)
@given(shape=shapes(), place=st.integers(0, 20))
@example(shape=Shape((Step(asks=2), Step(asks=1), Step()), entries=(0, 1), barriers=(((0, 1), 2),)), place=2)
def test_a_replay_from_any_checkpoint_is_the_same_again(
    shape: Shape, place: int, runner: asyncio.Runner, sqlite: SqliteSaver
) -> None:
    for saver, way in ((InMemorySaver(), Way()), (sqlite, Way(runner, options=(("durability", "sync"),)))):
        graph = built(shape, saver, coroutines=way.runner is not None)
        config = {"configurable": {"thread_id": str(next(threads))}}
        way.finish(graph, config)
        reader = built(shape, saver, coroutines=False)
        stored, before = list(saver.list(config)), trace(reader, saver, config)
        number = place % len(before)
        chosen = list(reader.get_state_history(config))[number]
        way.finish(graph, config, None, chosen.config)
        assert list(saver.list(config))[-len(stored) :] == stored, "the past has changed"
        after = trace(reader, saver, config)[: -len(before)]
        assert [shown(one) for one in after] == [shown(one) for one in before[: number + 1]]
        assert [one["metadata"]["step"] for one in after] == [
            one["metadata"]["step"] + 1 for one in before[: number + 1]
        ]
        fork = after[-1]["metadata"]
        assert (fork["source"], fork["writes"]) == ("fork", None)


def shown(one: Any) -> Any:
    """What a replay must repeat of a checkpoint."""
    return {key: one[key] for key in ("values", "next", "tasks")}


# -- programs: whatever people do to a thread, every saver and colour gives one tree of checkpoints

places = st.one_of(st.none(), st.integers(0, 30))
nodes = st.integers(0, 4)
operations = st.one_of(
    st.tuples(st.just("input"), places, st.none()),
    st.tuples(st.just("go on"), places, st.none()),
    st.tuples(st.just("answer"), places, st.none()),
    st.tuples(st.just("goto"), places, nodes),
    st.tuples(st.just("change"), places, nodes),
    st.tuples(st.just("update"), places, st.one_of(st.none(), nodes)),
    st.tuples(st.just("copy"), places, st.none()),
    st.tuples(st.just("end"), places, st.none()),
)


def did(way: Way, graph: Any, config: Any, operation: Any) -> str:
    """Do one thing to a thread; what came of it, if it was an error."""
    what, place, node = operation
    history = way.history(graph, config)
    at = config if place is None or not history else history[place % len(history)].config
    where = None if node is None else name(node)
    try:
        match what:
            case "input":
                way.turn(graph, INPUT, at)
            case "go on":
                way.turn(graph, None, at)
            case "answer":
                open_ = way.call(graph, "get_state", at).interrupts
                way.turn(graph, Command(resume={one.id: f"!{one.value}" for one in open_}), at)
            case "goto":
                way.turn(graph, Command(goto=where), at)
            case "change":
                way.turn(graph, Command(update={"log": [f"changed {node}"]}), at)
            case "update":
                way.call(graph, "update_state", at, {"log": [f"spoken for {where}"]}, as_node=where)
            case "copy":
                way.call(graph, "update_state", at, None, as_node="__copy__")
            case "end":
                way.call(graph, "update_state", at, None, as_node="__end__")
    except Exception as error:
        return type(error).__name__
    return "done"


def tree(history: list[Any]) -> list[Any]:
    """A history with the places of parents in it."""
    numbers = {one.config["configurable"]["checkpoint_id"]: number for number, one in enumerate(reversed(history))}
    return [one.parent_config and numbers[one.parent_config["configurable"]["checkpoint_id"]] for one in history]


@settings(max_examples=25)
@given(shape=shapes(), program=st.lists(operations, min_size=1, max_size=6))
def test_any_program_makes_the_same_tree(
    shape: Shape, program: list[Any], runner: asyncio.Runner, sqlite: SqliteSaver
) -> None:
    results = []
    for saver, way in (
        (InMemorySaver(), Way()),
        (sqlite, Way()),
        (InMemorySaver(), Way(runner)),
        (sqlite, Way(runner, options=(("durability", "sync"),))),
    ):
        graph = built(shape, saver, coroutines=way.runner is not None)
        config = {"configurable": {"thread_id": str(next(threads))}}
        outcomes = [did(way, graph, config, ("input", None, None))]
        outcomes += [did(way, graph, config, operation) for operation in program]
        reader = built(shape, saver, coroutines=False)
        history = list(reader.get_state_history(config))
        state = reader.get_state(config)
        results.append((outcomes, tree(history), trace(reader, saver, config), state.values, state.next))
    for other in results[1:]:
        assert other == results[0]
