"""A step whose values are bytes already: what ``StepWriter.add`` makes in the caller's thread, without I/O."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from threadmark.checkpoint.base import WRITES_IDX_MAP, NextStep, Step, TaskWrites, Unset, get_checkpoint_metadata
from threadmark.checkpoint.entries import Entry, merge_entries
from threadmark.checkpoint.facts import ASIDES, Dumps, Facts, facts_of, located
from threadmark.checkpoint.layout import Plain, Policy
from threadmark.checkpoint.names import text
from threadmark.checkpoint.records import Ref
from threadmark.checkpoint.serde.errors import SerializationError
from threadmark.tuples import tuple_of

INLINE: Final = Policy().inline
"""A value up to so many bytes is stored as it is: there is nothing to share with an earlier one."""
_MANY: Final = 32
"""A list of fewer items is written whole without asking what is known of it."""
_NO_VERSION: Final = object()
_NOTHING: Final[Mapping[str, Any]] = {}
_NOT_WRITTEN: Final[tuple[Any, bytes]] = (_NO_VERSION, b"")


class Before(Protocol):
    """What is known of a step's parent."""

    @property
    def versions(self) -> Mapping[str, Any]: ...

    @property
    def seen(self) -> Mapping[str, Mapping[str, Any]]: ...


class Lists(Protocol):
    """What is known of earlier values that are long lists."""

    def list_of(self, channel: str, items: Any, begins_with: Any) -> Plain | None:
        """The bytes of a channel's list, made of those of an earlier one, of which it may be known that the list begins
        with it; None if it has to be written whole."""
        ...


class TaskDraft(NamedTuple):
    """What one task wrote, by place. ``entries`` are as ``merge_entries`` leaves them."""

    task_id: str
    path: str
    entries: list[Entry]


class CheckpointDraft(NamedTuple):
    """A checkpoint whose new values are bytes; ``carried`` are at least those that its parent has as well."""

    id: str
    versions: Mapping[str, Any]
    seen: Mapping[str, Mapping[str, Any]]
    updated: Sequence[str] | None
    plains: Mapping[str, Plain]
    carried: Mapping[str, Any]
    emptied: Set[str]
    """Channels that moved and have no value any more."""
    facts: Facts
    since: Mapping[str, Any] | None
    """The parent's versions, if ``plains`` and ``emptied`` are known to be all that moved since; else they have to be
    compared."""
    looked: Collection[str] | None
    """The nodes that have seen something since, if that is known too."""
    surely: bool
    """Whether it is known, too, that no channel and no node is gone."""


Held: TypeAlias = tuple[list[TaskDraft], set[str], dict[str, tuple[Any, bytes]]]
"""Task writes as bytes: their drafts, the channels with a large one, and each channel's last value with its bytes."""


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


def draft_step(
    step: Step,
    ref: Ref,
    dumps: Dumps,
    config_keys: Sequence[str],
    before: Before | None,
    lists: Lists | None = None,
    held: Held | None = None,
) -> StepDraft:
    """Turn every new value of a step into bytes. ``ref`` is what the step's config names.

    ``before`` is the parent if it is known: a value whose version has not moved since is carried over and not
    encoded again, and equal maps are shared. ``lists`` knows earlier bytes of long ones. ``held`` are the step's
    writes if they are bytes already.
    """
    thread_id, ns, at = ref
    tasks, large, written = draft_tasks(step.writes, dumps) if held is None else held
    if tasks and at is None:
        raise ValueError('task writes belong to a checkpoint: pass {"configurable": {"checkpoint_id": "...", ...}}')
    checkpoint = None
    if step.checkpoint is not None:
        checkpoint = _draft_checkpoint(step, at, dumps, config_keys, before, large, written, lists)
    return tuple_of(StepDraft, (thread_id, ns, at, tasks, checkpoint, step.expected_head, large))


def draft_tasks(writes: Sequence[TaskWrites], dumps: Dumps) -> Held:
    """What tasks wrote as bytes."""
    large, written = set[str](), dict[str, tuple[Any, bytes]]()
    return [_draft_task(*each, dumps, large, written) for each in writes], large, written


def _draft_task(
    task_id: str,
    path: str,
    writes: Sequence[tuple[str, Any]],
    dumps: Dumps,
    large: set[str],
    written: dict[str, tuple[Any, bytes]],
) -> TaskDraft:
    """One call of ``put_writes`` as entries. ``written`` takes each channel's last value and its bytes."""
    entries: list[Entry] = []
    try:
        for channel, value in writes:
            plain = dumps(value)
            if len(plain) > INLINE:
                large.add(channel)
            written[channel] = (value, plain)
            entries.append((len(entries), channel, plain))
    except SerializationError as error:
        raise located(error, channel) from None
    if not WRITES_IDX_MAP.keys().isdisjoint(written):
        placed = [(WRITES_IDX_MAP.get(channel, at), channel, plain) for at, channel, plain in entries]
        entries = merge_entries((), placed)
    if type(task_id) is not str or type(path) is not str or not (task_id + path).isascii():
        task_id, path = text(task_id, "task_id"), text(path, "task_path")
    return tuple_of(TaskDraft, (task_id, path, entries))


