"""Messages in the state: what adding, replacing and removing does, on dicts and on LangChain's objects."""

from __future__ import annotations

import subprocess
import sys
from typing import Any
from uuid import UUID

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.messages import RemoveMessage as RemoveObject

from threadmark.channels import BinaryOperatorAggregate
from threadmark.graph import END, START, MessagesState, StateGraph, add_messages
from threadmark.graph.message import (
    REMOVE_ALL_MESSAGES,
    InvalidMessageError,
    MessageFold,
    RemoveMessage,
    _messages_delta_reducer,
    push_message,
)

Message = Any


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a program that has not loaded LangChain."""
    monkeypatch.delitem(sys.modules, "langchain_core.messages")


@pytest.fixture(params=["dicts", "objects"])
def make(request: pytest.FixtureRequest) -> Any:
    """Makes a message of one kind: ``make(content, id)``."""
    if request.param == "dicts":
        request.getfixturevalue("bare")
        return lambda content, id=None: {"role": "user", "content": content, **({"id": id} if id else {})}
    return lambda content, id=None: HumanMessage(content, id=id)


def told(messages: list[Message]) -> list[tuple[str, str]]:
    """Contents and ids."""
    return [
        (one["content"], one["id"]) if isinstance(one, dict) else (str(one.content), str(one.id)) for one in messages
    ]


def test_a_message_with_a_new_id_is_appended(make: Any) -> None:
    assert told(add_messages([make("a", "1")], make("b", "2"))) == [("a", "1"), ("b", "2")]


def test_a_message_with_a_known_id_takes_the_old_ones_place(make: Any) -> None:
    before = [make("a", "1"), make("b", "2")]
    assert told(add_messages(before, [make("new", "1")])) == [("new", "1"), ("b", "2")]
    assert told(before) == [("a", "1"), ("b", "2")]


def test_of_two_messages_with_one_id_the_later_counts(make: Any) -> None:
    assert told(add_messages([], [make("first", "1"), make("second", "1")])) == [("second", "1")]


def test_a_message_without_id_is_given_one(make: Any) -> None:
    ((_, first), (_, second)) = told(add_messages([make("a")], [make("a")]))
    assert UUID(first).version == UUID(second).version == 4
    assert first != second


def test_a_removal_takes_the_message_out(make: Any) -> None:
    before = [make("a", "1"), make("b", "2")]
    assert told(add_messages(before, RemoveMessage("1"))) == [("b", "2")]
    assert told(add_messages(before, [RemoveMessage("1"), RemoveMessage("1")])) == [("b", "2")]


def test_what_comes_after_a_removal_with_its_id_is_kept(make: Any) -> None:
    before = [make("a", "1"), make("b", "2")]
    assert told(add_messages(before, [RemoveMessage("1"), make("again", "1")])) == [("again", "1"), ("b", "2")]


def test_removing_what_is_not_there_is_an_error_that_says_which(make: Any) -> None:
    with pytest.raises(InvalidMessageError, match="'9'"):
        add_messages([make("a", "1")], RemoveMessage("9"))


def test_removing_all_keeps_only_what_stands_behind_it(make: Any) -> None:
    update = [make("old", "2"), RemoveMessage(REMOVE_ALL_MESSAGES), make("new", "3")]
    assert told(add_messages([make("a", "1")], update)) == [("new", "3")]
    assert add_messages([make("a", "1")], RemoveMessage(REMOVE_ALL_MESSAGES)) == []


def test_pairs_and_strings_stand_for_messages(make: Any) -> None:
    added = add_messages([], [("system", "be kind"), "hello"])
    assert [content for content, _ in told(added)] == ["be kind", "hello"]


@pytest.mark.usefixtures("bare")
def test_without_langchain_dicts_stay_dicts_and_are_not_changed() -> None:
    given = {"role": "tool", "content": "42", "tool_call_id": "c1"}
    (added,) = add_messages([], given)
    assert added == {**given, "id": added["id"]}
    assert "id" not in given


@pytest.mark.usefixtures("bare")
def test_a_dict_used_again_is_another_message() -> None:
    hello = {"role": "user", "content": "hello"}
    assert len(add_messages(add_messages([], hello), hello)) == 2


def test_with_langchain_dicts_become_its_messages() -> None:
    added = add_messages([{"role": "user", "content": "old", "id": "1"}], [{"role": "ai", "content": "new", "id": "2"}])
    assert [type(one) for one in added] == [HumanMessage, AIMessage]
    assert add_messages(added, {"role": "remove", "id": "1"}) == [added[1]]


def test_a_chunk_becomes_a_message() -> None:
    assert add_messages([], AIMessageChunk("part", id="1")) == [AIMessage("part", id="1")]


@pytest.mark.parametrize("wrong", [5, {"content": "no role"}, object(), ("too", "many", "parts"), {"role": "clown"}])
def test_what_is_no_message_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidMessageError, match="no message"):
        add_messages([], [wrong])


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("wrong", [5, {"content": "no role"}, object(), ("too", "many", "parts")])
def test_what_is_no_message_is_refused_without_langchain_too(wrong: object) -> None:
    with pytest.raises(InvalidMessageError, match="no message"):
        add_messages([], [wrong])


def test_one_list_alone_is_a_mistake() -> None:
    with pytest.raises(InvalidMessageError, match="left"):
        add_messages(None, [])
    with pytest.raises(InvalidMessageError, match="right"):
        add_messages([], None)


def test_a_format_brings_contents_into_shape() -> None:
    reducer = add_messages(format="langchain-openai")
    (made,) = reducer([], HumanMessage([{"type": "text", "text": "hi", "cache_control": {"type": "x"}}], id="1"))
    assert (made.content, made.id) == ("hi", "1")
    assert BinaryOperatorAggregate(list, reducer).operator is reducer


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(InvalidMessageError, match="langchain-openai"):
        add_messages([], [], format="morse")


# -- the reducer for delta channels ----------------------------------------------------------------------------------


def test_several_writes_are_folded_in_order(make: Any) -> None:
    writes = [[make("a", "1"), make("b", "2")], make("c", "3"), [make("new", "2"), RemoveMessage("1")]]
    assert told(_messages_delta_reducer([], writes)) == [("new", "2"), ("c", "3")]


def test_a_removed_message_that_comes_again_stands_at_the_end(make: Any) -> None:
    before = [make("a", "1"), make("b", "2")]
    writes = [[RemoveMessage("1")], [make("again", "1")]]
    assert told(_messages_delta_reducer(before, writes)) == [("b", "2"), ("again", "1")]
    assert told(_messages_delta_reducer(before, [[*writes[0], *writes[1]]])) == [("b", "2"), ("again", "1")]


def test_a_removal_of_what_is_not_there_says_nothing(make: Any) -> None:
    assert told(_messages_delta_reducer([make("a", "1")], [[RemoveMessage("9")]])) == [("a", "1")]


def test_a_fold_sees_that_its_list_was_changed_elsewhere(make: Any) -> None:
    fold = MessageFold()
    state = fold([], [[make("a", "1"), make("b", "2")]])
    del state[0]
    assert told(fold(state, [[make("new", "2")]])) == [("new", "2")]
    assert told(fold([make("other", "2")], [[make("c", "3")]])) == [("other", "2"), ("c", "3")]


def test_a_fold_leaves_older_lists_alone(make: Any) -> None:
    fold = MessageFold()
    first = fold([], [[make("a", "1")]])
    second = fold(first, [[make("b", "2")]])
    assert told(first) == [("a", "1")]
    assert told(second) == [("a", "1"), ("b", "2")]


# -- in graphs -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("bare")
def test_a_router_sees_the_ids_that_the_state_will_have() -> None:
    seen: list[str] = []

    def route(state: MessagesState) -> str:
        seen.append(state["messages"][-1]["id"])
        return END

    builder = StateGraph(MessagesState)
    builder.add_node("a", lambda state: {"messages": {"role": "ai", "content": "yes"}})
    builder.add_edge(START, "a")
    builder.add_conditional_edges("a", route)
    out = builder.compile().invoke({"messages": "hello"})
    assert [out["messages"][-1]["id"]] == seen
    assert [one["content"] for one in out["messages"]] == ["hello", "yes"]


def test_a_pushed_message_is_streamed_and_kept() -> None:
    def node(state: MessagesState) -> None:
        push_message(AIMessage("kept", id="1"))
        push_message({"role": "ai", "content": "only shown", "id": "2"}, state_key=None)

    builder = StateGraph(MessagesState)
    builder.add_node("a", node)
    builder.add_edge(START, "a")
    graph = builder.compile()
    shown = list(graph.stream({"messages": []}, stream_mode="messages"))
    assert [(message.content, where["langgraph_node"]) for message, where in shown] == [
        ("kept", "a"),
        ("only shown", "a"),
    ]
    assert graph.invoke({"messages": []})["messages"] == [AIMessage("kept", id="1")]


def test_a_pushed_message_needs_an_id_and_a_node() -> None:
    with pytest.raises(InvalidMessageError, match="ID is required"):
        push_message(AIMessage("x"))
    with pytest.raises(RuntimeError, match="node"):
        push_message(AIMessage("x", id="1"))


def test_a_state_of_messages_may_have_other_keys() -> None:
    class State(MessagesState):
        topic: str

    builder = StateGraph(State)
    builder.add_node("a", lambda state: {"messages": ("ai", state["topic"])})
    builder.add_edge(START, "a")
    out = builder.compile().invoke({"messages": [], "topic": "cats"})
    assert isinstance(out["messages"][0], BaseMessage)
    assert out["messages"][0].content == "cats"


def test_a_program_without_langchain_keeps_dicts_and_never_loads_it() -> None:
    program = """
import sys
from threadmark.graph import START, MessagesState, StateGraph
builder = StateGraph(MessagesState)
builder.add_node("a", lambda state: {"messages": {"role": "ai", "content": "hi"}})
builder.add_edge(START, "a")
graph = builder.compile()
print([message["role"] for message, _ in graph.stream({"messages": "hello"}, stream_mode="messages")])
print([type(one).__name__ for one in graph.invoke({"messages": "hello"})["messages"]])
print("langchain_core" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:3] == ["['ai']", "['dict', 'dict']", "False"]


def test_the_removal_is_langchains_own_when_that_is_there() -> None:
    assert RemoveMessage("1") == RemoveObject(id="1")
