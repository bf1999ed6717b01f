"""Reading rows: few fetches, and only typed errors for what is damaged."""

from __future__ import annotations

import itertools
import random
import tracemalloc
from collections.abc import Collection, Mapping

import pytest

from tests.unit.checkpoint.layout.damage import damaged
from threadmark.checkpoint import layout
from threadmark.checkpoint.layout import Known, Policy
from threadmark.checkpoint.layout.codec import MAX_PLAIN, Packer
from threadmark.checkpoint.layout.program import MAX_VALUE, Program, pack_program, parse_program, put_varint
from threadmark.errors import DamagedRow

SALT = b"fedcba9876543210"


class Store:
    """Twenty channels with a history each."""

    def __init__(self) -> None:
        rng = random.Random(1)
        self.segments: dict[bytes, bytes] = {}
        self.bodies: list[bytes] = []
        self.values: list[bytes] = []
        self.calls: list[int] = []
        for channel in range(20):
            known: Known | None = None
            value = rng.randbytes(40 * channel**2)
            for _ in range(5):
                value = value[: len(value) // 2] + rng.randbytes(90) + value[len(value) // 2 :]
                encoded = layout.encode(value, known, salt=SALT)
                self.segments |= {segment.key: segment.data for segment in encoded.segments}
                self.bodies.append(encoded.body)
                self.values.append(value)
                known = encoded.known

    def fetch(self, keys: Collection[bytes]) -> Mapping[bytes, bytes]:
        self.calls.append(len(keys))
        return {key: self.segments[key] for key in keys if key in self.segments}


def test_any_number_of_rows_takes_two_fetches() -> None:
    store = Store()
    assert [known.plain for known in layout.decode_many(store.bodies, store.fetch)] == store.values
    assert len(store.calls) == 2


def test_inline_rows_take_no_fetch() -> None:
    store = Store()
    assert layout.decode(b"\0abc", store.fetch).plain == b"abc"
    assert layout.decode_many([], store.fetch) == []
    assert store.calls == []


def test_what_is_reachable_is_what_reading_needs() -> None:
    store = Store()
    frames = layout.open_segments(store.fetch(layout.frames_wanted(store.bodies)))
    assert layout.reachable(store.bodies, frames) == store.segments.keys()
    last = store.bodies[-1:]
    store.segments = {key: store.segments[key] for key in layout.reachable(last, frames)}
    assert layout.decode(last[0], store.fetch).plain == store.values[-1]


def test_each_missing_segment_is_named() -> None:
    store = Store()
    for body, value in zip(store.bodies[-3:], store.values[-3:], strict=True):
        known = layout.decode(body, store.fetch)
        assert known.plain == value
        for key in known.refs:
            left = {other: data for other, data in store.segments.items() if other != key}
            with pytest.raises(DamagedRow, match=key.hex()):
                layout.decode(body, lambda keys, left=left: {k: left[k] for k in keys if k in left})


def test_damaged_rows_raise_one_error_or_read_as_something_of_bounded_size() -> None:
    store, rng = Store(), random.Random(2)
    bodies = [body for body in store.bodies if body[0]]
    for _ in range(3000):
        body = damaged(rng.choice(bodies), rng)
        try:
            known = layout.decode(body, store.fetch)
        except DamagedRow:
            continue
        assert len(known.plain) < 100_000


@pytest.mark.parametrize("body", [b"", b"\1abc", b"\x03short", b"\x63", b"\x10\0", b"\x11" + bytes(20)])
def test_what_is_no_value_row_is_refused(body: bytes) -> None:
    with pytest.raises(DamagedRow):
        layout.decode(body, lambda keys: dict.fromkeys(keys, b"\x00"))


def program(*numbers: int, keys: tuple[bytes, ...] = (), literals: bytes = b"") -> bytes:
    out = bytearray()
    put_varint(out, len(keys))
    out += b"".join(keys)
    for number in numbers:
        put_varint(out, number)
    return bytes(out) + literals


KEY = b"k" * 16


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "too early"),
        (b"\x05abc", "too early"),
        (b"\x01" + KEY, "too early"),
        (program(1, 3 << 2), "literal"),
        (program(1, 3 << 2, literals=b"abcd"), "literal"),
        (program(1, 3 << 2 | 3), "too early"),
        (program(1, 3 << 2 | 2, 0, 0, keys=(KEY,)), "before the first"),
        (program(0, keys=(KEY,)), "all its segments"),
        (program(2, 3 << 2 | 3, 3 << 2 | 2, 0, 9, keys=(KEY,)), "before a segment's start"),
        (program(1, (MAX_VALUE + 1) << 2 | 3, keys=(KEY,)), "longer than"),
        (program(1 << 40), "more entries"),
        (b"\0" + b"\xff" * 12, "too long"),
    ],
)
def test_a_program_that_does_not_add_up_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(DamagedRow, match=why):
        parse_program(data)


def test_a_copy_beyond_its_segment_is_refused() -> None:
    data = program(1, 9 << 2 | 3, keys=(KEY,))
    with pytest.raises(DamagedRow, match="has 8 bytes"):
        layout.assemble(b"\2", parse_program(data), {KEY: b"8 bytes."})
    with pytest.raises(DamagedRow, match="has 8 bytes"):
        assembled(parse_program(data), {KEY: b"\0" + b"8 bytes."})


