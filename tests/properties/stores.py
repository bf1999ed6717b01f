"""Where the models of delta channels and of pruning are played, and how long."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from hypothesis import settings

from tests.services.places import Place
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.memory import InMemorySaver

EFFORT = int(os.environ.get("MODEL_EFFORT") or 1)
"""How many times as many programs are played."""


def programs(count: int) -> settings:
    """Settings for so many programs, or as many times more as ``MODEL_EFFORT`` says."""
    return settings(max_examples=count * EFFORT)


def in_memory() -> Callable[[], InMemorySaver]:
    """Opens one saver in memory again and again; each time it remembers nothing but what is stored."""
    saver = InMemorySaver()

    def reopened() -> InMemorySaver:
        saver._caches = Caches(scale=0)
        return saver

    return reopened


@contextmanager
def emptied(store: Place) -> Iterator[Callable[[], Any]]:
    """Opens savers on a store, which is empty at first."""
    with ExitStack() as opened:

        def reopened() -> Any:
            return opened.enter_context(store.open())

        saver = reopened()
        for thread_id in saver.thread_ids():
            saver.delete_thread(thread_id)
        yield reopened
