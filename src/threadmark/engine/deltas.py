"""Delta channels: rebuilding their values, and when a checkpoint holds one whole (spec 8)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from threadmark.channels import MISSING, DeltaChannel
from threadmark.channels.binop import overwritten
from threadmark.engine.legacy import CURRENT, upgraded
from threadmark.engine.plan import Plan, State, Writes
from threadmark.engine.port import SaverPort

if TYPE_CHECKING:
    from threadmark.engine.run import Run

COUNTERS = "counters_since_delta_snapshot"
MAX_SUPERSTEPS = int(os.environ.get("LANGGRAPH_DELTA_MAX_SUPERSTEPS_SINCE_SNAPSHOT") or 5_000)
"""Supersteps after which a delta channel is stored whole, updated or not: the bound of a rebuild."""


async def fetch(plan: Plan, port: SaverPort, config: Any) -> Any:
    """A stored checkpoint with the values of its delta channels in it."""
    return await hydrated(plan, port, await port.get_tuple(config))


def is_whole(plan: Plan, saved: Any) -> bool:
    """Whether a stored checkpoint is as ``hydrated`` would give it back, at a glance."""
    checkpoint = saved.checkpoint
    if checkpoint.get("v", 1) < CURRENT:
        return False
    values = checkpoint["channel_values"]
    for name in plan.reducers:
        value = values.get(name, MISSING)
        if value is MISSING and name in checkpoint["channel_versions"]:
            return False
        if type(value).__name__ == "_DeltaSnapshot":
            return False
    return True


async def hydrated(plan: Plan, port: SaverPort, saved: Any) -> Any:
    """The same checkpoint, with what is not stored in it rebuilt from its ancestors' writes (spec 8.3).

    A plain reducer channel is rebuilt too, when the key was a delta channel before (spec 8.9).
    """
    saved = upgraded(plan, saved)
    if saved is None or not plan.reducers:
        return saved
    values = saved.checkpoint["channel_values"]
    versions = saved.checkpoint["channel_versions"]
    rebuilt = {
        name: values[name].value
        for name in plan.reducers
        if type(values.get(name)).__name__ == "_DeltaSnapshot" and name not in plan.deltas
    }
    wanted = [name for name in plan.reducers if name in versions and name not in values]
    if wanted:
        history = await port.delta_history(saved.config, wanted)
        for name in wanted:
            rebuilt[name] = _rebuilt(plan.channels[name], history.get(name) or {})
    if not rebuilt:
        return saved
    checkpoint = {**saved.checkpoint, "channel_values": {**values, **rebuilt}}
    changed = saved._replace(checkpoint=checkpoint)
    if getattr(saved, "shown_writes", None) is not None:
        changed.shown_writes = saved.shown_writes
    if getattr(saved, "former_triggers", None) is not None:
        changed.former_triggers = saved.former_triggers
    return changed


def _rebuilt(spec: Any, history: Mapping[str, Any]) -> Any:
    seed = history.get("seed", MISSING)
    writes = history.get("writes", ())
    if isinstance(spec, DeltaChannel):
        channel = spec.from_checkpoint(seed)
        channel.replay_writes([write[2] for write in writes])
        return channel.snapshot()
    plain = spec.from_checkpoint(seed.value if type(seed).__name__ == "_DeltaSnapshot" else seed)
    for write in writes:
        plain.update([write[2]])
    return plain.checkpoint()


class Cadence:
    """When the delta channels of one run are stored whole: by updates, by supersteps, or because they must be."""

    def __init__(self, plan: Plan, metadata: Mapping[str, Any]) -> None:
        stored = metadata.get(COUNTERS) or {}
        self.plan = plan
        self.counts = {name: list(stored.get(name, (0, 0))) for name in plan.deltas}
        self.forced: set[str] = set()
        """Channels whose ancestors' stored writes do not lead to their value (spec 8.5)."""

    def force(self, names: Iterable[str]) -> None:
        """The next checkpoint must hold these channels whole."""
        self.forced.update(name for name in names if name in self.counts)

    def force_stored(self, pending: Mapping[str, Writes]) -> None:
        """This branch does not replay what is stored on its base: hold those channels whole."""
        self.force(name for writes in pending.values() for name, _ in writes)

    def count(self, updated: Iterable[str], writes: Iterable[tuple[str, Any]]) -> None:
        """A superstep has passed, which updated these channels with these writes."""
        changed = set(updated)
        for name, counts in self.counts.items():
            counts[1] += 1
            counts[0] += name in changed
        self.force(name for name, value in writes if name in self.counts and overwritten(value)[0])

    def due(self, state: State) -> dict[str, Any]:
        """Channel -> what a checkpoint made now would hold of it; those that need not be held are left out."""
        whole = {}
        for name, counts in self.counts.items():
            channel: Any = state.channels[name]
            spec: Any = self.plan.channels[name]
            reached = counts[0] >= spec.snapshot_frequency or counts[1] >= MAX_SUPERSTEPS
            # One that this branch has not written to may yet have writes on its base that belong to another branch.
            if (name in self.forced or (reached and name in state.versions)) and channel.is_available():
                whole[name] = channel.snapshot()
        return whole

    def held(self, names: Iterable[str]) -> None:
        """A checkpoint holds these whole: their counting begins anew."""
        for name in names:
            self.counts[name] = [0, 0]
        self.forced.clear()

    def metadata(self) -> dict[str, list[int]]:
        """The counts to store; those that are zero are left out."""
        return {name: list(counts) for name, counts in self.counts.items() if any(counts)}


def snapshots(run: Run, cadence: Cadence) -> dict[str, Any]:
    """The snapshots of a coming checkpoint.

    A saver stores values by version, so a channel that did not move gets a new version; who has seen the old one has
    seen the new one (spec 8.6).
    """
    state = run.state
    whole = cadence.due(state)
    for name in whole:
        if name not in state.moved:
            old = state.versions.get(name)
            state.top = state.versions[name] = run.next_version(state.top, None)
            state.moved.add(name)
            for node, seen in state.seen.items():
                if old is not None and seen.get(name) == old:
                    state.seen[node] = {**seen, name: state.top}
                    state.looked.add(node)
    cadence.held(whole)
    return whole


def prepared(plan: Plan, writes: Writes) -> Writes:
    """Writes with those to delta channels as they will be replayed."""
    channels: dict[str, Any] = plan.channels
    return [(name, channels[name].prepared(value) if name in plan.deltas else value) for name, value in writes]


def exit_task_id(step: int, task_id: str, *, first: bool) -> str:
    """The id under which a task's delta writes are stored when only the end of a run is (spec 8.7).

    Ids sort in the order of the supersteps; the first superstep's stay before the others.
    """
    tail = task_id.partition("-")[2]
    if first:
        return f"{step % 10**8:08d}-{tail}"
    return f"ffffffff-{step >> 16 & 0xFFFF:04x}-{step & 0xFFFF:04x}-{tail.split('-', 2)[2]}"


def exit_path(step: int, path: str, *, first: bool) -> str:
    """The path that goes with it: it orders writes before the id does."""
    return path if first else f"~~{step:010d}{path}"


__all__ = ["COUNTERS", "Cadence", "exit_path", "exit_task_id", "fetch", "hydrated", "prepared", "snapshots"]
