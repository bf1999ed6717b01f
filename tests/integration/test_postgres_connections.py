"""Connections: handed in or opened, secrets that stay secret, forks, event loops that end, places in the pool."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import threading
from typing import Any

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from tests.services.postgres import Postgres
from tests.services.proxy import proxy
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.checkpoint.postgres.aio import AsyncPostgresSaver
from threadmark.colour import drive
from threadmark.errors import ColourError, SaverError, Unavailable


def put(saver: PostgresSaver, number: int = 1, thread_id: str = "t") -> Any:
    return saver.put(config(thread_id), checkpoint({"n": number}), {}, {"n": number})


async def aput(saver: PostgresSaver, number: int = 1, thread_id: str = "t") -> Any:
    return await saver.aput(config(thread_id), checkpoint({"n": number}), {}, {"n": number})


def value(saver: PostgresSaver) -> Any:
    return saver.get(config())["channel_values"]["n"]


# -- what is handed in -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("autocommit", [True, False])
def test_a_connection_is_left_at_rest_and_everything_is_committed(
    pg_url: str, pg_schema: str, autocommit: bool
) -> None:
    with psycopg.connect(pg_url, autocommit=autocommit) as conn:
        saver = PostgresSaver(conn, schema=pg_schema)
        assert saver.conn is conn
        saver.setup()
        put(saver)
        assert conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        with PostgresSaver.from_conn_string(pg_url, schema=pg_schema) as other:
            assert value(other) == 1
        assert conn.execute("SELECT 1").fetchone() == (1,)


def test_what_the_caller_left_open_is_committed_and_what_failed_is_not(pg_url: str, pg_schema: str) -> None:
    with psycopg.connect(pg_url) as conn:
        saver = PostgresSaver(conn, schema=pg_schema)
        put(saver)
        conn.execute(f"CREATE TABLE public.{pg_schema} (n int)".encode())
        put(saver, 2)
        with psycopg.connect(pg_url) as other:
            assert other.execute(f"SELECT count(*) FROM public.{pg_schema}".encode()).fetchone() == (0,)
        with pytest.raises(psycopg.Error):
            conn.execute("SELECT nonsense")
        put(saver, 3)
        assert value(saver) == 3


def test_threads_take_turns_on_one_connection(pg_url: str, pg_schema: str) -> None:
    with psycopg.connect(pg_url) as conn:
        saver = PostgresSaver(conn, schema=pg_schema)
        found: list[Any] = []

        def work(name: str) -> None:
            for number in range(5):
                put(saver, number, name)
                found.append(conn.execute("SELECT 1").fetchone())

        threads = [threading.Thread(target=work, args=(f"t{each}",)) for each in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert found == [(1,)] * 20
        assert len(list(saver.list(None))) == 20


def test_a_broken_connection_says_what_to_do(pg_url: str, pg_schema: str) -> None:
    conn = psycopg.connect(pg_url)
    saver = PostgresSaver(conn, schema=pg_schema)
    put(saver)
    conn.close()
    for each in (saver, PostgresSaver(conn, schema=pg_schema)):
        for use in (lambda saver=each: put(saver), lambda saver=each: list(saver.list(None)), each.setup):
            with pytest.raises(Unavailable, match="from_conn_string"):
                use()


def test_a_closed_pool_says_what_to_do(pg_url: str, pg_schema: str) -> None:
    pool = ConnectionPool(pg_url, open=False)
    saver = PostgresSaver(pool, schema=pg_schema)
    with pytest.raises(SaverError, match="not opened yet"):
        put(saver)
    with pool:
        put(saver)
    with pytest.raises(SaverError, match="the pool that this saver was given is closed"):
        put(saver)


async def test_closed_connections_and_pools_of_an_event_loop_say_what_to_do(pg_url: str, pg_schema: str) -> None:
    conn = await psycopg.AsyncConnection.connect(pg_url)
    pool = AsyncConnectionPool(pg_url, open=False)
    await pool.open()
    savers = [AsyncPostgresSaver(given, schema=pg_schema) for given in (conn, pool)]
    for saver in savers:
        await aput(saver)
    await conn.close()
    await pool.close()
    for saver in savers:
        with pytest.raises(SaverError, match="that this saver was given is closed"):
            await aput(saver)


def test_a_pool_whose_connections_died_is_refilled(postgres_server: Postgres) -> None:
    name = postgres_server.database()
    with ConnectionPool(postgres_server.url(name), min_size=3, max_size=3, open=True) as pool:
        saver = PostgresSaver(pool)
        for number in range(1, 6):
            postgres_server.run(
                f"SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '{name}'"
            )
            put(saver, number)
            assert value(saver) == number
        saver.close()
        with pool.connection() as conn:
            assert conn.execute("SELECT 1").fetchone() == (1,)
    postgres_server.drop(name)


async def test_an_awaited_pool_and_connection(pg_url: str, pg_schema: str) -> None:
    async with AsyncConnectionPool(pg_url, open=False, min_size=1, max_size=2) as pool:
        saver = AsyncPostgresSaver(pool, schema=pg_schema)
        await saver.setup()
        await asyncio.gather(*(aput(saver, number, f"t{number}") for number in range(6)))
        assert len(await saver.athread_ids()) == 6
    async with await psycopg.AsyncConnection.connect(pg_url) as conn:
        saver = AsyncPostgresSaver(conn, schema=pg_schema)
        await asyncio.gather(*(aput(saver, number, f"u{number}") for number in range(6)))
        assert len(await saver.athread_ids()) == 12


def test_a_connection_in_another_encoding_is_refused(pg_url: str, pg_schema: str) -> None:
    with (
        psycopg.connect(pg_url, client_encoding="latin1") as conn,
        pytest.raises(SaverError, match="client_encoding must be UTF8"),
    ):
        put(PostgresSaver(conn, schema=pg_schema))


def test_the_wrong_thing_is_refused_with_the_right_name(pg_url: str) -> None:
    secret = "postgresql://me:hush@host/db"
    for kind in (PostgresSaver, AsyncPostgresSaver):
        with pytest.raises(TypeError, match=f"{kind.__name__}.from_conn_string") as caught:
            kind(secret)
        assert "hush" not in str(caught.value)
        with pytest.raises(TypeError, match="object"):
            kind(object())
    with psycopg.connect(pg_url) as conn, pytest.raises(TypeError, match="; PostgresSaver takes"):
        AsyncPostgresSaver(conn)
    with ConnectionPool(pg_url, open=False) as pool, pytest.raises(TypeError, match="; PostgresSaver takes"):
        AsyncPostgresSaver(pool)
    with pytest.raises(TypeError, match="; AsyncPostgresSaver takes"):
        PostgresSaver(AsyncConnectionPool(pg_url, open=False))


@pytest.mark.parametrize(("name", "wrong"), [("timeout", 0), ("timeout", -1), ("pool_size", 0)])
def test_options_out_of_range(pg_url: str, name: str, wrong: int) -> None:
    with pytest.raises(ValueError, match=name):
        PostgresSaver.from_conn_string(pg_url, **{name: wrong})


# -- secrets -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "postgresql://someone:hush@127.0.0.1:1/db",
        "host=127.0.0.1 port=1 password=hush dbname=db",
        "postgresql://someone:hush@127.0.0.1:port/db",
        "hush",
        "postgresql://someone:hush@127.0.0.1:1/db?unknown=hush",
    ],
)
def test_passwords_are_in_no_message(name: str) -> None:
    with pytest.raises((ValueError, SaverError)) as caught:
        put(PostgresSaver.from_conn_string(name))
    error: BaseException | None = caught.value
    while error is not None:
        assert "hush" not in f"{error!r} {error}"
        error = error.__cause__


def test_a_wrong_database_or_password_is_not_to_be_tried_again(pg_url: str) -> None:
    with (
        PostgresSaver.from_conn_string(pg_url + "_not") as saver,
        pytest.raises(SaverError, match="not let us in") as caught,
    ):
        put(saver)
    assert not isinstance(caught.value, Unavailable)


# -- the saver's own connections ---------------------------------------------------------------------------------------


def test_as_many_connections_as_writers_up_to_the_size_of_the_pool(
    postgres_server: Postgres, pg_url: str, pg_schema: str
) -> None:
    with proxy(postgres_server.port) as between:
        url = pg_url.replace(str(postgres_server.port), str(between.port))
        with PostgresSaver.from_conn_string(url, schema=pg_schema, pool_size=4) as saver:
            saver.setup()
            between.latency = 0.02
            threads = [threading.Thread(target=put, args=(saver, 1, f"t{each}")) for each in range(12)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            assert between.opened == 4
            assert len(saver.thread_ids()) == 12


async def test_a_blocking_saver_under_a_loop_uses_several_connections_too(
    postgres_server: Postgres, pg_url: str, pg_schema: str
) -> None:
    with proxy(postgres_server.port) as between:
        url = pg_url.replace(str(postgres_server.port), str(between.port))
        async with PostgresSaver.from_conn_string(url, schema=pg_schema, pool_size=4) as saver:
            saver.setup()
            between.latency = 0.02
            await asyncio.gather(*(aput(saver, 1, f"t{each}") for each in range(12)))
            assert between.opened == 4
            assert len(await saver.athread_ids()) == 12


def test_waiting_for_a_place_ends(pg_url: str, pg_schema: str) -> None:
    with PostgresSaver.from_conn_string(pg_url, schema=pg_schema, pool_size=1, timeout=0.2) as saver:
        put(saver)
        with psycopg.connect(pg_url) as other:
            other.execute(f"SELECT {pg_schema}.hold('t')".encode())  # a writer that does not come to an end
            with pytest.raises(Unavailable):
                put(saver, 2)
        put(saver, 3)
        assert value(saver) == 3
        lent = drive(saver._port.connections.take())
        with pytest.raises(Unavailable, match=r"all 1 connections were in use.*pool_size"):
            put(saver, 4)
        drive(saver._port.connections.give(lent, keep=True))
        put(saver, 4)


def test_what_is_refused_gives_its_connection_back(pg_url: str, pg_schema: str) -> None:
    long = os.urandom(4000).hex()
    with PostgresSaver.from_conn_string(pg_url, schema=pg_schema, pool_size=1, timeout=20) as saver:
        for _ in range(3):
            with pytest.raises(SaverError, match="too long"):
                put(saver, 1, long)
            put(saver)
        assert saver.thread_ids() == ["t"]


def test_a_closed_saver_says_so(pg_url: str, pg_schema: str) -> None:
    with PostgresSaver.from_conn_string(pg_url, schema=pg_schema) as saver:
        put(saver)
    saver.close()
    with pytest.raises(SaverError, match="closed"):
        put(saver)


def test_a_forgotten_saver_leaves_no_connection_open(postgres_server: Postgres) -> None:
    name = postgres_server.database()
    saver = PostgresSaver.from_conn_string(postgres_server.url(name))
    put(saver)
    del saver
    gc.collect()
    postgres_server.run(f'DROP DATABASE "{name}"')  # refused while anybody is connected


def test_several_event_loops_one_after_the_other(pg_url: str, pg_schema: str) -> None:
    saver = AsyncPostgresSaver.from_conn_string(pg_url, schema=pg_schema)
    for number in range(1, 4):
        asyncio.run(aput(saver, number))
        found = asyncio.run(saver.aget(config()))
        assert found["channel_values"]["n"] == number
    with pytest.raises(ColourError, match="await"):
        put(saver)
    saver.close()


async def test_blocking_calls_of_an_awaited_saver_come_from_other_threads(pg_url: str, pg_schema: str) -> None:
    async with AsyncPostgresSaver.from_conn_string(pg_url, schema=pg_schema) as saver:
        await saver.setup()
        await asyncio.to_thread(put, saver, 7)
        assert await asyncio.to_thread(value, saver) == 7
        with pytest.raises(ColourError, match="await"):
            put(saver)


async def test_a_cancelled_call_leaves_a_connection_that_is_of_use_or_none(pg_url: str, pg_schema: str) -> None:
    async with AsyncPostgresSaver.from_conn_string(pg_url, schema=pg_schema, pool_size=1) as saver:
        await saver.setup()
        for delay in range(20):
            task = asyncio.ensure_future(aput(saver, delay, f"t{delay}"))
            await asyncio.sleep(delay / 4000)
            task.cancel()
            await asyncio.wait([task])
        await aput(saver, 1, "last")
        for item in [item async for item in saver.alist(None)]:
            assert len(item.checkpoint["channel_values"]) == 1


async def test_an_interrupted_conversation_costs_its_connection(pg_url: str, pg_schema: str) -> None:
    """What is cancelled below the saver, as by a loop that is torn down, leaves nothing half read behind."""
    async with AsyncPostgresSaver.from_conn_string(pg_url, schema=pg_schema, pool_size=1) as saver:
        await aput(saver, 1)
        async with saver._port.write() as change:
            thread = await change.thread("t")
            slow = asyncio.ensure_future(change._trips.ask(change._sql.line(thread.key, "", "x", 1 << 40)))
            await asyncio.sleep(0)
            slow.cancel()
            with pytest.raises(asyncio.CancelledError):
                await slow
        assert (await saver.aget(config()))["channel_values"] == {"n": 1}


def test_a_forked_child_opens_connections_of_its_own(pg_url: str, pg_schema: str) -> None:
    with PostgresSaver.from_conn_string(pg_url, schema=pg_schema) as saver:
        put(saver)
        readable, writable = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                found = value(saver)
                put(saver, 2)
                os.write(writable, pickle.dumps(found))
                code = 0
            finally:
                os._exit(code)
        os.close(writable)
        with os.fdopen(readable, "rb") as told:
            assert pickle.loads(told.read()) == 1
        assert os.waitpid(child, 0)[1] == 0
        assert value(saver) == 2
        put(saver, 3)
        assert value(saver) == 3


def test_a_forked_child_is_told_that_a_handed_in_connection_is_not_its_own(pg_url: str, pg_schema: str) -> None:
    with psycopg.connect(pg_url) as conn:
        saver = PostgresSaver(conn, schema=pg_schema)
        put(saver)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                put(saver, 2)
            except SaverError as error:
                code = 0 if "parent process" in str(error) else 2
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        put(saver, 3)
        assert value(saver) == 3
