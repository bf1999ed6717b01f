"""Threads of graphs written over channels: history, pauses, updates, and delta channels that take input."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import pytest

from tests.acceptance.kit import thread
from tests.conftest import Call
from tests.runtime.over import double, node, over, pair, seen_by, several
from threadmark.channels import (
    BinaryOperatorAggregate,
    DeltaChannel,
    EphemeralValue,
    LastValue,
    Topic,
    UntrackedValue,
)
from threadmark.errors import (
    InvalidUpdateError,
)
from threadmark.ids import made_up_id
from threadmark.pregel import Pregel
from threadmark.types import Command, Send, interrupt

# -- threads -----------------------------------------------------------------------------------------------------------


def told(call: Call, graph: Pregel, config: Any = None) -> list[Any]:
    """A thread's history, oldest first: source, step, what was written, values, next."""
    history = call(graph, "get_state_history", config or thread())
    return [(s.metadata["source"], s.metadata["step"], s.metadata["writes"], s.values, s.next) for s in history[::-1]]


def test_every_superstep_is_a_checkpoint(saver: Any, call: Call) -> None:
    graph = pair(checkpointer=saver)
    assert call(graph, "invoke", 1, thread()) == 4
    assert call(graph, "invoke", 2, thread()) == 8
    assert told(call, graph) == [
        ("input", -1, 1, {"in": 1}, ("first",)),
        ("loop", 0, {"first": {"mid": 2}}, {"in": 1, "mid": 2}, ("second",)),
        ("loop", 1, {"second": {"out": 4}}, {"in": 1, "mid": 2, "out": 4}, ()),
        ("input", 2, 2, {"in": 2, "mid": 2, "out": 4}, ("first",)),
        ("loop", 3, {"first": {"mid": 4}}, {"in": 2, "mid": 4, "out": 4}, ("second",)),
        ("loop", 4, {"second": {"out": 8}}, {"in": 2, "mid": 4, "out": 8}, ()),
    ]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_pause_can_be_gone_on_from(saver: Any, call: Call, durability: Any) -> None:
    graph = pair(checkpointer=saver, interrupt_after_nodes=["first"])
    assert call(graph, "invoke", 1, thread(), durability=durability) is None
    assert call(graph, "get_state", thread()).next == ("second",)
    call(graph, "update_state", thread(), 50, as_node="first")
    assert call(graph, "invoke", None, thread(), durability=durability) == 100
    assert call(graph, "get_state", thread()).next == ()


def test_new_input_drops_what_was_pending(saver: Any, call: Call) -> None:
    graph = pair(checkpointer=saver, interrupt_before_nodes="*")
    for given in (1, 2, None):
        call(graph, "invoke", given, thread())
    assert call(graph, "get_state", thread()).next == ("second",)
    assert call(graph, "invoke", None, thread()) == 8


def test_a_question_in_a_step_is_answered(saver: Any, call: Call) -> None:
    graph = over({"n": node("in", lambda x: interrupt(x), double, to="out")}, checkpointer=saver)
    (question,) = call(graph, "invoke", 1, thread())["__interrupt__"]
    assert question.value == 1
    assert call(graph, "invoke", Command(resume=21), thread()) == 42


def test_an_old_checkpoint_can_be_run_again(saver: Any, call: Call) -> None:
    graph = pair(checkpointer=saver)
    call(graph, "invoke", 1, thread())
    first = call(graph, "get_state_history", thread())[-2]
    assert call(graph, "stream", None, first.config, stream_mode="updates") == [{"second": {"out": 4}}]
    assert call(graph, "invoke", 5, first.config) == 20
    assert [line[0] for line in told(call, graph)] == ["input", "loop", "loop", "fork", "loop", "input", "loop", "loop"]


