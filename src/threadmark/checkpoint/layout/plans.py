"""What survives a prune or a deletion of runs, and where a delta channel's history lies: decided here
once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from threadmark.checkpoint.layout.checkpoint_row import RowFields

__all__ = [
    "CheckpointKey", "History", "Node", "Plan", "hidden_fields", "plan_delete_runs", "plan_history", "plan_prune",
    "value_ids",
]  # fmt: skip

CheckpointKey: TypeAlias = tuple[str, str]
"""(namespace, checkpoint id)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One stored checkpoint of a thread, as far as a plan needs it.

    ``time`` is anything comparable with the cutoff of a prune (seconds, or ISO text). ``delta`` are the
    channels whose value is rebuilt from ancestors' writes: the keys of its metadata's
    ``counters_since_delta_snapshot`` (spec 8.4). ``stored`` are the channels that have a value here: the
    keys of ``RowFields.values``. ``enclosing`` is the metadata's ``parents``: {namespace: checkpoint id}.
    ``asks`` says that one of its tasks has asked a question. ``hidden`` says that an earlier plan hid it.
    """

    ns: str = ""
    id: str
    parent: str | None = None
    time: float | str = 0.0
    run_id: str | None = None
    delta: frozenset[str] = frozenset()
    stored: frozenset[str] = frozenset()
    enclosing: Mapping[str, str] = field(default_factory=dict)
    asks: bool = False
    hidden: bool = False

    @property
    def key(self) -> CheckpointKey:
        """Its name in a plan."""
        return self.ns, self.id


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to become of each checkpoint of a thread. To be carried out in one transaction.

    ``keep``: stays, with all its task writes. ``drop``: goes, with all its task writes. ``hide``: nobody
    sees it any more (not listed, not found by id, not shown as a parent), but a kept checkpoint's delta
    channels are rebuilt through it: its parent link stays, and for the channels given its stored values
    (``hidden_fields``) and its task writes; other writes go. ``orphaned``: kept checkpoints whose parent is
    dropped, hidden or was gone before; a reader shows no parent for them, the link stays where the parent
    is hidden.

    After it: value rows that no kept or hidden row names (``value_ids``) go, then unreachable segments.
    """

    keep: frozenset[CheckpointKey]
    drop: frozenset[CheckpointKey]
    hide: Mapping[CheckpointKey, frozenset[str]]
    orphaned: frozenset[CheckpointKey]


@dataclass(frozen=True, slots=True)
class History:
    """Where the value of delta channels lies (spec 8.3).

    ``writes``: per channel, ids of the checkpoints whose task writes to it are to be replayed, oldest
    first. ``seeds``: per channel, the id of the checkpoint whose stored value they start from; without an
    entry they start empty. ``wanted``: id of the next ancestor that was not among those given; None when
    nothing is missing.
    """

    writes: Mapping[str, tuple[str, ...]]
    seeds: Mapping[str, str]
    wanted: str | None


def plan_prune(
    nodes: Iterable[Node],
    *,
    keep_last: int | None = None,
    older_than: float | str | None = None,
    namespaces: Collection[str] | None = None,
) -> Plan:
    """Keep the newest ``keep_last`` checkpoints of each namespace, or those not older than ``older_than``.

    With both, a checkpoint goes only when both say so; with ``namespaces``, only those of these namespaces go. "Keep
    the latest" is ``keep_last=1``; newest is the greatest id. Whatever the rules say:

    * The newest of each namespace stays, with its writes, so that a half-answered pause goes on; but a namespace that
      belongs to one task (it has a ":") goes with the checkpoint of that task. One whose task's checkpoint is not
      stored yet, a run being under way, stays.
    * What the child graphs of a kept checkpoint begin with when it is run again or answered stays (``_begun_with``).
      Not so when only the newest is kept: it goes on with its children's newest.

    ValueError when neither rule is given or ``keep_last`` is below 1.
    """
    if keep_last is None and older_than is None:
        raise ValueError("say what to keep: keep_last=N, older_than=..., or both")
    if keep_last is not None and keep_last < 1:
        raise ValueError(f"keep_last must be at least 1, not {keep_last}; to remove a thread use delete_thread")
    nodes = tuple(nodes)
    spaces = dict[str, list[Node]]()
    for node in sorted((n for n in nodes if not n.hidden), key=lambda n: n.id, reverse=True):
        spaces.setdefault(node.ns, []).append(node)
    newest = {ns: rows[0].id for ns, rows in spaces.items()}
    heads = 1 if keep_last == 1 and older_than is None else 0
    kept = set[CheckpointKey]()
    # Outer namespaces first: what stays in them decides about the inner ones.
    for ns in sorted(spaces, key=lambda ns: (ns.count("|") + bool(ns), ns)):
        begun_with = _begun_with(ns, spaces, kept, heads)
        for rank, node in enumerate(spaces[ns]):
            young = older_than is not None and not _before(node.time, older_than)
            spared = namespaces is not None and ns not in namespaces
            stays = spared or rank < (keep_last or 1) or young or node.id in begun_with
            if stays and _task_stays(node, kept, newest):
                kept.add(node.key)
    return _plan(nodes, kept)


