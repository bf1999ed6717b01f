"""Threads with delta channels, for tests that count what rebuilding them takes."""

from __future__ import annotations

import random
from typing import Any

from threadmark.checkpoint.base import Step
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.serde.types import _DeltaSnapshot

COUNTERS = "counters_since_delta_snapshot"


def grown(saver: Any, length: int, *, told: bool) -> Any:
    """A thread whose newest checkpoint is ``length`` supersteps behind a snapshot, each with writes worth a segment."""
    chance = random.Random(7)

    def text() -> str:
        return "".join(chance.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=3000))

    writer, parent = saver.open_writer(config()), None
    for number in range(-20, length + 1):
        whole: Any = {"d": _DeltaSnapshot([text()])} if number in (-20, 0) else {}
        versions = {"d": f"{number + 21:032}", "same": "1"}
        made = checkpoint({**whole, "same": "x" * 2000}, versions)
        counters: Any = {} if number in (-20, 0) or not told else {COUNTERS: {"d": [number, number]}}
        writer.add(Step(config("t", parent), made, {"step": number, **counters}, versions))
        parent = made["id"]
        tasks = [(f"task {at}", f"~{at}", [("d", [text()]), ("other", 1)]) for at in range(2)]
        writer.add(Step(config("t", parent), writes=tasks))
    writer.flush()
    return config("t", parent)


def patched(saver: Any) -> Any:
    """A thread whose stored values and writes are long, and stored as what they have in common with earlier ones.

    A plain channel goes with the delta channel, as before a migration.
    """
    chance, parent, whole = random.Random(3), None, list[str]()
    for number in range(41):
        whole.append("".join(chance.choices("abcdefghijklmnopqrstuvwxyz ", k=2500)))
        kept: Any = {"d": _DeltaSnapshot(list(whole))} if number % 10 == 0 else {}
        plain: Any = {"p": whole[:number]} if number < 30 else {}
        versions = {"d": number + 1, "p": min(number, 31) + 1}
        saver_at = config("t", parent)
        parent = saver.put(saver_at, checkpoint({**kept, **plain}, versions), {}, versions)["configurable"][
            "checkpoint_id"
        ]
        at = config("t", parent)
        for task in range(2):
            saver.put_writes(at, [("d", [f"{number}", *whole[task:]]), ("p", whole[task:])], f"task {task}")
    made = checkpoint({}, {"d": 99, "p": 99})
    return saver.put(config("t", parent), made, {}, {})
