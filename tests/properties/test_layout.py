"""Whatever edits a value goes through, every version of every branch reads back exactly."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from threadmark.checkpoint import layout
from threadmark.checkpoint.layout import Known, Pieces, Policy
from threadmark.checkpoint.layout.diff import matches

SALT = b"0123456789abcdef"
TIGHT = Policy(
    inline=8, seal=40, max_segment=150, spill=60, fold_count=3, fold_bytes=100, patch_free=40, patch_max=90,
    entries=6, entry_bytes=200, window=3, dead_part=0.5, dead_slack=50, min_copy=4, places=5,
)  # fmt: skip
PLAIN = Policy(compress=False)
TIGHT_PLAIN = Policy(
    compress=False, inline=8, seal=40, max_segment=150, spill=60, fold_count=3, fold_bytes=100, patch_free=40,
    patch_max=90, entries=6, entry_bytes=200, window=3, dead_part=0.5, dead_slack=50, min_copy=4, places=5,
)  # fmt: skip

KINDS = ("append", "prepend", "edit", "cut", "trim", "insert", "replace", "shuffle", "mix", "double", "same", "empty")


def matter(rng: random.Random, size: int) -> bytes:
    """Text with much repetition, noise, zeros or a period: what diffs like and what they do not."""
    kind = rng.randrange(4)
    if kind == 0:
        return b" ".join(rng.choice((b"alpha", b"beta", b"gamma", b"delta")) for _ in range(size // 5 + 1))[:size]
    if kind == 1:
        return rng.randbytes(size)
    return bytes(size) if kind == 2 else (b"abcabd" * (size // 6 + 1))[:size]


def edited(rng: random.Random, values: list[bytes], which: int, kind: str, most: int) -> bytes:
    value = values[which]
    at, more = rng.randint(0, len(value)), matter(rng, rng.randint(0, most))
    end = min(len(value), at + rng.randint(0, most))
    match kind:
        case "append":
            return value + more
        case "prepend":
            return more + value
        case "edit":
            return value[:at] + more + value[end:]
        case "cut":
            return value[:at] + value[end:]
        case "trim":
            return value[at:]
        case "insert":
            return value[:at] + more + value[at:]
        case "replace":
            return more
        case "shuffle":
            size = max(1, len(value) // 7)
            parts = [value[i : i + size] for i in range(0, len(value), size)]
            rng.shuffle(parts)
            return b"".join(parts)
        case "mix":
            return (value[:at] + rng.choice(values) + value[end:])[: most * 30]
        case "double":
            return (value + value)[: most * 30]
        case "empty":
            return b""
        case _:
            return value


class Thread:
    """A thread's rows in plain dicts, with the rules that a saver follows."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.bodies: list[bytes] = []
        self.values: list[bytes] = []
        self.known: list[Known | None] = []
        self.segments: dict[bytes, bytes] = {}

    def put(self, value: bytes, base: Known | None, *others: Known) -> None:
        encoded = layout.encode(value, base, salt=SALT, also=others, policy=self.policy)
        own = {segment.key for segment in encoded.segments}
        assert encoded.refs <= own.union(*(known.refs for known in (base, *others) if known is not None))
        assert encoded.unchanged == (base is not None and base.plain == value)
        for segment in encoded.segments:
            layout.check_segment(segment.key, layout.open_segment(segment.data), SALT)
            self.segments.setdefault(segment.key, segment.data)
        self.bodies.append(encoded.body)
        self.values.append(value)
        self.known.append(encoded.known)

    def fetch(self, keys: Collection[bytes]) -> Mapping[bytes, bytes]:
        assert keys
        return {key: self.segments[key] for key in keys}

    def frames(self, bodies: list[bytes]) -> dict[bytes, bytes]:
        return layout.open_segments(self.fetch(wanted)) if (wanted := layout.frames_wanted(bodies)) else {}

    def sweep(self, keep: list[int]) -> None:
        self.bodies = [self.bodies[at] for at in keep]
        self.values = [self.values[at] for at in keep]
        self.known = [self.known[at] for at in keep]
        live = layout.reachable(self.bodies, self.frames(self.bodies))
        self.segments = {key: data for key, data in self.segments.items() if key in live}

    def check(self) -> None:
        found = layout.decode_many(self.bodies, self.fetch)
        assert [known.plain for known in found] == self.values
        for known, cached in zip(found, self.known, strict=True):
            assert cached is None or known == cached
        programs = layout.read_programs(self.bodies, self.frames(self.bodies))
        parted = dict(zip(self.bodies, programs, strict=True))
        assembly = layout.Assembly(parted)
        assembly.take({key: self.segments[key] for key in layout.segments_wanted(programs)})
        for known in found:
            assert parted[known.body] is None or assembly.known(known.body) == known


