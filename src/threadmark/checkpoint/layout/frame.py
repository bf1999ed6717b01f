"""Value rows that are patches: what a new version has in common with the row of an earlier one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias, TypeVar

from threadmark.checkpoint.layout.codec import KEY_SIZE, patch, segment_key, unpack, unpatch
from threadmark.checkpoint.layout.cut import Cutter
from threadmark.checkpoint.layout.kinds import FRAMED, INLINE, PROGRAM, STEPPED, frame_keys, kind_of
from threadmark.checkpoint.layout.program import Frame, Program, parse_program, put_varint, take_varint
from threadmark.checkpoint.layout.rows import Segment
from threadmark.errors import DamagedRow

__all__ = ["read_row", "segment_of", "write_row"]

_PROGRAM: Final = bytes([PROGRAM])
_KINDS: Final = {1: FRAMED, 2: STEPPED}

T = TypeVar("T")
Row: TypeAlias = tuple[bytes, Frame | None, int]
"""The body, the frame it is a patch of, and the bytes spent on rows since that was made."""


def write_row(packed: bytes, keys: tuple[bytes, ...], old: Program | None, cutter: Cutter) -> Row:
    """The row of a program: itself, or a patch of its base's frame, or of a new one.

    A frame costs its length once; rows without a fitting one cost theirs each time. So a new one is made
    when as much has been spent on rows as it costs: whoever rents until he has paid the price never pays
    more than twice the least. A value that is written once never makes one, unless it is too long for a
    row.
    """
    policy = cutter.policy
    # A small value against a big base is no new version of it (a task's write of one message): nobody will
    # build on its frame.
    aside = old is not None and not keys and bool(old.keys)
    frame = old.frame if old is not None and policy.compress else None
    if frame is not None and aside:
        frame = Frame(frame.keys[:1], frame.root, frame.root)
    if frame is not None and old is not None:
        tail = patch(packed, frame.plain, policy.patch_level)
        due = len(tail) if aside else old.spent + len(tail)
        if len(tail) <= policy.patch_max and (due <= policy.patch_free or aside):
            return _patched(frame, due, tail)
        stepped = None if aside else _step(packed, frame, len(tail), cutter)
        if len(tail) <= policy.patch_max and due <= (stepped[1] if stepped else len(cutter.pack(packed))):
            return _patched(frame, due, tail)
        if stepped is not None:
            cutter.add(stepped[2])
            return _patched(stepped[0], 0, b"")
    data = cutter.pack(packed)
    due = len(data) + (0 if old is None or aside else old.spent)
    once = old is None or aside or not policy.compress or due <= policy.patch_free
    if len(data) <= policy.patch_max and once:
        return _PROGRAM + data, None, len(data)
    key = segment_key(packed, cutter.salt)
    cutter.add(Segment(key, data))
    return _patched(Frame((key,), packed, packed), 0, b"")


def _step(packed: bytes, frame: Frame, grown: int, cutter: Cutter) -> tuple[Frame, int, Segment] | None:
    """The next step on the same frame, what it would cost, and its segment; None when a new frame is
    cheaper.

    A fresh frame would spare the later steps what this one is longer than ``grown``, the patch on the last.
    So that excess is the rent that is weighed against a frame's price.
    """
    policy = cutter.policy
    step = patch(packed, frame.root, policy.patch_level)
    excess = frame.excess + max(0, len(step) - grown)
    price = len(step) + policy.step_price
    whole = len(cutter.pack(packed))
    if excess > whole or price > whole:
        return None
    key = segment_key(step, cutter.salt)
    return Frame((frame.keys[0], key), frame.root, packed, excess), price, Segment(key, b"\0" + step)


def _patched(frame: Frame, spent: int, tail: bytes) -> Row:
    head = bytearray((_KINDS[len(frame.keys)],)) + b"".join(frame.keys)
    if tail or len(frame.keys) == 2:
        put_varint(head, spent)
    if len(frame.keys) == 2:
        put_varint(head, frame.excess)
    return bytes(head) + tail, frame, spent


def read_row(body: bytes, frames: Mapping[bytes, bytes]) -> Program | None:
    """The program of a value row, None when it is inline. ``frames``: plaintext of what ``frame_keys``
    names.
    """
    kind = kind_of(body)
    if kind == INLINE:
        return None
    if kind == PROGRAM:
        return parse_program(unpack(body[1:]), spent=len(body) - 1)
    if kind not in (FRAMED, STEPPED):
        raise DamagedRow("a checkpoint row stands where a value row should")
    keys = frame_keys(body)
    root = plain = segment_of(frames, keys[0])
    if kind == STEPPED:
        plain = unpatch(segment_of(frames, keys[1]), root)
    at = 1 + len(keys) * KEY_SIZE
    if at == len(body) and kind == FRAMED:
        return parse_program(plain, Frame(keys, root, plain))
    try:
        spent, at = take_varint(body, at)
        excess, at = take_varint(body, at) if kind == STEPPED else (0, at)
    except IndexError:
        raise DamagedRow("a value row is damaged: it ends behind its frame's key") from None
    tail = body[at:]
    return parse_program(unpatch(tail, plain) if tail else plain, Frame(keys, root, plain, excess), spent)


def segment_of(segments: Mapping[bytes, T], key: bytes) -> T:
    """What is known of a segment, its plaintext as a rule; DamagedRow when it is not there."""
    plain = segments.get(key)
    if plain is None:
        raise DamagedRow(f"segment {key.hex()} is missing; restore it from a backup, or use an earlier checkpoint")
    return plain
