"""Making the tables: once, whoever comes first, and never in a place that is somebody else's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.conftest import Call
from tests.services.postgres import Postgres
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.open import open_saver
from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.checkpoint.postgres.aio import AsyncPostgresSaver
from threadmark.checkpoint.sql.migrations import scripts, statements
from threadmark.errors import ForeignDatabase, SaverError, Unavailable

SCRIPTS = scripts("threadmark.checkpoint.postgres")
TABLES = ["checkpoint", "segment", "task", "thread", "threadmark", "value"]
SET_UP = """
import sys
from threadmark.checkpoint.postgres import PostgresSaver

with PostgresSaver.from_conn_string(sys.argv[1]) as saver:
    saver.setup()
"""


@pytest.fixture
def url(postgres_server: Postgres) -> Iterator[str]:
    """A database of the test's own."""
    name = postgres_server.database()
    yield postgres_server.url(name)
    postgres_server.drop(name)


def sql(url: str, statement: str) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as conn:
        cursor = conn.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def tables(url: str, schema: str) -> list[str]:
    return [name for (name,) in sql(url, f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}' ORDER BY 1")]


def opened(call: Call, url: str, **options: Any) -> Any:
    return (PostgresSaver if call.colour == "sync" else AsyncPostgresSaver).from_conn_string(url, **options)


def done(call: Call, saver: Any) -> Any:
    """The result of a method that has no ``a`` twin but is awaitable in the saver of the other colour."""
    return call.runner.run(saver.setup()) if call.colour == "async" else saver.setup()


def close(call: Call, saver: Any) -> None:
    if call.colour == "async":
        call.runner.run(saver.aclose())
    else:
        saver.close()


def test_setup_makes_tables_in_a_schema_of_our_own_and_may_be_repeated(url: str, call: Call) -> None:
    saver = opened(call, url)
    done(call, saver)
    done(call, saver)
    assert tables(url, "threadmark") == TABLES
    assert tables(url, "public") == []
    close(call, saver)


def test_four_processes_at_once(url: str) -> None:
    started = [subprocess.Popen([sys.executable, "-W", "error", "-c", SET_UP, url]) for _ in range(4)]
    assert [process.wait(120) for process in started] == [0, 0, 0, 0]
    assert tables(url, "threadmark") == TABLES
    assert sql(url, "SELECT format FROM threadmark.threadmark") == [(len(SCRIPTS),)]


@pytest.mark.parametrize("schema", ["other", 'odd "name"; x', "ünïcödé"])
def test_any_schema(url: str, call: Call, schema: str) -> None:
    saver = opened(call, url, schema=schema)
    at = call(saver, "put", config(), checkpoint({"a": 1}), {}, {"a": 1})
    call(saver, "put_writes", at, [("a", 2)], "task")
    assert call(saver, "get_tuple", config()).checkpoint["channel_values"] == {"a": 1}
    call(saver, "prune", ["t"])
    assert tables(url, "threadmark") == []
    close(call, saver)


@pytest.mark.parametrize("schema", ["", "x" * 64, "pg_mine", "a\0b"])
def test_names_that_no_schema_can_have(url: str, schema: str) -> None:
    with pytest.raises(ValueError, match=r"schema|pg_"):
        PostgresSaver.from_conn_string(url, schema=schema)


def test_an_empty_schema_of_the_owner_is_used_as_it_is(url: str) -> None:
    """Where a role may not make schemas, one is made for it."""
    sql(url, "CREATE ROLE some_writer LOGIN; CREATE SCHEMA threadmark AUTHORIZATION some_writer")
    name = url.rpartition("/")[2]
    sql(url, f'REVOKE CREATE ON DATABASE "{name}" FROM PUBLIC')
    as_writer = url.replace("postgres@", "some_writer@")
    try:
        with PostgresSaver.from_conn_string(as_writer) as saver:
            saver.put(config(), checkpoint({"a": 1}), {}, {"a": 1})
        with (
            PostgresSaver.from_conn_string(as_writer, schema="another") as saver,
            pytest.raises(SaverError, match="does not let this role use the schema 'another'"),
        ):
            saver.setup()
        sql(url, "CREATE ROLE a_stranger LOGIN")
        with (
            PostgresSaver.from_conn_string(url.replace("postgres@", "a_stranger@")) as saver,
            pytest.raises(SaverError, match="does not let this role") as caught,
        ):
            saver.get_tuple(config())
        assert not isinstance(caught.value, Unavailable)
    finally:
        sql(url, "DROP OWNED BY some_writer; DROP ROLE some_writer; DROP ROLE a_stranger")


@pytest.mark.parametrize(
    "theirs",
    ["CREATE TABLE checkpoints (a text)", "CREATE VIEW v AS SELECT 1", "CREATE TABLE threadmark (format text)"],
)
def test_a_schema_with_tables_of_others_is_not_touched(url: str, call: Call, theirs: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("CREATE SCHEMA threadmark")
        conn.execute("SET search_path = threadmark")
        conn.execute(theirs.encode())
        before = tables(url, "threadmark")
    saver = opened(call, url)
    for operation in (lambda: done(call, saver), lambda: call(saver, "get_tuple", config())):
        with pytest.raises((ForeignDatabase, SaverError), match="schema"):
            operation()
    assert tables(url, "threadmark") == before
    close(call, saver)


def test_an_older_format_is_read_as_it_is_and_brought_up_to_date_by_whoever_writes(url: str, call: Call) -> None:
    sql(url, "CREATE SCHEMA threadmark")
    for statement in statements(SCRIPTS[0]):
        sql(url, statement.replace("{schema}", "threadmark"))
    sql(url, "INSERT INTO threadmark.threadmark VALUES (1)")
    sql(url, "INSERT INTO threadmark.thread VALUES (1, 'empty', 'salt')")

    def formats() -> list[Any]:
        return sql(url, "SELECT format FROM threadmark.threadmark")

    with PostgresSaver.open_read_only(url) as reader:
        assert reader.thread_ids() == ["empty"]
        assert formats() == [(1,)]
        saver = opened(call, url)
        at = call(saver, "put", config(), checkpoint({"a": 1}), {}, {"a": 1})
        assert formats() == [(len(SCRIPTS),)]
        assert reader.get_tuple(config()).config == at
    close(call, saver)


def test_a_later_format_is_left_alone(url: str, call: Call) -> None:
    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
    sql(url, "UPDATE threadmark.threadmark SET format = 99")
    saver = opened(call, url)
    with pytest.raises(ForeignDatabase, match="format 99"):
        call(saver, "put", config(), checkpoint({"a": 1}), {}, {"a": 1})
    assert sql(url, "SELECT count(*) FROM threadmark.checkpoint") == [(0,)]
    close(call, saver)


def test_a_database_that_cannot_hold_every_text(postgres_server: Postgres) -> None:
    postgres_server.run("CREATE DATABASE narrow ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with (
        PostgresSaver.from_conn_string(postgres_server.url("narrow")) as saver,
        pytest.raises(SaverError, match="ENCODING 'UTF8'"),
    ):
        saver.setup()


def test_tables_that_vanish_are_told_and_made_again(url: str, call: Call) -> None:
    saver = opened(call, url)
    call(saver, "put", config(), checkpoint({"a": 1}), {}, {"a": 1})
    sql(url, "DROP SCHEMA threadmark CASCADE")
    with pytest.raises(SaverError, match="'threadmark' are gone"):
        call(saver, "put", config("u"), checkpoint({"a": 1}), {}, {"a": 1})
    call(saver, "put", config("u"), checkpoint({"a": 2}), {}, {"a": 1})
    assert call(saver, "get", config("u"))["channel_values"] == {"a": 2}
    close(call, saver)


def test_read_only(url: str) -> None:
    with PostgresSaver.open_read_only(url) as saver, pytest.raises(ForeignDatabase, match="no thread was ever saved"):
        saver.get_tuple(config())
    assert tables(url, "threadmark") == []
    with open_saver(url) as saver:
        saver.put(config(), checkpoint({"a": 1}), {}, {"a": 1})
    with open_saver(url, read_only=True) as saver:
        assert saver.get(config())["channel_values"] == {"a": 1}
        for operation in (
            lambda: saver.delete_thread("t"),
            lambda: saver.put(config(), checkpoint({"a": 2}), {}, {"a": 2}),
        ):
            with pytest.raises(SaverError, match="read only"):
                operation()
        assert saver.get(config())["channel_values"] == {"a": 1}


def test_a_standby_s_refusal_says_where_to_go(url: str) -> None:
    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        at = saver.put(config(), checkpoint({"a": 1}), {}, {"a": 1})
        name = url.rpartition("/")[2]
        sql(url, f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    with PostgresSaver.from_conn_string(url) as saver:  # a default is no obstacle: transactions say what they do
        saver.put_writes(at, [("a", 2)], "task")
        assert saver.get_tuple(at).pending_writes == [("task", "a", 2)]


@pytest.mark.parametrize("level", ["read uncommitted", "repeatable read", "serializable"])
def test_whatever_isolation_the_database_begins_with(url: str, call: Call, level: str) -> None:
    sql(url, f"ALTER DATABASE \"{url.rpartition('/')[2]}\" SET default_transaction_isolation = '{level}'")
    savers = [opened(call, url) for _ in range(2)]
    at = config()
    for number in range(6):
        made, writes = checkpoint({"n": number}), [("t", "", [("n", number)])] if number else []
        at = call(savers[number % 2], "put_step", at, made, {}, {"n": number + 1}, writes)
    assert [item.checkpoint["channel_values"]["n"] for item in call(savers[0], "list", config())] == [5, 4, 3, 2, 1, 0]
    for saver in savers:
        close(call, saver)


def test_people_find_a_view_of_the_checkpoints(url: str) -> None:
    with PostgresSaver.from_conn_string(url) as saver:
        at = saver.put(config("a thread"), checkpoint({"a": 1}), {"source": "input", "step": -1}, {"a": 1})
    id = at["configurable"]["checkpoint_id"]
    rows = sql(url, "SELECT thread_id, checkpoint_ns, checkpoint_id, source, step FROM threadmark.checkpoints")
    assert rows == [("a thread", "", id, "input", -1)]


def test_order_is_by_bytes_whatever_the_database_s_language(postgres_server: Postgres, call: Call) -> None:
    name = postgres_server.database()
    saver = opened(call, postgres_server.url(name))
    ids = ["a", "B", "_", "b", "A", "é", "a\0", "a\1", "a\2", "a\0\0", "\U0001f600", "\uffff"]
    for id in ids:
        call(saver, "put", config(), checkpoint({"a": 1}, id=id), {}, {"a": 1})
    found = [item.config["configurable"]["checkpoint_id"] for item in call(saver, "list", config())]
    assert found == sorted(ids, key=lambda id: id.encode(), reverse=True)
    bound = {"configurable": {"checkpoint_id": "a\1"}}
    below = [item.config["configurable"]["checkpoint_id"] for item in call(saver, "list", config(), before=bound)]
    assert below == sorted((id for id in ids if id.encode() < b"a\1"), key=lambda id: id.encode(), reverse=True)
    close(call, saver)
    postgres_server.drop(name)
