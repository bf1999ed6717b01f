"""The rule of each channel kind, by hand (spec 2.2)."""

from __future__ import annotations

import collections.abc
import copy
import operator
import pickle
from typing import Any

import pytest

from threadmark.channels import (
    AnyValue,
    BinaryOperatorAggregate,
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Topic,
    UntrackedValue,
)
from threadmark.channels.base import MISSING
from threadmark.errors import EmptyChannelError, InvalidUpdateError
from threadmark.types import Overwrite


def live(channel: Any, stored: Any = MISSING) -> Any:
    return channel.from_checkpoint(stored)


# What a channel does with the writes of one superstep after another: kind -> (writes, changed?, value) ...
STORIES: dict[str, tuple[Any, list[tuple[list[Any], bool, Any]]]] = {
    "last value": (LastValue(int), [([], False, MISSING), ([1], True, 1), ([], False, 1), ([1], True, 1)]),
    "any value": (AnyValue(int), [([], False, MISSING), ([1, 2], True, 2), ([], True, MISSING), ([], False, MISSING)]),
    "ephemeral": (EphemeralValue(int), [([1], True, 1), ([], True, MISSING), ([], False, MISSING)]),
    "ephemeral, unguarded": (EphemeralValue(int, guard=False), [([1, 2], True, 2), ([], True, MISSING)]),
    "untracked": (UntrackedValue(int), [([1], True, 1), ([], False, 1), ([2], True, 2)]),
    "untracked, unguarded": (UntrackedValue(int, guard=False), [([1, 2], True, 2)]),
    "sum": (BinaryOperatorAggregate(int, operator.add), [([], False, 0), ([1, 2], True, 3), ([], False, 3)]),
    "list": (BinaryOperatorAggregate(list, operator.add), [([[1], [2]], True, [1, 2]), ([[]], True, [1, 2])]),
    "no empty value": (
        BinaryOperatorAggregate(range, lambda old, new: new),
        [([], False, MISSING), ([range(2)], True, range(2))],
    ),
    "topic": (
        Topic(int),
        [([1, [2, 3]], True, [1, 2, 3]), ([4], True, [4]), ([], True, MISSING), ([], False, MISSING)],
    ),
    "topic that gathers": (Topic(int, accumulate=True), [([1], True, [1]), ([], False, [1]), ([[2]], True, [1, 2])]),
    "barrier": (
        NamedBarrierValue(str, {"a", "b"}),
        [(["a"], True, MISSING), (["a"], False, MISSING), ([], False, MISSING), (["b"], True, None)],
    ),
    "overwrite first": (BinaryOperatorAggregate(list, operator.add), [([Overwrite([9]), [1]], True, [9])]),
    "overwrite last": (BinaryOperatorAggregate(list, operator.add), [([[1], {"__overwrite__": [9]}], True, [9])]),
    "a dict that only looks like one": (
        BinaryOperatorAggregate(list, lambda old, new: [*old, new]),
        [([{"__overwrite__": 1, "more": 2}], True, [{"__overwrite__": 1, "more": 2}])],
    ),
}


@pytest.mark.parametrize("kind", STORIES)
def test_what_a_channel_does_superstep_by_superstep(kind: str) -> None:
    spec, story = STORIES[kind]
    channel = live(spec)
    for writes, changed, value in story:
        assert channel.update(writes) is changed
        assert channel.peek() == value
        assert channel.is_available() is (value is not MISSING)
        if value is MISSING:
            with pytest.raises(EmptyChannelError):
                channel.get()
        else:
            assert channel.get() == value


@pytest.mark.parametrize("kind", STORIES)
def test_a_stored_channel_comes_back_and_copies_do_not_share(kind: str) -> None:
    spec, story = STORIES[kind]
    channel = live(spec)
    for writes, _, _ in story:
        channel.update(writes)
        if not isinstance(spec, UntrackedValue):
            again = live(spec, channel.checkpoint())
            assert again.peek() == channel.peek()
            assert again.is_available() is channel.is_available()
        twin, before = channel.copy(), channel.peek()
        twin.update(story[0][0] or story[1][0])
        assert channel.peek() == before


@pytest.mark.parametrize("kind", STORIES)
def test_a_specification_stays_empty(kind: str) -> None:
    spec, story = STORIES[kind]
    first = live(spec)
    first.update(story[0][0] or story[1][0])
    assert live(spec).peek() == live(spec).peek() == spec.from_checkpoint(MISSING).peek()
    assert type(live(spec)) is type(spec)


@pytest.mark.parametrize("channel", [LastValue(int), EphemeralValue(int), UntrackedValue(int)])
def test_guarded_kinds_refuse_two_writes_and_name_the_key(channel: Any) -> None:
    channel.key = "total"
    with pytest.raises(InvalidUpdateError, match=r"'total'.*INVALID_CONCURRENT_GRAPH_UPDATE"):
        live(channel).update([1, 2])


