"""Which rows survive a prune, and which a deletion of runs takes away: decided here once, executed by each
saver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["Node", "Plan", "plan_delete_runs", "plan_prune"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One stored checkpoint of a thread, as far as a plan needs it.

    ``time`` is anything comparable with the cutoff (seconds, or ISO text). ``delta`` are the channels whose
    value is rebuilt from ancestors' writes: the keys of its metadata's ``counters_since_delta_snapshot``.
    ``stored`` are the channels that have a value in this checkpoint (the keys of ``RowFields.values``).
    ``enclosing`` is metadata's ``parents``: {namespace: checkpoint id}. ``hidden`` says that an earlier
    plan made it a hidden row.
    """

    ns: str
    id: str
    parent: str | None = None
    time: float | str = 0.0
    run_id: str | None = None
    delta: frozenset[str] = frozenset()
    stored: frozenset[str] = frozenset()
    enclosing: Mapping[str, str] = field(default_factory=dict)
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do with a thread's checkpoints. Keys are (namespace, id).

    ``keep``: untouched but for ``orphaned``. ``drop``: the checkpoint and all its task writes go. ``hide``:
    a checkpoint that nobody sees any more (not listed, not found by id, not shown as parent), kept because
    a kept checkpoint's delta channels are rebuilt through it: its row stays with its parent link and the
    values of the channels given, and of its task writes those to the channels given. ``orphaned``: kept
    checkpoints whose parent went or is hidden: a reader shows no parent for them; the link itself stays
    when the parent is hidden.
    """

    keep: frozenset[tuple[str, str]]
    drop: frozenset[tuple[str, str]]
    hide: Mapping[tuple[str, str], frozenset[str]]
    orphaned: frozenset[tuple[str, str]]


def plan_prune(nodes: Iterable[Node], *, keep_last: int | None = None, older_than: float | str | None = None) -> Plan:
    """Keep the newest ``keep_last`` checkpoints of each namespace; drop those with a time before
    ``older_than``.

    With both, a checkpoint goes only if both say so. The newest of each namespace always stays, but for
    child namespaces whose enclosing checkpoints all went. "keep_latest" is ``keep_last=1``. ValueError when
    neither is given or ``keep_last`` is below 1.
    """
    raise NotImplementedError


def plan_delete_runs(nodes: Iterable[Node], run_ids: Collection[str]) -> Plan:
    """Drop the checkpoints of these runs, in every namespace; what a kept descendant needs is hidden
    instead.
    """
    raise NotImplementedError
