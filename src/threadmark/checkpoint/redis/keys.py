"""Names in Redis: keys, and the fields of a thread's hash. Pure.

A thread has two keys that hold all of it, a hash of rows and the order of its checkpoints, in one slot of a cluster::

    PREFIX:{THREAD}      k identity · g stamp of the last removal · l stamps of the last changes · o there is an order
                         c checkpoint · t task · n a checkpoint's tasks · v value · s segment
    PREFIX:{THREAD}:o    names of the checkpoints that are seen, each with score 0: ordered as text

The rest are indexes, in slots of their own: sorted sets of threads by when they were entered::

    PREFIX:threads:N     every thread, in sixteen parts
    PREFIX:run:RUN       the threads that have checkpoints of a run
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from zlib import crc32

BETWEEN: Final = b"\xff"
"""Stands between texts: no text contains it as UTF-8."""
NOTHING: Final = b"\xfe"
"""Stands for None where a text may be: no text contains it either."""

CHECKPOINT, TASK, TASKS, VALUE, SEGMENT = b"c", b"t", b"n", b"v", b"s"
FORMAT: Final = b"\x01"
"""How a thread's rows are laid out; the first byte of its identity."""
TOKEN: Final = 8
"""Bytes of a token, which no other thread ever has: the next ones of the identity. The rest is the salt."""
STAMP: Final = 8
"""Bytes of the stamp by which a change of a thread is known."""
PARTS: Final = 16
"""Parts of the index of threads, so that a cluster shares it out."""

_UNSAFE: Final = re.compile(r"[%{}\x00-\x20\x7f]")


class ThreadKey(NamedTuple):
    """A thread as long as it is not deleted."""

    thread_id: str
    token: bytes


def identity_of(token: bytes, salt: bytes) -> bytes:
    """What is stored of who a thread is."""
    return FORMAT + token + salt


def token_of(identity: bytes) -> bytes:
    """The token in an identity."""
    return identity[len(FORMAT) : len(FORMAT) + TOKEN]


def salt_of(identity: bytes) -> bytes:
    """The salt in an identity."""
    return identity[len(FORMAT) + TOKEN :]


class Keys:
    """The keys below one prefix."""

    def __init__(self, prefix: str) -> None:
        if not prefix or "{" in prefix or "}" in prefix:
            raise ValueError(f"prefix must be text without braces, not {prefix!r}: they say what stays together")
        self.prefix = prefix

    def thread(self, thread_id: str) -> tuple[bytes, bytes]:
        """The two keys of a thread, in one slot whatever it is called."""
        rows = f"{self.prefix}:{{{_escaped(thread_id)}}}".encode()
        return rows, rows + b":o"

    def threads(self) -> list[bytes]:
        """All parts of the index of threads."""
        return [self._part(number) for number in range(PARTS)]

    def threads_of(self, thread_id: str) -> bytes:
        """The part of the index of threads that a thread is in."""
        return self._part(crc32(thread_id.encode()) % PARTS)

    def run(self, run_id: str) -> bytes:
        """The index of the threads of a run."""
        return f"{self.prefix}:run:{_escaped(run_id)}".encode()

    def _part(self, number: int) -> bytes:
        return f"{self.prefix}:threads:{number}".encode()


def _escaped(name: str) -> str:
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02x}", name)


def encoded(text: str) -> bytes:
    """Text as bytes that hold neither of the marks, lone surrogates too."""
    return text.encode("utf-8", "surrogatepass")


def decoded(data: bytes) -> str:
    """The text of ``encoded``; UnicodeDecodeError for other bytes."""
    return data.decode("utf-8", "surrogatepass")


def name_of(ns: str, id: str) -> bytes:
    """The name of a checkpoint inside its thread; names of one namespace sort as their ids."""
    return encoded(ns) + BETWEEN + encoded(id)


def task_field(ns: str, id: str, task_id: str) -> bytes:
    """The field of a task's row."""
    return TASK + name_of(ns, id) + BETWEEN + encoded(task_id)


def value_field(id: int) -> bytes:
    """The field of a value's row."""
    return VALUE + id.to_bytes(8, "big")


def listed_as(thread: ThreadKey) -> bytes:
    """A thread as a member of an index."""
    return thread.thread_id.encode() + BETWEEN + thread.token


def listed(member: bytes) -> ThreadKey:
    """The thread that a member of an index is."""
    thread_id, _, token = member.partition(BETWEEN)
    return ThreadKey(thread_id.decode(), token)
