"""What a stored checkpoint says about the tasks that run from it, read without the graph that wrote it.

A checkpoint names no tasks. They follow from what stands in it: a node is due when a channel that triggers it is
newer than what the node has seen, and each packet of a fan-out is a task. The ids of tasks are hashes of just that
(spec 3.4), so a stored write whose task id comes out is known to belong to its node. What the graph's builder alone
knows stays unknown: breakpoints, a node that was renamed since, a join that nothing has reached yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from threadmark import ids
from threadmark.checkpoint.base import CheckpointTuple

UNKNOWN: Final = "?"
"""Stands for the node of a task whose id cannot be derived, such as a call of a functional task."""

_START, _SENDS, _TO, _JOIN = "__start__", "__pregel_tasks", "branch:to:", "join:"
_OLD: Final = re.compile("start:[^:]+$|branch:.+:.+:[^:]+$")
"""Triggers of LangGraph's formats 1 and 2 that name the node behind them."""
_ERROR, _QUESTION, _ANSWER = "__error__", "__interrupt__", "__resume__"
_SPECIAL: Final = frozenset({_ERROR, _QUESTION, _ANSWER, "__error_source_node__"})
_NO_STATE: Final = frozenset({"__no_writes__", "__pregel_push"})


@dataclass(frozen=True, slots=True)
class Question:
    """An open question of a node."""

    id: str
    value: Any
    response_schema: Any


@dataclass(frozen=True, slots=True)
class Task:
    """A task of the superstep that follows a checkpoint.

    ``status`` is ``finished``, ``failed``, ``asks`` or ``waiting``; ``writes`` are the (channel, value) pairs that it
    has stored; ``error`` is the repr of what it raised; ``sent`` its own input, for a packet of a fan-out.
    """

    id: str
    node: str
    status: str
    writes: tuple[tuple[str, Any], ...] = ()
    error: str | None = None
    questions: tuple[Question, ...] = ()
    sent: Any = None


@dataclass(frozen=True, slots=True)
class _Due:
    node: str
    parts: tuple[str, ...]
    sent: Any = None


def tasks(saved: CheckpointTuple) -> list[Task]:
    """The tasks that run, or ran, from a checkpoint, with what each of them has stored."""
    stored: dict[str, list[tuple[str, Any]]] = {}
    for task_id, channel, value in saved.pending_writes or ():
        stored.setdefault(task_id, []).append((channel, value))
    commands = stored.pop(ids.NULL_TASK_ID, [])
    answers = next((value for channel, value in commands if channel == _ANSWER), None)
    ns = str(saved.config["configurable"].get("checkpoint_ns", ""))
    found = []
    for due in _due(saved, commands):
        id = _task_id(saved, ns, due)
        found.append(_task(id, due, stored.pop(id, []), answers, ns))
    return found + [_task(id, _Due(UNKNOWN, ()), writes, answers, ns) for id, writes in stored.items()]


def to_run(found: Sequence[Task]) -> list[str]:
    """``next``: nodes of the tasks that have not finished; of all, when only the following checkpoint is missing."""
    due = [task for task in found if task.node != UNKNOWN]
    return [task.node for task in due if task.status != "finished"] or [task.node for task in due]


def outputs(found: Iterable[Task]) -> dict[str, Any]:
    """What tasks wrote to the state, by node; a list for a node that ran several times."""
    by_node: dict[str, list[Any]] = {}
    for task in found:
        if task.status == "finished" and task.node != _START:
            by_node.setdefault(task.node, []).append(output(task.writes))
    return {node: written[0] if len(written) == 1 else written for node, written in by_node.items()}


def output(writes: Iterable[tuple[str, Any]]) -> Any:
    """Writes to the state as a node returned them: without triggers and other notes of the engine."""
    kept = [(channel, value) for channel, value in writes if is_state(channel)]
    if [channel for channel, _ in kept] == ["__root__"]:
        return kept[0][1]
    return dict(kept) or None


def is_state(channel: str) -> bool:
    """Whether a channel belongs to the user rather than to the engine."""
    return not channel.startswith((_TO, _JOIN)) and channel not in (_START, _SENDS, *_SPECIAL, *_NO_STATE)


def is_weighed(channel: str) -> bool:
    """Whether a channel's value counts as the size of a checkpoint: the state, and the input before it is taken in."""
    return channel == _START or is_state(channel)


# -- which tasks are due ---------------------------------------------------------------------------------------------