def _draft_checkpoint(
    step: Step,
    parent: str | None,
    dumps: Dumps,
    config_keys: Sequence[str],
    before: Before | None,
    large: set[str],
    written: Mapping[str, tuple[Any, bytes]],
    lists: Lists | None,
) -> CheckpointDraft:
    checkpoint: Any = step.checkpoint
    versions, values, new = checkpoint["channel_versions"], checkpoint["channel_values"], step.new_versions
    seen, since, looked, plains = checkpoint["versions_seen"], None, None, dict[str, Plain]()
    if not versions.keys().isdisjoint(ASIDES):
        raise _reserved(versions.keys() & ASIDES)
    moved: Iterable[str]
    take: Callable[[str, Any], Any]
    # Copying and comparing all maps of 50 channels would be a third of a step in memory.
    if step.looked is not None and before is not None and values.keys() <= versions.keys():
        moved, since, looked, take = new, before.versions, step.looked, values.get
    else:
        versions, seen, moved = dict(versions), _frozen(seen, before), _moved(versions, new, before)
        values = {channel: value for channel, value in values.items() if channel in versions}
        take = values.pop
    _encode(moved, take, step.lengthened, dumps, lists, written, plains, large)
    metadata: Any = get_checkpoint_metadata(step.config, step.metadata or {}, config_keys)
    facts = facts_of(checkpoint, parent, metadata, step.shown_writes, dumps)
    if facts.asides:
        large.update(facts.asides)
    id, updated = checkpoint["id"], checkpoint.get("updated_channels")
    return tuple_of(
        CheckpointDraft,
        (
            id if type(id) is str and id.isascii() else text(id, "checkpoint id"),
            versions,
            seen,
            updated if updated is None else tuple(updated),
            plains,
            values,
            new.keys() - checkpoint["channel_values"].keys(),
            facts,
            since,
            looked,
            False,
        ),
    )


def draft_next(
    ref: Ref,
    last: CheckpointDraft,
    facts: Facts,
    step: NextStep,
    dumps: Dumps,
    lists: Lists | None,
    held: Held | None,
) -> StepDraft:
    """What ``draft_step`` makes of the superstep behind ``last``, which ``ref`` names: with half of its work."""
    thread_id, ns, at = ref
    id, _, _, writes, new, versions, seen, values, updated, looked, lengthened, expected_head = step
    if not new.keys().isdisjoint(ASIDES):
        raise _reserved(new.keys() & ASIDES)
    plains = dict[str, Plain]()
    tasks, large, written = draft_tasks(writes, dumps) if held is None else held
    _encode(new, values.get, lengthened, dumps, lists, written, plains, large)
    if facts.asides:
        large.update(facts.asides)
    emptied = new.keys() - values.keys()
    made = (id, versions, seen, updated, plains, values, emptied, facts, last.versions, looked, True)
    return tuple_of(StepDraft, (thread_id, ns, at, tasks, tuple_of(CheckpointDraft, made), expected_head, large))


def _encode(
    moved: Iterable[str],
    take: Callable[[str, Any], Any],
    lengthened: Mapping[str, Any],
    dumps: Dumps,
    lists: Lists | None,
    written: Mapping[str, tuple[Any, bytes]],
    plains: dict[str, Plain],
    large: set[str],
) -> None:
    """Put the values of what has moved into ``plains``, and the names of channels with a long one into ``large``."""
    try:
        for channel in moved:
            value = take(channel, _NO_VERSION)
            if value is not _NO_VERSION:
                # What a task has just put into a channel without a reducer need not be encoded twice.
                same = written.get(channel, _NOT_WRITTEN)
                plain: Plain | None
                if same[0] is value:
                    plain = same[1]
                elif type(value) is not list or len(value) < _MANY or lists is None:
                    plain = dumps(value)
                else:
                    plain = lists.list_of(channel, value, lengthened.get(channel))
                    if plain is None:
                        plain = dumps(value)
                plains[channel] = plain
                if len(plain) > INLINE:
                    large.add(channel)
    except SerializationError as error:
        raise located(error, channel) from None


def _reserved(channels: Iterable[str]) -> ValueError:
    names = ", ".join(map(repr, channels))
    return ValueError(f"no channel may be named {names}: there the saver keeps what is not a channel; rename it")


def _moved(versions: Mapping[str, Any], new: Mapping[str, Any], before: Before | None) -> list[str]:
    """The channels whose values may differ from the parent's."""
    known = (before.versions if before is not None else _NOTHING).get
    return [name for name, version in versions.items() if name in new or known(name, _NO_VERSION) != version]


def _frozen(seen: Mapping[str, Mapping[str, Any]], before: Before | None) -> Mapping[str, Any]:
    """A copy that nobody else changes; the parts that the parent has as well are its own."""
    known = (before.seen if before is not None else _NOTHING).get
    return {node: same if (same := known(node)) == each else dict(each) for node, each in seen.items()}
