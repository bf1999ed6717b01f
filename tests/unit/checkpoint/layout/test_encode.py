"""What a value costs to store, and how its pieces are shared."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable

import pytest

from threadmark.checkpoint import layout
from threadmark.checkpoint.layout import Encoded, Known, Policy
from threadmark.errors import DamagedRow

DEFAULT = Policy()
SALT = b"fedcba9876543210"
WORDS = [random.Random(n).randbytes(3).hex().encode() for n in range(300)]


def text(rng: random.Random, size: int) -> bytes:
    return b" ".join(rng.choice(WORDS) for _ in range(size // 7 + 1))[:size]


def put(value: bytes, base: Known | None, policy: Policy = DEFAULT) -> Encoded:
    return layout.encode(value, base, salt=SALT, policy=policy)


def stored(values: Iterable[bytes], policy: Policy = DEFAULT) -> tuple[int, int]:
    """Bytes of rows and distinct segments for a history, and how many versions it had."""
    known, segments, total, count = None, dict[bytes, int](), 0, 0
    for value in values:
        encoded = put(value, known, policy)
        segments |= {segment.key: 16 + len(segment.data) for segment in encoded.segments}
        total, count, known = total + len(encoded.body), count + 1, encoded.known
    return total + sum(segments.values()), count


@pytest.mark.parametrize("value", [b"", b"\xc0", b"x" * 256])
def test_a_small_value_costs_one_byte_more_than_itself(value: bytes) -> None:
    encoded = put(value, None)
    assert encoded.body == layout.inline_body(value) == b"\0" + value
    assert encoded.segments == ()
    assert encoded.refs == frozenset()
    assert layout.inline_value(encoded.body) == value
    assert layout.frames_wanted((encoded.body,)) == set()


def test_an_equal_value_is_its_base() -> None:
    base = put(text(random.Random(1), 9000), None).known
    again = put(bytes(bytearray(base.plain)), base)
    assert again.unchanged
    assert again.known is base
    assert again.body == base.body
    assert again.segments == ()


def test_a_row_is_short_whatever_the_value() -> None:
    rng = random.Random(2)
    values = [rng.randbytes(size) for size in (300, 700, 1900, 2100, 4000, 70_000, 400_000)]
    known = None
    for value in values:
        for base in (None, known):
            encoded = put(value, base)
            assert len(encoded.body) <= 640 + 30
        known = encoded.known


def test_segments_are_at_most_64_kb_of_plaintext_and_bear_their_key() -> None:
    for segment in put(random.Random(3).randbytes(500_000), None).segments:
        plain = layout.open_segment(segment.data)
        assert len(plain) <= 65_536
        layout.check_segment(segment.key, plain, SALT)
        with pytest.raises(DamagedRow):
            layout.check_segment(segment.key, plain + b"x", SALT)


def appended(rng: random.Random) -> Iterable[bytes]:
    value = b""
    for count in range(400):
        value += text(rng, 300)
        yield count.to_bytes(2, "big") + value


def trimmed(rng: random.Random) -> Iterable[bytes]:
    records = [text(rng, 300) for _ in range(200)]
    for _ in range(200):
        records = [*records[1:], text(rng, 300)]
        yield b"\x92" + b"|".join(records)


def edited(rng: random.Random) -> Iterable[bytes]:
    records = [text(rng, 300) for _ in range(500)]
    for _ in range(200):
        records[rng.randrange(500)] = text(rng, rng.randint(100, 500))
        yield b"|".join(records)


def inserted(rng: random.Random) -> Iterable[bytes]:
    records = [text(rng, 300) for _ in range(300)]
    for _ in range(200):
        records.insert(rng.randrange(len(records)), text(rng, 300))
        yield len(records).to_bytes(2, "big") + b"|".join(records)


def rewritten(rng: random.Random) -> Iterable[bytes]:
    data = bytearray(rng.randbytes(300_000))
    for _ in range(100):
        at = rng.randrange(len(data) - 3000)
        data[at : at + 3000] = rng.randbytes(3000 + rng.randint(-9, 9))
        yield bytes(data)


def one_field(rng: random.Random) -> Iterable[bytes]:
    fields = {name: text(rng, 40) for name in range(30)}
    for _ in range(300):
        fields[rng.randrange(30)] = text(rng, 40)
        yield repr(fields).encode()


@pytest.mark.parametrize(
    ("history", "most"),
    [(appended, 1000), (trimmed, 1200), (edited, 2000), (inserted, 2200), (rewritten, 10_500), (one_field, 400)],
)
def test_a_version_costs_about_what_changed(history: Callable[[random.Random], Iterable[bytes]], most: int) -> None:
    total, count = stored(history(random.Random(4)))
    assert total / count <= most


def test_a_log_of_twice_the_length_costs_twice() -> None:
    values = list(appended(random.Random(5)))
    half, _ = stored(values[:200])
    whole, _ = stored(values)
    assert whole < 2.4 * half


def test_a_long_run_of_small_edits_bounds_entries_and_what_lies_behind_a_version() -> None:
    policy, known = Policy(), None
    for value in edited(random.Random(6)):
        known = put(value, known).known
        assert known.program is not None
        assert len(known.program.extents) <= policy.entries + len(value) // policy.entry_bytes + 20
        assert sum(known.sizes.values()) <= policy.dead_part * len(value) + policy.dead_slack + 70_000


def test_a_task_that_returns_the_whole_value_stores_it_as_a_row() -> None:
    rng = random.Random(7)
    value = text(rng, 200_000)
    channel = put(value, None).known
    write = put(value + text(rng, 200), channel)
    assert len(write.body) + sum(len(segment.data) for segment in write.segments) < 800
    version = put(write.known.plain, write.known)
    assert version.unchanged


def test_what_a_task_wrote_is_not_stored_again_in_the_channel() -> None:
    rng = random.Random(12)
    channel = put(text(rng, 40_000), None).known
    message = rng.randbytes(20_000)
    write = put(b"\x91" + message, channel)
    value = b"\x02" + channel.plain[1:] + message
    alone = layout.encode(value, channel, salt=SALT)
    both = layout.encode(value, channel, salt=SALT, also=[write.known])
    assert sum(len(segment.data) for segment in alone.segments) > 20_000
    assert len(both.body) + sum(len(segment.data) for segment in both.segments) < 600
    assert both.refs <= channel.refs | write.refs | {segment.key for segment in both.segments}
    rows = {s.key: s.data for s in (*put(channel.plain, None).segments, *write.segments, *both.segments)}
    assert layout.decode(both.body, lambda keys: {key: rows[key] for key in keys}).plain == value


def test_an_edit_that_is_undone_leaves_no_trace() -> None:
    first = put(random.Random(13).randbytes(50_000), None).known
    edited = put(first.plain[:20_000] + b"inserted" + first.plain[20_000:], first).known
    undone = put(first.plain, edited)
    assert undone.segments == ()
    assert undone.known.program is not None
    assert first.program is not None
    assert undone.known.program.extents == first.program.extents


def test_a_small_write_beside_a_large_value_makes_no_frame_of_its_own() -> None:
    rng = random.Random(8)
    known = None
    for value in (text(rng, 9000), text(rng, 9000), text(rng, 9000)):
        known = put(value, known).known
    for size in (260, 500, 900):
        assert put(text(rng, size), known).segments == ()


def test_a_value_that_is_written_once_needs_no_frame() -> None:
    encoded = put(text(random.Random(9), 5000), None)
    assert layout.frames_wanted((encoded.body,)) == set()


def test_without_compression_nothing_is_compressed() -> None:
    policy, known = Policy(compress=False), None
    for value in appended(random.Random(10)):
        encoded = put(value, known, policy)
        known = encoded.known
        assert all(segment.data[0] == 0 for segment in encoded.segments)
        assert encoded.body[0] != 3 or len(encoded.body) == 17


def test_merged_segments_are_stored_as_they_are_where_that_is_wanted() -> None:
    near, known, made = Policy(pack_merged=False), None, list[layout.Segment]()
    for value in appended(random.Random(14)):
        encoded = put(value, known, near)
        known = encoded.known
        made += encoded.segments
    assert known is not None
    sizes = {segment.key: len(layout.open_segment(segment.data)) for segment in made}
    assert {segment.data[0] for segment in made if sizes[segment.key] > 4096} == {0}
    assert {segment.data[0] for segment in made if 1024 <= sizes[segment.key] <= 4096} == {1}
    merged = sum(sizes[key] for key in known.refs if sizes[key] > 4096)
    assert merged > 0.7 * len(known.plain)
    assembly = layout.Assembly({known.body: known.program})
    for each in made:  # one by one, those of earlier values too
        assembly.take({each.key: each.data})
    assert assembly.known(known.body) == known


def test_merged_segments_stored_as_they_are_cost_each_byte_once() -> None:
    values = list(appended(random.Random(15)))
    near, _ = stored(values, Policy(pack_merged=False))
    packed, _ = stored(values)
    assert packed < near < packed + len(values[-1])


def test_a_value_that_could_not_be_read_again_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[layout.encode.__module__], "MAX_VALUE", 1000)
    with pytest.raises(ValueError, match="cannot be stored"):
        put(bytes(1001), None)


def test_known_says_about_what_it_weighs() -> None:
    known = put(text(random.Random(11), 50_000), None).known
    assert 50_000 < known.weight < 60_000
    assert put(b"x", None).known.weight < 300
