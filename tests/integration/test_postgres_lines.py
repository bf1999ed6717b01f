"""Lines: how a round trip waits, what stays registered with an event loop, and what is left of it elsewhere."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import psycopg_binary
import pytest
from psycopg_pool import AsyncConnectionPool

from tests.conftest import Call
from tests.services.postgres import Postgres
from tests.services.proxy import Proxy, proxy
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.checkpoint.postgres.aio import AsyncPostgresSaver
from threadmark.errors import SaverError, Unavailable

put = (checkpoint({"n": 1}), {}, {"n": 1})


class Watched:
    """What was registered with an event loop and taken back, by the number of the file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, loop: asyncio.AbstractEventLoop) -> None:
        self.added: list[int] = []
        self.there = set[int]()
        add, remove = loop.add_reader, loop.remove_reader

        def add_reader(fd: int, *args: Any) -> None:
            self.added.append(fd)
            self.there.add(fd)
            add(fd, *args)

        def remove_reader(fd: int) -> bool:
            self.there.discard(fd)
            return remove(fd)

        monkeypatch.setattr(loop, "add_reader", add_reader)
        monkeypatch.setattr(loop, "remove_reader", remove_reader)


@pytest.fixture
async def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch, asyncio.get_running_loop())


@pytest.fixture
def between(postgres_server: Postgres) -> Iterator[Proxy]:
    with proxy(postgres_server.port) as made:
        yield made


def through(between: Proxy, server: Postgres, url: str) -> str:
    return url.replace(str(server.port), str(between.port))


# -- the reader that stays ---------------------------------------------------------------------------------------------


