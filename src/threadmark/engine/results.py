"""What a caller of a graph is handed: events in the shape that was asked for, and the output at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from threadmark.engine.loop import output
from threadmark.engine.run import Run
from threadmark.engine.stream import Sink, shape, typed
from threadmark.types import GraphOutput


def as_list(modes: Any) -> list[str]:
    """One stream mode or several, as a list."""
    return [modes] if isinstance(modes, str) else list(modes)


def listening(mode: Any, print_mode: Any, *, subgraphs: bool, version: str) -> Sink:
    """What collects the events of these modes during a run."""
    sink = Sink({*as_list(mode), *as_list(print_mode)}, subgraphs=subgraphs)
    sink.typed = version == "v2"
    return sink


def shaped(sink: Sink, mode: Any, print_mode: Any, *, subgraphs: bool, version: str) -> Iterator[Any]:
    """The waiting events in the caller's envelope; those of ``print_mode`` are printed."""
    wanted, printed = as_list(mode), as_list(print_mode)
    while sink.items:
        item = sink.items.popleft()
        if item[1] in printed:
            print(f"[{item[1]}] {item[2]}")  # noqa: T201  what print_mode is for
        if item[1] in wanted:
            yield shape(item, mode, subgraphs=subgraphs, version=version)


def print_waiting(sink: Sink) -> None:
    """Print the waiting events."""
    while sink.items:
        _, mode, payload = sink.items.popleft()
        print(f"[{mode}] {payload}")  # noqa: T201  what print_mode is for


def returned(run: Run, version: str) -> Any:
    """The output of a run that has ended or paused."""
    if version == "v2":
        found = output(run)
        if run.interrupts and isinstance(found, dict):
            found = {key: value for key, value in found.items() if key != "__interrupt__"}
        return GraphOutput(value=typed(run.plan.typed_output, found), interrupts=tuple(run.interrupts))
    return output(run)


__all__ = ["as_list", "listening", "print_waiting", "returned", "shaped"]
