"""What a caller's ``configurable`` tells the nodes: who serves the graph, and what the call addresses (spec 1.5)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.kit import Log, chain, thread
from tests.conftest import Call
from threadmark.config import RunnableConfig
from threadmark.runtime import Runtime, ServerInfo


class Person:
    """A signed-in user, as web frameworks have them."""

    identity = "ada"


class Witness:
    """A node that keeps what it was given."""

    def __init__(self) -> None:
        self.servers: list[Any] = []
        self.metadata: list[dict[str, Any]] = []

    def __call__(self, state: Log, config: RunnableConfig, runtime: Runtime[Any]) -> None:
        self.servers.append(runtime.server_info)
        self.metadata.append(dict(config["metadata"]))


@pytest.fixture
def witness() -> Witness:
    return Witness()


ADA = Person()


@pytest.mark.parametrize(
    ("configurable", "server"),
    [
        ({}, None),
        ({"thread_id": "1"}, None),
        ({"assistant_id": "a", "graph_id": "g"}, ServerInfo(assistant_id="a", graph_id="g")),
        ({"assistant_id": 7}, ServerInfo(assistant_id="7", graph_id="")),
        ({"langgraph_auth_user": ADA}, ServerInfo(assistant_id="", graph_id="", user=ADA)),
        ({"graph_id": "g", "langgraph_auth_user": {"identity": "ada"}}, ServerInfo(assistant_id="", graph_id="g")),
    ],
)
def test_a_node_knows_who_serves_its_graph(call: Call, witness: Witness, configurable: Any, server: Any) -> None:
    call(chain(("look", witness)).compile(), "invoke", {"log": []}, {"configurable": configurable})
    assert witness.servers == [server]


def test_a_called_graph_is_served_by_the_same_server(witness: Witness) -> None:
    inner = chain(("look", witness)).compile()

    def outer(state: Log) -> None:
        inner.invoke({"log": []})
        inner.invoke({"log": []}, {"configurable": {"graph_id": "other"}})

    chain(("outer", outer)).compile().invoke({"log": []}, {"configurable": {"assistant_id": "a", "graph_id": "g"}})
    assert witness.servers == [
        ServerInfo(assistant_id="a", graph_id="g"),
        ServerInfo(assistant_id="a", graph_id="other"),
    ]


def test_nodes_see_what_the_call_addresses(saver: Any, call: Call, witness: Witness) -> None:
    graph = chain(("look", witness)).compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    old = call(graph, "get_state", thread()).config
    named = {**old["configurable"], "task_id": "t", "run_id": "r"}
    call(graph, "invoke", {"log": []}, {"configurable": named})
    first, second = witness.metadata
    assert first.keys().isdisjoint({"checkpoint_id", "task_id"})
    assert second.items() >= {**old["configurable"], "task_id": "t", "run_id": "r"}.items() - {("checkpoint_ns", "")}


def test_metadata_of_the_caller_s_own_comes_first(call: Call, witness: Witness) -> None:
    config = {"metadata": {"task_id": "mine"}, "configurable": {"task_id": "t", "checkpoint_ns": "somewhere"}}
    call(chain(("look", witness)).compile(), "invoke", {"log": []}, config)
    (seen,) = witness.metadata
    assert (seen["task_id"], seen["checkpoint_ns"]) == ("mine", "somewhere")


def test_what_was_only_shown_is_not_stored(saver: Any, call: Call, witness: Witness) -> None:
    """A node that hands its config on to a graph does not make its child store it either."""
    inner = chain(("look", witness)).compile()

    def outer(state: Log, config: RunnableConfig) -> Any:
        return inner.invoke({"log": []}, config)

    async def aouter(state: Log, config: RunnableConfig) -> Any:
        return await inner.ainvoke({"log": []}, config)

    graph = chain(("outer", aouter if call.colour == "async" else outer)).compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "1", "task_id": "t", "session": "s"}, "metadata": {"kept": 1}}
    call(graph, "invoke", {"log": []}, config)
    assert witness.metadata[0]["task_id"] == "t"
    stored = [saved.metadata for saved in call(saver, "list", None)]
    assert len({saved["kept"] for saved in stored}) == 1
    assert [saved for saved in stored if not saved.keys().isdisjoint({"task_id", "session"})] == []
    assert any(saved["parents"] for saved in stored)
