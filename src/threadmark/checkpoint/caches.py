"""What a saver remembers of rows it has read or written. Any of it may be gone, or stale, at any time.

Stale entries do no harm: before rows that build on a remembered checkpoint are stored, the writer compares its
stored body with the remembered one, inside the transaction.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, NamedTuple, TypeVar

from threadmark.checkpoint.layout import Known, KnownRow
from threadmark.checkpoint.records import Thread

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

THREADS: Final = 4096
"""Threads whose key and salt are remembered."""
ROWS: Final = 512
"""Checkpoint rows remembered: about two for each conversation that is going on."""
DECODED: Final = 1024
"""Checkpoint rows whose maps are kept decoded: as many as the way back to a delta channel's value often has."""
VALUE_BYTES: Final = 64 << 20
SEGMENT_BYTES: Final = 32 << 20


class Parent(NamedTuple):
    """A remembered checkpoint, the base of the next one. ``body`` is its row's body as it is stored."""

    thread: Thread
    row: KnownRow
    body: bytes


class Bounded(Generic[K, T]):
    """A mapping that forgets what was not used longest when its entries weigh too much together."""

    def __init__(self, limit: int, weight: Callable[[T], int]) -> None:
        self._limit, self._weight, self._total = limit, weight, 0
        self._lock = threading.Lock()
        self._items: OrderedDict[K, tuple[T, int]] = OrderedDict()

    def get(self, key: K) -> T | None:
        item = self._items.get(key)
        if item is None:
            return None
        try:  # suppress() takes as long as the rest of it
            self._items.move_to_end(key)
        except KeyError:  # forgotten by another thread in between: that is not worth a lock
            pass
        return item[0]

    def set(self, key: K, value: T) -> None:
        weight = self._weight(value)
        with self._lock:
            old = self._items.pop(key, None)
            if old is not None:
                self._total -= old[1]
            self._items[key] = (value, weight)
            self._total += weight
            while self._total > self._limit:
                self._total -= self._items.popitem(last=False)[1][1]

    def forget(self, key: K) -> None:
        with self._lock:
            old = self._items.pop(key, None)
            if old is not None:
                self._total -= old[1]

    def clear(self) -> None:
        with self._lock:
            self._items.clear()
            self._total = 0


def _one(_: object) -> int:
    return 1


def _known(known: Known) -> int:
    return known.weight


class Caches:
    """The memories of one saver. ``scale`` 0 switches them off, which changes no answer."""

    def __init__(self, scale: float = 1.0) -> None:
        self._scale = scale
        self.threads: Bounded[str, Thread] = Bounded(int(THREADS * scale), _one)
        self.parents: Bounded[tuple[str, str, str | None], Parent] = Bounded(int(ROWS * scale), _one)
        """By thread id, namespace and checkpoint id."""
        self.decoded: Bounded[bytes, KnownRow] = Bounded(int(DECODED * scale), _one)
        """By plaintext body, which says all of it: the block that it is a change of is named by a hash."""
        self.values: Bounded[tuple[object, int], Known] = Bounded(int(VALUE_BYTES * scale), _known)
        """By thread key and value id."""
        self.segments: Bounded[tuple[object, bytes], bytes] = Bounded(int(SEGMENT_BYTES * scale), len)
        """Plaintext by thread key and segment key."""

    def emptied(self) -> Caches:
        """New ones of the same size."""
        return Caches(self._scale)

    def clear(self) -> None:
        """Forget everything."""
        self.threads.clear()
        self.parents.clear()
        self.decoded.clear()
        self.values.clear()
        self.segments.clear()
