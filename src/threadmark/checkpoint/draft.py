"""A step whose values are bytes already: what ``StepWriter.add`` makes in the caller's thread, without I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, Final, NamedTuple, Protocol, cast

from threadmark.checkpoint.base import WRITES_IDX_MAP, Step, Unset, get_checkpoint_metadata
from threadmark.checkpoint.entries import Entry, merge_entries
from threadmark.checkpoint.facts import Dumps, Facts, facts_of, located
from threadmark.checkpoint.layout import Policy
from threadmark.checkpoint.names import text
from threadmark.checkpoint.plain import join
from threadmark.checkpoint.records import Ref
from threadmark.checkpoint.serde.errors import SerializationError

INLINE: Final = Policy().inline
"""A value up to so many bytes is stored as it is: there is nothing to share with an earlier one."""
_NO_VERSION: Final = object()
_NOTHING: Final[Mapping[str, Any]] = {}
_NOT_WRITTEN: Final[tuple[Any, bytes]] = (_NO_VERSION, b"")


class Before(Protocol):
    """What is known of a step's parent."""

    @property
    def versions(self) -> Mapping[str, Any]: ...

    @property
    def seen(self) -> Mapping[str, Mapping[str, Any]]: ...


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
    plains: Mapping[str, bytes]
    carried: Mapping[str, Any]
    emptied: Set[str]
    """Channels that moved and have no value any more."""
    facts: Facts


class StepDraft(NamedTuple):
    """One step: tasks of the checkpoint ``at`` (None only without tasks) and the checkpoint that follows it."""

    thread_id: str
    ns: str
    at: str | None
    tasks: Sequence[TaskDraft]
    checkpoint: CheckpointDraft | None
    expected_head: str | None | Unset
    large: Set[str]
    """Channels and asides with a new value that may share bytes with an earlier one."""


def draft_step(step: Step, ref: Ref, dumps: Dumps, config_keys: Sequence[str], before: Before | None) -> StepDraft:
    """Turn every new value of a step into bytes. ``ref`` is what the step's config names.

    ``before`` is the parent if it is known: a value whose version has not moved since is carried over and not
    encoded again, and equal maps are shared.
    """
    thread_id, ns, at = ref
    large, written = set[str](), dict[str, tuple[Any, bytes]]()
    tasks = [_draft_task(task_id, path, writes, dumps, large, written) for task_id, path, writes in step.writes]
    if tasks and at is None:
        raise ValueError('task writes belong to a checkpoint: pass {"configurable": {"checkpoint_id": "...", ...}}')
    checkpoint = None
    if step.checkpoint is not None:
        checkpoint = _draft_checkpoint(step, at, dumps, config_keys, before, large, written)
    return StepDraft(thread_id, ns, at, tasks, checkpoint, step.expected_head, large)


def _draft_task(
    task_id: str,
    path: str,
    writes: Sequence[tuple[str, Any]],
    dumps: Dumps,
    large: set[str],
    written: dict[str, tuple[Any, bytes]],
) -> TaskDraft:
    """One call of ``put_writes`` as entries. ``written`` takes each channel's last value and its bytes."""
    entries, special = list[Entry](), False
    try:
        for channel, value in writes:
            plain = join(dumps(value))
            if len(plain) > INLINE:
                large.add(channel)
            written[channel] = (value, plain)
            place = WRITES_IDX_MAP.get(channel)
            special = special or place is not None
            entries.append((len(entries) if place is None else place, channel, plain))
    except SerializationError as error:
        raise located(error, channel) from None
    if special:
        entries = merge_entries((), entries)
    return TaskDraft(text(task_id, "task_id"), text(path, "task_path"), entries)


def _draft_checkpoint(
    step: Step,
    parent: str | None,
    dumps: Dumps,
    config_keys: Sequence[str],
    before: Before | None,
    large: set[str],
    written: Mapping[str, tuple[Any, bytes]],
) -> CheckpointDraft:
    checkpoint = cast("dict[str, Any]", step.checkpoint)
    versions = dict[str, Any](checkpoint["channel_versions"])
    versions_before = before.versions if before is not None else _NOTHING
    new, plains, carried = step.new_versions, dict[str, bytes](), dict[str, Any](checkpoint["channel_values"])
    if not carried.keys() <= versions.keys():
        carried = {channel: value for channel, value in carried.items() if channel in versions}
    known = versions_before.get
    moved = [name for name, version in versions.items() if name in new or known(name, _NO_VERSION) != version]
    try:
        for channel in moved:
            value = carried.pop(channel, _NO_VERSION)
            if value is not _NO_VERSION:
                # What a task has just put into a channel without a reducer need not be encoded twice.
                same = written.get(channel, _NOT_WRITTEN)
                plains[channel] = plain = same[1] if same[0] is value else join(dumps(value))
                if len(plain) > INLINE:
                    large.add(channel)
    except SerializationError as error:
        raise located(error, channel) from None
    metadata = get_checkpoint_metadata(step.config, step.metadata or {}, config_keys)
    facts = facts_of(checkpoint, parent, cast("dict[str, Any]", metadata), step.shown_writes, dumps)
    if facts.asides:
        large.update(facts.asides)
    updated = checkpoint.get("updated_channels")
    return CheckpointDraft(
        text(checkpoint["id"], "checkpoint id"),
        versions,
        _frozen(checkpoint["versions_seen"], before.seen if before is not None else _NOTHING),
        updated if updated is None else tuple(updated),
        plains,
        carried,
        new.keys() - checkpoint["channel_values"].keys(),
        facts,
    )


def _frozen(seen: Mapping[str, Mapping[str, Any]], before: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """A copy that nobody else changes; the parts that the parent has as well are its own."""
    known = before.get
    return {node: same if (same := known(node)) == each else dict(each) for node, each in seen.items()}
