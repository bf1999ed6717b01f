"""What a run tells while it runs: events in the shapes of the stream modes (spec 10)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from threadmark.engine.messages import note_input, tell_new
from threadmark.engine.names import INTERRUPT, RETURN
from threadmark.engine.plan import Writes

if TYPE_CHECKING:
    from threadmark.engine.run import Run
    from threadmark.engine.task import Task

MODES: frozenset[str] = frozenset({"values", "updates", "checkpoints", "tasks", "debug", "messages", "custom"})
LIVE = frozenset({"custom", "messages", "tasks", "debug"})
"""Modes whose events must arrive while a node runs."""

Item = tuple[tuple[str, ...], str, Any]
"""Namespace levels, mode, payload."""


class Sink:
    """Gathers the events of a run and of the graphs called in it, until the caller takes them.

    Nodes in other threads and child runs add to it too; ``wake`` is set by a runner that waits for tasks. ``also``
    is the sink of an enclosing run that listens to its sub-graphs.
    """

    __slots__ = ("also", "asked", "heard", "items", "live", "modes", "root", "subgraphs", "typed", "wake")

    def __init__(self, modes: Iterable[str] = (), *, subgraphs: bool = False) -> None:
        self.asked = frozenset(modes)
        unknown = self.asked - MODES
        if unknown:
            raise ValueError(f"unknown stream mode {sorted(unknown)[0]!r}; choose from {', '.join(sorted(MODES))}")
        self.modes = self.asked | {"tasks", "checkpoints"} if "debug" in self.asked else self.asked
        self.subgraphs = subgraphs
        self.typed = False
        """Whether ``values`` are put into the form of the graph's schema (``version="v2"``)."""
        self.live = subgraphs or not LIVE.isdisjoint(self.modes)
        self.also: Sink | None = None
        self.heard: set[Any] = set()
        """Ids of the chat messages that were told already or were never new."""
        self.items: deque[Item] = deque()
        self.wake: Callable[[], None] | None = None
        self.root: Run | None = None
        """The run whose caller listens."""

    def join(self, also: Sink) -> None:
        """From now on tell it to ``also`` too."""
        self.also = also
        self.modes |= also.modes
        self.live = self.live or also.live
        self.heard = also.heard

    def add(self, run: Run, mode: str, payload: Any) -> None:
        """Add an event, if its mode was asked for and its graph is one that is listened to."""
        if self.also is not None:
            self.also.add(run, mode, payload)
        if run is not self.root and not self.subgraphs:
            return
        ns = run.levels[len(self.root.levels) :] if self.root is not None else run.levels
        if mode in self.asked:
            self.items.append((ns, mode, _typed(run, mode, payload) if self.typed else payload))
        if mode in DEBUG_TYPE and "debug" in self.asked:
            self.items.append((ns, "debug", _debug(run, mode, payload)))
        if self.wake is not None and self.items:
            self.wake()

    @property
    def subgraphs_heard(self) -> bool:
        """Whether anybody listens to the graphs called in this run."""
        return self.subgraphs or (self.also is not None and self.also.subgraphs_heard)

    def custom(self, run: Run, task: Task, payload: Any) -> None:
        """What a node hands to its stream writer."""
        if task.timeout is not None and task.timeout.refresh_on == "auto":
            task.sign_of_life()
        if "custom" in self.modes:
            self.add(run, "custom", payload)

    # -- events of the loop, by mode -----------------------------------------------------------------------------

    def task_started(self, run: Run, task: Task) -> None:
        """A task is about to run, or was found stored."""
        if "messages" in self.modes:
            note_input(task)
        if "tasks" in self.modes and not task.node.hidden:
            self.add(run, "tasks", started(task))

    def task_ended(self, run: Run, task: Task) -> None:
        """A task ended: its update, and its result."""
        if task.node.hidden or task.halted:
            return
        if "messages" in self.modes and task.ran and task.error is None and not task.interrupts:
            tell_new(task)
        if "updates" in self.modes:
            if task.interrupts and task.future_call:
                pass  # told as its caller's
            elif task.interrupts and not task.error:
                self.add(run, "updates", {INTERRUPT: task.interrupts})
            elif task.error is None:
                payload: dict[str, Any] = {task.name: outputs(task.writes, run.output_keys)}
                if task.stored:
                    payload["__metadata__"] = {"cached": True}
                self.add(run, "updates", payload)
        if "tasks" in self.modes and not task.stored:
            self.add(run, "tasks", ended(task, run.plan.stream_channels))


DEBUG_TYPE = {"checkpoints": "checkpoint", "tasks": "task"}


