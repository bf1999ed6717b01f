"""Behind a pooler in transaction mode, where the next transaction may be on another connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from operator import add
from typing import Annotated, Any, TypedDict

import pytest

from tests.conftest import Call
from tests.services.pgbouncer import pgbouncer
from tests.services.postgres import Postgres
from tests.sizes import sized
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.checkpoint.postgres.aio import AsyncPostgresSaver
from threadmark.errors import HeadMoved
from threadmark.graph import START, StateGraph


@pytest.fixture(scope="module")
def pooled(postgres_server: Postgres) -> Iterator[str]:
    """The URL of a database behind two connections."""
    with pgbouncer(postgres_server) as port:
        name = postgres_server.database()
        yield postgres_server.url(name, port=port)


def test_many_writers_over_two_connections(pooled: str, pg_schema: str) -> None:
    savers = [PostgresSaver.from_conn_string(pooled, schema=pg_schema) for _ in range(6)]
    errors: list[BaseException] = []

    def work(saver: PostgresSaver, thread_id: str) -> None:
        try:
            at: Any = config(thread_id)
            for number in range(10):
                made = checkpoint({"n": number, "text": "x" * 300 * number})
                versions = dict.fromkeys(made["channel_values"], number + 1)
                head = at["configurable"].get("checkpoint_id")
                writes = [("t", "", [("n", number)])] if number else []
                at = saver.put_step(at, made, {}, versions, writes, expected_head=head)
                found = saver.get_tuple(at)
                assert found is not None
                assert found.checkpoint["channel_values"] == made["channel_values"]
            assert len(list(saver.list(config(thread_id)))) == 10
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(saver, f"t{at}")) for at, saver in enumerate(savers)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert errors == []
    for saver in savers:
        saver.close()


class Count(TypedDict):
    total: Annotated[int, add]


@pytest.mark.timeout(600)
def test_many_runs_whose_connections_are_killed_between_two_steps(
    postgres_server: Postgres, pooled: str, pg_schema: str
) -> None:
    """With the default settings of everybody: no error, and no step is lost."""
    threads, runs = 8, sized(125, 5)
    database = pooled.rpartition("/")[2]

    def kill(state: Count) -> Count:
        postgres_server.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'")
        return {"total": 1}

    with PostgresSaver.from_conn_string(pooled, schema=pg_schema) as saver:
        builder = StateGraph(Count)
        builder.add_sequence([("first", lambda state: {"total": 1}), ("second", kill)])
        builder.add_edge(START, "first")
        graph = builder.compile(checkpointer=saver)

        def work(number: int) -> None:
            for _ in range(runs):
                graph.invoke({"total": 0}, config(f"r{number}"), durability="sync")

        with ThreadPoolExecutor(threads) as workers:
            list(workers.map(work, range(threads)))
        for number in range(threads):
            assert graph.get_state(config(f"r{number}")).values == {"total": 2 * runs}
            assert len(list(saver.list(config(f"r{number}")))) == 4 * runs


def test_everything_else_works_too(pooled: str, pg_schema: str, call: Call) -> None:
    kind = PostgresSaver if call.colour == "sync" else AsyncPostgresSaver
    saver, other = (kind.from_conn_string(pooled, schema=pg_schema) for _ in range(2))
    at = call(saver, "put", config(), checkpoint({"n": 0}), {"run_id": "r"}, {"n": 1})
    call(other, "put_writes", at, [("n", 1)], "task")
    call(saver, "put_writes", at, [("m", 2)], "task")
    newer = call(other, "put", at, checkpoint({"n": 1}), {}, {"n": 2})
    head = at["configurable"]["checkpoint_id"]
    with pytest.raises(HeadMoved):
        call(saver, "put", at, checkpoint({"n": 2}), {}, {"n": 2}, expected_head=head)
    call(saver, "copy_thread", "t", "copy")
    call(other, "delete_for_runs", ["r"])
    call(other, "prune", ["copy"])
    assert [item.config for item in call(saver, "list", config())] == [newer]
    call(saver, "delete_thread", "t")
    assert call(other, "thread_ids") == ["copy"]
    for each in (saver, other):
        if call.colour == "sync":
            each.close()
        else:
            call.runner.run(each.aclose())


def test_locks_end_with_their_transactions(pooled: str, pg_schema: str) -> None:
    with (
        PostgresSaver.from_conn_string(pooled, schema=pg_schema) as first,
        PostgresSaver.from_conn_string(pooled, schema=pg_schema) as second,
    ):
        for number in range(5):
            for saver in (first, second):
                saver.put(config(), checkpoint({"n": number}), {}, {"n": number + 1})
        assert len(list(first.list(config()))) == 10
