"""What a superstep's writes do to channels and versions, and what is due then: pure functions (spec 3.4, 3.5)."""

from __future__ import annotations

import copy
import operator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadmark.channels import (
    BinaryOperatorAggregate,
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    Topic,
)
from threadmark.engine.apply import apply
from threadmark.engine.call import call_of
from threadmark.engine.plan import Node, Plan, State, due, read_all, with_writes
from threadmark.engine.run import count_up
from threadmark.errors import InvalidUpdateError
from threadmark.types import Send


@dataclass
class Wrote:
    """A task that has ended."""

    name: str
    writes: list[tuple[str, Any]] = field(default_factory=list)
    triggers: tuple[str, ...] = ()
    path: str = ""

    @property
    def path_str(self) -> str:
        return self.path or f"~__pregel_pull, {self.name}"


def node(name: str, *triggers: str) -> Node:
    return Node(
        name=name,
        call=call_of(lambda value: value),
        triggers=triggers or (f"branch:to:{name}",),
        read=lambda channels, run: None,
        update=lambda result: [],
    )


def plan(*names: str, **channels: Any) -> Plan:
    nodes = {name: node(name) for name in names}
    triggers = {f"branch:to:{name}": EphemeralValue(Any, guard=False) for name in names}
    return Plan(
        name="test",
        nodes=nodes,
        channels={"log": BinaryOperatorAggregate(list, operator.add), "last": LastValue(Any), **triggers, **channels},
        input_channels="__start__",
        output_channels=("log",),
        stream_channels=("log",),
    )


def empty(of: Plan) -> State:
    return State(of, {}, {}, {})


def to(name: str) -> tuple[str, Any]:
    return (f"branch:to:{name}", None)


def names(found: Any) -> list[str]:
    return [one.name for one, _ in found[0]]


def test_writes_count_in_the_order_of_paths() -> None:
    it = plan("a", "b")
    tasks = [
        Wrote("w", [("log", ["w10"])], path="~__pregel_push, 0000000010, 0000000000"),
        Wrote("b", [("log", ["b"])]),
        Wrote("w", [("log", ["w2"])], path="~__pregel_push, 0000000002, 0000000000"),
        Wrote("a", [("log", ["a"])]),
    ]
    state = empty(it)
    assert apply(it, state, tasks, count_up) == {"log"}
    assert state.channels["log"].get() == ["a", "b", "w2", "w10"]


@given(st.permutations(range(6)))
def test_the_order_in_which_tasks_ended_does_not_matter(order: list[int]) -> None:
    it = plan(*"abcdef")
    tasks = [Wrote("abcdef"[number], [("log", [number]), to("abcdef"[5 - number])]) for number in range(6)]
    one, two = empty(it), empty(it)
    apply(it, one, tasks, count_up)
    apply(it, two, [tasks[number] for number in order], count_up)
    assert read_all(one.channels, ("log",)) == read_all(two.channels, ("log",))
    assert (one.versions, one.seen, one.moved) == (two.versions, two.seen, two.moved)


def test_one_version_for_all_that_changes() -> None:
    it = plan("a", "b")
    state = empty(it)
    apply(it, state, [Wrote("x", [("log", [1]), ("last", 1), to("a")])], count_up)
    assert state.versions == {"log": 1, "last": 1, "branch:to:a": 1}
    apply(it, state, [Wrote("a", [("last", 2)], triggers=("branch:to:a",))], count_up)
    assert state.versions == {"log": 1, "last": 2, "branch:to:a": 2}
    assert state.seen == {"a": {"branch:to:a": 1}}


def test_a_trigger_fades_behind_the_superstep_that_it_started() -> None:
    it = plan("a", "b")
    state = empty(it)
    apply(it, state, [Wrote("x", [to("a"), to("b")])], count_up)
    assert names(due(it, state, {"branch:to:a", "branch:to:b"})) == ["a", "b"]
    done = [Wrote(name, triggers=(f"branch:to:{name}",)) for name in "ab"]
    updated = apply(it, state, done, count_up)
    assert updated == set()
    assert names(due(it, state, updated)) == []
    assert names(due(it, state, None)) == []


def test_writes_from_outside_are_no_superstep() -> None:
    it = plan("a")
    state = empty(it)
    apply(it, state, [Wrote("x", [to("a")])], count_up)
    apply(it, state, [Wrote("__input__", [("log", ["u"])])], count_up)
    assert names(due(it, state, None)) == ["a"]
    assert "__input__" not in state.seen


