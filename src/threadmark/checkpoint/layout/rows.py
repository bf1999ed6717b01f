"""The values that pass between this layer and a saver. Nobody changes one.

They are not frozen: that would take a microsecond for each, of which a superstep makes a dozen.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from threadmark.checkpoint.layout.pieces import Plain
from threadmark.checkpoint.layout.program import Program

__all__ = ["Encoded", "Known", "Segment"]


@dataclass(slots=True)
class Segment:
    """An immutable row of a thread's segment table.

    ``key`` is 16 bytes; ``data`` is the packed plaintext, its first byte says how (0 raw, 1 zstd). Equal
    keys of one thread have equal plaintext, so a saver inserts it or ignores it, and never skips the insert
    on a cache's word: another process may have swept it meanwhile.
    """

    key: bytes
    data: bytes


@dataclass(slots=True)
class Known:
    """What a writer has in memory about one stored value: the base of the next ``encode``.

    ``plain`` is the encoded value; ``body`` the value row's bytes as this layer made or read them. Before a
    saver stores anything that was encoded against a Known, it compares, inside the writing transaction, the
    base's stored row with the row it read or wrote; when they differ or the row is gone it encodes again
    with ``base=None``. A saver that seals bodies keeps the sealed bytes beside the Known and compares
    those.
    """

    plain: Plain
    body: bytes
    program: Program | None = field(repr=False, default=None)
    """None: the value is inline in its row."""
    sizes: dict[bytes, int] = field(repr=False, default_factory=dict)
    """Plain length of each segment of the program."""

    @property
    def refs(self) -> frozenset[bytes]:
        """Keys of every segment that ``body`` depends on, its frame's included."""
        return frozenset() if self.program is None else self.program.refs

    @property
    def weight(self) -> int:
        """Bytes of memory it holds, about: for the bound of a cache."""
        if self.program is None:
            return len(self.plain) + len(self.body) + 200
        program = self.program
        frame = len(program.frame.root) + len(program.frame.plain) if program.frame is not None else 0
        return len(self.plain) + len(self.body) + len(program.literals) + frame + 120 * len(program.extents) + 400


@dataclass(slots=True)
class Encoded:
    """One value ready to store.

    ``body`` is the value row (or task-write row); ``segments`` are to be inserted-or-ignored in the same
    transaction; ``known`` is the base for next time; ``unchanged`` says that the value equals its base's
    byte for byte: ``body`` is then the base's body, ``known`` the base itself, and a checkpoint may name
    the base's row instead of storing another.
    """

    body: bytes
    segments: tuple[Segment, ...]
    known: Known
    unchanged: bool = False

    @property
    def refs(self) -> frozenset[bytes]:
        """Keys of every segment that ``body`` depends on. Always a part of the base's refs and the new
        segments.
        """
        return self.known.refs
