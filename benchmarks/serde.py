"""Serializers beside each other: what values cost to write and to read, and how many bytes they become.

``python -m benchmarks serde`` runs it in fresh processes, ``python -m benchmarks.serde`` is a quick look in one.
"""

from __future__ import annotations

import dataclasses
import gc
import importlib
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import ormsgpack
import pydantic
from langchain_core.messages import AIMessage, HumanMessage

from benchmarks.counting import enabled
from benchmarks.registry import Figures, Workload, enter_all
from benchmarks.systems import OURS, PEER, System

ROUNDS = 30


class Usage(pydantic.BaseModel):
    """A small model inside of another."""

    tokens: int
    share: float


class Message(pydantic.BaseModel):
    """A message as people model it."""

    id: str
    role: str
    content: str
    tags: list[str] = []
    extra: dict[str, Any] = {}


class Nested(Message):
    """A message with a model in it."""

    usage: Usage


@dataclasses.dataclass
class Step:
    """A step of an agent."""

    id: str
    tool: str
    result: str
    n: int


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """An object without a dict."""

    x: float
    y: float


CLASSES = [Usage, Message, Nested, Step, Point]


def _words(at: int) -> str:
    return f"word {at} " * (20 + at % 30)


def plain_dicts() -> Any:
    return {
        "messages": [
            {"role": "user" if at % 2 else "ai", "content": _words(at), "id": f"id-{at}", "n": at, "meta": {"a": None}}
            for at in range(100)
        ]
    }


def models() -> Any:
    return {
        "messages": [
            Message(id=f"id-{at}", role="ai", content=_words(at), tags=["a", "b"], extra={"n": at}) for at in range(100)
        ]
    }


def nested_models() -> Any:
    return [
        Nested(id=f"{at}", role="ai", content=_words(at), usage=Usage(tokens=at, share=at / 7)) for at in range(100)
    ]


def chat_messages() -> Any:
    kinds = (HumanMessage, AIMessage)
    return {"messages": [kinds[at % 2](_words(at), id=str(at)) for at in range(100)]}


def dataclass_steps() -> Any:
    return {"steps": [Step(f"id-{at}", "search", _words(at), at) for at in range(100)]}


def slotted_points() -> Any:
    return {"points": [Point(at / 3, at / 7) for at in range(100)]}


def array() -> Any:
    return {"weights": np.random.default_rng(0).random(131_072)}


def tuples() -> Any:
    return {"pairs": [("user", f"hello {at}") for at in range(100)]}


VALUES: dict[str, tuple[Callable[[], Any], float]] = {
    "dicts": (plain_dicts, 1),
    "pydantic": (models, 2),
    "pydantic nested": (nested_models, 2),
    "chat messages": (chat_messages, 2),
    "dataclasses": (dataclass_steps, 2),
    "slotted dataclasses": (slotted_points, 2),
    "numpy 1 MB": (array, 1),
    "tuples": (tuples, 0),
}
"""Name -> what makes the value, and how many times faster than the peer writing and reading together shall be."""


def measure(system: System, *, make: Callable[[], Any]) -> Figures:
    """Writing and reading one value, each alone and together."""
    module = importlib.import_module(f"{system.package}.checkpoint.serde.jsonplus")
    serde = module.JsonPlusSerializer(allowed_msgpack_modules=CLASSES)
    value = make()
    stored = serde.dumps_typed(value)
    assert type(serde.loads_typed(stored)) is type(value)
    if enabled():
        return {"bytes": len(stored[1])}
    dumps, loads = _microseconds(lambda: serde.dumps_typed(value)), _microseconds(lambda: serde.loads_typed(stored))
    figures = {"dumps us": dumps, "loads us": loads, "both us": dumps + loads}
    if make is plain_dicts and system.package == OURS:
        figures["dumps, times bare ormsgpack"] = dumps / _microseconds(lambda: ormsgpack.packb(value))
        figures["loads, times bare ormsgpack"] = loads / _microseconds(lambda: ormsgpack.unpackb(stored[1]))
    return figures


def _microseconds(run: Callable[[], object]) -> float:
    """The quickest of many rounds, each long enough for the clock: the machine can only make a round slower."""
    run()
    began = time.perf_counter()
    run()
    number = max(1, int(0.002 / (time.perf_counter() - began)))
    gc.collect()
    rounds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(number):
            run()
        rounds.append((time.perf_counter() - began) / number)
    return min(rounds) * 1e6


enter_all(
    tuple(
        Workload(
            f"serde.{name.replace(' ', '-')}",
            partial(measure, make=make),
            f"writes and reads {name}",
            goals={"both us": goal} if goal else {},
        )
        for name, (make, goal) in VALUES.items()
    )
)


def main() -> None:
    print(f"{'':22}{'ours':>24}{'peer':>24}   times faster")
    print(f"{'':22}{'dumps us':>12}{'loads us':>12}{'dumps us':>12}{'loads us':>12}   dumps loads  both")
    with tempfile.TemporaryDirectory() as folder:
        for name, (make, _) in VALUES.items():
            ours, peer = (measure(System(package, Path(folder)), make=make) for package in (OURS, PEER))
            times = [peer[metric] / ours[metric] for metric in ("dumps us", "loads us", "both us")]
            shown = "".join(f"{figures[m]:12.1f}" for figures in (ours, peer) for m in ("dumps us", "loads us"))
            print(f"{name:22}{shown}   {times[0]:5.2f} {times[1]:5.2f} {times[2]:5.2f}")
            for metric in ("dumps, times bare ormsgpack", "loads, times bare ormsgpack"):
                if metric in ours:
                    print(f"{'':22}{metric}: {ours[metric]:.2f}")


if __name__ == "__main__":
    main()