@pytest.mark.parametrize(
    "name", ["__no_writes__", "__error__", "__interrupt__", "__resume__", "__return__", "__pregel_push"]
)
def test_special_writes_change_nothing(name: str, caplog: pytest.LogCaptureFixture) -> None:
    it = plan()
    state = empty(it)
    assert apply(it, state, [Wrote("a", [(name, 1)])], count_up) == set()
    assert state.versions == {}
    assert caplog.text == ""


def test_a_write_to_no_channel_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    it = plan()
    apply(it, empty(it), [Wrote("a", [("nowhere", 1)])], count_up)
    assert "'nowhere'" in caplog.text


def test_a_clash_is_raised() -> None:
    it = plan()
    with pytest.raises(InvalidUpdateError):
        apply(it, empty(it), [Wrote("a", [("last", 1)]), Wrote("b", [("last", 2)])], count_up)


def test_the_checkpoints_before_are_not_changed() -> None:
    it = plan("a")
    state = empty(it)
    apply(it, state, [Wrote("x", [to("a"), ("log", [1])])], count_up)
    apply(it, state, [Wrote("a", [to("a")], triggers=("branch:to:a",))], count_up)
    stored = (state.channels["log"].checkpoint(), dict(state.seen), dict(state.versions))
    before = copy.deepcopy(stored)
    apply(it, state, [Wrote("a", [("log", [2])], triggers=("branch:to:a",))], count_up)
    assert stored == before


def test_what_waits_for_the_end_is_released_when_nothing_else_is_due() -> None:
    it = plan("a", "late", **{"branch:to:late": LastValueAfterFinish(Any)})
    state = empty(it)
    updated = apply(it, state, [Wrote("x", [to("a"), to("late")], triggers=("start",))], count_up)
    assert names(due(it, state, updated)) == ["a"]
    updated = apply(it, state, [Wrote("a", triggers=("branch:to:a",))], count_up)
    assert names(due(it, state, updated)) == ["late"]
    updated = apply(it, state, [Wrote("late", triggers=("branch:to:late",))], count_up)
    assert names(due(it, state, updated)) == []


def test_a_barrier_is_consumed_by_the_task_that_it_started() -> None:
    it = plan("a", "b", join=NamedBarrierValue(str, {"a", "b"}))
    it = Plan(
        name="test",
        nodes={**it.nodes, "j": node("j", "join")},
        channels=it.channels,
        input_channels="__start__",
        output_channels=(),
        stream_channels=(),
    )
    state = empty(it)
    assert names(due(it, state, apply(it, state, [Wrote("a", [("join", "a")])], count_up))) == []
    assert names(due(it, state, apply(it, state, [Wrote("b", [("join", "b")])], count_up))) == ["j"]
    assert names(due(it, state, apply(it, state, [Wrote("j", triggers=("join",))], count_up))) == []


# -- due


def test_packets_are_numbered_by_their_place() -> None:
    it = plan("a", __pregel_tasks=Topic(Send))
    state = empty(it)
    packets = [Send("a", 1), Send("a", 2)]
    updated = apply(it, state, [Wrote("x", [("__pregel_tasks", one) for one in packets] + [to("a")])], count_up)
    pull, push = due(it, state, updated)
    assert [one.name for one, _ in pull] == ["a"]
    assert push == [(0, packets[0]), (1, packets[1])]


def test_names_are_sorted_when_it_is_known_what_changed_and_as_they_were_added_otherwise() -> None:
    it = plan("z", "a", "m")
    state = empty(it)
    updated = apply(it, state, [Wrote("x", [to(name) for name in "zam"])], count_up)
    assert names(due(it, state, updated)) == ["a", "m", "z"]
    assert names(due(it, state, None)) == ["z", "a", "m"]


def test_a_node_that_has_seen_nothing_is_started_by_any_trigger() -> None:
    it = plan("a")
    state = State(it, {"branch:to:a": None}, {"branch:to:a": 3}, {"a": {}})
    assert names(due(it, state, None)) == ["a"]
    state = State(it, {"branch:to:a": None}, {"branch:to:a": 3}, {"a": {"branch:to:a": 3}})
    assert names(due(it, state, None)) == []


# -- reading


def test_reading_leaves_out_what_has_no_value() -> None:
    state = empty(plan())
    assert read_all(state.channels, ("log", "last")) == {"log": []}
    assert read_all(state.channels, "last") is None


def test_a_view_with_writes_leaves_the_channels_alone() -> None:
    state = empty(plan())
    view = with_writes(state.channels, [("log", [1]), ("nowhere", 1)])
    assert read_all(view, ("log", "last")) == {"log": [1]}
    assert read_all(state.channels, ("log",)) == {"log": []}
    assert with_writes(state.channels, []) is state.channels
