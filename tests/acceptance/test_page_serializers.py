"""The page's serializer and encryption blocks, as they stand there with the package's name exchanged."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typing_extensions import TypedDict

from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.serde.errors import EncryptionError, PlaintextValue, SerializationError
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.graph import END, START, StateGraph

PICKLE = """
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer

# ... Define the graph ...
compiled = graph.compile(
    checkpointer=InMemorySaver(serde=JsonPlusSerializer(pickle_fallback=True))
)
"""
ENCRYPTED = """
import sqlite3

from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.sqlite import SqliteSaver

serde = EncryptedSerializer.from_pycryptodome_aes()  # reads LANGGRAPH_AES_KEY
checkpointer = SqliteSaver(sqlite3.connect("checkpoint.db"), serde=serde)
"""
CONFIG: Any = {"configurable": {"thread_id": "1"}}
KEY = "a key of 16 char"
SECRET = "nobody outside may read this sentence"


class State(TypedDict, total=False):
    table: Any
    note: str


class Plain:
    """A class of a user's that no serializer knows."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __eq__(self, other: object) -> bool:
        return type(other) is Plain and self.size == other.size

    __hash__ = None  # type: ignore[assignment]


def graph_that(returns: dict[str, Any]) -> StateGraph[State]:
    builder = StateGraph(State)
    builder.add_node("node", lambda state: returns)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    return builder


def run(block: str, **names: Any) -> dict[str, Any]:
    exec(compile(block, "page", "exec"), names)
    return names


@pytest.mark.parametrize(
    "value",
    [pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"mixed": [1, "a"]}), Plain(3)],
    ids=["a frame", "a frame that only pickle carries", "an object"],
)
def test_the_pickle_block(value: Any) -> None:
    compiled = run(PICKLE, graph=graph_that({"table": value}))["compiled"]
    compiled.invoke({"note": ""}, CONFIG)
    stored = compiled.get_state(CONFIG).values["table"]
    assert type(stored) is type(value)
    assert stored.equals(value) if isinstance(value, pd.DataFrame) else stored == value


def test_without_the_fallback_what_cannot_come_back_is_refused() -> None:
    compiled = graph_that({"table": Plain(3)}).compile(checkpointer=InMemorySaver())
    with pytest.raises(SerializationError, match=r"table: .*Plain is not serializable.*written by node 'node'"):
        compiled.invoke({"note": ""}, CONFIG)
    serde = JsonPlusSerializer(pickle_fallback=True)
    with pytest.raises(ValueError, match="pickle_fallback=True"):
        JsonPlusSerializer().loads_typed(serde.dumps_typed(Plain(3)))


def test_the_encrypted_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LANGGRAPH_AES_KEY", KEY)
    checkpointer = run(ENCRYPTED)["checkpointer"]
    compiled = graph_that({"note": SECRET}).compile(checkpointer=checkpointer)
    compiled.invoke({"table": [SECRET] * 50}, CONFIG)
    assert compiled.get_state(CONFIG).values["note"] == SECRET
    checkpointer.close()

    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert SECRET.encode() not in stored
    again = run(ENCRYPTED)["checkpointer"]
    assert again.get(CONFIG)["channel_values"]["table"] == [SECRET] * 50
    again.close()
    monkeypatch.setenv("LANGGRAPH_AES_KEY", "another key of 24 chars.")
    stranger = run(ENCRYPTED)["checkpointer"]
    with pytest.raises(EncryptionError):
        stranger.get(CONFIG)
    stranger.close()


def test_a_plain_file_is_no_encrypted_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with SqliteSaver.from_conn_string("checkpoint.db") as plain:
        graph_that({"note": "plain"}).compile(checkpointer=plain).invoke({"note": ""}, CONFIG)
    serde = EncryptedSerializer.from_pycryptodome_aes(key=KEY.encode())
    saver = SqliteSaver(sqlite3.connect("checkpoint.db"), serde=serde)
    with pytest.raises(PlaintextValue):
        saver.get(CONFIG)
    saver.close()