async def test_a_reader_stays_while_its_connection_is_idle_and_ends_with_it(
    pg_url: str, pg_schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AsyncPostgresSaver.from_conn_string(pg_url, schema=pg_schema) as saver:
        await saver.setup()
        (line,) = saver._port.connections._idle
        line.let_go()
        watched = Watched(monkeypatch, asyncio.get_running_loop())
        for number in range(10):
            await saver.aput(config(f"t{number}"), *put)
        assert watched.added == [line.pgconn.socket]
        assert watched.there == {line.pgconn.socket}
        # A second time, after what the loop held was let go.
        line.let_go()
        assert watched.there == set()
        await saver.aput(config(), *put)
        assert watched.there == {line.pgconn.socket}
    assert watched.there == set()


async def test_nothing_is_left_on_the_loop_of_what_was_handed_in(pg_url: str, pg_schema: str, watched: Watched) -> None:
    async with await psycopg.AsyncConnection.connect(pg_url, autocommit=True) as conn:
        saver = AsyncPostgresSaver(conn, schema=pg_schema)
        for number in range(3):
            await saver.aput(config(f"t{number}"), *put)
            assert watched.there == set()
            cursor = await conn.execute("SELECT 1")
            assert await cursor.fetchone() == (1,)
        assert conn.pgconn.nonblocking
    async with AsyncConnectionPool(pg_url, open=False, min_size=1, max_size=1) as pool:
        saver = AsyncPostgresSaver(pool, schema=pg_schema)
        await saver.aput(config("p"), *put)
        assert watched.there == set()
        async with pool.connection() as conn:
            cursor = await conn.execute("SELECT 1")
            assert await cursor.fetchone() == (1,)


async def test_a_connection_that_dies_while_it_is_idle_does_not_keep_the_loop_busy(
    postgres_server: Postgres, watched: Watched
) -> None:
    name = postgres_server.database()
    async with AsyncPostgresSaver.from_conn_string(postgres_server.url(name)) as saver:
        await saver.aput(config(), *put)
        assert watched.there
        killing = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        await asyncio.to_thread(postgres_server.run, killing)
        while watched.there:
            await asyncio.sleep(0.001)
        await saver.aput(config("again"), *put)
        assert sorted(await saver.athread_ids()) == ["again", "t"]
    postgres_server.drop(name)


async def test_a_forgotten_saver_leaves_no_reader_and_no_connection(
    postgres_server: Postgres, watched: Watched
) -> None:
    name = postgres_server.database()
    saver = AsyncPostgresSaver.from_conn_string(postgres_server.url(name))
    await saver.aput(config(), *put)
    assert watched.there
    del saver
    gc.collect()
    assert watched.there == set()
    postgres_server.run(f'DROP DATABASE "{name}"')  # refused while anybody is connected


async def test_a_reader_keeps_nothing_of_whoever_was_first(pg_url: str, pg_schema: str) -> None:
    class Large:
        """What a program keeps in a context variable."""

    variable: contextvars.ContextVar[Any] = contextvars.ContextVar("variable")
    async with AsyncPostgresSaver.from_conn_string(pg_url, schema=pg_schema) as saver:
        await saver.setup()
        (line,) = saver._port.connections._idle
        line.let_go()

        async def first() -> weakref.ref[Large]:
            held = Large()
            variable.set(held)
            await saver.aput(config(), *put)
            return weakref.ref(held)

        gone = await asyncio.create_task(first())
        await asyncio.sleep(0)
        gc.collect()
        assert gone() is None
        assert line._loop is asyncio.get_running_loop()


# -- other loops -------------------------------------------------------------------------------------------------------


def test_a_line_goes_on_on_the_next_loop_when_its_own_is_closed(
    postgres_server: Postgres, between: Proxy, pg_url: str, pg_schema: str
) -> None:
    saver = AsyncPostgresSaver.from_conn_string(through(between, postgres_server, pg_url), schema=pg_schema)
    for number in range(4):
        asyncio.run(saver.aput(config(f"t{number}"), *put))
    assert between.opened == 1
    assert asyncio.run(saver.athread_ids()) == ["t0", "t1", "t2", "t3"]
    asyncio.run(saver.aclose())


def test_two_loops_that_run_in_two_threads_may_take_turns(
    postgres_server: Postgres, between: Proxy, pg_url: str, pg_schema: str
) -> None:
    saver = AsyncPostgresSaver.from_conn_string(through(between, postgres_server, pg_url), schema=pg_schema)
    loops = [asyncio.new_event_loop() for _ in range(2)]
    threads = [threading.Thread(target=loop.run_forever) for loop in loops]
    for each in threads:
        each.start()

    def on(loop: asyncio.AbstractEventLoop, op: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(op, loop).result(60)

    try:
        for number in range(10):
            for at, loop in enumerate(loops):
                on(loop, saver.aput(config(f"t{at}"), checkpoint({"n": number}), {}, {"n": number + 1}))
        for at, loop in enumerate(loops):
            found = on(loop, saver.aget(config(f"t{at}")))
            assert found["channel_values"] == {"n": 9}
        assert between.opened == 1
        on(loops[1], saver.aput(config("last"), *put))
        on(loops[0], saver.aclose())  # from another loop than the one that has the reader
        with pytest.raises(SaverError, match="closed"):
            on(loops[1], saver.aget(config()))
    finally:
        for loop, thread in zip(loops, threads, strict=True):
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


# -- waiting that ends otherwise ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("moments", [1, 2, 5])
async def test_who_is_cancelled_while_waiting_has_stored_and_keeps_the_connection(
    postgres_server: Postgres, between: Proxy, pg_url: str, pg_schema: str, moments: int
) -> None:
    url = through(between, postgres_server, pg_url)
    async with AsyncPostgresSaver.from_conn_string(url, schema=pg_schema) as saver:
        await saver.setup()
        between.latency = 0.05
        task = asyncio.ensure_future(saver.aput(config(), *put))
        for _ in range(moments):
            await asyncio.sleep(0.01)
            task.cancel("not now")
        with pytest.raises(asyncio.CancelledError):
            await task
        between.latency = 0
        found = await saver.aget(config())
        assert found is not None
        assert found["channel_values"] == {"n": 1}
        assert between.opened == 1


def test_silence_counts_from_what_was_heard_last(
    postgres_server: Postgres, between: Proxy, pg_url: str, pg_schema: str, call: Call
) -> None:
    """Not from an earlier round trip, whose timer may still be there."""
    kind = PostgresSaver if call.colour == "sync" else AsyncPostgresSaver
    saver = kind.from_conn_string(through(between, postgres_server, pg_url), schema=pg_schema, timeout=1)
    call(saver, "put", config("warm"), *put)
    between.latency = 0.35
    for number in range(4):
        call(saver, "put", config(f"t{number}"), *put)
    between.latency = 0
    between.silent = True
    began = time.monotonic()
    with pytest.raises(Unavailable, match="did not answer for 1 s"):
        call(saver, "put", config(), *put)
    assert time.monotonic() - began >= 1
    between.silent = False
    between.reset()
    call(saver, "put", config(), *put)
    assert len(call(saver, "thread_ids")) == 6
    call(saver, "close")


def test_what_does_not_fit_into_a_buffer_goes_out_bit_by_bit(
    postgres_server: Postgres, between: Proxy, pg_url: str, pg_schema: str, call: Call
) -> None:
    kind = PostgresSaver if call.colour == "sync" else AsyncPostgresSaver
    saver = kind.from_conn_string(through(between, postgres_server, pg_url), schema=pg_schema)
    call(saver, "put", config(), *put)
    between.latency = 0.005  # for every 64 KB
    value = os.urandom(3 << 20)
    call(saver, "put", config("large"), checkpoint({"n": value}), {}, {"n": 1})
    found = call(saver, "get", config("large"))
    assert found["channel_values"] == {"n": value}
    call(saver, "close")


@pytest.mark.parametrize("stage", ["sending", "waiting"])
def test_a_line_that_is_cut_while_a_long_message_goes_out(
    postgres_server: Postgres, between: Proxy, pg_url: str, pg_schema: str, call: Call, stage: str
) -> None:
    kind = PostgresSaver if call.colour == "sync" else AsyncPostgresSaver
    saver = kind.from_conn_string(through(between, postgres_server, pg_url), schema=pg_schema)
    call(saver, "put", config(), *put)
    between.latency = 0.005
    if stage == "sending":
        cut = threading.Timer(0.1, between.reset)
        cut.start()
    else:
        between.cuts_once, between.answer_limit = True, 0
    value = os.urandom(3 << 20)
    call(saver, "put", config("large"), checkpoint({"n": value}), {}, {"n": 1})
    assert call(saver, "get", config("large"))["channel_values"] == {"n": value}
    assert len(call(saver, "list", config("large"))) == 1
    call(saver, "close")


def test_ctrl_c_ends_a_wait_and_what_it_waited_for(pg_url: str, pg_schema: str) -> None:
    """The server is told, so that the step is not stored behind the back of a program that has gone on."""
    with PostgresSaver.from_conn_string(pg_url, schema=pg_schema) as saver, psycopg.connect(pg_url) as other:
        saver.setup()
        other.execute(f"SELECT {pg_schema}.hold('t')".encode())  # so that the step has to wait
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            saver.put(config(), *put)
        other.rollback()
        assert saver.get_tuple(config()) is None
        saver.put(config(), *put)
        assert len(list(saver.list(config()))) == 1


# -- psycopg without its part in C -------------------------------------------------------------------------------------

WITHOUT_C = """
import asyncio, ctypes.util, sys
ctypes.util.find_library = lambda name, real=ctypes.util.find_library: sys.argv[1] if name == "pq" else real(name)
import psycopg
assert psycopg.pq.__impl__ == "python"
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.checkpoint.postgres.aio import AsyncPostgresSaver

def steps(number):
    return checkpoint({"n": number, "text": "x" * 5_000_000 * (number == 2)}), {}, {"n": number, "text": number}

with PostgresSaver.from_conn_string(sys.argv[2], schema=sys.argv[3]) as saver:
    for number in range(3):
        saver.put(config("blocking"), *steps(number))
    assert [item.checkpoint["channel_values"]["n"] for item in saver.list(config("blocking"))] == [2, 1, 0]

async def main():
    async with AsyncPostgresSaver.from_conn_string(sys.argv[2], schema=sys.argv[3]) as saver:
        for number in range(3):
            await saver.aput(config("awaited"), *steps(number))
        found = [item.checkpoint["channel_values"]["n"] async for item in saver.alist(config("awaited"))]
        assert found == [2, 1, 0]

asyncio.run(main())
"""


def test_psycopg_s_part_in_c_is_not_needed(pg_url: str, pg_schema: str) -> None:
    (libpq,) = (Path(psycopg_binary.__file__).parent.parent / "psycopg_binary.libs").glob("libpq-*")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_C, str(libpq), pg_url, pg_schema],
        env={**os.environ, "PSYCOPG_IMPL": "python"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
