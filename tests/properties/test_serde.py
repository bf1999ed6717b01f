"""The law of serializers: what is loaded is what was dumped, of the same types, or dumping raised."""

from __future__ import annotations

import collections
import datetime as dt
import types
from typing import Any

import numpy as np
import ormsgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from tests.unit.checkpoint.serde import models as m
from tests.unit.checkpoint.serde.equality import same
from tests.unit.checkpoint.serde.fuzz import mutated
from tests.unit.checkpoint.serde.samples import ALLOWED, each
from threadmark.checkpoint.serde.buffers import holds_buffer
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.serde.errors import DeserializationError, SerializationError
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.serde.types import _DeltaSnapshot
from threadmark.checkpoint.serde.view import ViewSerializer
from threadmark.checkpoint.serde.wire import PLAIN
from threadmark.types import Command, Interrupt, Overwrite, Send

SERDE = JsonPlusSerializer(allow=ALLOWED)
ENCRYPTED = EncryptedSerializer.from_pycryptodome_aes(serde=SERDE, key=b"0" * 16)

# Every code point, surrogates included: text in state can be anything.
text = st.text(st.characters(), max_size=8)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**80), 2**80),
    st.sampled_from([2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1]),
    st.floats(),
    text,
    st.binary(max_size=8),
    st.complex_numbers(),
    st.decimals(allow_nan=False),
    st.fractions(),
    st.uuids(),
    st.datetimes(timezones=st.none() | st.timezones() | st.just(dt.UTC)),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.ip_addresses(),
    st.sampled_from([m.Colour.RED, m.Colour.PAIR, m.Level.LOW, m.Word.HELLO, m.Outer.Inner.A, m.Perm(6), m.Mode(0)]),
    st.builds(range, st.integers(), st.integers(), st.integers(1)),
    st.builds(m.UserId, text),
)
hashables = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3)
    | st.builds(m.Point, inner, inner) | st.builds(m.Frozen, inner, inner),
    max_leaves=5,
)  # fmt: skip
SAMPLED = each()
sampled = st.integers(0, len(SAMPLED) - 1).map(SAMPLED.__getitem__)
arrays = st_numpy.arrays(
    st_numpy.scalar_dtypes() | st_numpy.unicode_string_dtypes(max_len=4) | st_numpy.array_dtypes(),
    st_numpy.array_shapes(min_dims=0, min_side=0, max_side=3),
)
leaves = hashables | sampled | arrays | st.binary(max_size=4).map(bytearray)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, max_size=4)
    dicts = st.dictionaries(text | hashables, inner, max_size=4)
    return st.one_of(
        lists,
        lists.map(tuple),
        dicts,
        st.sets(hashables, max_size=4),
        st.builds(collections.deque, lists, st.none() | st.integers(4, 9)),
        dicts.map(collections.OrderedDict),
        st.builds(collections.defaultdict, st.sampled_from([list, int, None]), dicts),
        st.builds(m.Basket, inner, inner),
        st.builds(m.One, inner),
        st.builds(m.Message, role=st.just("r"), content=inner),
        st.builds(m.Slotted, inner, inner),
        st.builds(m.Packed, inner, inner),
        st.builds(m.Box, item=inner).map(lambda box: m.Message(role="b", content=[box.item])),
        st.builds(ValueError, inner),
        st.builds(Send, st.just("n"), inner),
        st.builds(Command, update=inner, resume=inner),
        st.builds(Interrupt, inner, id=st.just("i")),
        st.builds(Overwrite, inner),
        st.builds(_DeltaSnapshot, inner),
        st.builds(types.SimpleNamespace, a=inner),
    )


values = st.recursive(leaves, _containers, max_leaves=12)
small = st.recursive(leaves, _containers, max_leaves=3)


@st.composite
def lists_of_instances(draw: st.DrawFn) -> list[Any]:
    """Four to seven instances of a class or several."""
    makers = [
        lambda: m.Basket(draw(small), draw(small)),
        lambda: m.Message(role="r", content=draw(small)),
        lambda: m.Slotted(draw(small), draw(small)),
        lambda: m.Packed(draw(small), draw(small)),
        lambda: m.Frozen(draw(hashables), draw(hashables)),
        lambda: m.Point(draw(hashables), draw(hashables)),
        lambda: m.Level.LOW,
    ]
    some = draw(st.lists(st.sampled_from(makers), min_size=1, max_size=3))
    return [draw(st.sampled_from(some))() for _ in range(draw(st.integers(4, 7)))]


@given(lists_of_instances() | st.dictionaries(text, lists_of_instances(), max_size=3))
@settings(max_examples=150)
def test_lists_of_instances_come_back_as_they_were(value: Any) -> None:
    stored = SERDE.dumps_typed(value)
    assert same(value, SERDE.loads_typed(stored))
    ViewSerializer().loads_typed(stored)


@given(values)
@settings(max_examples=400)
def test_what_is_loaded_is_what_was_dumped(value: Any) -> None:
    stored = SERDE.dumps_typed(value)
    assert same(value, SERDE.loads_typed(stored))
    assert SERDE.explain(value) == []
    ViewSerializer().loads_typed(stored)


@given(values)
@settings(max_examples=60)
def test_encryption_changes_nothing(value: Any) -> None:
    assert same(value, ENCRYPTED.loads_typed(ENCRYPTED.dumps_typed(value)))


@given(st.recursive(leaves | st.sampled_from([print, len, object()]), _containers, max_leaves=12))
@settings(max_examples=150)
def test_what_does_not_come_back_is_refused_with_a_path(value: Any) -> None:
    if SERDE.explain(value):
        with pytest.raises(SerializationError) as caught:
            SERDE.dumps_typed(value)
        assert list(caught.value.problems) == SERDE.explain(value)
    else:
        assert same(value, SERDE.loads_typed(SERDE.dumps_typed(value)))


@given(st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=300)
    | st.binary(max_size=300) | st.binary(max_size=300).map(bytearray) | st.just("x" * 196) | st.just("z" * 50_000),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(st.text(max_size=8), inner, max_size=12),
    max_leaves=40,
))  # fmt: skip
@settings(max_examples=400)
def test_no_bytearray_hides_from_the_shortcut(value: Any) -> None:
    """The shortcut looks at packed bytes; asked again with all shortcuts closed it must say the same."""
    packed = ormsgpack.packb(value, option=PLAIN)
    padded = ["some text to make it long " * 100, value]
    assert holds_buffer(padded, ormsgpack.packb(padded, option=PLAIN), False) == holds_buffer(value, packed, True)
    assert same(value, SERDE.loads_typed(SERDE.dumps_typed(value)))


@given(sampled, st.randoms(use_true_random=False))
@settings(max_examples=300)
@pytest.mark.filterwarnings("ignore")
def test_damaged_bytes_raise_one_kind_of_error(value: Any, random: Any) -> None:
    tag, body = SERDE.dumps_typed({"k": [value]})
    with np.errstate(all="ignore"):
        try:
            SERDE.loads_typed((tag, mutated(body, random)))
        except DeserializationError:
            pass
