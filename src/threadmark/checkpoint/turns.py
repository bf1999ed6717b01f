"""Steps that wait for their turn to be stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from threadmark.checkpoint.codec import Codec
from threadmark.checkpoint.draft import StepDraft

if TYPE_CHECKING:
    from threadmark.checkpoint.writing import Prepared


class Entry:
    """Steps of one thread that are stored together, and how that went."""

    __slots__ = ("codec", "drafts", "error", "prepared", "thread_id")

    def __init__(self, codec: Codec, drafts: Sequence[StepDraft]) -> None:
        self.codec = codec
        self.drafts: Sequence[StepDraft] = drafts
        self.thread_id = drafts[0].thread_id
        self.prepared: Prepared | None = None
        self.error: BaseException | None = None

    def is_ready(self) -> bool:
        """Called when its turn has come: whether there is anything to store."""
        return True


class LateEntry(Entry):
    """Steps of one run: all that it has made when its turn comes, which in a crowd is more than when it queues up."""

    __slots__ = ("_take",)

    def __init__(self, codec: Codec, take: Callable[[], Sequence[StepDraft]]) -> None:
        self.codec, self._take = codec, take
        self.drafts: Sequence[StepDraft] = ()
        self.prepared, self.error = None, None

    def is_ready(self) -> bool:
        self.drafts = self._take()
        if self.drafts:
            self.thread_id = self.drafts[0].thread_id
        return bool(self.drafts)


__all__ = ["Entry", "LateEntry"]