def test_an_update_goes_through_the_node_s_writes(saver: Any, call: Call) -> None:
    graph = pair(checkpointer=saver)
    with pytest.raises(InvalidUpdateError, match="pass as_node"):
        call(graph, "update_state", thread(), 1)
    call(graph, "update_state", thread(), 1, as_node="first")
    assert call(graph, "get_state", thread()).values == {"mid": 1}
    assert call(graph, "invoke", None, thread()) == 2
    call(graph, "update_state", thread(), None)  # as the node that ran last
    call(graph, "update_state", thread(), 4, as_node="__input__")
    assert told(call, graph)[-2:] == [
        ("update", 2, {"second": None}, {"mid": 1, "out": None}, ()),
        ("input", 3, 4, {"in": 4, "mid": 1, "out": None}, ("first",)),
    ]


def test_a_value_that_a_channel_has_by_itself_starts_nothing(saver: Any, call: Call) -> None:
    total = {"total": BinaryOperatorAggregate(int, operator.add)}
    nodes = {"first": node("in", double, to="out"), "second": node("total", double, to="more")}
    graph = over(nodes, checkpointer=saver, channels=total)
    assert call(graph, "invoke", 1, thread()) == 2
    assert call(graph, "get_state", thread()).next == ()
    assert call(graph, "invoke", None, thread()) == 2
    assert "more" not in call(graph, "get_state", thread()).values


class Enough(LastValue[int]):
    """A channel of a user's that starts nothing below ten."""

    def is_available(self) -> bool:
        return super().is_available() and self.value >= 10


def test_a_stored_channel_that_does_not_count_as_one_with_a_value_starts_nothing(saver: Any, call: Call) -> None:
    graph = over({"n": node("in", double, to="out")}, checkpointer=saver, channels={"in": Enough(int)})
    call(graph, "update_state", thread(), 9, as_node="__input__")
    found = call(graph, "get_state", thread())
    assert (found.values, found.next) == ({"in": 9}, ())
    call(graph, "update_state", thread(), 10, as_node="__input__")
    found = call(graph, "get_state", thread())
    assert (found.values, found.next) == ({"in": 10}, ("n",))


def test_input_is_shown_as_it_was_given(saver: Any, call: Call) -> None:
    def first_writes(channel: Any, *given: Any) -> Any:
        graph = over({"n": node("in", to="out")}, checkpointer=saver, channels={"in": channel, "out": LastValue(list)})
        for value in given:
            call(graph, "invoke", value, thread(type(channel).__name__))
        history = call(graph, "get_state_history", thread(type(channel).__name__), filter={"source": "input"})
        return [state.metadata["writes"] for state in history[::-1]]

    assert first_writes(BinaryOperatorAggregate(list, operator.add), [1], [2]) == [[1], [2]]
    assert first_writes(Topic(int, accumulate=True), 1, 2) == [1, 2]
    assert first_writes(EphemeralValue(int), 1, 2) == [1, 2]
    assert first_writes(UntrackedValue(int), 1, 2) == [None, None]
    graph = several(checkpointer=saver)
    for value in ({"in": 1, "mid": 2}, {"mid": 3}):
        call(graph, "invoke", value, thread("several"))
    assert [line[2] for line in told(call, graph, thread("several")) if line[0] == "input"] == [
        {"in": 1, "mid": 2},
        {"mid": 3},
    ]


def test_a_failed_node_runs_again_and_its_siblings_do_not(saver: Any, call: Call) -> None:
    seen, look = seen_by()
    down = [True]

    def fail(value: int) -> int:
        if down:
            raise ValueError("down")
        return value

    nodes = {"good": node("in", look, to="mid"), "bad": node("in", fail, to="out")}
    graph = over(nodes, checkpointer=saver)
    with pytest.raises(ValueError, match="down"):
        graph.invoke(1, thread())  # waits for the sibling in this colour
    assert call(graph, "get_state", thread()).next == ("bad",)
    down.clear()
    assert call(graph, "invoke", None, thread()) == 1
    assert seen == [1]


# -- delta channels that take input (spec 8.5) -------------------------------------------------------------------------


def joined(state: list[str], writes: Sequence[list[str]]) -> list[str]:
    return state + [word for write in writes for word in write]