def test_a_key_stays_with_live_channels() -> None:
    for spec, _ in STORIES.values():
        named = copy.copy(spec)
        named.key = "mine"
        assert live(named).key == live(named).copy().key == "mine"


def test_an_untracked_value_leaves_nothing_to_store() -> None:
    channel = live(UntrackedValue(int))
    channel.update([1])
    assert channel.checkpoint() is MISSING
    assert live(channel, 5).peek() is MISSING


def test_two_overwrites_are_one_too_many() -> None:
    with pytest.raises(InvalidUpdateError, match="only one Overwrite"):
        live(BinaryOperatorAggregate(list, operator.add)).update([Overwrite([1]), {"__overwrite__": [2]}])


def test_a_last_value_keeps_an_overwrite_as_it_is() -> None:
    channel = live(LastValue(list))
    channel.update([Overwrite([1])])
    assert channel.get() == Overwrite([1])


@pytest.mark.parametrize(
    ("typ", "empty"),
    [
        (collections.abc.Sequence, []),
        (collections.abc.Set, set()),
        (collections.abc.Mapping, {}),
        (list[int], []),
        (dict[str, int], {}),
        (str, ""),
    ],
)
def test_a_reducer_starts_with_the_empty_value_of_its_type(typ: Any, empty: Any) -> None:
    assert live(BinaryOperatorAggregate(typ, operator.add)).get() == empty


def test_two_channels_do_not_share_their_empty_value() -> None:
    spec = BinaryOperatorAggregate(list, operator.iadd)
    one, two = live(spec), live(spec)
    one.update([[1]])
    assert (one.get(), two.get(), live(spec).get()) == ([1], [], [])


# -- consuming and finishing


def test_a_barrier_begins_anew_when_it_is_consumed() -> None:
    channel = live(NamedBarrierValue(str, {"a", "b"}))
    channel.update(["a"])
    assert channel.consume() is False
    channel.update(["b"])
    assert channel.checkpoint() == {"a", "b"}
    assert channel.consume() is True
    assert (channel.is_available(), channel.checkpoint()) == (False, set())


def test_a_barrier_refuses_strangers() -> None:
    with pytest.raises(InvalidUpdateError, match="'c'"):
        live(NamedBarrierValue(str, {"a", "b"})).update(["c"])


def test_a_barrier_does_not_share_what_it_stores() -> None:
    channel = live(NamedBarrierValue(str, {"a", "b"}))
    channel.update(["a"])
    stored = channel.checkpoint()
    channel.update(["b"])
    assert stored == {"a"}


def test_a_deferred_value_shows_when_finished_and_until_consumed() -> None:
    channel = live(LastValueAfterFinish(int))
    assert channel.finish() is False
    channel.update([1, 2])
    assert (channel.is_available(), channel.consume()) == (False, False)
    assert channel.finish() is True
    assert (channel.finish(), channel.get()) == (False, 2)
    channel.update([3])
    assert channel.is_available() is False
    channel.finish()
    assert channel.consume() is True
    assert (channel.is_available(), channel.checkpoint()) == (False, MISSING)


def test_a_deferred_barrier_needs_all_and_the_finish() -> None:
    channel = live(NamedBarrierValueAfterFinish(str, {"a", "b"}))
    channel.update(["a"])
    assert channel.finish() is False
    channel.update(["b"])
    assert channel.is_available() is False
    assert (channel.finish(), channel.is_available()) == (True, True)
    again = live(channel, channel.checkpoint())
    assert again.is_available()
    assert (again.consume(), again.is_available()) == (True, False)


@pytest.mark.parametrize("stored", [(1, True), [1, True]])
def test_a_deferred_value_reads_what_older_stores_hold(stored: Any) -> None:
    assert live(LastValueAfterFinish(int), stored).get() == 1


# -- equality of specifications, and the sentinel


def test_when_two_specifications_mean_the_same() -> None:
    assert LastValue(int) == LastValue(str)
    assert LastValue(int) != AnyValue(int)
    assert EphemeralValue(int, guard=True) != EphemeralValue(int, guard=False)
    assert BinaryOperatorAggregate(int, operator.add) != BinaryOperatorAggregate(int, operator.mul)
    assert BinaryOperatorAggregate(int, lambda a, b: a) == BinaryOperatorAggregate(int, operator.mul)
    assert Topic(int) != Topic(int, accumulate=True)
    assert NamedBarrierValue(str, {"a"}) != NamedBarrierValue(str, {"b"})


def test_there_is_one_missing_value() -> None:
    assert copy.deepcopy(MISSING) is MISSING
    assert pickle.loads(pickle.dumps(MISSING)) is MISSING
    assert not MISSING
    assert repr(MISSING) == "MISSING"
