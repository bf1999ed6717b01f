"""The checkpoints page's own program for PostgreSQL, word for word, and what it leaves in the database."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.services.postgres import Postgres
from threadmark.graph import START, StateGraph

PAGE = """
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.postgres import PostgresSaver

serde = EncryptedSerializer.from_pycryptodome_aes()
checkpointer = PostgresSaver.from_conn_string("postgresql://...", serde=serde)
checkpointer.setup()
"""
AWAITED = """
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.postgres.aio import AsyncPostgresSaver

async def main():
    serde = EncryptedSerializer.from_pycryptodome_aes()
    checkpointer = AsyncPostgresSaver.from_conn_string("postgresql://...", serde=serde)
    await checkpointer.setup()
    return checkpointer
"""


class Talk(TypedDict):
    said: Annotated[list[str], lambda old, new: old + new]


def graph_of(saver: Any) -> Any:
    builder = StateGraph(Talk)
    builder.add_node("answer", lambda state: {"said": ["a secret answer"]})
    builder.add_edge(START, "answer")
    return builder.compile(checkpointer=saver)


CONFIG: Any = {"configurable": {"thread_id": "1"}}
SAID = {"said": ["a secret question", "a secret answer"]}


@pytest.fixture
def url(postgres_server: Postgres, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A database that libpq's variables name: whatever stands in the place of the three dots is led there."""
    name = postgres_server.database()
    for variable, value in {
        "PGHOSTADDR": "127.0.0.1",
        "PGPORT": str(postgres_server.port),
        "PGUSER": "postgres",
        "PGDATABASE": name,
        "LANGGRAPH_AES_KEY": "0123456789abcdef",
    }.items():
        monkeypatch.setenv(variable, value)
    yield postgres_server.url(name)
    postgres_server.drop(name)


def columns(url: str) -> bytes:
    """Every byte column of every row."""
    assert urlsplit(url).scheme == "postgresql"
    with psycopg.connect(url) as conn:
        return b"".join(
            bytes(data)
            for table, column in (("checkpoint", "body"), ("task", "body"), ("value", "body"), ("segment", "data"))
            for (data,) in conn.execute(f"SELECT {column} FROM threadmark.{table}".encode())
        )


def test_the_page_s_program(url: str) -> None:
    page: dict[str, Any] = {}
    exec(compile(PAGE, "page", "exec", dont_inherit=True), page)
    with page["checkpointer"] as saver:
        graph = graph_of(saver)
        assert graph.invoke({"said": ["a secret question"]}, CONFIG) == SAID
        assert [state.values.get("said") for state in graph.get_state_history(CONFIG)] == [
            SAID["said"], SAID["said"][:1], []
        ]  # fmt: skip
    stored = columns(url)
    assert stored
    assert b"secret" not in stored


async def test_the_page_s_program_on_an_event_loop(url: str) -> None:
    page: dict[str, Any] = {}
    exec(compile(AWAITED, "page", "exec", dont_inherit=True), page)
    async with await page["main"]() as saver:
        graph = graph_of(saver)
        assert await graph.ainvoke({"said": ["a secret question"]}, CONFIG) == SAID
    assert b"secret" not in columns(url)
