"""Checkpoints of LangGraph's older formats, as the engine knows them now (spec 1.9). Pure.

Formats 1 and 2 named triggers otherwise, formats below 4 kept packets beside the channels, and format 1, some of 2 too,
hashed task ids with SHA-1 and the old triggers. A checkpoint keeps its format number until the next one is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from threadmark import ids
from threadmark.checkpoint.base import CheckpointTuple, PendingWrite, copy_checkpoint
from threadmark.engine.names import BRANCH_TO, NO_WRITES, PULL, PUSH, TASKS
from threadmark.engine.plan import Plan

__all__ = ["CURRENT", "former_ids", "upgraded"]

CURRENT = 4
"""The format that is written."""
LAST_OF_FORMER_IDS = 2
_START_OF, _BRANCH, _JOIN = "start:", "branch:", "join:"


def upgraded(plan: Plan, saved: Any) -> Any:
    """A stored checkpoint whose channels and versions have today's names; one of today's format is itself."""
    if saved is None or saved.checkpoint.get("v", 1) >= CURRENT or getattr(saved, "former_triggers", None) is not None:
        return saved
    checkpoint: Any = copy_checkpoint(saved.checkpoint)
    former: dict[str, list[str]] = {}
    writes = saved.pending_writes
    if checkpoint["v"] < 3:
        former = _renamed(plan, checkpoint)
        writes = [write for old in writes or () for write in _rewritten(plan, *old)]
    sends = checkpoint.pop("pending_sends", None)
    if sends:
        checkpoint["channel_values"][TASKS] = list(sends)
        checkpoint["channel_versions"][TASKS] = max(checkpoint["channel_versions"].values())
    made = CheckpointTuple(*saved)._replace(checkpoint=checkpoint, pending_writes=writes)
    made.shown_writes = getattr(saved, "shown_writes", None)
    made.former_triggers = former
    return made


def _renamed(plan: Plan, checkpoint: Any) -> dict[str, list[str]]:
    """Give triggers their names of today; returns the former names that made each node due."""
    values, versions, seen = (checkpoint[key] for key in ("channel_values", "channel_versions", "versions_seen"))
    former: dict[str, list[str]] = {}
    for old in list(versions):
        if old.startswith(_JOIN):  # the one kind of trigger that kept its name
            node, version = old.rpartition(":")[2], versions[old]
            if old in values and version > seen.get(node, {}).get(old, ""):
                former.setdefault(node, []).append(old)
        for node in _targets(plan, old):
            new = BRANCH_TO + node
            version, last = versions[old], seen.get(node, {}).pop(old, None)
            if old in values and (last is None or version > last):
                former.setdefault(node, []).append(old)
            versions[new] = max(versions.get(new, version), version)
            if last is not None:
                seen[node][new] = max(seen[node].get(new, last), last)
            if old in values:
                values[new] = None
            stopped = seen.get("__interrupt__", {}).pop(old, None)
            if stopped is not None:
                seen["__interrupt__"][new] = max(seen["__interrupt__"].get(new, stopped), stopped)
    for old in [old for old in versions if any(_targets(plan, old)) or _is_former(plan, old)]:
        del versions[old]
        values.pop(old, None)
    return {node: sorted(names) for node, names in former.items()}


def _rewritten(plan: Plan, task_id: str, channel: str, value: Any) -> Iterator[PendingWrite]:
    """A stored write to a trigger under today's names; one that leads nowhere still says that its task has finished."""
    targets = list(_targets(plan, channel))
    if targets:
        yield from ((task_id, BRANCH_TO + node, None) for node in targets)
    elif _is_former(plan, channel):
        yield task_id, NO_WRITES, None
    else:
        yield task_id, channel, value


def _targets(plan: Plan, channel: str) -> Iterator[str]:
    """The nodes that a trigger of an old name makes due."""
    if channel.startswith(BRANCH_TO):
        return
    if channel.startswith(_START_OF):
        yield channel.removeprefix(_START_OF)
    elif channel.startswith(_BRANCH) and channel.count(":") >= 3:
        yield channel.rpartition(":")[2]
    elif _is_former(plan, channel):
        for written, _ in plan.nodes[channel].edges:
            if written.startswith(BRANCH_TO):
                yield written.removeprefix(BRANCH_TO)


def _is_former(plan: Plan, channel: str) -> bool:
    """Whether a channel is the one that a node of its name wrote when it had run."""
    return channel in plan.nodes and channel not in plan.channels


def former_ids(plan: Plan, saved: Any, own_ns: Callable[[str], str]) -> Mapping[str, str]:
    """Today's id of each task of a checkpoint of format 1, with the id that it had. ``own_ns`` is ``Run.child_ns``.

    Releases from 0.2 to 0.3.5 write format 2 with the ids of format 1, when they find a newer package of savers. So
    there those ids count under which something is stored.
    """
    if saved is None or saved.checkpoint.get("v", 1) > LAST_OF_FORMER_IDS:
        return {}
    found = _former_ids(plan, saved, own_ns)
    if saved.checkpoint.get("v", 1) == 1:
        return found
    stored = {task_id for task_id, *_ in saved.pending_writes or ()}
    return {made: former for made, former in found.items() if former in stored}


def _former_ids(plan: Plan, saved: Any, own_ns: Callable[[str], str]) -> dict[str, str]:
    id, step = saved.checkpoint["id"], str(int(saved.metadata.get("step", -2)) + 1)
    found = dict[str, str]()
    for node, triggers in (getattr(saved, "former_triggers", None) or {}).items():
        if node not in plan.nodes:
            continue
        head = (own_ns(node), step, node, PULL)
        found[ids.task_id(id, (*head, *plan.nodes[node].triggers))] = ids.legacy_task_id(id, (*head, *triggers))
    for number, send in enumerate(saved.checkpoint["channel_values"].get(TASKS) or ()):
        parts = (own_ns(send.node), step, send.node, PUSH, str(number))
        found[ids.task_id(id, parts)] = ids.legacy_task_id(id, parts)
    return found
