"""Replay and fork: calling a graph at a checkpoint of the past (spec 6.5, 6.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.kit import Log, chain, fan, id_of, lines, thread
from tests.conftest import Call
from threadmark.errors import EmptyInputError
from threadmark.types import Command, interrupt

Node = Callable[[Any], Any]

BEFORE = [
    "#0 p=- input/-1 [] (__start__)",
    "#1 p=0 loop/0 [] (a)",
    "#2 p=1 loop/1 [a] (b)",
    "#3 p=2 loop/2 [a b] (c)",
    "#4 p=3 loop/3 [a b c] ()",
]


class Counted:
    """a -> b -> c, run once; ``ran`` says what has run since."""

    def __init__(self, saver: Any, call: Call, node: Node) -> None:
        self.ran: list[str] = []
        self.saver, self.call = saver, call
        self.graph = chain(*((name, node(self.step(name))) for name in "abc")).compile(checkpointer=saver)
        call(self.graph, "invoke", {"log": []}, thread())
        self.ran.clear()
        self.before = call(self.graph, "get_state_history", thread())[::-1]
        self.stored = list(saver.list(thread()))

    def step(self, name: str) -> Callable[[Log], dict[str, list[str]]]:
        def run(state: Log) -> dict[str, list[str]]:
            self.ran.append(name)
            return {"log": [name]}

        return run

    def at(self, number: int) -> Any:
        return self.before[number].config

    def history(self) -> list[str]:
        return lines(self.call(self.graph, "get_state_history", thread()))

    def check_the_past(self) -> None:
        """What was stored before is stored still, byte by byte as far as anybody can see."""
        assert list(self.saver.list(thread()))[-len(self.stored) :] == self.stored


@pytest.fixture
def counted(saver: Any, call: Call, node: Node) -> Counted:
    made = Counted(saver, call, node)
    assert made.history() == BEFORE
    return made


@pytest.mark.parametrize(
    ("number", "ran", "new"),
    [
        (
            0,
            ["a", "b", "c"],
            [
                "#5 p=0 fork/0 [] (__start__)",
                "#6 p=5 loop/1 [] (a)",
                "#7 p=6 loop/2 [a] (b)",
                "#8 p=7 loop/3 [a b] (c)",
                "#9 p=8 loop/4 [a b c] ()",
            ],
        ),
        (2, ["b", "c"], ["#5 p=2 fork/2 [a] (b)", "#6 p=5 loop/3 [a b] (c)", "#7 p=6 loop/4 [a b c] ()"]),
        (3, ["c"], ["#5 p=3 fork/3 [a b] (c)", "#6 p=5 loop/4 [a b c] ()"]),
        (4, [], ["#5 p=4 fork/4 [a b c] ()"]),
    ],
)
def test_a_replay_runs_what_comes_after_a_checkpoint(
    counted: Counted, call: Call, number: int, ran: list[str], new: list[str]
) -> None:
    assert call(counted.graph, "invoke", None, counted.at(number)) == {"log": ["a", "b", "c"]}
    assert counted.ran == ran
    assert counted.history() == BEFORE + new
    counted.check_the_past()
    fork = call(counted.graph, "get_state_history", thread(), filter={"source": "fork"})[0]
    assert fork.metadata["writes"] is None


def test_a_thread_without_an_id_goes_on_with_the_replay(counted: Counted, call: Call) -> None:
    call(counted.graph, "invoke", None, counted.at(2), interrupt_before=["c"])
    assert call(counted.graph, "get_state", thread()).next == ("c",)
    counted.ran.clear()
    assert call(counted.graph, "invoke", None, thread()) == {"log": ["a", "b", "c"]}
    assert counted.ran == ["c"]


def test_new_input_at_an_old_checkpoint_branches_there(counted: Counted, call: Call) -> None:
    assert call(counted.graph, "invoke", {"log": ["new"]}, counted.at(2)) == {"log": ["a", "new", "a", "b", "c"]}
    assert counted.history()[5:7] == ["#5 p=2 input/2 [a] (__start__)", "#6 p=5 loop/3 [a new] (a)"]
    counted.check_the_past()


def test_an_update_or_copy_that_is_the_newest_runs_without_another_fork(counted: Counted, call: Call) -> None:
    made = call(counted.graph, "update_state", counted.at(2), {"log": ["x"]}, as_node="a")
    assert call(counted.graph, "invoke", None, made) == {"log": ["a", "x", "b", "c"]}
    assert counted.history()[5:7] == ["#5 p=2 update/2 [a x] (b)", "#6 p=5 loop/3 [a x b] (c)"]
    assert call(counted.graph, "invoke", None, made) == {"log": ["a", "x", "b", "c"]}
    assert counted.history()[8] == "#8 p=5 fork/3 [a x] (b)"
    counted.check_the_past()


def test_a_command_at_an_old_checkpoint_forks_with_its_writes(counted: Counted, call: Call) -> None:
    command = Command(update={"log": ["u"]}, goto="c")
    assert call(counted.graph, "invoke", command, counted.at(2)) == {"log": ["a", "u", "b", "c", "c"]}
    assert counted.history()[5:7] == ["#5 p=2 fork/2 [a u] (b,c)", "#6 p=5 loop/3 [a u b c] (c)"]
    counted.check_the_past()


def test_a_replay_begins_with_what_commands_had_written(counted: Counted, call: Call) -> None:
    call(counted.graph, "invoke", Command(update={"log": ["u"]}, goto="c"), thread())
    assert counted.history()[4:] == ["#4 p=3 loop/3 [a b c u] (c)", "#5 p=4 loop/4 [a b c u c] ()"]
    stored = list(counted.saver.list(thread()))
    assert call(counted.graph, "invoke", None, counted.at(4)) == {"log": ["a", "b", "c", "u", "c"]}
    assert counted.history()[6:] == ["#6 p=4 fork/4 [a b c u] (c)", "#7 p=6 loop/5 [a b c u c] ()"]
    assert list(counted.saver.list(thread()))[-len(stored) :] == stored


def test_an_unknown_id_has_nothing_to_go_on_with_but_takes_input(counted: Counted, call: Call) -> None:
    nowhere = thread(checkpoint_id="1ef663ba-28fe-6528-8002-5a559208592c")
    with pytest.raises(EmptyInputError):
        call(counted.graph, "invoke", None, nowhere)
    counted.check_the_past()
    assert call(counted.graph, "invoke", {"log": ["n"]}, nowhere) == {"log": ["n", "a", "b", "c"]}
    first = call(counted.graph, "get_state_history", thread(), filter={"source": "input"})[0]
    assert first.parent_config["configurable"]["checkpoint_id"] == nowhere["configurable"]["checkpoint_id"]


def test_a_replay_reads_like_the_first_run_to_whoever_listens(counted: Counted, call: Call) -> None:
    assert call(counted.graph, "stream", None, counted.at(2), stream_mode=["values", "updates"]) == [
        ("values", {"log": ["a"]}),
        ("updates", {"b": {"log": ["b"]}}),
        ("values", {"log": ["a", "b"]}),
        ("updates", {"c": {"log": ["c"]}}),
        ("values", {"log": ["a", "b", "c"]}),
    ]


def asking(saver: Any, node: Node, ran: list[str]) -> Any:
    def ask(state: Log) -> dict[str, list[str]]:
        return {"log": [interrupt("?")]}

    def sibling(state: Log) -> dict[str, list[str]]:
        ran.append("s")
        return {"log": ["s"]}

    return fan(("ask", node(ask)), ("sibling", node(sibling))).compile(checkpointer=saver)


def test_a_replay_asks_again(saver: Any, call: Call, node: Node) -> None:
    ran: list[str] = []
    graph = asking(saver, node, ran)
    call(graph, "invoke", {"log": []}, thread())
    pause = call(graph, "get_state", thread())
    assert call(graph, "invoke", Command(resume="first"), thread()) == {"log": ["first", "s"]}
    (question,) = call(graph, "invoke", None, pause.config)["__interrupt__"]
    assert question.id != pause.interrupts[0].id
    assert call(graph, "invoke", Command(resume="second"), thread()) == {"log": ["second", "s"]}
    assert ran == ["s", "s"]
    assert [one.values["log"] for one in call(graph, "get_state_history", thread()) if not one.next] == [
        ["second", "s"],
        ["first", "s"],
    ]


def test_naming_the_head_s_id_is_time_travel_too(saver: Any, call: Call, node: Node) -> None:
    ran: list[str] = []
    graph = asking(saver, node, ran)
    call(graph, "invoke", {"log": []}, thread())
    head = call(graph, "get_state", thread())
    call(graph, "invoke", None, thread(checkpoint_id=id_of(head)))
    assert ran == ["s", "s"]
    assert lines(call(graph, "get_state_history", thread()))[2:] == ["#2 p=1 fork/1 [] (ask,sibling)"]


def test_an_answer_at_a_superseded_checkpoint_runs_the_whole_step_again(saver: Any, call: Call, node: Node) -> None:
    ran: list[str] = []
    graph = asking(saver, node, ran)
    call(graph, "invoke", {"log": []}, thread())
    pause = call(graph, "get_state", thread())
    call(graph, "update_state", thread(), {"log": ["moved"]}, as_node="ask")
    assert call(graph, "invoke", Command(resume="late"), pause.config) == {"log": ["late", "s"]}
    assert ran == ["s", "s"]


def test_a_replay_in_exit_durability(counted: Counted, call: Call) -> None:
    assert call(counted.graph, "invoke", None, counted.at(2), durability="exit") == {"log": ["a", "b", "c"]}
    assert counted.history()[5:] == ["#5 p=2 loop/4 [a b c] ()"]
    counted.check_the_past()
