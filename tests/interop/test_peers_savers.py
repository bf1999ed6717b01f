"""LangGraph's savers under graphs of ours: what callers see is what they see over a saver of ours."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver as PeersMemory
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver as PeersSqlite
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver as PeersAwaited

from tests.conftest import Call
from tests.interop.exchanged import SCENARIOS
from tests.interop.play import Play, difference
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.graph import START, StateGraph


@asynccontextmanager
async def memory(folder: Path) -> AsyncIterator[Any]:
    yield PeersMemory()


@asynccontextmanager
async def sqlite(folder: Path) -> AsyncIterator[Any]:
    with PeersSqlite.from_conn_string(str(folder / "peers.db")) as saver:
        yield saver


def awaited(folder: Path) -> Any:
    return PeersAwaited.from_conn_string(str(folder / "peers.db"))


SAVERS: dict[str, Callable[[Path], AbstractAsyncContextManager[Any]]] = {
    "memory": memory, "sqlite": sqlite, "awaited sqlite": awaited,
}  # fmt: skip
PLACES = [
    (name, colour) for name in SAVERS for colour in ("sync", "async") if (name, colour) != ("awaited sqlite", "sync")
]


def told(scenario: str, checkpointer: Any, call: Call) -> list[Any]:
    play = Play(checkpointer, call)
    SCENARIOS[scenario](play)
    assert play.told
    return comparable(play.told)


def comparable(told: Any) -> Any:
    """Without the writes in metadata, which are guessed for a saver without ``put_step``; tuples come back as lists."""
    if isinstance(told, dict):
        return {key: comparable(value) for key, value in told.items() if key != "writes"}
    return [comparable(part) for part in told] if isinstance(told, (list, tuple)) else told


@pytest.mark.filterwarnings("ignore::Warning")
@pytest.mark.parametrize(("name", "colour"), PLACES)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_graph_of_ours_runs_on_a_saver_of_langgraphs(scenario: str, name: str, colour: str, tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        call, peers = Call(colour, runner), SAVERS[name](tmp_path)
        saver = runner.run(peers.__aenter__())
        try:
            theirs = told(scenario, saver, call)
        finally:
            runner.run(peers.__aexit__(None, None, None))
        assert difference(theirs, told(scenario, InMemorySaver(), call)) == ""


STRICT = """
from typing import TypedDict
from langgraph.checkpoint.memory import InMemorySaver
from threadmark.graph import START, StateGraph
from threadmark.types import Command, Send, interrupt

class State(TypedDict):
    word: str

builder = StateGraph(State)
builder.add_node("ask", lambda state: {"word": interrupt("which?")})
builder.add_node("go", lambda state: None)
builder.add_conditional_edges(START, lambda state: [Send("ask", state)])
graph = builder.compile(checkpointer=InMemorySaver())
config = {"configurable": {"thread_id": "t"}}
graph.invoke({"word": "?"}, config)
(question,) = graph.get_state(config).interrupts
print(question.value, graph.invoke(Command(resume="this"), config)["word"])
"""


def test_what_runs_store_by_themselves_comes_back_in_langgraphs_strict_mode() -> None:
    """LangGraph reads the variable when it is imported, so this needs a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", STRICT],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true"},
    )
    assert (done.stdout.strip(), done.returncode) == ("which? this", 0), done.stderr


class AsJson(JsonPlusSerializer):  # type: ignore[misc]
    """Stores as LangGraph's serializer for Redis does: of an instance of a class that is no dataclass, the name."""

    def dumps_typed(self, obj: Any) -> Any:
        return "json", json.dumps(obj, default=lambda one: {"lc": 2, "id": [type(one).__name__]}).encode()


def test_a_saver_that_would_lose_what_runs_store_is_refused() -> None:
    builder: Any = StateGraph(dict)
    builder.add_node("a", lambda state: state)
    builder.add_edge(START, "a")
    with pytest.raises(TypeError, match=r"InMemorySaver cannot keep threads.*Send.*Use a saver of threadmark"):
        builder.compile(checkpointer=PeersMemory(serde=AsJson()))
    assert builder.compile(checkpointer=PeersMemory()).invoke({"x": 1}, {"configurable": {"thread_id": "1"}})
