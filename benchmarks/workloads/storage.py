"""What is stored for a small change to a big value: one row of this table, one way in which states change."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TypedDict

from benchmarks.clock import milliseconds, stored
from benchmarks.counting import enabled
from benchmarks.registry import Figures, Workload, enter_all
from benchmarks.savers import saver
from benchmarks.systems import System
from benchmarks.words import message, messages, text

TURNS = 30
CONFIG: dict[str, Any] = {"configurable": {"thread_id": "grown"}, "recursion_limit": 200}

Reducer = Callable[[Any, Any], Any] | None


@dataclass(frozen=True, slots=True)
class Change:
    """A way in which a value changes: how it starts, what the node returns, what it must have become."""

    about: str
    start: Callable[[System], Any]
    output: Callable[[Any, int], Any]
    grown: Callable[[Any], bool]
    limit: float
    reducer: Callable[[System], Reducer] = lambda system: None


def state_type(reducer: Reducer) -> Any:
    value: Any = Any if reducer is None else Annotated[Any, reducer]
    return TypedDict("Held", {"value": value, "turn": int})  # type: ignore[operator]


def measure(system: System, *, change: Change) -> Figures:
    """Starts the thread with the big value, then weighs the turns that each change a little of it."""
    if enabled():
        return {}

    def node(state: dict[str, Any]) -> dict[str, Any]:
        return {"value": change.output(state["value"], state["turn"])}

    builder = system.StateGraph(state_type(change.reducer(system)))
    builder.add_node("change", node)
    builder.add_edge(system.START, "change")
    builder.add_edge("change", system.END)
    with saver(system, "sqlite") as opened:
        graph = builder.compile(checkpointer=opened)
        graph.update_state(CONFIG, {"value": change.start(system), "turn": 0}, as_node="change")
        graph.invoke({"turn": 0}, CONFIG)
        before = stored(system.database)
        for turn in range(1, TURNS + 1):
            graph.invoke({"turn": turn}, CONFIG)
        growth = stored(system.database) - before
        assert change.grown(graph.get_state(CONFIG).values["value"])
        return {
            "bytes/turn": growth / TURNS,
            "get_state ms": milliseconds(lambda: graph.get_state(CONFIG)),
        }


# ----------------------------------------------------------------------- values and what happens to them


def last_200(old: list[Any], new: list[Any]) -> list[Any]:
    return (old + new)[-200:]


def inserted(old: list[Any], new: list[Any] | tuple[int, Any]) -> list[Any]:
    if isinstance(new, list):
        return new
    at, item = new
    return [*old[:at], item, *old[at:]]


def merged(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    return {**(old or {}), **new}


def logged(old: dict[str, Any] | None, new: Any) -> dict[str, Any]:
    if isinstance(new, dict):
        return new
    return with_line(old, new)


def with_line(old: dict[str, Any] | None, line: object) -> dict[str, Any]:
    assert old is not None
    return {"scratch": {"log": [*old["scratch"]["log"], line]}}


def big_dict(system: System) -> dict[str, Any]:
    return {f"key {number:05}": number * 7919 for number in range(10_000)}


def growing_log(system: System) -> dict[str, Any]:
    return {"scratch": {"log": [text(150, number) for number in range(500)]}}


def chat(system: System) -> list[Any]:
    human, ai = chat_types()
    return [(human, ai)[n % 2](content=text(270, n), id=f"m{n:05}") for n in range(2_000)]


def chat_types() -> tuple[Any, Any]:
    from langchain_core.messages import AIMessage, HumanMessage

    return HumanMessage, AIMessage


def edited(old: list[Any], turn: int) -> list[Any]:
    at = random.Random(turn).randrange(len(old))
    return [type(old[at])(content=text(280, f"edit {turn}"), id=old[at].id)]


def is_long(length: int) -> Callable[[Any], bool]:
    return lambda value: len(value) == length


CHANGES = {
    "append": Change(
        "a list of 2,000 messages, one added by a reducer",
        start=lambda system: messages(2_000),
        output=lambda old, turn: [message(5_000 + turn)],
        grown=is_long(2_001 + TURNS),
        limit=4_000,
        reducer=lambda system: operator.add,
    ),
    "trim": Change(
        "a list trimmed to its last 200 messages, two added",
        start=lambda system: messages(200),
        output=lambda old, turn: [message(5_000 + 2 * turn), message(5_001 + 2 * turn)],
        grown=is_long(200),
        limit=4_000,
        reducer=lambda system: last_200,
    ),
    "edit": Change(
        "one old message of 2,000 edited by its id",
        start=chat,
        output=edited,
        grown=is_long(2_000),
        limit=6_000,
        reducer=lambda system: system.add_messages,
    ),
    "insert": Change(
        "one message inserted in the middle of 2,000",
        start=lambda system: messages(2_000),
        output=lambda old, turn: (len(old) // 2, message(5_000 + turn)),
        grown=is_long(2_001 + TURNS),
        limit=6_000,
        reducer=lambda system: inserted,
    ),
    "dict": Change(
        "a dict of 10,000 keys, one changed by a reducer",
        start=big_dict,
        output=lambda old, turn: {f"key {turn * 331 % 10_000:05}": -turn},
        grown=is_long(10_000),
        limit=6_000,
        reducer=lambda system: merged,
    ),
    "nested": Change(
        "a dict that holds a growing list, one line added by a reducer",
        start=growing_log,
        output=lambda old, turn: text(150, f"line {turn}"),
        grown=lambda value: len(value["scratch"]["log"]) == 501 + TURNS,
        limit=6_000,
        reducer=lambda system: logged,
    ),
    "whole.append": Change(
        "a list of 2,000 messages returned whole with one more, no reducer",
        start=lambda system: messages(2_000),
        output=lambda old, turn: [*old, message(5_000 + turn)],
        grown=is_long(2_001 + TURNS),
        limit=6_000,
    ),
    "whole.trim": Change(
        "a list of 200 messages returned whole with two new and without two old, no reducer",
        start=lambda system: messages(200),
        output=lambda old, turn: [*old[2:], message(5_000 + 2 * turn), message(5_001 + 2 * turn)],
        grown=is_long(200),
        limit=4_000,
    ),
    "whole.dict": Change(
        "a dict of 10,000 keys returned whole with one changed, no reducer",
        start=big_dict,
        output=lambda old, turn: {**old, f"key {turn * 331 % 10_000:05}": -turn},
        grown=is_long(10_000),
        limit=6_000,
    ),
    "whole.nested": Change(
        "a dict that holds a growing list, returned whole with one line more, no reducer",
        start=growing_log,
        output=lambda old, turn: with_line(old, text(150, f"line {turn}")),
        grown=lambda value: len(value["scratch"]["log"]) == 501 + TURNS,
        limit=6_000,
    ),
}

enter_all(
    tuple(
        Workload(
            f"storage.{name}",
            partial(measure, change=change),
            change.about,
            limits={"bytes/turn": change.limit},
        )
        for name, change in CHANGES.items()
    )
)


# ----------------------------------------------------------------------- values that nobody touches


def loop(system: System, carried: dict[str, Any], steps: int) -> Figures:
    """A node that runs ``steps`` times; weighs the supersteps after the tenth, and the whole file."""
    if enabled():
        return {}
    fields = {"n": int, **dict.fromkeys(carried, Any)}
    builder = system.StateGraph(TypedDict("Carrying", fields))  # type: ignore[operator]
    builder.add_node("step", lambda state: {"n": state["n"] + 1})
    builder.add_edge(system.START, "step")
    builder.add_conditional_edges("step", lambda state: system.END if state["n"] >= steps else "step")
    with saver(system, "sqlite") as opened:
        graph = builder.compile(checkpointer=opened)
        settled = 0
        for update in graph.stream({"n": 0, **carried}, CONFIG, stream_mode="values", durability="sync"):
            if update["n"] == 10 and not settled:
                settled = stored(system.database)
        total = stored(system.database)
        values = graph.get_state(CONFIG).values
        assert values["n"] == steps
        assert len(values) == len(fields)
    return {"stored MB": total / 1e6, "bytes/superstep": (total - settled) / (steps - 10)}


def untouched_array(system: System) -> Figures:
    import numpy

    return loop(system, {"array": numpy.random.default_rng(0).random(1_000_000 // 8)}, 100)


def untouched_channels(system: System) -> Figures:
    return loop(system, {f"text_{number}": text(5_000, number) for number in range(20)}, 60)


enter_all(
    (
        Workload(
            "storage.untouched.array",
            untouched_array,
            "a numpy array of 1 MB that no node touches, 100 supersteps",
            limits={"stored MB": 1.2},
        ),
        Workload(
            "storage.untouched.channels",
            untouched_channels,
            "20 channels of 5 KB that no node touches, 60 supersteps",
            limits={"bytes/superstep": 2_000},
        ),
    )
)
