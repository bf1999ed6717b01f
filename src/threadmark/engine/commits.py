"""What becomes of a superstep: a checkpoint, a note of one, or nothing that outlives it (spec 3.1, 9)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from threadmark import ids
from threadmark.channels import MISSING
from threadmark.checkpoint.base import UNSET, NextStep, Step, TaskWrites
from threadmark.engine.deltas import COUNTERS, snapshots
from threadmark.engine.legacy import CURRENT
from threadmark.engine.names import NO_WRITES, PULL, TASKS, pulled_id
from threadmark.engine.run import Run, Unmade
from threadmark.engine.stored import name_writers, storable
from threadmark.engine.task import Task
from threadmark.tuples import tuple_of


def _config(run: Run, checkpoint_id: str | None) -> Any:
    """The config for the saver: the user's, addressed to ``checkpoint_id`` (spec 9)."""
    if run.saver_config is None:
        config = run.config
        run.saver_config = {
            "configurable": {
                **config.configurable,
                "thread_id": config.require_thread_id,
                "checkpoint_ns": run.ns,
            },
            "metadata": dict(config.metadata),
        }
    base = run.saver_config
    return {
        "configurable": {**base["configurable"], "checkpoint_id": checkpoint_id},
        "metadata": base["metadata"],
    }


def _about(run: Run) -> Any:
    """Config and metadata that all supersteps of a run have, but for the numbers in them."""
    if run.about is None:
        run.about = (_config(run, None), _metadata(run, "loop"))
    return run.about


def _stored_at(run: Run) -> str | None:
    """The checkpoint whose tasks run now, None where there is none."""
    return run.known_id if run.unmade is None else run.checkpoint_id


async def store_tasks(run: Run, writes: Sequence[TaskWrites]) -> None:
    """Hand what finished tasks wrote to the saver."""
    if run.saving is not None and writes:
        try:
            await run.saving.tasks(_config(run, _stored_at(run)), writes)
        except Exception as error:
            name_writers(error, [*run.tasks, *run.called])
            raise


def hold(run: Run, writes: Sequence[TaskWrites]) -> None:
    """Keep what tasks wrote as it is now, where a reducer of the user's could change it in place (spec 8.3)."""
    if run.saving is not None and writes and run.plan.reducers_are_foreign:
        try:
            run.saving.hold(_config(run, _stored_at(run)), writes)
        except Exception as error:
            name_writers(error, [*run.tasks, *run.called])
            raise


async def commit(
    run: Run,
    source: str,
    writes: Sequence[TaskWrites],
    *,
    shown: Any = None,
    parent: Any = MISSING,
    applied: Sequence[Any] = (),
) -> None:
    """Make a checkpoint of the state as it is now; it supersedes the one whose tasks have run.

    ``writes`` are those of its parent's tasks that are not stored yet, ``shown`` what snapshots show as its
    ``writes`` when they cannot be derived. ``parent``: another parent than the current checkpoint. ``applied``:
    the tasks whose writes made the new state.
    """
    if run.saving is None:
        go_on(run)
        return
    state, run.journal, run.unmade = run.state, None, None
    if source == "loop" and shown is None and parent is MISSING and await _follow(run, writes, applied):
        return
    if run.cadence is not None:
        run.cadence.count(state.moved, (write for task in applied for write in task.writes))
        if run.durability == "exit" and (run.addressed or run.replay is not None):
            run.cadence.force(state.moved)  # writes on its base would be read by the base's other branches
    parent_id = run.known_id if parent is MISSING else parent
    whole = {} if run.cadence is None else _snapshots(run)
    after, head = run.newest, run.head
    if head is not UNSET and head != after:
        after = max(filter(None, (after, head)), default=None)
    id = ids.checkpoint_id(run.step, after)
    checkpoint, new_versions = _checkpoint(run, id)
    metadata = _metadata(run, source)
    if run.cadence is not None and (counts := run.cadence.metadata()):
        metadata[COUNTERS] = counts
    checkpoint["channel_values"].update(whole)
    looked, state.looked = state.looked, set()
    # Other checkpoints than those of the loop may hang on another one than the state was loaded from.
    known = looked if source == "loop" else None
    config = _config(run, parent_id)
    lengthened, run.lengthened = run.lengthened or {}, None
    step = tuple_of(Step, (config, checkpoint, metadata, new_versions, writes, shown, head, known, lengthened))
    if head is not UNSET:
        run.head = id
    run.known_id = run.newest = id
    run.parent_id = run.stored_id if run.durability == "exit" else parent_id
    run.metadata_stored = metadata
    try:
        await run.saving.superstep(step)
    except Exception as error:
        name_writers(error, applied)
        raise


async def _follow(run: Run, writes: Sequence[TaskWrites], applied: Sequence[Any]) -> bool:
    """``commit`` of a superstep that follows the last one, in half as many steps; False where it needs more."""
    state, head, saving = run.state, run.head, run.saving
    if run.cadence is not None or state.unknown or run.plan.untracked or run.known_id is None or saving is None:
        return False
    if head is not UNSET and head != run.newest:
        return False
    parent, updated, lengthened = run.known_id, run.updated, run.lengthened
    values, new_versions = _moved(run)
    id = ids.checkpoint_id(run.step, run.newest)
    step = tuple_of(
        NextStep,
        (
            id,
            time.time_ns(),
            run.step,
            writes,
            new_versions,
            dict(state.versions),
            dict(state.seen),
            dict(values),
            None if updated is None else sorted(updated),
            state.looked,
            lengthened or {},
            head,
        ),
    )
    try:
        if not saving.follow(_about(run), parent, step):
            return False
        state.looked, run.lengthened = set(), None
        state.moved.clear()
        _stored(run, id, parent)
        await saving.followed()
    except Exception as error:
        name_writers(error, applied)
        raise
    return True