policies = st.sampled_from((TIGHT, replace(TIGHT, pack_merged=False), TIGHT_PLAIN, Policy(), PLAIN))
steps = st.lists(st.tuples(st.sampled_from((*KINDS, "forget", "sweep")), st.integers(0, 9)), min_size=1, max_size=40)


@given(policies, steps, st.integers(0, 2**32), st.sampled_from((30, 300, 5000)))
@settings(max_examples=120, deadline=None)
def test_every_version_of_every_branch_reads_back(
    policy: Policy, moves: list[tuple[str, int]], seed: int, most: int
) -> None:
    rng, thread = random.Random(seed), Thread(policy)
    thread.put(matter(rng, rng.randint(0, most * 4)), None)
    for kind, back in moves:
        at = max(0, len(thread.bodies) - 1 - back * (back > 6))
        if kind == "forget":  # another process goes on: it has what it reads, or knows no parent at all
            thread.known[at] = layout.decode(thread.bodies[at], thread.fetch) if back % 2 else None
        elif kind == "sweep":
            thread.sweep([i for i in range(len(thread.bodies)) if i == at or rng.random() < 0.6])
        else:
            others = [known for known in thread.known[-(back % 3) or len(thread.known) :] if known is not None]
            thread.put(edited(rng, thread.values, at, kind, most), thread.known[at], *others)
    thread.check()
    thread.sweep([])
    assert not thread.segments


@given(st.binary(max_size=3000), st.binary(max_size=3000), policies)
@settings(max_examples=60, deadline=None)
def test_any_two_values_whatever_they_share(old: bytes, new: bytes, policy: Policy) -> None:
    thread = Thread(policy)
    thread.put(old * 3, None)
    thread.put(new + old + new, thread.known[0])
    thread.put(new, thread.known[1])
    thread.check()


def pieced(rng: random.Random, parts: list[bytes], most: int) -> list[bytes]:
    """Another value of pieces, most of them the same objects."""
    made = list(parts)
    for _ in range(rng.randint(0, 3)):
        at = rng.randint(0, len(made))
        made[at : at + rng.randint(0, 2)] = [matter(rng, rng.randint(0, most)) for _ in range(rng.randint(0, 2))]
    return [matter(rng, rng.randint(1, 6)), *made[1:]] if made else [b"."]


@given(policies, st.lists(st.integers(0, 4), min_size=1, max_size=15), st.integers(0, 2**32), st.sampled_from((9, 900)))
@settings(max_examples=80, deadline=None)
def test_values_in_pieces_read_back_in_one(policy: Policy, moves: list[int], seed: int, most: int) -> None:
    rng, parts = random.Random(seed), [b"head"]
    known: Known | None = None
    segments: dict[bytes, bytes] = {}
    stored: list[tuple[bytes, bytes]] = []
    also: list[Known] = []

    def fetch(keys: Collection[bytes]) -> Mapping[bytes, bytes]:
        return {key: segments[key] for key in keys}

    for move in moves:
        parts = pieced(rng, parts, most)
        value = b"".join(parts)
        encoded = layout.encode(Pieces(parts) if move else value, known, salt=SALT, also=also, policy=policy)
        segments |= {segment.key: segment.data for segment in encoded.segments}
        stored.append((encoded.body, value))
        known = encoded.known
        if move == 1:  # it was read anew
            known = layout.decode(encoded.body, fetch)
        also = [known] if move == 2 else []
    found = layout.decode_many([body for body, _ in stored], fetch)
    assert [each.plain for each in found] == [value for _, value in stored]


@given(st.integers(0, 2**32), st.booleans(), st.booleans())
@settings(max_examples=80, deadline=None)
def test_what_pieces_share_is_found_in_order(seed: int, flat_old: bool, flat_new: bool) -> None:
    rng = random.Random(seed)
    first = pieced(rng, [b"head", *(rng.randbytes(rng.randint(0, 99)) for _ in range(9))], 99)
    second = pieced(rng, first, 99)
    old, new = b"".join(first), b"".join(second)
    i = j = 0
    for at, old_at, length in matches(old if flat_old else Pieces(first), new if flat_new else Pieces(second), PLAIN):
        assert at >= i
        assert old_at >= j
        assert length > 0
        assert new[at : at + length] == old[old_at : old_at + length]
        i, j = at + length, old_at + length
