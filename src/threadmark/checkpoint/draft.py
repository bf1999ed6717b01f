"""A step whose values are bytes already: what ``StepWriter.add`` makes in the caller's thread, without I/O."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast

import ormsgpack

from threadmark.checkpoint.base import (
    WRITES_IDX_MAP,
    Step,
    Unset,
    get_checkpoint_metadata,
    get_thread_id,
)
from threadmark.checkpoint.layout import Policy
from threadmark.checkpoint.plain import Typed, join
from threadmark.checkpoint.records import Columns, Ref
from threadmark.checkpoint.serde.errors import SerializationError
from threadmark.errors import DamagedRow

Dumps: TypeAlias = Callable[[Any], Typed]
Entry: TypeAlias = tuple[int, str, bytes]
"""One write of a task: place, channel, value."""

_KNOWN_KEYS: Final = frozenset(
    ("v", "id", "ts", "channel_values", "channel_versions", "versions_seen", "updated_channels")
)
_NO_VERSION: Final = object()
_INLINE: Final = Policy().inline
METADATA, SHOWN, MORE = "\0metadata", "\0writes", "\0checkpoint"
"""Names of asides."""


class TaskDraft(NamedTuple):
    """What one task wrote, by place. ``entries`` are as ``merge_entries`` leaves them."""

    task_id: str
    path: str
    entries: list[Entry]


class CheckpointDraft(NamedTuple):
    """A checkpoint whose new values are bytes; ``carried`` are those its parent has as well."""

    id: str
    versions: Mapping[str, Any]
    seen: Mapping[str, Mapping[str, Any]]
    updated: Sequence[str] | None
    plains: dict[str, bytes]
    carried: Mapping[str, Any]
    columns: Columns
    extra: bytes
    asides: Mapping[str, bytes]
    """Large parts that are stored like values, under names that no channel has."""


class StepDraft(NamedTuple):
    """One step: tasks of the checkpoint ``at`` (None only without tasks) and the checkpoint that follows it."""

    thread_id: str
    ns: str
    at: str | None
    tasks: Sequence[TaskDraft]
    checkpoint: CheckpointDraft | None
    expected_head: str | None | Unset
    builds: bool
    """Whether it may build on what is stored: a checkpoint does, and task writes do that are not small."""


def draft_step(
    step: Step, ref: Ref, dumps: Dumps, config_keys: Sequence[str], versions_before: Mapping[str, Any]
) -> StepDraft:
    """Turn every new value of a step into bytes. ``ref`` is what the step's config names.

    ``versions_before`` are the versions of the parent if they are known: a value whose version has not moved since
    is carried over and not encoded again.
    """
    thread_id, ns, at = ref
    tasks = [draft_task(task_id, path, writes, dumps) for task_id, path, writes in step.writes]
    if tasks and at is None:
        raise ValueError('task writes belong to a checkpoint: pass {"configurable": {"checkpoint_id": "...", ...}}')
    checkpoint, builds = None, True
    if step.checkpoint is not None:
        checkpoint = _draft_checkpoint(step, at, dumps, config_keys, versions_before)
    else:
        builds = any(len(plain) > _INLINE for task in tasks for _, _, plain in task.entries)
    return StepDraft(thread_id, ns, at, tasks, checkpoint, step.expected_head, builds)


def ref_of(config: Any) -> Ref:
    """What a config names. ValueError for a name that no database takes as text."""
    thread_id = get_thread_id(config)
    named = config["configurable"]
    ns, id = named.get("checkpoint_ns") or "", named.get("checkpoint_id") or None
    if not thread_id.isascii():
        text(thread_id, "thread_id")
    return Ref(thread_id, text(ns, "checkpoint_ns"), None if id is None else text(id, "checkpoint_id"))


def text(name: Any, what: str) -> str:
    """A name as text; ValueError unless it can be encoded as UTF-8."""
    if type(name) is not str:
        name = str(name)
    if not name.isascii() and not _encodes(name):
        raise ValueError(f"{what} must be text that UTF-8 can encode, not {name!r}")
    return str(name)


def _encodes(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def draft_task(task_id: str, path: str, writes: Sequence[tuple[str, Any]], dumps: Dumps) -> TaskDraft:
    """One call of ``put_writes`` as entries."""
    entries = list[Entry]()
    try:
        for channel, value in writes:
            entries.append((WRITES_IDX_MAP.get(channel, len(entries)), channel, join(dumps(value))))
    except SerializationError as error:
        raise located(error, channel) from None
    if len(entries) > 1 and any(entry[0] < 0 for entry in entries):
        entries = merge_entries((), entries)
    return TaskDraft(text(task_id, "task_id"), text(path, "task_path"), entries)


def merge_entries(old: Sequence[Entry], new: Sequence[Entry]) -> list[Entry]:
    """The writes of a task after one more call: a regular write stays, a special one gives way (spec 1.8)."""
    kept = {entry[0]: entry for entry in old}
    for entry in new:
        if entry[0] < 0 or entry[0] not in kept:
            kept[entry[0]] = entry
    return [kept[place] for place in sorted(kept)]


def _draft_checkpoint(
    step: Step, parent: str | None, dumps: Dumps, config_keys: Sequence[str], before: Mapping[str, Any]
) -> CheckpointDraft:
    checkpoint = cast("dict[str, Any]", step.checkpoint)
    versions = dict[str, Any](checkpoint["channel_versions"])
    new, plains, carried = step.new_versions, dict[str, bytes](), dict[str, Any]()
    try:
        for channel, value in checkpoint["channel_values"].items():
            version = versions.get(channel, _NO_VERSION)
            if version is _NO_VERSION:
                continue
            if channel in new or before.get(channel, _NO_VERSION) != version:
                plains[channel] = join(dumps(value))
            else:
                carried[channel] = value
    except SerializationError as error:
        raise located(error, channel) from None
    metadata = get_checkpoint_metadata(step.config, step.metadata or {}, config_keys)
    return CheckpointDraft(
        text(checkpoint["id"], "checkpoint id"),
        versions,
        {node: dict(seen) for node, seen in checkpoint["versions_seen"].items()},
        checkpoint.get("updated_channels"),
        plains,
        carried,
        _columns(parent, cast("dict[str, Any]", metadata), checkpoint.get("ts", "")),
        *_parts(checkpoint, metadata, step.shown_writes, dumps),
    )


def located(error: SerializationError, channel: str) -> SerializationError:
    """The same error with the channel in front of its paths: ``messages[3].extra: ...``."""
    return type(error)(
        [(f"{channel}{'' if path.startswith('[') or not path else '.'}{path}", why) for path, why in error.problems]
    )


def _columns(parent: str | None, metadata: Mapping[str, Any], ts: str) -> Columns:
    source, step, run_id = metadata.get("source"), metadata.get("step"), metadata.get("run_id")
    parents = metadata.get("parents")
    return Columns(
        parent,
        source if type(source) is str and _encodes(source) else None,
        step if type(step) is int and -(1 << 63) <= step < 1 << 63 else None,
        run_id if type(run_id) is str and _encodes(run_id) else None,
        text(ts, "ts"),
        json.dumps(parents) if parents else None,
    )


def _parts(
    checkpoint: Mapping[str, Any], metadata: Any, shown_writes: Any, dumps: Dumps
) -> tuple[bytes, dict[str, bytes]]:
    """Everything of a checkpoint that has no place of its own: small parts packed, large ones as asides."""
    more = {key: value for key, value in checkpoint.items() if key not in _KNOWN_KEYS}
    if "updated_channels" not in checkpoint:
        more["updated_channels"] = None  # absent, not None: the reader takes the key away again
    packed, asides = [checkpoint["v"]], dict[str, bytes]()
    for name, value in ((METADATA, metadata), (SHOWN, shown_writes), (MORE, more or None)):
        part = None if value is None else _dumped(value, name[1:], dumps)
        if part is not None and len(part) > _INLINE:
            asides[name], part = part, None
        packed.append(part)
    return ormsgpack.packb(packed), asides


def _dumped(value: Any, where: str, dumps: Dumps) -> bytes:
    try:
        return join(dumps(value))
    except SerializationError as error:
        raise located(error, where) from None


class Extra(NamedTuple):
    """The small parts of a checkpoint; None for one that is absent or an aside."""

    v: Any
    metadata: bytes | None
    shown: bytes | None
    more: bytes | None


def unpack_extra(data: bytes) -> Extra:
    """What the ``extra`` of a checkpoint row says."""
    return Extra(*unpacked(data))


def pack_entries(entries: Sequence[Sequence[Any]]) -> bytes:
    """The body of a task row: its entries, one msgpack array."""
    try:
        return ormsgpack.packb(entries)
    except TypeError:  # a channel whose name msgpack does not take as text
        return ormsgpack.packb([(at, name.encode("utf-8", "surrogatepass"), body) for at, name, body in entries])


def unpack_entries(data: bytes) -> list[Entry]:
    """The inverse of ``pack_entries``."""
    entries = unpacked(data)
    if entries and type(entries[0][1]) is bytes:
        return [(at, name.decode("utf-8", "surrogatepass"), body) for at, name, body in entries]
    return entries  # type: ignore[no-any-return]


def unpacked(data: bytes) -> Any:
    """What ``ormsgpack.packb`` made of our own lists; ``DamagedRow`` for anything else."""
    try:
        return ormsgpack.unpackb(data)
    except ValueError as error:
        raise DamagedRow(f"a stored row is no list of ours ({error}); restore the database from a backup") from error
