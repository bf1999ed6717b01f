"""A saver's retention, applied after what graphs store: rarely, so that it costs little at each superstep."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from threadmark import ids
from threadmark.checkpoint.base import Retention
from threadmark.checkpoint.caches import Bounded
from threadmark.checkpoint.codec import Codec
from threadmark.checkpoint.draft import StepDraft
from threadmark.checkpoint.layout import plan_prune
from threadmark.checkpoint.pruning import Name, reduce
from threadmark.checkpoint.records import Port, Scope
from threadmark.checkpoint.transact import look

_log = logging.getLogger("threadmark")

UNNUMBERED: Final = 50
"""Stands for the bound of a policy that names an age only."""
_REMEMBERED: Final = 4096
_SHARE: Final = 8
"""A prune reads all of a thread: one comes only after a thread has grown by this part, whatever the bound."""


class Keeper:
    """Prunes one namespace at a time: the one that has just got a checkpoint, its newest.

    So whatever a run stands on stays: the namespace's own newest, and all of the enclosing graphs, which store nothing
    while a child of theirs runs. That is done when twice as many could go as the policy keeps.
    """

    def __init__(self, retention: Retention) -> None:
        self._retention = retention
        self._bound = retention.keep_last or UNNUMBERED
        self._left: Bounded[Name, int] = Bounded(_REMEMBERED, lambda _: 1)
        """By (thread id, namespace): how many checkpoints may pass before the next look."""

    def due(self, drafts: Sequence[StepDraft]) -> list[Name]:
        """The (thread id, namespace) pairs that are to be looked at now that these steps are stored."""
        found: dict[Name, None] = {}
        for draft in drafts:
            if draft.checkpoint is None or not self._covers(draft.ns):
                continue
            name = draft.thread_id, draft.ns
            left = self._left.get(name)
            if left is None:
                left = 2 * self._bound if draft.at is None else 0  # the first of its namespace, or nobody knows
            self._left.set(name, max(left - 1, 0))
            if left <= 0:
                found[name] = None
        return list(found)

    def _covers(self, ns: str) -> bool:
        return self._retention.namespaces is None or ns in self._retention.namespaces

    async def tidy(self, port: Port, codec: Codec, names: Sequence[Name]) -> None:
        """Prune those of which enough could go. What goes wrong is logged: what the run has stored is stored."""
        for name in names:
            try:
                self._left.set(name, await self._tidied(port, codec, *name))
            except Exception:
                self._left.set(name, self._bound)
                _log.warning(
                    "thread %r could not be pruned and is as it was; what was stored stays stored. The next try comes "
                    "after %d more checkpoints",
                    name[0],
                    self._bound,
                    exc_info=True,
                )

    async def _tidied(self, port: Port, codec: Codec, thread_id: str, ns: str) -> int:
        """Prune if enough could go; how many checkpoints may pass before the next look."""
        keep_last, cutoff = self._retention.keep_last, self._retention.cutoff(datetime.now(UTC))
        most = 2 * self._bound
        scope = Scope(thread_id, ns, before=None if cutoff is None else ids.first_at(cutoff))
        could_go = await look(port, lambda view: view.keys(scope, most + 1))
        if len(could_go) <= most:
            return most - len(could_go)
        told = await reduce(
            port, codec, thread_id,
            lambda nodes: plan_prune(nodes, keep_last=keep_last, older_than=cutoff, namespaces=(ns,)),
        )  # fmt: skip
        return max(self._bound, told.kept // _SHARE)