def assembled(program: Program, rows: Mapping[bytes, bytes], *, at_once: int = 100) -> Known:
    """A value whose segment rows come in ``at_once`` at a time."""
    assembly, left = layout.Assembly({b"\2": program}), list(rows.items())
    while left:
        assembly.take(dict(left[:at_once]))
        del left[:at_once]
    return assembly.known(b"\2")


@pytest.mark.parametrize("at_once", [1, 2, 3])
@pytest.mark.parametrize("order", list(itertools.permutations("trl")), ids="".join)
def test_segments_are_put_in_their_places_whole_or_in_part_in_whatever_order_they_come(
    order: tuple[str, ...], at_once: int
) -> None:
    text, raw, long = b"words, " * 500, b"\xffraw", random.Random(3).randbytes(3000)
    rows = {b"t" * 16: text, b"r" * 16: raw, b"l" * 16: long}
    packed = {(name := each.encode() * 16): Packer(Policy()).pack(rows[name]) for each in order}
    assert {data[0] for data in packed.values()} == {0, 1}
    extents = (
        (None, 0, 3), (b"t" * 16, 0, 3500), (b"r" * 16, 0, 4), (b"t" * 16, 7, 14), (b"l" * 16, 0, 3000),
        (b"r" * 16, 1, 2), (None, 0, 1),
    )  # fmt: skip
    program = parse_program(pack_program(extents, b"abcd")[0])
    value = b"abc" + text + raw + text[7:21] + long + b"ra" + b"d"
    assert layout.assemble(b"\2", program, rows).plain == value
    assert assembled(program, packed, at_once=at_once) == layout.assemble(b"\2", program, rows)


def test_values_that_share_segments_are_put_together_at_once() -> None:
    rows = {key * 16: b"\0" + key * 5 for key in (b"a", b"b", b"c")}
    programs = {
        name.encode(): parse_program(pack_program([(key.encode() * 16, 0, 5) for key in name], b"")[0])
        for name in ("abc", "ca", "bb", "")
    }
    assembly = layout.Assembly(programs)
    for each in rows.items():
        assembly.take(dict([each]))
    for body in programs:
        assert assembly.known(body).plain == b"".join(bytes([letter]) * 5 for letter in body)


def test_what_a_row_only_promises_is_not_reserved() -> None:
    promised = parse_program(
        program(9, *[(MAX_VALUE // 9) << 2 | 3] * 9, keys=tuple(bytes([at]) * 16 for at in range(9)))
    )
    tracemalloc.start()
    try:
        with pytest.raises(DamagedRow, match="is missing"):
            assembled(promised, {})
        assert tracemalloc.get_traced_memory()[1] < 2 * MAX_PLAIN
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("first", [{}, {KEY: b"\0" + b"8 bytes."}], ids=["nothing is there", "each begins"])
def test_what_many_rows_only_promise_is_not_reserved_either(first: Mapping[bytes, bytes]) -> None:
    lost = b"l" * 16
    promised = {
        bytes([at]): parse_program(
            program(3, at << 2, 8 << 2 | 3, MAX_PLAIN << 2 | 3, keys=(KEY, lost), literals=b"x" * at)
        )
        for at in range(20)
    }
    tracemalloc.start()
    try:
        assembly = layout.Assembly(promised)
        assembly.take(first)
        assert tracemalloc.get_traced_memory()[1] < 2 * MAX_PLAIN
        with pytest.raises(DamagedRow, match="is missing"):
            assembly.known(bytes([7]))
    finally:
        tracemalloc.stop()
    assembly.take({KEY: b"\0" + b"8 bytes.", lost: Packer(Policy()).pack(bytes(MAX_PLAIN))})
    for at in range(20):
        plain = assembly.known(bytes([at])).plain
        assert plain[: at + 8] == b"x" * at + b"8 bytes."
        assert len(plain) == at + 8 + MAX_PLAIN


def test_damaged_segments_raise_one_error_when_put_in_their_places() -> None:
    store, rng, refused = Store(), random.Random(4), 0
    value = store.values[-1] + b"words and words, " * 4000
    encoded = layout.encode(value, layout.decode(store.bodies[-1], store.fetch), salt=SALT)
    store.segments |= {segment.key: segment.data for segment in encoded.segments}
    known = layout.decode(encoded.body, store.fetch)
    assert known.program is not None
    for key in known.program.keys:
        for _ in range(60):
            rows = store.segments | {key: damaged(store.segments[key], rng)}
            try:
                found = assembled(known.program, rows)
            except DamagedRow:
                refused += 1
                continue
            assert len(found.plain) == len(value)
        with pytest.raises(DamagedRow, match=key.hex()):
            assembled(known.program, {k: v for k, v in store.segments.items() if k != key})
    assert refused


def test_programs_come_back_as_they_were() -> None:
    a, b = b"a" * 16, b"b" * 16
    extents = (
        (None, 0, 7), (a, 100, 50), (b, 0, 1 << 20), (a, 0, 10), (a, 10, 80), (b, 5, 5), (None, 0, 1), (a, 90, 1),
    )  # fmt: skip
    data, keys = pack_program(extents, b"literals")
    parsed = parse_program(data)
    assert keys == parsed.keys == (a, b)
    assert parsed.extents == extents
    assert parsed.literals == b"literals"
    assert parsed.refs == {a, b}
