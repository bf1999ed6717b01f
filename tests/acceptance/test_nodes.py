"""How nodes are added, what they are given besides the state, and what they may return (spec 2.3, 2.5)."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional

import pytest
from langchain_core.runnables import RunnableConfig as LangChainConfig
from langchain_core.runnables import RunnableLambda
from pydantic import BaseModel

from tests.acceptance.kit import Log, Pair, chain, fan, say, thread
from tests.conftest import Call
from threadmark.config import RunnableConfig, get_config, get_stream_writer
from threadmark.errors import InvalidUpdateError
from threadmark.graph import END, START, StateGraph
from threadmark.runtime import Runtime, get_runtime
from threadmark.types import Command, Send, StreamWriter

Node = Callable[[Any], Any]


# -- forms -------------------------------------------------------------------------------------------------------------


def named(state: Log) -> dict[str, list[str]]:
    return {"log": ["named"]}


class Callable_:
    name = "an_object"

    def __call__(self, state: Log) -> dict[str, list[str]]:
        return {"log": ["object"]}

    def method(self, state: Log) -> dict[str, list[str]]:
        return {"log": ["method"]}


class AsyncCallable:
    async def __call__(self, state: Log) -> dict[str, list[str]]:
        return {"log": ["async object"]}


def with_extra(word: str, state: Log) -> dict[str, list[str]]:
    return {"log": [word]}


@pytest.mark.parametrize(
    ("args", "name", "word"),
    [
        ((named,), "named", "named"),
        (("other", named), "other", "named"),
        ((Callable_(),), "an_object", "object"),
        ((Callable_().method,), "method", "method"),
        (("x", Callable_()), "x", "object"),
        (("part", functools.partial(with_extra, "partial")), "part", "partial"),
        ((functools.partial(with_extra, "partial"),), "with_extra", "partial"),
        ((lambda state: {"log": ["lambda"]},), "<lambda>", "lambda"),
        ((RunnableLambda(named),), "named", "named"),
        (("runnable", RunnableLambda(lambda state: {"log": ["runnable"]})), "runnable", "runnable"),
    ],
)
def test_forms_of_a_node(call: Call, args: Any, name: str, word: str) -> None:
    builder = StateGraph(Log)
    builder.add_node(*args)
    builder.add_edge(START, name)
    assert call(builder.compile(), "invoke", {"log": []}) == {"log": [word]}


async def test_async_forms_of_a_node() -> None:
    async def coroutine(state: Log) -> dict[str, list[str]]:
        return {"log": ["coroutine"]}

    graph = chain(
        ("a", coroutine),
        ("b", AsyncCallable()),
        ("c", functools.partial(coroutine)),
        ("d", lambda state: coroutine(state)),
        ("e", RunnableLambda(coroutine)),
        ("f", say("plain")),
    ).compile()
    found = await graph.ainvoke({"log": []})
    assert found == {"log": ["coroutine", "async object", "coroutine", "coroutine", "coroutine", "plain"]}


def test_an_async_node_in_a_blocking_run_is_an_error_that_says_what_to_do() -> None:
    async def coroutine(state: Log) -> None:
        return None

    for action in (coroutine, AsyncCallable(), lambda state: coroutine(state)):
        with pytest.raises(TypeError, match="ainvoke"):
            chain(("a", action)).compile().invoke({"log": []})


async def test_a_plain_node_does_not_stop_the_event_loop() -> None:
    loop = asyncio.get_running_loop()

    def wait_for_the_loop(state: Log) -> dict[str, list[str]]:
        return {"log": [asyncio.run_coroutine_threadsafe(asyncio.sleep(0, "loop runs"), loop).result()]}

    assert await chain(("a", wait_for_the_loop)).compile().ainvoke({"log": []}) == {"log": ["loop runs"]}


def test_a_node_may_share_its_name_with_a_key(call: Call) -> None:
    graph = chain(("log", say("x"))).compile()
    assert call(graph, "invoke", {"log": []}) == {"log": ["x"]}


# -- what is injected --------------------------------------------------------------------------------------------------


@dataclass
class Context:
    user: str


class ModelContext(BaseModel):
    user: str


def test_injected_by_name(saver: Any, call: Call, node: Node) -> None:
    seen: dict[str, Any] = {}

    def look(  # type: ignore[no-untyped-def]
        state: Log,
        config: RunnableConfig,
        *,
        runtime: Runtime[Context],
        writer: StreamWriter,
        store=None,
        previous=None,
    ):
        seen.update(config=config, runtime=runtime, writer=writer, store=store, previous=previous)

    builder = StateGraph(Log, context_schema=Context)
    builder.add_node("look", node(look))
    builder.add_edge(START, "look")
    shelf = object()
    graph = builder.compile(checkpointer=saver, store=shelf)
    call(graph, "invoke", {"log": []}, thread(key="mine"), context={"user": "ada"})
    runtime = seen["runtime"]
    assert runtime.context == Context("ada")
    assert runtime.store is seen["store"] is shelf
    assert seen["previous"] is None
    assert callable(seen["writer"])
    info = runtime.execution_info
    metadata = seen["config"]["metadata"]
    assert (info.thread_id, info.node_attempt) == ("1", 1)
    assert metadata["langgraph_checkpoint_ns"] == f"look:{info.task_id}" == info.checkpoint_ns
    assert {key: metadata[key] for key in metadata if key.startswith("langgraph_")} == {
        "langgraph_step": 1,
        "langgraph_node": "look",
        "langgraph_triggers": ("branch:to:look",),
        "langgraph_path": ("__pregel_pull", "look"),
        "langgraph_checkpoint_ns": info.checkpoint_ns,
    }
    assert metadata["thread_id"] == "1"
    assert seen["config"]["configurable"]["key"] == "mine"


def unannotated(state, config):  # type: ignore[no-untyped-def]
    return {"log": [config["configurable"]["thread_id"]]}


def ours(state: Log, config: RunnableConfig) -> dict[str, Any]:
    return {"log": [config["configurable"]["thread_id"]]}


def optional(state: Log, config: Optional[RunnableConfig] = None) -> dict[str, Any]:  # noqa: UP045
    return {"log": [(config or {})["configurable"]["thread_id"]]}


def union(state: Log, config: RunnableConfig | None = None) -> dict[str, Any]:
    return {"log": [(config or {})["configurable"]["thread_id"]]}


def langchain(state: Log, config: LangChainConfig) -> dict[str, Any]:
    return {"log": [config["configurable"]["thread_id"]]}


def keyword(state: Log, *, config: LangChainConfig) -> dict[str, Any]:
    return {"log": [config["configurable"]["thread_id"]]}


@pytest.mark.parametrize("function", [unannotated, ours, optional, union, langchain, keyword])
def test_a_config_is_injected_under_every_annotation(saver: Any, call: Call, node: Node, function: Any) -> None:
    graph = chain(("a", node(function))).compile(checkpointer=saver)
    assert call(graph, "invoke", {"log": []}, thread("here")) == {"log": ["here"]}


def test_a_parameter_of_another_type_is_not_injected(call: Call, node: Node) -> None:
    def look(state: Log, config: int = 3, store: str = "shop") -> dict[str, list[Any]]:
        return {"log": [config, store]}

    assert call(chain(("a", node(look))).compile(), "invoke", {"log": []}) == {"log": [3, "shop"]}


def test_context_is_put_into_the_form_of_its_schema(call: Call, node: Node) -> None:
    def look(state: Log, runtime: Runtime[Any]) -> dict[str, list[Any]]:
        return {"log": [runtime.context]}

    for schema in (Context, ModelContext):
        builder = StateGraph(Log, context_schema=schema)
        builder.add_node("a", node(look))
        builder.add_edge(START, "a")
        graph = builder.compile()
        assert call(graph, "invoke", {"log": []}, context={"user": "ada"})["log"] == [schema(user="ada")]
        given = schema(user="bob")
        assert call(graph, "invoke", {"log": []}, context=given)["log"][0] is given


def test_what_a_node_can_reach_without_a_parameter(saver: Any, call: Call, node: Node) -> None:
    seen: list[Any] = []

    def look(state: Log) -> None:
        seen.extend([get_config()["configurable"]["thread_id"], get_runtime().context])
        get_stream_writer()("told")

    graph = chain(("a", node(look))).compile(checkpointer=saver)
    told = call(graph, "stream", {"log": []}, thread("here"), stream_mode="custom", context="ctx")
    assert (seen, told) == (["here", "ctx"], ["told"])


@pytest.mark.parametrize("getter", [get_config, get_runtime, get_stream_writer])
def test_outside_a_node_there_is_nothing_to_reach(getter: Any) -> None:
    with pytest.raises(RuntimeError, match="running node"):
        getter()


def test_after_a_run_there_is_nothing_to_reach(call: Call, node: Node) -> None:
    call(chain(("a", node(lambda state: None))).compile(), "invoke", {"log": []})
    with pytest.raises(RuntimeError, match="running node"):
        get_config()


def test_metadata_and_tags_of_call_and_node(call: Call, node: Node) -> None:
    seen = []

    def look(state: Log, config: RunnableConfig) -> None:
        seen.append(config)

    builder = StateGraph(Log)
    builder.add_node("a", node(look), metadata={"kind": "look"})
    builder.add_edge(START, "a")
    call(builder.compile(), "invoke", {"log": []}, {"metadata": {"user": "ada"}, "tags": ["t"]})
    assert seen[0]["metadata"]["kind"] == "look"
    assert seen[0]["metadata"]["user"] == "ada"
    assert seen[0]["tags"] == ["t"]


def test_with_config_gives_defaults(call: Call, node: Node) -> None:
    seen = []

    def look(state: Log, config: RunnableConfig) -> None:
        seen.append((config["configurable"].get("who"), config["metadata"].get("a"), config["tags"]))

    graph = chain(("a", node(look))).compile()
    bound = graph.with_config({"configurable": {"who": "default"}, "metadata": {"a": 1}, "tags": ["x"]})
    call(bound, "invoke", {"log": []})
    call(bound, "invoke", {"log": []}, {"configurable": {"who": "given"}, "tags": ["y"]})
    call(graph, "invoke", {"log": []})
    assert seen == [("default", 1, ["x"]), ("given", 1, ["x", "y"]), (None, None, [])]


# -- what is returned --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nothing", [None, {}])
def test_nothing_still_follows_the_edges(saver: Any, call: Call, node: Node, nothing: Any) -> None:
    graph = chain(("a", node(lambda state: nothing)), "b").compile(checkpointer=saver)
    assert call(graph, "invoke", {"log": []}, thread()) == {"log": ["b"]}
    (task,) = call(graph, "get_state_history", thread())[2].tasks
    assert (task.name, task.result) == ("a", {})


def test_a_node_without_any_write_leaves_a_mark(saver: Any, call: Call, node: Node) -> None:
    graph = chain(("a", node(lambda state: None))).compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    before = call(graph, "get_state_history", thread())[1]
    assert [write[1:] for write in saver.get_tuple(before.config).pending_writes] == [("__no_writes__", None)]
    assert before.tasks[0].result == {}


def test_unknown_keys_are_dropped(call: Call, node: Node) -> None:
    graph = chain(("a", node(lambda state: {"log": ["a"], "other": 1}))).compile()
    assert call(graph, "invoke", {"log": [], "third": 2}) == {"log": ["a"]}


@pytest.mark.parametrize("result", ["text", 3, END, [{"log": ["x"]}], [Send("a", {}), Send("a", {})]])
def test_what_is_no_update_is_refused(saver: Any, call: Call, node: Node, result: Any) -> None:
    graph = chain("first", ("a", node(lambda state: result))).compile(checkpointer=saver)
    with pytest.raises(InvalidUpdateError, match="'a'"):
        call(graph, "invoke", {"log": []}, thread())
    assert call(graph, "get_state", thread()).next == ("a",)


def goes(*commands: Any) -> StateGraph[Any]:
    """a returns ``commands``; b and c say their names; nothing leads to them but commands."""
    builder = StateGraph(Pair)
    builder.add_node("a", lambda state: commands[0] if len(commands) == 1 else list(commands))
    for name in "bc":
        builder.add_node(name, lambda state, name=name: {"bar": [name]})
    builder.add_edge(START, "a")
    return builder


@pytest.mark.parametrize(
    ("commands", "bar"),
    [
        ((Command(update={"bar": ["u"]}, goto="b"),), ["u", "b"]),
        ((Command(goto=["b", "c"]),), ["b", "c"]),
        ((Command(goto=[Send("b", {}), "c"]),), ["c", "b"]),
        ((Command(update=[("bar", ["1"]), ("bar", ["2"])]),), ["1", "2"]),
        ((Command(update={"bar": ["u"]}, goto=END),), ["u"]),
        ((Command(update={"bar": ["u"]}), {"bar": ["d"]}, Command(goto="c")), ["u", "d", "c"]),
        ((Send("b", {}),), ["b"]),
        ((Command(),), []),
        ((Command(goto="nowhere"),), []),
    ],
)
def test_commands_update_and_lead_on(saver: Any, call: Call, commands: Any, bar: list[str]) -> None:
    graph = goes(*commands).compile(checkpointer=saver)
    assert call(graph, "invoke", {"foo": "x"}, thread()) == {"foo": "x", "bar": bar}
    assert call(graph, "get_state", thread()).next == ()


def test_a_command_goes_beside_the_edges(call: Call) -> None:
    builder = goes(Command(goto="b"))
    builder.add_edge("a", "c")
    assert call(builder.compile(), "invoke", {"foo": ""})["bar"] == ["b", "c"]


def test_a_command_with_a_target_that_is_none_is_refused(call: Call) -> None:
    with pytest.raises(TypeError, match=r"Command\.goto"):
        call(goes(Command(goto=[3])).compile(), "invoke", {"foo": ""})


def test_each_packet_is_a_task_with_its_own_input(saver: Any, call: Call, node: Node) -> None:
    got = []

    def work(state: Any) -> dict[str, list[str]]:
        got.append(state)
        return {"log": [str(state["n"])]}

    def scatter(state: Log) -> list[Send]:
        return [Send("work", {"n": n}) for n in range(12)]

    builder = StateGraph(Log)
    builder.add_node("work", node(work))
    builder.add_node("z", node(say("z")))
    builder.add_node("b", node(say("b")))
    builder.add_conditional_edges(START, scatter)
    builder.add_edge(START, "z")
    builder.add_edge(START, "b")
    graph = builder.compile(checkpointer=saver)
    assert call(graph, "invoke", {"log": []}, thread())["log"] == ["b", "z", *map(str, range(12))]
    assert sorted(one["n"] for one in got) == list(range(12))
    before = call(graph, "get_state_history", thread())[1]
    assert before.next == ("work",) * 12 + ("z", "b")
    assert [task.path for task in before.tasks[:2]] == [("__pregel_push", 0, False), ("__pregel_push", 1, False)]
    assert len({task.id for task in before.tasks}) == 14
    writes = call(graph, "get_state", thread()).metadata["writes"]
    assert writes == {
        "b": {"log": ["b"]},
        "z": {"log": ["z"]},
        "work": [{"log": [str(n)]} for n in range(12)],
    }


def test_a_packet_may_hold_anything(call: Call, node: Node) -> None:
    builder = StateGraph(Log)
    builder.add_node("work", node(lambda state: {"log": [repr(state)]}))
    builder.add_conditional_edges(START, lambda state: [Send("work", 1), Send("work", None), Send("work", "x")])
    assert call(builder.compile(), "invoke", {"log": []}) == {"log": ["1", "None", "'x'"]}


def test_a_packet_to_an_unknown_node_is_dropped(call: Call, caplog: pytest.LogCaptureFixture) -> None:
    graph = chain(("a", lambda state: Send("nowhere", {}))).compile()
    assert call(graph, "invoke", {"log": []}) == {"log": []}
    assert "nowhere" in caplog.text


def test_state_is_handed_on_between_packets_and_nodes_of_one_step(call: Call, node: Node) -> None:
    inputs = []

    def look(state: Log) -> dict[str, list[str]]:
        inputs.append(list(state["log"]))
        return {"log": ["x"]}

    call(fan(("a", node(look)), ("b", node(look))).compile(), "invoke", {"log": ["in"]})
    assert inputs == [["in"], ["in"]]