def _due(saved: CheckpointTuple, commands: Sequence[tuple[str, Any]]) -> Iterator[_Due]:
    values = saved.checkpoint["channel_values"]
    # Formats below 4 keep packets beside the channels.
    packets: Any = values.get(_SENDS) or saved.checkpoint.get("pending_sends") or ()
    sends = [*packets, *(value for channel, value in commands if channel == _SENDS)]
    for number, send in enumerate(sends):
        yield _Due(send.node, (send.node, "__pregel_push", str(number)), send.arg)
    gone_to = {channel.removeprefix(_TO) for channel, _ in commands if channel.startswith(_TO)}
    triggered = {node for channel, node in _triggers(saved) if _fires(saved, channel, node)}
    for node in sorted(triggered | gone_to):
        yield _Due(node, (node, "__pregel_pull", *_triggers_of(saved, node)))


def _triggers(saved: CheckpointTuple) -> Iterator[tuple[str, str]]:
    """Channels that trigger a node, by what their names say."""
    versions = saved.checkpoint["channel_versions"]
    for channel in versions:
        if channel.startswith(_TO):
            yield channel, channel.removeprefix(_TO)
        elif channel.startswith(_JOIN) or (_is_old(saved) and _OLD.match(channel)):
            yield channel, channel.rpartition(":")[2]
        elif channel == _START:
            yield channel, _START


def _triggers_of(saved: CheckpointTuple, node: str) -> list[str]:
    """All triggers of a node that can be known; every node but the hidden first one has a channel of its own."""
    if node == _START:
        return [_START]
    if _is_old(saved):
        return sorted(channel for channel, to in _triggers(saved) if to == node and _fires(saved, channel, node))
    return sorted({_TO + node, *(channel for channel, target in _triggers(saved) if target == node)})


def _is_old(saved: CheckpointTuple) -> bool:
    """Whether triggers and task ids are those of LangGraph's formats 1 and 2. There a plain edge names no end."""
    return bool(saved.checkpoint.get("v", 4) < 3)


def _fires(saved: CheckpointTuple, channel: str, node: str) -> bool:
    values = saved.checkpoint["channel_values"]
    if channel not in values or not _is_available(channel, values[channel]):
        return False
    seen = saved.checkpoint["versions_seen"].get(node, {}).get(channel)
    version: Any = saved.checkpoint["channel_versions"][channel]
    return seen is None or version > seen


def _is_available(channel: str, value: Any) -> bool:
    """Whether a trigger is complete: joins wait for all their sources, deferred nodes for everybody else."""
    if isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[1], bool):
        value, finished = value
        if not finished:
            return False
    if not channel.startswith(_JOIN):
        return True
    sources = channel.removeprefix(_JOIN).rpartition(":")[0]
    arrived = [str(name) for name in value or ()]
    # Names may hold a plus sign themselves, so lengths are compared rather than parts.
    return len("+".join(arrived)) == len(sources) and all(name in sources for name in arrived)


def _task_id(saved: CheckpointTuple, ns: str, due: _Due) -> str:
    own = f"{ns}|{due.node}" if ns else due.node
    step = str(int(saved.metadata.get("step", -2)) + 1)
    make = ids.legacy_task_id if _is_old(saved) else ids.task_id
    return make(saved.checkpoint["id"], (own, step, *due.parts))


# -- what one of them has stored -------------------------------------------------------------------------------------


def _task(id: str, due: _Due, writes: Sequence[tuple[str, Any]], answers: Any, ns: str) -> Task:
    stored = dict(writes)
    finished = any(channel not in _SPECIAL for channel, _ in writes)
    error = stored.get(_ERROR)
    taken = stored.get(_ANSWER)
    questions = () if finished else tuple(_open(stored.get(_QUESTION), _answered(id, due.node, ns, taken, answers)))
    status = "finished" if finished else "failed" if error is not None else "asks" if questions else "waiting"
    kept = tuple((channel, value) for channel, value in writes if channel not in _SPECIAL)
    return Task(id, due.node, status, kept, None if error is None else str(error), questions, due.sent)


def _answered(id: str, node: str, ns: str, taken: Any, answers: Any) -> set[str]:
    """Ids of the questions that have their answer: taken by the task already, or given and not yet taken."""
    given = set(answers) if isinstance(answers, Mapping) else set()
    own = f"{ns}|{node}:{id}" if ns else f"{node}:{id}"
    return given | {ids.interrupt_id(own, number) for number in range(len(taken or ()))}


def _open(asked: Any, answered: set[str]) -> Iterator[Question]:
    for question in asked if isinstance(asked, list | tuple) else [asked] if asked is not None else []:
        if question.id not in answered:
            yield Question(question.id, question.value, question.response_schema)
