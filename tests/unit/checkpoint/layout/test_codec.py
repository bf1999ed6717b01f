"""Packing, patching and keys: what comes back, what is refused."""

from __future__ import annotations

import random

import pytest
import zstandard

from threadmark.checkpoint.layout.codec import (
    MAX_PLAIN,
    Packer,
    patch,
    segment_key,
    unpack,
    unpack_all,
    unpatch,
)
from threadmark.checkpoint.layout.policy import Policy
from threadmark.errors import DamagedRow

NOISE = random.Random(1).randbytes(50_000)
TEXT = b"the same words again and again, " * 2000


@pytest.mark.parametrize("plain", [b"", b"x", TEXT, TEXT[:33], NOISE, NOISE[:100]])
@pytest.mark.parametrize("compress", [True, False])
def test_packed_bytes_come_back(plain: bytes, compress: bool) -> None:
    data = Packer(Policy(compress=compress)).pack(plain)
    assert unpack(data) == plain
    assert unpack_all({b"k": data}) == {b"k": plain}
    assert len(data) <= len(plain) + 1


def test_the_first_byte_names_the_codec() -> None:
    assert Packer(Policy()).pack(TEXT)[0] == 1
    assert Packer(Policy()).pack(NOISE)[0] == 0
    assert Packer(Policy(compress=False)).pack(TEXT)[0] == 0


def test_without_compression_lengths_tell_nothing_but_the_plain_length() -> None:
    packer = Packer(Policy(compress=False))
    assert len(packer.pack(TEXT)) == len(packer.pack(NOISE[: len(TEXT)])) + len(TEXT) - len(NOISE[: len(TEXT)])


def test_a_patch_needs_its_frame() -> None:
    changed = NOISE[:3000] + b"something new" + NOISE[3000:6000]
    tail = patch(changed, NOISE[:6000], 3)
    assert len(tail) < 80
    assert unpatch(tail, NOISE[:6000]) == changed
    with pytest.raises(DamagedRow):
        unpatch(tail, TEXT)


@pytest.mark.parametrize("data", [b"", b"\x02abc", b"\xff", b"\x01", b"\x01not zstd at all"])
def test_what_was_never_packed_is_refused(data: bytes) -> None:
    with pytest.raises(DamagedRow):
        unpack(data)


def test_a_damaged_or_lengthened_or_cut_segment_is_refused() -> None:
    data = Packer(Policy()).pack(TEXT + NOISE[:500])
    for bad in (data[:-1], data + b"x", data[:300] + bytes([data[300] ^ 4]) + data[301:]):
        with pytest.raises(DamagedRow):
            unpack(bad)


def test_a_row_cannot_ask_for_unbounded_memory() -> None:
    bomb = zstandard.ZstdCompressor().compress(bytes(MAX_PLAIN + 1))
    assert len(bomb) < 10_000
    with pytest.raises(DamagedRow, match="declares"):
        unpack(b"\x01" + bomb)
    unsaid = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(1 << 20))
    with pytest.raises(DamagedRow, match="declares"):
        unpack(b"\x01" + unsaid)


def test_a_key_depends_on_the_salt_and_every_byte() -> None:
    key = segment_key(TEXT, b"salt one")
    assert len(key) == 16
    assert key != segment_key(TEXT, b"salt two")
    assert key != segment_key(TEXT + b".", b"salt one")
    assert key == segment_key(bytes(TEXT), b"salt one")
