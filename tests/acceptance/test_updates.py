"""Speaking for a node: ``update_state`` and ``bulk_update_state`` (spec 6.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest

from tests.acceptance.kit import Log, Pair, chain, fan, id_of, lines, say, thread
from tests.conftest import Call
from threadmark.errors import InvalidUpdateError
from threadmark.graph import END, START, StateGraph
from threadmark.types import Command, Send, StateUpdate, interrupt

Node = Callable[[Any], Any]


def edited(call: Call, graph: Any, values: Any, as_node: str | None = None, config: Any = None) -> Any:
    """Update, and the snapshot of what it made."""
    return call(graph, "get_state", call(graph, "update_state", config or thread(), values, as_node=as_node))


def test_an_update_makes_a_checkpoint_and_leaves_the_old_one(saver: Any, call: Call) -> None:
    graph = chain("a", "b").compile(checkpointer=saver, interrupt_before=["b"])
    call(graph, "invoke", {"log": []}, thread())
    before = call(graph, "get_state", thread())
    made = edited(call, graph, {"log": ["edit"]})
    assert (made.values, made.next) == ({"log": ["a", "edit"]}, ("b",))
    assert made.metadata["source"] == "update"
    assert made.metadata["step"] == before.metadata["step"] + 1
    assert made.metadata["writes"] == {"a": {"log": ["edit"]}}
    assert made.parent_config == before.config
    assert call(graph, "get_state", before.config).values == before.values
    assert saver.get_tuple(made.config).checkpoint["updated_channels"] is None
    assert call(graph, "invoke", None, thread()) == {"log": ["a", "edit", "b"]}


def test_reducers_apply_and_plain_keys_are_replaced(saver: Any, call: Call, node: Node) -> None:
    graph = chain(("a", node(lambda state: {"foo": "1", "bar": ["1"]})), schema=Pair).compile(checkpointer=saver)
    call(graph, "invoke", {"foo": "0"}, thread())
    assert edited(call, graph, {"foo": "2", "bar": ["2"], "unknown": 1}).values == {"foo": "2", "bar": ["1", "2"]}


@pytest.mark.parametrize("values", ["text", 3, [1]])
def test_values_must_be_a_dict(saver: Any, call: Call, values: Any) -> None:
    graph = chain("a").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    with pytest.raises(InvalidUpdateError):
        call(graph, "update_state", thread(), values)
    assert len(list(saver.list(thread()))) == 3


def test_no_values_still_follow_the_edges(saver: Any, call: Call) -> None:
    graph = chain("a", "b").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    made = edited(call, graph, None, "a")
    assert (made.values, made.next) == ({"log": ["a", "b"]}, ("b",))


def test_as_node_decides_what_comes_next(saver: Any, call: Call, node: Node) -> None:
    builder = chain("a", "b").add_node("c", say("c"))
    builder.add_conditional_edges("b", node(lambda state: "c" if "go" in state["log"] else END))
    graph = builder.compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    assert edited(call, graph, {"log": ["x"]}, "a").next == ("b",)
    assert edited(call, graph, {"log": ["x"]}, "b").next == ()
    assert edited(call, graph, {"log": ["go"]}, "b").next == ("c",)
    assert edited(call, graph, {"log": ["x"]}, "c").next == ()
    assert call(graph, "invoke", None, thread())["log"] == ["a", "b", "x", "x", "go", "x"]


def test_a_command_as_values_leads_on(saver: Any, call: Call) -> None:
    graph = chain("a").add_node("b", say("b")).compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    assert edited(call, graph, Command(update={"log": ["u"]}, goto=["b", Send("b", {})]), "a").next == ("b", "b")
    assert call(graph, "invoke", None, thread())["log"] == ["a", "u", "b", "b"]


# -- which node


def test_the_only_node_is_meant(saver: Any, call: Call) -> None:
    graph = chain("a").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    assert edited(call, graph, {"log": ["u"]}).next == ()


def test_on_a_new_thread_the_input_is_meant(saver: Any, call: Call) -> None:
    graph = chain("a", "b").compile(checkpointer=saver)
    assert edited(call, graph, {"log": ["u"]}).next == ("a",)
    assert call(graph, "invoke", None, thread()) == {"log": ["u", "a", "b"]}


def test_the_node_that_ran_last_is_meant(saver: Any, call: Call) -> None:
    graph = chain("a", "b", "c").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread(), interrupt_before=["b"])
    assert edited(call, graph, {"log": ["u"]}).next == ("b",)
    call(graph, "invoke", None, thread())
    assert edited(call, graph, {"log": ["u"]}).next == ()


def test_two_that_ran_last_are_one_too_many(saver: Any, call: Call) -> None:
    graph = fan("a", "b").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    with pytest.raises(InvalidUpdateError, match="as_node"):
        call(graph, "update_state", thread(), {"log": ["u"]})
    assert edited(call, graph, {"log": ["u"]}, "a").values == {"log": ["a", "b", "u"]}


def test_a_node_that_does_not_exist_is_refused(saver: Any, call: Call) -> None:
    graph = chain("a").compile(checkpointer=saver)
    with pytest.raises(InvalidUpdateError, match="'x' does not exist"):
        call(graph, "update_state", thread(), {"log": ["u"]}, as_node="x")
    assert list(saver.list(None)) == []


# -- what it does to what was due


def test_an_update_for_one_of_several_due_nodes_drops_the_others(saver: Any, call: Call) -> None:
    graph = fan("b", "c").compile(checkpointer=saver, interrupt_before="*")
    call(graph, "invoke", {"log": []}, thread())
    assert call(graph, "get_state", thread()).next == ("b", "c")
    assert edited(call, graph, {"log": ["u"]}, "b").next == ()


def test_one_superstep_of_updates_for_all_due_nodes_keeps_them(saver: Any, call: Call) -> None:
    builder = fan("b", "c").add_node("d", say("d")).add_edge(["b", "c"], "d")
    graph = builder.compile(checkpointer=saver, interrupt_before=["b", "c"])
    call(graph, "invoke", {"log": []}, thread())
    both = [StateUpdate({"log": ["B"]}, "b"), StateUpdate({"log": ["C"]}, "c")]
    made = call(graph, "get_state", call(graph, "bulk_update_state", thread(), [both]))
    assert (made.values, made.next) == ({"log": ["B", "C"]}, ("d",))
    assert made.metadata["writes"] == {"b": {"log": ["B"]}, "c": {"log": ["C"]}}
    assert call(graph, "invoke", None, thread()) == {"log": ["B", "C", "d"]}


def test_an_update_stands_in_the_history_as_the_task_s_result(saver: Any, call: Call) -> None:
    graph = chain("a", "b").compile(checkpointer=saver, interrupt_before=["b"])
    call(graph, "invoke", {"log": []}, thread())
    edited(call, graph, {"log": ["B"]}, "b")
    before = call(graph, "get_state_history", thread())[1]
    assert [(task.name, task.result) for task in before.tasks] == [("b", {"log": ["B"]})]


def test_an_update_answers_a_question_by_speaking_for_its_node(saver: Any, call: Call, node: Node) -> None:
    graph = chain(("ask", node(lambda state: {"log": [interrupt("?")]})), "b").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    made = edited(call, graph, {"log": ["said"]}, "ask")
    assert (made.next, made.interrupts) == (("b",), ())
    assert call(graph, "invoke", None, thread()) == {"log": ["said", "b"]}


def test_an_update_before_a_question_asks_it_anew(saver: Any, call: Call, node: Node) -> None:
    graph = chain("a", ("ask", node(lambda state: {"log": [interrupt("?")]}))).compile(checkpointer=saver)
    (first,) = call(graph, "invoke", {"log": []}, thread())["__interrupt__"]
    made = edited(call, graph, {"log": ["u"]}, "a")
    assert (made.next, made.interrupts) == (("ask",), ())
    (second,) = call(graph, "invoke", None, thread())["__interrupt__"]
    assert second.id != first.id
    assert call(graph, "invoke", Command(resume="A"), thread()) == {"log": ["a", "u", "A"]}


def test_after_a_failure_an_update_speaks_for_the_node_that_failed(saver: Any, call: Call, node: Node) -> None:
    def fail(state: Log) -> None:
        raise ValueError("down")

    graph = chain("a", ("b", node(fail)), "c").compile(checkpointer=saver)
    with pytest.raises(ValueError, match="down"):
        call(graph, "invoke", {"log": []}, thread())
    made = edited(call, graph, {"log": ["B"]}, "b")
    assert made.next == ("c",)
    assert call(graph, "invoke", None, thread()) == {"log": ["a", "B", "c"]}


# -- old checkpoints


def test_an_update_of_an_old_checkpoint_is_a_fork(saver: Any, call: Call) -> None:
    graph = chain("a", "b", "c").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    old = call(graph, "get_state_history", thread())
    at_b = old[2]
    assert at_b.next == ("b",)
    made = edited(call, graph, {"log": ["FORK"]}, "a", at_b.config)
    assert (made.values, made.next, made.parent_config) == ({"log": ["a", "FORK"]}, ("b",), at_b.config)
    assert call(graph, "get_state", thread()).config == made.config
    assert call(graph, "invoke", None, thread()) == {"log": ["a", "FORK", "b", "c"]}
    assert call(graph, "get_state_history", thread())[3:] == old


def test_two_forks_of_one_checkpoint_keep_their_values(saver: Any, call: Call) -> None:
    graph = chain("a", "b").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    at_b = call(graph, "get_state_history", thread())[1]
    one = call(graph, "update_state", at_b.config, {"log": ["one"]}, as_node="a")
    two = call(graph, "update_state", at_b.config, {"log": ["two"]}, as_node="a")
    assert call(graph, "get_state", one).values == {"log": ["a", "one"]}
    assert call(graph, "get_state", two).values == {"log": ["a", "two"]}


def strict(left: list[str], right: list[str]) -> list[str]:
    if not left and right != ["first"]:
        raise ValueError("something is missing")
    return left + right


class Said(TypedDict):
    log: Annotated[list[str], strict]


def test_what_a_command_wrote_beside_its_answer_does_not_hide_what_the_node_wrote(
    saver: Any, call: Call, node: Node
) -> None:
    def ask(state: Said) -> dict[str, list[str]]:
        return {"log": [interrupt("?")]}

    builder = StateGraph(Said)
    builder.add_node("ask", node(ask))
    builder.add_edge(START, "ask")
    graph = builder.compile(checkpointer=saver)
    call(graph, "invoke", {"log": ["first"]}, thread())
    told = call(graph, "invoke", Command(resume="yes", update={"log": ["beside"]}), thread())
    assert told["log"] == ["first", "beside", "yes"]
    assert call(graph, "get_state", thread()).metadata["writes"] == {"ask": {"log": ["yes"]}}
    assert call(graph, "get_state_history", thread())[0].metadata["writes"] == {"ask": {"log": ["yes"]}}


# -- special nodes


def test_end_drops_what_is_due_and_keeps_what_finished(saver: Any, call: Call, node: Node) -> None:
    def fail(state: Log) -> None:
        raise ValueError("down")

    graph = fan(("a", node(say("a"))), ("b", node(fail))).compile(checkpointer=saver)
    with pytest.raises(ValueError, match="down"):
        call(graph, "invoke", {"log": []}, thread())
    with pytest.raises(InvalidUpdateError, match="None"):
        call(graph, "update_state", thread(), {"log": ["x"]}, as_node=END)
    made = edited(call, graph, None, END)
    assert (made.values, made.next) == ({"log": ["a"]}, ())
    assert call(graph, "invoke", None, thread()) == {"log": ["a"]}


def test_input_is_like_input(saver: Any, call: Call) -> None:
    graph = chain("a").compile(checkpointer=saver)
    made = edited(call, graph, {"log": ["in"]}, "__input__")
    assert (made.next, made.metadata["source"], made.metadata["step"]) == (("__start__",), "input", -1)
    assert made.metadata["writes"] == {"log": ["in"]}
    assert call(graph, "invoke", None, thread()) == {"log": ["in", "a"]}
    with pytest.raises(InvalidUpdateError):
        call(graph, "update_state", thread(), None, as_node="__input__")


def test_start_is_a_node_like_others(saver: Any, call: Call) -> None:
    graph = chain("a").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    made = edited(call, graph, {"log": ["in"]}, START)
    assert (made.values, made.next, made.metadata["source"]) == ({"log": ["a", "in"]}, ("a",), "update")


def test_a_copy_takes_updates_along(saver: Any, call: Call) -> None:
    graph = chain("a", "b").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    at_b = call(graph, "get_state_history", thread())[1]
    call(graph, "update_state", at_b.config, [({"log": ["x"]}, "a")], as_node="__copy__")
    assert lines(call(graph, "get_state_history", thread()))[4:] == [
        "#4 p=1 fork/2 [a] (b)",
        "#5 p=4 update/3 [a x] (b)",
    ]
    with pytest.raises(InvalidUpdateError, match="copy"):
        call(graph, "update_state", thread("none"), None, as_node="__copy__")


def test_special_nodes_stand_alone(saver: Any, call: Call) -> None:
    graph = chain("a").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    both = [StateUpdate({"log": ["x"]}, "a"), StateUpdate(None, END)]
    with pytest.raises(InvalidUpdateError, match="only update"):
        call(graph, "bulk_update_state", thread(), [both])


# -- several supersteps


def test_supersteps_of_updates_follow_one_another(saver: Any, call: Call) -> None:
    graph = chain("a", "b", "c").compile(checkpointer=saver)
    call(graph, "bulk_update_state", thread(), [[StateUpdate({"log": [name]}, name)] for name in "ab"])
    assert lines(call(graph, "get_state_history", thread())) == [
        "#0 p=- update/0 [a] (b)",
        "#1 p=0 update/1 [a b] (c)",
    ]
    assert call(graph, "invoke", None, thread()) == {"log": ["a", "b", "c"]}


@pytest.mark.parametrize("supersteps", [[], [[]]])
def test_nothing_to_update_is_an_error(saver: Any, call: Call, supersteps: Any) -> None:
    with pytest.raises(ValueError, match="superstep"):
        call(chain("a").compile(checkpointer=saver), "bulk_update_state", thread(), supersteps)


def test_several_updates_of_one_superstep_must_name_their_nodes(saver: Any, call: Call) -> None:
    graph = fan("a", "b").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    with pytest.raises(InvalidUpdateError, match="as_node"):
        call(graph, "bulk_update_state", thread(), [[StateUpdate({"log": ["x"]}, "a"), StateUpdate({"log": ["y"]})]])
    assert len(list(saver.list(thread()))) == 3


def test_several_updates_for_one_node_all_count(saver: Any, call: Call) -> None:
    graph = chain("a").compile(checkpointer=saver)
    twice = [StateUpdate({"log": ["1"]}, "a"), StateUpdate({"log": ["2"]}, "a")]
    made = call(graph, "get_state", call(graph, "bulk_update_state", thread(), [twice]))
    assert made.values == {"log": ["1", "2"]}


def test_an_update_gets_its_own_namespace_and_id(saver: Any, call: Call) -> None:
    graph = chain("a").compile(checkpointer=saver)
    made = call(graph, "update_state", thread("x"), {"log": ["u"]})
    assert made["configurable"].keys() == {"thread_id", "checkpoint_ns", "checkpoint_id"}
    assert made["configurable"]["checkpoint_id"] == id_of(call(graph, "get_state", thread("x")))


async def test_an_async_router_is_asked_by_an_async_update_only(saver: Any) -> None:
    async def where(state: Log) -> str:
        return "b"

    builder = StateGraph(Log).add_node("a", say("a")).add_node("b", say("b")).add_edge(START, "a")
    graph = builder.add_conditional_edges("a", where).compile(checkpointer=saver)
    made = await graph.aupdate_state(thread(), {"log": ["u"]}, as_node="a")
    assert (await graph.aget_state(made)).next == ("b",)
    with pytest.raises(TypeError, match="aupdate_state"):
        graph.update_state(thread("2"), {"log": ["u"]}, as_node="a")
