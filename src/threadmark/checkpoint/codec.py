"""From checkpoints to rows and back: pure, no I/O."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast

import ormsgpack

from threadmark.checkpoint.base import (
    WRITES_IDX_MAP,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    Step,
    get_checkpoint_id,
    get_checkpoint_metadata,
    get_thread_id,
)
from threadmark.checkpoint.records import CheckpointRow, Ref, TaskRow

Typed: TypeAlias = tuple[str, bytes]
Name: TypeAlias = "int | Typed"
"""Where a channel's value is: the id of a value row, or the value itself when it is small."""
Names: TypeAlias = dict[str, Name]
Entry: TypeAlias = "tuple[int, str, Typed]"
"""One write of a task: place, channel, value."""

INLINE: Final = 256
_SKELETON: Final = ("v", "id", "ts", "channel_versions", "versions_seen", "updated_channels")
_PACK: Final = ormsgpack.OPT_NON_STR_KEYS


class Draft(NamedTuple):
    """A step whose values are bytes already; where they will be stored is open."""

    ref: Ref
    parent: str | None
    skeleton: dict[str, Any]
    new: dict[str, Typed]
    carried: dict[str, Any]
    metadata: Typed
    meta: Mapping[str, Any]
    shown: Typed | None


class ValueIds:
    """Ids of value rows: rising, and never given out twice, by this process or another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def next(self) -> int:
        with self._lock:
            fresh = (time.time_ns() // 1000 & (1 << 47) - 1) << 16
            self._last = max(self._last + 1, fresh | int.from_bytes(os.urandom(2), "big"))
            return self._last


class Codec:
    """Turns values into bytes and back with one serializer."""

    def __init__(self, serde: Any, config_keys: Sequence[str]) -> None:
        self.serde = serde
        self.config_keys = config_keys

    def draft(self, step: Step) -> Draft:
        checkpoint, dumps = cast("dict[str, Any]", step.checkpoint), self.serde.dumps_typed
        thread_id = get_thread_id(step.config)
        ns = str(step.config["configurable"].get("checkpoint_ns") or "")
        values, versions = checkpoint["channel_values"], checkpoint["channel_versions"]
        new = {c: dumps(values[c]) for c in step.new_versions if c in values and c in versions}
        carried = {c: v for c, v in values.items() if c not in new and c in versions}
        meta = get_checkpoint_metadata(step.config, step.metadata or {}, self.config_keys)
        skeleton = {key: value for key, value in checkpoint.items() if key != "channel_values"}
        shown = None if step.shown_writes is None else dumps(step.shown_writes)
        ref = Ref(thread_id, ns, checkpoint["id"])
        return Draft(ref, get_checkpoint_id(step.config), skeleton, new, carried, dumps(meta), meta, shown)

    def place(self, draft: Draft, before: Mapping[str, tuple[Any, Name]], ids: ValueIds) -> tuple[Names, dict[int, bytes]]:
        """Where each channel's value is: in the row, in a new value row, or where the parent has it."""
        names: Names = {}
        rows: dict[int, bytes] = {}
        versions = draft.skeleton["channel_versions"]
        typed = dict(draft.new)
        for channel, version in versions.items():
            known = before.get(channel)
            if channel in typed:
                continue
            if known is not None and known[0] == version:
                names[channel] = known[1]
            elif channel in draft.carried:
                typed[channel] = self.serde.dumps_typed(draft.carried[channel])
        for channel, value in typed.items():
            if len(value[1]) <= INLINE:
                names[channel] = value
            else:
                id = ids.next()
                rows[id] = pack_typed(value)
                names[channel] = id
        return names, rows

    def row(self, draft: Draft, names: Names) -> CheckpointRow:
        body = ormsgpack.packb([draft.skeleton, names, draft.metadata, draft.shown], option=_PACK)
        meta, ref = draft.meta, draft.ref
        source, step, run_id = meta.get("source"), meta.get("step"), meta.get("run_id")
        return CheckpointRow(
            ref.thread_id,
            ref.ns,
            cast(str, ref.id),
            draft.parent,
            source if type(source) is str else None,
            step if type(step) is int else None,
            run_id if type(run_id) is str else None,
            str(draft.skeleton.get("ts", "")),
            body,
        )

    # -- task writes -------------------------------------------------------------------------------------------------

    def task_row(self, ref: Ref, task_id: str, path: str, writes: Sequence[tuple[str, Any]]) -> TaskRow:
        entries: list[Entry] = [
            (WRITES_IDX_MAP.get(channel, at), channel, self.serde.dumps_typed(value))
            for at, (channel, value) in enumerate(writes)
        ]
        return TaskRow(ref.ns, cast(str, ref.id), task_id, path, pack_entries(merge_entries((), entries)))

    def merge(self, old: TaskRow, new: TaskRow) -> TaskRow:
        body = pack_entries(merge_entries(unpack_entries(old.body), unpack_entries(new.body)))
        return new._replace(path=new.path or old.path, body=body)

    def writes(self, rows: Iterable[TaskRow]) -> list[PendingWrite]:
        """Pending writes by task path, task id and place (spec 1.8)."""
        loads = self.serde.loads_typed
        out: list[PendingWrite] = []
        for row in sorted(rows, key=lambda row: (row.path, row.task_id)):
            out += [(row.task_id, channel, loads(value)) for _, channel, value in unpack_entries(row.body)]
        return out

    # -- reading -----------------------------------------------------------------------------------------------------

    def open(self, row: CheckpointRow) -> Opened:
        skeleton, names, metadata, shown = ormsgpack.unpackb(row.body, option=_PACK)
        names = {c: n if isinstance(n, int) else (n[0], n[1]) for c, n in names.items()}
        return Opened(row, skeleton, names, (metadata[0], metadata[1]), shown)

    def metadata(self, opened: Opened) -> CheckpointMetadata:
        return cast(CheckpointMetadata, self.serde.loads_typed(opened.metadata))

    def tuple(self, opened: Opened, values: Mapping[int, bytes], tasks: Iterable[TaskRow]) -> CheckpointTuple:
        loads, row = self.serde.loads_typed, opened.row
        channel_values = {
            channel: loads(unpack_typed(values[name]) if isinstance(name, int) else name)
            for channel, name in opened.names.items()
        }
        found = CheckpointTuple(
            config_of(row.thread_id, row.ns, row.id),
            cast(Checkpoint, {**opened.skeleton, "channel_values": channel_values}),
            self.metadata(opened),
            config_of(row.thread_id, row.ns, row.parent) if row.parent else None,
            self.writes(tasks),
        )
        if opened.shown is not None:
            found.shown_writes = loads((opened.shown[0], opened.shown[1]))
        return found


