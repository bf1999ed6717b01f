"""Checkpoint ids that sort by time, and task ids that are the same on every resume (spec 1.2, 3.4)."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterable
from uuid import NAMESPACE_URL, UUID, uuid5

from xxhash import xxh3_128_hexdigest

NULL_TASK_ID = "00000000-0000-0000-0000-000000000000"
"""Task id of writes that no task made: those of a ``Command`` given as input (spec 1.8)."""

# 100 ns ticks between the start of the Gregorian calendar, from which UUID version 6 counts, and the Unix epoch.
_GREGORIAN = 0x01B21DD213814000
_lock = threading.Lock()
_last_ticks = 0
# Its own source, seeded by the system once a process: a user's random.seed() must not make ids collide, and a call
# of os.urandom for each id can cost more than the superstep.
_random = random.Random()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)


def checkpoint_id(clock_seq: int, after: str | None = None, *, now: Callable[[], int] = time.time_ns) -> str:
    """A UUID version 6 whose text sorts by time; ``clock_seq`` (the step, 14 bits) stands in its fourth group.

    The result exceeds ``after``, the greatest id known of the thread, whatever the clock says (house rule 6): a
    clock that was set back moves on from there.
    """
    global _last_ticks
    ticks = now() // 100 + _GREGORIAN
    with _lock:
        if ticks <= _last_ticks:
            ticks = _last_ticks + 1
        _last_ticks = ticks
    made = _uuid(ticks, clock_seq)
    if after is not None and made <= after:
        # A matter of that thread alone: an id from the future must not drag all others along.
        made = _uuid(max(ticks, _ticks(after) + 1), clock_seq)
    return made


def _uuid(ticks: int, clock_seq: int) -> str:
    parts = (ticks >> 28, ticks >> 12 & 0xFFFF, ticks & 0xFFF, clock_seq & 0x3FFF | 0x8000, _random.getrandbits(48))
    return "%08x-%04x-6%03x-%04x-%012x" % parts  # noqa: UP031  an f-string takes twice as long


def version_after(current: str | int | float | None) -> str:
    """A counter that sorts as text, and chance, so that two branches differ (spec 1.6)."""
    if current is None:
        count = 1
    else:
        count = 1 + int(current.partition(".")[0] if isinstance(current, str) else current)
    # The fraction reads as a float and is written by one in the same way, which the stored form relies on to be short:
    # fifteen digits, neither the first nor the last of them a zero.
    return f"{str(count).zfill(32)}.0.{10**13 + _random.getrandbits(46)}1"


_second: tuple[int, str] = (0, "1970-01-01T00:00:00")


def timestamp(moment: int | None = None) -> str:
    """This moment, or another (ns since 1970), in UTC, ISO 8601 with microseconds."""
    global _second
    now = time.time_ns() if moment is None else moment
    seconds = now // 1_000_000_000
    known, text = _second
    if seconds != known:
        text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        _second = (seconds, text)
    return "%s.%06d+00:00" % (text, now // 1000 % 1_000_000)  # noqa: UP031  a third of what datetime takes


def first_at(seconds: float) -> str:
    """A text that sorts before every id made since that moment (seconds since 1970) and behind all made before."""
    ticks = max(0, int(seconds * 10_000_000) + _GREGORIAN)
    return f"{ticks >> 28:08x}-{ticks >> 12 & 0xFFFF:04x}-6{ticks & 0xFFF:03x}"


def _ticks(id: str) -> int:
    """Ticks inside one of our ids; 0 for an id of another shape, which cannot be compared by time."""
    if len(id) != 36 or id[14] != "6":
        return 0
    try:
        return int(id[:8] + id[9:13] + id[15:18], 16)
    except ValueError:
        return 0


def task_id(checkpoint_id: str, parts: Iterable[str]) -> str:
    """The id of a task: a hash of its checkpoint's id and of what it is (spec 3.4)."""
    try:
        head = bytes.fromhex(checkpoint_id.replace("-", ""))
    except ValueError:  # an id given by a user or an old store need not be a UUID
        head = checkpoint_id.encode()
    return _shaped(xxh3_128_hexdigest(head + "".join(parts).encode("utf-8", "surrogatepass")))


def legacy_task_id(checkpoint_id: str, parts: Iterable[str]) -> str:
    """The same for checkpoints of format 1, which hashed with SHA-1 (spec 1.9)."""
    import hashlib

    head = bytes.fromhex(checkpoint_id.replace("-", ""))
    return _shaped(hashlib.sha1(head + "".join(parts).encode(), usedforsecurity=False).hexdigest()[:32])


def _shaped(digest: str) -> str:
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:]}"


def made_up_id(checkpoint_id: str, name: str) -> str:
    """The task id of writes to a checkpoint that stand for no due task of it (spec 6.3, 8.5)."""
    try:
        return str(uuid5(UUID(checkpoint_id), name))
    except ValueError:  # an id of a user or an old store
        return str(uuid5(NAMESPACE_URL, f"{checkpoint_id}:{name}"))


def interrupt_id(namespace: str, answered: int) -> str:
    """The id of a question: of its task's namespace, and of its place once the task has had answers (spec 5.2)."""
    return xxh3_128_hexdigest((f"{namespace}|{answered}" if answered else namespace).encode())


def path_str(path: object) -> str:
    """The text of a task path; its order is the order in which writes are applied (spec 3.4, 3.5)."""
    if isinstance(path, (tuple, list)):
        return "~" + ", ".join(path_str(part) for part in path)
    if isinstance(path, int):
        return f"{path:010d}"
    return str(path)