def _typed(run: Run, mode: str, payload: Any) -> Any:
    """The event's state in the form of its schema; ``values`` become a pair with the open questions."""
    if mode == "checkpoints":
        return {**payload, "values": typed(run.plan.typed_state, payload["values"])}
    if mode != "values":
        return payload
    asked: Any = ()
    if isinstance(payload, dict) and INTERRUPT in payload:
        asked = payload[INTERRUPT]
        payload = {key: value for key, value in payload.items() if key != INTERRUPT}
    return typed(run.plan.typed_state, payload), tuple(asked)


def typed(form: Callable[[dict[str, Any]], Any] | None, values: Any) -> Any:
    """Values in the form of a schema, if there is one and they are complete."""
    if form is None or not isinstance(values, dict):
        return values
    try:
        return form(values)
    except Exception:  # some required key has no value yet
        return values


def _debug(run: Run, mode: str, payload: Any) -> dict[str, Any]:
    kind = DEBUG_TYPE[mode]
    if kind == "task" and "result" in payload:
        kind = "task_result"
    return {
        "step": run.step - 1 if kind == "checkpoint" else run.step,
        "timestamp": datetime.now(UTC).isoformat(),
        "type": kind,
        "payload": payload,
    }


def started(task: Task) -> dict[str, Any]:
    """The ``tasks`` event of a start."""
    event: dict[str, Any] = {"id": task.id, "name": task.name, "input": task.input, "triggers": tuple(task.triggers)}
    metadata = {**task.run.config.metadata, **task.node.metadata}
    if tags := [*task.run.config.tags, *task.node.tags]:
        metadata["tags"] = tags
    if metadata:
        event["metadata"] = metadata
    return event


def ended(task: Task, channels: str | Sequence[str]) -> dict[str, Any]:
    """The ``tasks`` event of an end."""
    return {
        "id": task.id,
        "name": task.name,
        "error": task.error,
        "result": result_of(task.writes, channels),
        "interrupts": [
            {"value": question.value, "id": question.id, "response_schema": question.response_schema}
            for question in task.interrupts
        ],
    }


def result_of(writes: Writes, channels: str | Sequence[str]) -> Any:
    """A task's result as snapshots and the ``tasks`` stream show it: several writes to a key under ``$writes``."""
    if isinstance(channels, str):
        return _result_of_one(writes, channels)
    out: dict[str, Any] = {}
    several: set[str] = set()
    for name, value in writes:
        if name == RETURN:
            return {RETURN: value}
        if name not in channels:
            continue
        if name not in out:
            out[name] = value
        elif name in several:
            out[name]["$writes"].append(value)
        else:
            several.add(name)
            out[name] = {"$writes": [out[name], value]}
    return out


def _result_of_one(writes: Writes, channel: str) -> Any:
    for name, value in writes:
        if name == RETURN:
            return {RETURN: value}
    values = [value for name, value in writes if name == channel]
    return values[-1] if values else None


def outputs(writes: Writes, channels: str | Sequence[str]) -> Any:
    """A task's update as the ``updates`` stream shows it: a list of dicts when a key was written twice."""
    if isinstance(channels, str):
        return _outputs_of_one(writes, channels)
    rounds: list[dict[str, Any]] = []
    first: dict[str, Any] = {}
    for name, value in writes:
        if name == RETURN:
            return value
        if name not in channels:
            continue
        if name not in first:
            first[name] = value
            continue
        for seen in rounds:
            if name not in seen:
                seen[name] = value
                break
        else:
            rounds.append({name: value})
    return [first, *rounds] if rounds else first or None


def _outputs_of_one(writes: Writes, channel: str) -> Any:
    for name, value in writes:
        if name == RETURN:
            return value
    values = [value for name, value in writes if name == channel]
    return values[0] if len(values) == 1 else values or None


def shape(item: Item, mode: Any, *, subgraphs: bool, version: str = "v1") -> Any:
    """An event in the envelope that the caller's arguments ask for (spec 10.1)."""
    ns, kind, payload = item
    if version == "v2":
        return _second_shape(ns, kind, payload)
    if isinstance(mode, (list, tuple, set, frozenset)):
        return (ns, kind, payload) if subgraphs else (kind, payload)
    return (ns, payload) if subgraphs else payload


def _second_shape(ns: tuple[str, ...], kind: str, payload: Any) -> dict[str, Any]:
    event: dict[str, Any] = {"type": kind, "ns": ns, "data": payload}
    if kind == "values":
        event["data"], event["interrupts"] = payload
    return event


__all__ = ["Sink", "shape"]