class Opened(NamedTuple):
    """A checkpoint row taken apart; its values are still elsewhere."""

    row: CheckpointRow
    skeleton: dict[str, Any]
    names: Names
    metadata: Typed
    shown: Any

    def before(self) -> dict[str, tuple[Any, Name]]:
        """(version, place) by channel, for the checkpoint that follows."""
        versions = self.skeleton["channel_versions"]
        return {channel: (versions[channel], name) for channel, name in self.names.items()}


def config_of(thread_id: str, ns: str, id: str) -> Any:
    """The canonical config that names a checkpoint (spec 1.4)."""
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": id}}


def merge_entries(old: Iterable[Entry], new: Iterable[Entry]) -> list[Entry]:
    """The writes of a task after one more call: a regular write stays, a special one gives way (spec 1.8)."""
    kept = {entry[0]: entry for entry in old}
    for entry in new:
        if entry[0] < 0 or entry[0] not in kept:
            kept[entry[0]] = entry
    return [kept[place] for place in sorted(kept)]


def pack_entries(entries: Sequence[Entry]) -> bytes:
    return ormsgpack.packb(entries, option=_PACK)


def unpack_entries(body: bytes) -> list[Entry]:
    return [(at, channel, (tag, data)) for at, channel, (tag, data) in ormsgpack.unpackb(body, option=_PACK)]


def pack_typed(value: Typed) -> bytes:
    return ormsgpack.packb(value)


def unpack_typed(body: bytes) -> Typed:
    tag, data = ormsgpack.unpackb(body)
    return tag, data
