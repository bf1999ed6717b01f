"""The promises of a cache, kept by each kind, in both colours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.conftest import Call
from threadmark.cache.base import BaseCache
from threadmark.cache.memory import InMemoryCache
from threadmark.cache.sqlite import SqliteCache
from threadmark.checkpoint.serde.errors import SerializationError


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite"])
def cache(request: pytest.FixtureRequest, clock: Clock) -> Any:
    if request.param == "memory":
        yield InMemoryCache(clock=clock)
    else:
        with SqliteCache(path=":memory:", clock=clock) as made:
            yield made


KEY = (("graph", "node"), "k1")


def test_what_is_set_is_given_back_equal(call: Call, cache: BaseCache[Any]) -> None:
    value = [("messages", (1, "two", b"\x00")), ("other", None)]
    other, missing = (("graph",), "k1"), (("graph",), "k2")
    call(cache, "set", {KEY: (value, None), other: ("above", None)})
    assert call(cache, "get", [KEY, other, missing]) == {KEY: value, other: "above"}
    assert call(cache, "get", []) == {}


def test_values_are_copies(call: Call, cache: BaseCache[Any]) -> None:
    value = [1]
    call(cache, "set", {KEY: (value, None)})
    value.append(2)
    call(cache, "get", [KEY])[KEY].append(3)
    assert call(cache, "get", [KEY]) == {KEY: [1]}


def test_a_second_value_takes_the_firsts_place(call: Call, cache: BaseCache[Any]) -> None:
    call(cache, "set", {KEY: (1, None)})
    call(cache, "set", {KEY: (2, None)})
    assert call(cache, "get", [KEY]) == {KEY: 2}


def test_a_value_lives_for_its_seconds(call: Call, cache: BaseCache[Any], clock: Clock) -> None:
    call(cache, "set", {KEY: ("short", 10), (("graph",), "k"): ("ever", None), (("graph",), "now"): ("never", 0)})
    assert call(cache, "get", [KEY, (("graph",), "now")]) == {KEY: "short"}
    clock.now += 10
    assert call(cache, "get", [KEY, (("graph",), "k")]) == {(("graph",), "k"): "ever"}


def test_clearing_a_namespace_leaves_those_above_and_below(call: Call, cache: BaseCache[Any]) -> None:
    keys = [((), "k"), (("a",), "k"), (("a", "b"), "k"), (("a,b",), "k")]
    call(cache, "set", dict.fromkeys(keys, (1, None)))
    call(cache, "clear", [("a",)])
    assert list(call(cache, "get", keys)) == [((), "k"), (("a", "b"), "k"), (("a,b",), "k")]
    call(cache, "clear", [])
    assert len(call(cache, "get", keys)) == 3
    call(cache, "clear")
    assert call(cache, "get", keys) == {}


def test_text_and_bytes_are_different_keys(call: Call, cache: BaseCache[Any]) -> None:
    call(cache, "set", {(("a",), "k"): (1, None), (("a",), b"k"): (2, None)})
    assert call(cache, "get", [(("a",), b"k"), (("a",), "k")]) == {(("a",), b"k"): 2, (("a",), "k"): 1}


def test_what_cannot_be_written_is_refused_and_nothing_is_kept(call: Call, cache: BaseCache[Any]) -> None:
    with pytest.raises(SerializationError):
        call(cache, "set", {(("a",), "good"): (1, None), (("a",), "bad"): (object(), None)})
    assert call(cache, "get", [(("a",), "good")]) == {}


@dataclass
class Point:
    x: int


def test_a_class_is_taken_once_it_is_allowed(call: Call, cache: BaseCache[Any]) -> None:
    with pytest.raises(SerializationError):
        call(cache, "set", {KEY: (Point(1), None)})
    wider = cache.with_allowlist([Point])
    call(wider, "set", {KEY: (Point(1), None)})
    assert call(wider, "get", [KEY]) == {KEY: Point(1)}
    assert call(cache, "get", [KEY]) == {}  # what cannot be made again is as good as forgotten


def test_expired_entries_that_nobody_asks_for_do_not_pile_up(clock: Clock) -> None:
    cache: InMemoryCache[int] = InMemoryCache(clock=clock)
    cache.set({(("old",), str(number)): (number, 1) for number in range(10)})
    clock.now += 2
    cache.set({(("new",), str(number)): (number, None) for number in range(300)})
    assert list(cache._entries._data) == [("new",)]
