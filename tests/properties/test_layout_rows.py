"""Whatever a checkpoint's maps hold, its row says exactly that, on any branch and against any base."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from threadmark.checkpoint import layout
from threadmark.checkpoint.layout import KnownRow, Moved, Policy, RowFields

SALT = b"0123456789abcdef"

counted = st.builds(lambda n, x: f"{n:032}.{x:016}", st.integers(0, 2**70), st.floats(0, 1))
scalars = st.one_of(
    counted, st.integers(), st.sampled_from((0, 1, True, False, 1.0, 0.0, -0.0, None, "", "1", b"1")),
    st.floats(allow_nan=False), st.text(max_size=60), st.binary(max_size=9),
    st.text(st.characters(categories=["Cs", "Cc"]), max_size=3),
)  # fmt: skip
versions = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple), max_leaves=4
)
names = st.one_of(st.sampled_from([f"channel{i}" for i in range(12)]), st.text(max_size=4))
values = st.one_of(st.integers(0, 2**63 - 1), st.integers(0, 300), st.binary(max_size=20))


@st.composite
def rows(draw: st.DrawFn) -> RowFields:
    kinds: Any = draw(st.sampled_from((counted, st.integers(0, 400), versions)))
    return RowFields(
        versions=draw(st.dictionaries(names, kinds, max_size=15)),
        seen=draw(st.dictionaries(names, st.dictionaries(names, kinds, max_size=3), max_size=8)),
        values=draw(st.dictionaries(names, values, max_size=12)),
        updated=draw(st.none() | st.lists(names, max_size=4)),
        extra=draw(st.binary(max_size=10)),
    )


def exactly(value: Any) -> Any:
    """The value with the type of every part, so that 1, 1.0 and True differ, and -0.0 and 0.0."""
    if isinstance(value, dict):
        return {key: exactly(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value), [exactly(item) for item in value]
    return type(value), repr(value)


def said(fields: RowFields) -> Any:
    return [exactly(part) for part in (fields.versions, fields.seen, fields.values)] + [
        None if fields.updated is None else list(fields.updated),
        fields.extra,
    ]


@given(
    st.lists(st.tuples(rows(), st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=12),
    st.sampled_from((Policy(), Policy(whole_row=0), Policy(compress=False, whole_row=0, whole_life=20))),
)
def test_every_row_of_every_branch_says_what_it_was_given(
    steps: list[tuple[RowFields, int, int]], policy: Policy
) -> None:
    segments: dict[bytes, bytes] = {}
    stored: list[tuple[RowFields, bytes]] = []
    known: list[KnownRow | None] = [None]
    for fields, back, forget in steps:
        base = known[max(0, len(known) - 1 - back)]
        encoded = layout.encode_row(fields, base, salt=SALT, policy=policy)
        segments |= {segment.key: segment.data for segment in encoded.segments}
        assert encoded.known.refs == layout.frames_wanted((encoded.body,)) == layout.reachable((encoded.body,), {})
        stored.append((fields, encoded.body))
        frames = layout.open_segments({key: segments[key] for key in encoded.known.refs})
        known.append(encoded.known if forget else layout.decode_row(encoded.body, frames))
    frames = layout.open_segments(segments)
    for fields, body in stored:
        assert said(layout.decode_row(body, frames).fields) == said(fields)


@given(rows(), rows())
def test_what_the_caller_changes_later_does_not_change_the_base(first: RowFields, second: RowFields) -> None:
    policy = Policy(whole_row=0, whole_life=100)
    versions = dict(first.versions)
    seen = {node: dict(inner) for node, inner in first.seen.items()}
    mutable = RowFields(versions=versions, seen=seen, values=dict(first.values))
    encoded = layout.encode_row(mutable, None, salt=SALT, policy=policy)
    versions.clear()
    for inner in seen.values():
        inner["later"] = 7
    after = layout.encode_row(second, encoded.known, salt=SALT, policy=policy)
    frames = {s.key: s.data for s in (*encoded.segments, *after.segments)}
    assert said(layout.decode_row(after.body, layout.open_segments(frames)).fields) == said(second)


@st.composite
def edits(draw: st.DrawFn) -> tuple[int, list[tuple[str, Any, Any]], dict[str, dict[str, Any]], Any]:
    """A parent by its place, channels with their versions and values (None: none any more), what nodes see, updated."""
    kinds: Any = draw(st.sampled_from((counted, counted, versions)))
    channels = st.lists(st.tuples(names, kinds, st.none() | values), max_size=4, unique_by=lambda moved: moved[0])
    looks = st.dictionaries(names, st.dictionaries(names, kinds, max_size=3), max_size=2)
    return draw(st.integers(0, 5)), draw(channels), draw(looks), draw(st.none() | st.lists(names, max_size=4))


@given(
    st.lists(edits(), min_size=1, max_size=40),
    st.sampled_from((Policy(whole_row=0), Policy(whole_row=0, whole_life=40), Policy())),
)
def test_every_row_that_is_told_what_has_moved_says_what_it_was_given(program: list[Any], policy: Policy) -> None:
    """The same rows as when all maps are compared, but for what they repeat; steps may branch from any earlier one."""
    made: list[KnownRow | None] = [None]
    segments = dict[bytes, bytes]()
    for back, channels, looks, updated in program:
        base = made[-1 - min(back, len(made) - 1)]
        before = base.fields if base is not None else RowFields()
        now, placed = dict(before.versions), dict(before.values)
        for name, version, value in channels:
            now[name] = version
            placed.pop(name, None)
            if value is not None:
                placed[name] = value
        fields = RowFields(now, {**before.seen, **looks}, placed, updated, b"extra")
        moved = Moved([name for name, _, _ in channels], looks.keys())
        encoded = layout.encode_row(fields, base, salt=SALT, policy=policy, moved=moved)
        segments |= {segment.key: segment.data for segment in encoded.segments}
        frames = layout.open_segments({key: segments[key] for key in encoded.known.refs})
        assert said(layout.decode_row(encoded.body, frames).fields) == said(fields)
        made.append(encoded.known)


def test_what_is_gone_although_nothing_told_of_it_is_noticed() -> None:
    fields = RowFields({"a": "1", "b": "1"}, {"n": {"a": "1"}, "m": {}}, {}, [])
    base = layout.encode_row(fields, None, salt=SALT, policy=Policy(whole_row=0))
    segments = {segment.key: segment.data for segment in base.segments}
    fewer = RowFields({"a": "2"}, {"n": {"a": "2"}}, {}, [])
    row = layout.encode_row(fewer, base.known, salt=SALT, policy=Policy(whole_row=0), moved=Moved(["a"], ["n"]))
    assert row.segments == ()
    assert layout.decode_row(row.body, layout.open_segments(segments)).fields == fewer