def deltas(saver: Any) -> Pregel:
    words: dict[str, Any] = {name: DeltaChannel(joined, list) for name in ("in", "out")}
    return over({"n": node("in", lambda words: [f"n{len(words)}"], to="out")}, checkpointer=saver, channels=words)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_input_to_a_delta_channel_is_read_back(saver: Any, call: Call, durability: Any) -> None:
    graph = deltas(saver)
    for word in "abc":
        call(graph, "invoke", [word], thread(), durability=durability)
    assert call(graph, "get_state", thread()).values == {"in": ["a", "b", "c"], "out": ["n1", "n2", "n3"]}
    ended = [state.values for state in call(graph, "get_state_history", thread()) if state.next == ()][::-1]
    assert [(len(values["in"]), len(values["out"])) for values in ended[-3:]] == [(1, 1), (2, 2), (3, 3)]
    if durability != "exit":
        assert [line[2] for line in told(call, graph) if line[0] == "input"] == [["a"], ["b"], ["c"]]


def test_only_what_is_new_of_the_input_is_stored(saver: Any, call: Call) -> None:
    graph = deltas(saver)
    for word in "abcd":
        call(graph, "invoke", [word], thread(), durability="sync")
    newest = call(saver, "get_tuple", thread())
    history = call(saver, "get_delta_channel_history", config=newest.config, channels=["in"])["in"]
    assert [write[2] for write in history["writes"]] == [["b"], ["c"], ["d"]]
    assert history["seed"].value == ["a"]


@pytest.mark.parametrize("durability", ["sync", "exit"])
@pytest.mark.parametrize("later", ["sync", "exit"])
def test_branches_of_delta_input_do_not_mix(saver: Any, call: Call, durability: Any, later: Any) -> None:
    graph = deltas(saver)
    for word in "ab":
        call(graph, "invoke", [word], thread(), durability=durability)
    base = next(
        state.config
        for state in call(graph, "get_state_history", thread())
        if state.values["in"] == ["a"] and not state.next
    )
    first = call(graph, "get_state", thread())
    call(graph, "invoke", ["x"], base, durability=later)
    assert call(graph, "get_state", thread()).values == {"in": ["a", "x"], "out": ["n1", "n2"]}
    assert call(graph, "get_state", first.config).values == first.values
    call(graph, "update_state", base, ["z"], as_node="n")
    assert call(graph, "get_state", thread()).values == {"in": ["a"], "out": ["n1", "z"]}
    call(graph, "update_state", base, ["y"], as_node="__input__")
    assert call(graph, "get_state", thread()).values == {"in": ["a", "y"], "out": ["n1"]}
    assert call(graph, "invoke", None, thread(), output_keys=["in", "out"]) == {"in": ["a", "y"], "out": ["n1", "n2"]}
    assert ["a", "b"] in [state.values["in"] for state in call(graph, "get_state_history", thread())]


def test_input_whose_checkpoint_never_came_is_not_part_of_what_follows(saver: Any, call: Call) -> None:
    """A crash between the two leaves the input on the checkpoint before it."""
    graph = deltas(saver)
    for word in "ab":
        call(graph, "invoke", [word], thread(), durability="sync")
    newest = call(saver, "get_tuple", thread()).config
    call(
        saver,
        "put_writes",
        newest,
        [("in", ["lost"])],
        made_up_id(newest["configurable"]["checkpoint_id"], "__input__"),
    )
    assert call(graph, "get_state", thread()).values == {"in": ["a", "b"], "out": ["n1", "n2"]}
    call(graph, "invoke", Command(goto=Send("n", [])), thread(), durability="sync")
    assert call(graph, "get_state", thread()).values == {"in": ["a", "b"], "out": ["n1", "n2", "n0"]}
    call(graph, "invoke", ["c"], thread(), durability="sync")
    assert call(graph, "get_state", thread()).values["in"] == ["a", "b", "c"]