def plan_delete_runs(nodes: Iterable[Node], run_ids: Collection[str]) -> Plan:
    """Drop the checkpoints of these runs, in every namespace; what a kept descendant needs is hidden
    instead.
    """
    nodes, runs = tuple(nodes), frozenset(run_ids)
    return _plan(nodes, {node.key for node in nodes if not node.hidden and node.run_id not in runs})


def plan_history(parent: str | None, nodes: Mapping[str, Node], channels: Iterable[str]) -> History:
    """Where to find the value of ``channels`` at a checkpoint that stores none and has this ``parent``.

    ``nodes`` are ancestors by id (hidden ones too, of one namespace), as many as the caller has read; when
    ``wanted`` names one more, read on and ask again, or take the answer as it is when it does not exist.
    """
    writes: dict[str, list[str]] = {channel: [] for channel in channels}
    seeds, open_channels, seen = dict[str, str](), set(writes), set[str]()
    cursor = parent
    while cursor is not None and open_channels and cursor not in seen:
        node = nodes.get(cursor)
        if node is None:
            return History(_oldest_first(writes), seeds, cursor)
        for channel in open_channels:
            writes[channel].append(cursor)
        for channel in open_channels & node.stored:
            seeds[channel] = cursor
        open_channels -= node.stored
        seen.add(cursor)
        cursor = node.parent
    return History(_oldest_first(writes), seeds, None)


def hidden_fields(fields: RowFields, channels: Collection[str]) -> RowFields:
    """What stays of a checkpoint row's fields when it is hidden for these channels."""
    values = {channel: fields.values[channel] for channel in channels if channel in fields.values}
    return fields._replace(versions={}, seen={}, values=values, updated=None)


def value_ids(rows: Iterable[RowFields]) -> set[int]:
    """The ids of all value rows that these checkpoint rows name."""
    return {ref for fields in rows for ref in fields.values.values() if isinstance(ref, int)}


def _before(time: float | str, cutoff: float | str) -> bool:
    if isinstance(time, str) is not isinstance(cutoff, str):
        raise TypeError(f"cannot compare a time {time!r} with older_than={cutoff!r}; give both as the same type")
    return time < cutoff  # type: ignore[operator]


def _task_stays(node: Node, kept: Collection[CheckpointKey], newest: Mapping[str, str]) -> bool:
    """Whether the checkpoint that made this node's namespace stays, or is still to come; True when nothing is known."""
    outer, _, own = node.ns.rpartition("|")
    made_by = node.enclosing.get(outer)
    if ":" not in own or made_by is None:
        return True
    return (outer, made_by) in kept or made_by > newest.get(outer, "")


def _begun_with(ns: str, spaces: Mapping[str, list[Node]], kept: Collection[CheckpointKey], heads: int) -> set[str]:
    """Checkpoints of a child graph that it begins with when a kept checkpoint of its parent is run again.

    Where it stood under that one, and where it asked; and for a child that keeps its state on the thread, its newest
    before a kept checkpoint of the outermost graph. So many ``heads`` of the parent, its newest, need none of this.
    """
    outer, _, own = ns.rpartition("|")
    found = set[str]()
    if not own:
        return found
    above = {node.id for node in spaces.get(outer, ())[heads:] if node.key in kept}
    stood, asked = set[str](), set[str]()
    for node in spaces[ns]:
        made_by = node.enclosing.get(outer)
        if made_by in above:
            if made_by not in stood:
                stood.add(made_by)
                found.add(node.id)
            if node.asks and made_by not in asked:
                asked.add(made_by)
                found.add(node.id)
    if ":" not in own:
        rising = [node.id for node in reversed(spaces[ns]) if "" in node.enclosing]
        for root in spaces.get("", ())[heads:]:
            place = bisect_left(rising, root.id)
            if root.key in kept and place:
                found.add(rising[place - 1])
    return found


def _plan(nodes: tuple[Node, ...], kept: set[CheckpointKey]) -> Plan:
    by_key = {node.key: node for node in nodes}
    hide = _needed(by_key, kept)
    return Plan(
        frozenset(kept),
        frozenset(by_key.keys() - kept - hide.keys()),
        {key: frozenset(channels) for key, channels in hide.items()},
        frozenset(key for key in kept if (parent := by_key[key].parent) is not None and (key[0], parent) not in kept),
    )


def _needed(by_key: Mapping[CheckpointKey, Node], kept: Collection[CheckpointKey]) -> dict[CheckpointKey, set[str]]:
    """The checkpoints outside ``kept`` through which its delta channels are rebuilt, and for which
    channels.
    """
    hide = dict[CheckpointKey, set[str]]()
    walked = set[tuple[CheckpointKey, str]]()
    for start in kept:
        for channel in by_key[start].delta - by_key[start].stored:
            node = by_key.get((start[0], by_key[start].parent or ""))
            while node is not None and (node.key, channel) not in walked:
                walked.add((node.key, channel))
                if node.key not in kept:
                    hide.setdefault(node.key, set()).add(channel)
                if channel in node.stored:
                    break
                node = by_key.get((node.ns, node.parent or ""))
    return hide


def _oldest_first(writes: Mapping[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {channel: tuple(reversed(ids)) for channel, ids in writes.items()}