def _stored(run: Run, id: str, parent: str | None) -> None:
    """The state is this checkpoint now."""
    if run.head is not UNSET:
        run.head = id
    run.known_id = run.newest = id
    run.parent_id = parent
    if "checkpoints" in run.sink.modes:
        run.metadata_stored = _metadata(run, "loop")


def put_off(run: Run, tasks: Sequence[Task], shown: Callable[[Run, Sequence[Task]], Any]) -> bool:
    """What ``commit`` comes to in ``exit``, where only the last checkpoint is stored: remember what it is made of.

    ``shown`` tells what they wrote. False where each has to be made: for the first of a run, and for who listens.
    """
    state, saving = run.state, run.saving
    assert saving is not None
    if "checkpoints" in run.sink.modes or not saving.put_off(partial(_last_step, run), state.moved):
        return False
    _moved(run)
    state.moved.clear()
    made_of = (run.step, dict(state.versions), dict(state.seen), run.updated, partial(shown, run, tasks))
    run.unmade = tuple_of(Unmade, made_of)
    run.known_id = None
    return True


def _last_step(run: Run) -> Step:
    """The run's last superstep, which was put off."""
    assert run.unmade is not None
    step, versions, seen, updated, shown = run.unmade
    values = {**(run.state.stored or {}), **run.state.unknown}
    checkpoint = _made(run.checkpoint_id, values, versions, seen, updated)
    metadata: Any = {**_metadata(run, "loop"), "step": step}
    looked = seen.keys() & run.state.looked  # a superstep that failed may have looked at something, too
    return Step(_config(run, None), checkpoint, metadata, {}, (), shown(), UNSET, looked)


def note(run: Run, task: Task) -> bool:
    """Note in a journal what a superstep of this one task has made of the state: a third of what ``commit`` costs.

    False where there is none, or it does not take this: then it is to be committed.
    """
    state, head = run.state, run.head
    if len(state.looked) != 1 or run.lengthened or task.path[0] != PULL:
        return False
    if head is not UNSET and head != run.known_id:
        return False
    journal = run.journal
    if journal is None:
        assert run.saving is not None
        journal = run.saving.journal(_about(run), partial(pulled_id, run.ns), guarded=head is not UNSET)
        if journal is None:
            return False
        run.journal, state.stored = journal, None
    id, updated, channels = ids.checkpoint_id(run.step, run.newest), run.updated, state.channels
    moved, emptied = [], []
    for name in state.moved:
        value = channels[name].checkpoint()
        if value is MISSING:
            emptied.append(name)
        else:
            moved.append((name, value))
    writes = task.writes or [(NO_WRITES, None)]
    path = task.path_str
    if not journal.note(
        id, time.time_ns(), run.step, task.name, path, task.triggers, state.top, updated, writes, moved, emptied
    ):
        run.brief = run.brief and not journal.refused
        return False
    state.moved.clear()
    state.looked.clear()
    _stored(run, id, run.known_id)
    return True


def go_on(run: Run) -> None:
    """What ``commit`` comes to without a saver: nobody asks what has changed, and ids are made up if need be."""
    run.state.moved.clear()
    run.state.looked.clear()
    run.forget_id()


def _metadata(run: Run, source: str) -> Any:
    metadata = {"source": source, "step": run.step, "parents": run.parents}
    if run.stored_run_id is not None:
        metadata["run_id"] = run.stored_run_id
    return metadata


def _snapshots(run: Run) -> dict[str, Any]:
    """The delta channels that this checkpoint holds whole; in ``exit`` only the run's last one may."""
    assert run.cadence is not None
    if run.durability != "exit":
        return snapshots(run, run.cadence)
    saving: Any = run.saving
    saving.note_deltas(run.cadence, run.state, run.next_version)
    return {}


def _checkpoint(run: Run, id: str) -> tuple[Any, dict[str, Any]]:
    """The state as a checkpoint, and the new versions of what has moved since the last one."""
    state = run.state
    stored, new_versions = _moved(run)
    state.moved.clear()
    values = dict(stored)
    if state.unknown:
        values.update(state.unknown)
    if run.plan.untracked and TASKS in values:
        values[TASKS] = [storable(packet, run.plan.untracked) for packet in values[TASKS]]
    updated = run.updated
    return _made(id, values, dict(state.versions), dict(state.seen), updated), new_versions


def _made(id: str, values: Any, versions: Any, seen: Any, updated: Any) -> Any:
    return {
        "v": CURRENT,
        "id": id,
        "ts": ids.timestamp(),
        "channel_values": values,
        "channel_versions": versions,
        "versions_seen": seen,
        "updated_channels": None if updated is None else sorted(updated),
    }


def _moved(run: Run) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the channels hold now, and the new versions of those that have moved since the last checkpoint."""
    state = run.state
    channels, versions, stored = state.channels, state.versions, state.stored
    if stored is None:
        stored = state.stored = {}
        held = {name: channels[name].checkpoint() for name in versions if name in channels}
        stored.update({name: value for name, value in held.items() if value is not MISSING})
    # Only what moved is asked again: of many channels a superstep moves a few.
    new_versions: dict[str, Any] = {}
    for name in state.moved:
        new_versions[name] = versions[name]
        value = channels[name].checkpoint()
        if value is not MISSING:
            stored[name] = value
        elif name in stored:
            del stored[name]
    return stored, new_versions


__all__ = ["commit", "go_on", "hold", "note", "put_off", "store_tasks"]
