"""The ``messages`` stream with LangChain's chat models: tokens as they come, whole messages once (spec 10.2)."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest
from langchain_core.language_models import FakeListLLM, GenericFakeChatModel
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, RemoveMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda

from tests.conftest import Call
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.config import RunnableConfig
from threadmark.engine.task import Task
from threadmark.graph import END, START, CompiledStateGraph, MessagesState, StateGraph
from threadmark.types import Command, TimeoutPolicy, interrupt


class Silent(BaseChatModel):
    """A model that cannot stream."""

    @property
    def _llm_type(self) -> str:
        return "silent"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage("whole answer"))])


def model(*answers: str, **more: Any) -> Any:
    return GenericFakeChatModel(messages=iter([AIMessage(answer) for answer in answers]), **more)


def one(node: Any, **more: Any) -> CompiledStateGraph:
    builder = StateGraph(MessagesState)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return builder.compile(**more)


def heard(chunks: list[Any]) -> list[tuple[str, str, str]]:
    """Kind, text and node of each message."""
    return [
        ("token" if isinstance(message, AIMessageChunk) else "whole", message.content, where["langgraph_node"])
        for message, where in chunks
    ]


HELLO = {"messages": "hello"}


@pytest.fixture
def listen(call: Call) -> Any:
    def chunks(graph: CompiledStateGraph, input: Any = HELLO, config: Any = None, **more: Any) -> Any:
        return call(graph, "stream", input, config, stream_mode="messages", **more)

    return chunks


def asks(chat: Any) -> Any:
    """A node that calls a model without handing its config on, in either colour."""

    def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": chat.invoke(state["messages"])}

    async def anode(state: MessagesState) -> dict[str, Any]:
        return {"messages": await chat.ainvoke(state["messages"])}

    return node, anode


@pytest.mark.parametrize("kind", [0, 1])
def test_tokens_come_from_models_that_are_called_without_a_config(call: Call, listen: Any, kind: int) -> None:
    if kind and call.colour == "sync":
        kind = 0
    chunks = listen(one(asks(model("a b"))[kind]))
    assert heard(chunks) == [("token", "a", "node"), ("token", " ", "node"), ("token", "b", "node")]
    assert len({message.id for message, _ in chunks}) == 1


def test_tokens_come_from_models_that_are_given_the_config_once(listen: Any) -> None:
    chat = model("a b")

    def node(state: MessagesState, config: RunnableConfig) -> dict[str, Any]:
        return {"messages": chat.invoke(state["messages"], config)}

    assert [text for _, text, _ in heard(listen(one(node)))] == ["a", " ", "b"]


def test_a_chain_as_a_node(listen: Any) -> None:
    chain = RunnableLambda(lambda state: state["messages"]) | model("a b") | (lambda made: {"messages": [made]})
    chunks = listen(one(chain))
    assert [text for _, text, _ in heard(chunks)] == ["a", " ", "b"]
    assert all("tags" not in where for _, where in chunks)


def test_a_model_that_does_not_stream_is_heard_whole_and_once(listen: Any) -> None:
    assert heard(listen(one(asks(Silent())[0]))) == [("whole", "whole answer", "node")]


def test_what_a_model_says_in_passing_is_heard_too(listen: Any) -> None:
    chat = model("a b")

    def node(state: MessagesState) -> dict[str, Any]:
        chat.invoke("think")
        return {"messages": AIMessage("done")}

    assert [text for _, text, _ in heard(listen(one(node)))] == ["a", " ", "b", "done"]


def test_a_router_is_heard_as_its_node(listen: Any) -> None:
    chat = model("left")
    builder = StateGraph(MessagesState)
    builder.add_node("node", lambda state: None)
    builder.add_edge(START, "node")
    builder.add_conditional_edges("node", lambda state: END if chat.invoke("where?") else "node")
    assert heard(listen(builder.compile())) == [("token", "left", "node")]


def test_models_that_are_no_chat_models_are_not_heard(listen: Any) -> None:
    llm = FakeListLLM(responses=["answer"])
    assert heard(listen(one(lambda state: {"messages": ("ai", llm.invoke("x"))}))) == []


def test_a_tag_silences_a_models_tokens(listen: Any) -> None:
    quiet = model("a b", tags=["nostream"])
    assert heard(listen(one(lambda state: quiet.invoke("x") and None))) == []


def test_the_metadata_says_where_and_by_whom(listen: Any) -> None:
    chat = model("x").with_config(tags=["mine"], metadata={"purpose": "test"})
    config = {"tags": ["run"], "metadata": {"user": "ann"}, "configurable": {"thread_id": "1"}}
    ((_, where),) = listen(one(asks(chat)[0]), config=config)
    assert where["tags"] == ["run", "mine"]
    assert (where["user"], where["purpose"], where["thread_id"]) == ("ann", "test", "1")
    assert (where["langgraph_node"], where["langgraph_step"]) == ("node", 1)
    assert where["langgraph_path"] == ("__pregel_pull", "node")
    assert where["langgraph_checkpoint_ns"].startswith("node:")
    assert where["ls_model_type"] == "chat"


# -- whole messages ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "texts"),
    [
        ({"messages": AIMessage("a")}, ["a"]),
        ({"messages": [AIMessage("a"), HumanMessage("b")]}, ["a", "b"]),
        (Command(update={"messages": [AIMessage("a")]}), ["a"]),
        ([Command(update={"messages": AIMessage("a")}), {"messages": [AIMessage("b")]}], ["a", "b"]),
        ({"messages": [AIMessage("a", id="1"), AIMessage("again", id="1")]}, ["a"]),
        ({"messages": []}, []),
        (None, []),
    ],
)
def test_messages_that_a_node_returns(listen: Any, result: Any, texts: list[str]) -> None:
    assert heard(listen(one(lambda state: result))) == [("whole", text, "node") for text in texts]


def test_a_streamed_message_has_the_id_that_the_state_has(call: Call) -> None:
    graph = one(lambda state: {"messages": AIMessage("a")})
    chunks = call(graph, "stream", HELLO, stream_mode=["messages", "values"])
    ((message, _),) = [payload for mode, payload in chunks if mode == "messages"]
    final = [payload for mode, payload in chunks if mode == "values"][-1]
    assert final["messages"][-1].id == message.id is not None


def test_what_a_node_was_given_is_not_told_again(listen: Any) -> None:
    def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [*state["messages"], AIMessage("new"), RemoveMessage(str(state["messages"][0].id))]}

    assert [text for _, text, _ in heard(listen(one(node)))] == ["new"]


def test_a_message_is_told_once_in_a_run(listen: Any) -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("a", lambda state: {"messages": AIMessage("first", id="1")})
    builder.add_node("b", lambda state: {"messages": AIMessage("second", id="1")})
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")
    assert heard(listen(builder.compile())) == [("whole", "first", "a")]


def test_messages_under_other_keys_are_told_too(listen: Any) -> None:
    class State(TypedDict):
        draft: BaseMessage
        count: int

    builder = StateGraph(State)
    builder.add_node("node", lambda state: {"draft": AIMessage("draft"), "count": 1})
    builder.add_edge(START, "node")
    assert heard(listen(builder.compile(), {"count": 0})) == [("whole", "draft", "node")]


def test_a_resumed_node_tells_only_what_is_new(call: Call, listen: Any) -> None:
    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": AIMessage(interrupt("?"))}

    graph = one(ask, checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    assert heard(listen(graph, {"messages": [HumanMessage("q", id="q")]}, config)) == []
    assert heard(listen(graph, Command(resume="yes"), config)) == [("whole", "yes", "node")]


# -- sub-graphs --------------------------------------------------------------------------------------------------------


def nested(how: str, *answers: str) -> CompiledStateGraph:
    child = one(asks(model(*answers))[0])
    if how == "node":
        return one(child)
    return one(lambda state: {"messages": child.invoke({"messages": "q"})["messages"][-1]})


@pytest.mark.parametrize("how", ["node", "called"])
def test_a_sub_graphs_tokens_come_with_its_namespace(call: Call, listen: Any, how: str) -> None:
    chunks = listen(nested(how, "a b"), subgraphs=True)
    assert [(len(ns), ns[0].split(":")[0], message.content) for ns, (message, _) in chunks] == [
        (1, "node", "a"),
        (1, "node", " "),
        (1, "node", "b"),
    ]


@pytest.mark.parametrize("how", ["node", "called"])
def test_without_sub_graphs_only_their_result_is_told(call: Call, listen: Any, how: str) -> None:
    assert heard(listen(nested(how, "a b"))) == [("whole", "a b", "node")]


@pytest.mark.parametrize("subgraphs", [False, True])
def test_a_node_may_listen_to_the_graph_that_it_calls(subgraphs: bool) -> None:
    child = one(asks(model("a b"))[0])
    inside: list[str] = []

    def node(state: MessagesState) -> dict[str, Any]:
        inside.extend(message.content for message, _ in child.stream({"messages": "q"}, stream_mode="messages"))
        return {"messages": AIMessage("done")}

    chunks = list(one(node).stream(HELLO, stream_mode="messages", subgraphs=subgraphs))
    assert inside == ["a", " ", "b"]
    told = [payload for _, payload in chunks] if subgraphs else chunks
    assert [message.content for message, _ in told] == ([*inside, "done"] if subgraphs else ["done"])


def test_tokens_of_parallel_nodes_carry_their_own_node(listen: Any) -> None:
    builder = StateGraph(MessagesState)
    for name in ("a", "b"):
        builder.add_node(name, asks(model(name * 3))[0])
        builder.add_edge(START, name)
    assert sorted(heard(listen(builder.compile()))) == [("token", "aaa", "a"), ("token", "bbb", "b")]


def test_callbacks_of_the_caller_reach_the_models(call: Call) -> None:
    from langchain_core.callbacks import BaseCallbackHandler

    class Counter(BaseCallbackHandler):
        tokens = 0
        run_inline = True

        def on_llm_new_token(self, token: Any, **_: Any) -> None:
            self.tokens += 1

    counter = Counter()
    chunks = call(one(asks(model("a b"))[0]), "stream", HELLO, {"callbacks": [counter]}, stream_mode="messages")
    assert (counter.tokens, len(chunks)) == (3, 3)


@pytest.mark.parametrize(("refresh", "signs"), [("auto", 3), ("heartbeat", 0)])
async def test_each_token_is_a_sign_of_life(monkeypatch: pytest.MonkeyPatch, refresh: Any, signs: int) -> None:
    seen: list[str] = []
    monkeypatch.setattr(Task, "sign_of_life", lambda task: seen.append(task.name))
    chat = model("a b")

    async def node(state: MessagesState) -> dict[str, Any]:
        async for _ in chat.astream("x"):
            pass
        return {}

    builder = StateGraph(MessagesState)
    builder.add_node("node", node, timeout=TimeoutPolicy(idle_timeout=600, refresh_on=refresh))
    builder.add_edge(START, "node")
    await builder.compile().ainvoke(HELLO)
    assert len(seen) >= signs if signs else not seen
