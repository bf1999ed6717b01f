"""How Redis is reached: URLs, ready clients of four kinds, forks, event loops one after the other, round trips."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypedDict

import pytest
import redis
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio import RedisCluster as AsyncRedisCluster

from tests.integration.redis_kit import fresh, sync
from tests.services.process import PATIENCE
from tests.services.proxy import Proxy, proxy
from tests.services.redis import Cluster, RedisServer, redis_binary, running, valkey_binary
from threadmark.checkpoint.conformance.kit import checkpoint, config, filled
from threadmark.checkpoint.open import open_saver
from threadmark.checkpoint.redis import RedisSaver
from threadmark.checkpoint.redis.aio import AsyncRedisSaver
from threadmark.checkpoint.redis.urls import place_of
from threadmark.constants import END, START
from threadmark.errors import SaverError
from threadmark.graph import StateGraph

# -- URLs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "driver_url", "is_cluster"),
    [
        ("redis://h", "redis://h", False),
        ("rediss://u:p%40@h:1/2?socket_timeout=3", "rediss://u:p%40@h:1/2?socket_timeout=3", False),
        ("unix:///run/redis.sock?db=3", "unix:///run/redis.sock?db=3", False),
        ("redis+cluster://h:7", "redis://h:7", True),
        ("rediss+cluster://h:7/", "rediss://h:7/", True),
        ("redis://h:7?cluster=1", "redis://h:7", True),
        ("redis://h:7?cluster=0&max_connections=5", "redis://h:7", False),
    ],
)
def test_urls(url: str, driver_url: str, is_cluster: bool) -> None:
    place = place_of(url)
    assert (place.url, place.is_cluster) == (driver_url, is_cluster)
    assert "p%40" not in place.shown


@pytest.mark.parametrize("kind", [RedisSaver, AsyncRedisSaver])
@pytest.mark.parametrize(
    "url",
    [
        "http://u:hush@h",
        "localhost",
        "redis://u:hu/sh@h:1",
        "redis://u:hush@h:port",
        "redis://u:hush@h?colour=1",
        "redis://u:hush@h?socket_timeout=soon",
        "redis://u:hush@h?max_connections=many",
    ],
)
def test_a_url_that_cannot_be_used_says_so_without_its_password(kind: Any, url: str) -> None:
    with pytest.raises(ValueError, match="URL") as caught:
        kind.from_conn_string(url)
    assert "hu" not in str(caught.value)


def test_open_saver_takes_a_url(redis_server: RedisServer, redis_cluster: Cluster) -> None:
    for url in (redis_server.url, redis_cluster.url):
        with open_saver(url) as saver:
            assert isinstance(saver, RedisSaver)
            thread_id = f"opened {fresh()}"
            filled(saver, sync, thread_id, count=1)
            assert saver.get_tuple(config(thread_id)) is not None
            saver.delete_thread(thread_id)


def test_a_saver_that_only_reads(redis_server: RedisServer, own_replica: RedisServer) -> None:
    """From the server itself and from a replica of it, on which nothing could be written."""
    prefix = fresh()
    with RedisSaver.from_conn_string(redis_server.url, prefix=prefix) as saver:
        at = filled(saver, sync, count=2).config
        for server in (redis_server, own_replica):
            with RedisSaver.open_read_only(server.url, prefix=prefix) as reading:
                until(lambda reading=reading: reading.thread_ids() == ["t"])
                assert reading.get_tuple(at) == saver.get_tuple(at)
                assert reading.list_threads() == saver.list_threads()
                assert list(reading.list(None)) == list(saver.list(None))
                with pytest.raises(SaverError, match="read only"):
                    reading.put(at, checkpoint({"a": 1}), {}, {"a": 1})
                with pytest.raises(SaverError, match="read only"):
                    reading.delete_thread("t")
    with open_saver(redis_server.url, read_only=True) as reading:
        assert reading.get_tuple(config("nobody")) is None


@pytest.fixture
def own_replica(redis_server: RedisServer) -> Iterator[RedisServer]:
    with running(redis_binary) as replica, replica.client() as client:
        client.replicaof("127.0.0.1", redis_server.port)
        until(lambda: client.info("replication")["master_link_status"] == "up")
        yield replica


def until(met: Callable[[], bool]) -> None:
    """Wait for something that comes by itself."""
    end = time.monotonic() + PATIENCE
    while not met():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_unix_socket(tmp_path: Any) -> None:
    path = f"/tmp/threadmark-{os.getpid()}.sock"
    with running(valkey_binary, "--unixsocket", path), RedisSaver.from_conn_string(f"unix://{path}") as saver:
        filled(saver, sync, count=1)
        assert len(list(saver.list(config()))) == 1


def test_without_the_driver_the_extra_is_named() -> None:
    code = "import sys; sys.modules['redis'] = None; import threadmark.checkpoint.redis.aio"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'threadmark[redis]'" in done.stderr


# -- ready clients ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decodes", [False, True])
@pytest.mark.parametrize("protocol", [2, 3])
def test_a_ready_client_stays_open(redis_server: RedisServer, decodes: bool, protocol: int) -> None:
    with redis.Redis.from_url(redis_server.url, decode_responses=decodes, protocol=protocol) as client:
        with RedisSaver(client, prefix=fresh()) as saver:
            at = filled(saver, sync, count=2).config
            assert saver.get(at)["channel_values"]["same"] == "x" * 3000
            assert len(saver.list_threads()) == 1
        with pytest.raises(SaverError, match="closed"):
            saver.get_tuple(at)
        assert client.ping()


def test_a_ready_client_that_somebody_closed_connects_again(redis_server: RedisServer) -> None:
    client = redis.Redis.from_url(redis_server.url)
    saver = RedisSaver(client, prefix=fresh())
    for _ in range(2):
        at = filled(saver, sync, count=2).config
        client.close()
        assert saver.get_tuple(at) is not None


@pytest.mark.parametrize("decodes", [False, True])
def test_ready_clients_of_a_cluster(redis_cluster: Cluster, decodes: bool) -> None:
    url = redis_cluster.url.replace("+cluster", "")
    prefix = fresh()
    with (
        redis.RedisCluster.from_url(url, decode_responses=decodes) as client,
        RedisSaver(client, prefix=prefix) as saver,
    ):
        for number in range(6):
            filled(saver, sync, f"t{number}", count=1)
        assert len(saver.list_threads()) == 6

    async def awaited() -> None:
        async with AsyncRedisCluster.from_url(url, decode_responses=decodes) as client:
            saver = AsyncRedisSaver(client, prefix=prefix)
            assert len(await saver.alist_threads()) == 6
            found = [item async for item in saver.alist(config("t3"))]
            assert [item.metadata["run_id"] for item in found] == ["r0"]

    asyncio.run(awaited())


def test_a_ready_client_of_an_event_loop(redis_server: RedisServer) -> None:
    async def main() -> None:
        async with AsyncRedis.from_url(redis_server.url, decode_responses=True) as client:
            async with AsyncRedisSaver(client, prefix=fresh()) as saver:
                await saver.setup()
                await saver.aput(config(), checkpoint({"a": 1}), {}, {"a": 1})
                found = await asyncio.to_thread(saver.get_tuple, config())
                assert found is not None
                assert found.checkpoint["channel_values"] == {"a": 1}
            assert await client.ping()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("kind", "client"),
    [
        (RedisSaver, "redis://localhost"),
        (RedisSaver, AsyncRedis()),
        (RedisSaver, None),
        (AsyncRedisSaver, redis.Redis()),
        (AsyncRedisSaver, "redis://localhost"),
    ],
)
def test_the_wrong_kind_of_client_says_which_is_right(kind: Any, client: Any) -> None:
    with pytest.raises(TypeError, match=r"from_conn_string|redis\.Redis|redis\.asyncio"):
        kind(client)


# -- event loops and processes ---------------------------------------------------------------------------------------


LOOPS = """
    import asyncio, sys
    from threadmark.checkpoint.base import empty_checkpoint
    from threadmark.checkpoint.redis.aio import AsyncRedisSaver
    from threadmark.errors import ColourError
    from redis.asyncio import Redis

    URL, PREFIX = sys.argv[1:]
    CONFIG = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}

    saver = AsyncRedisSaver.from_conn_string(URL, prefix=PREFIX)
    async def turn(number):
        made = {**empty_checkpoint(), "channel_values": {"a": number}, "channel_versions": {"a": number}}
        await saver.aput(CONFIG, made, {}, {"a": number})
        return len([item async for item in saver.alist(CONFIG)])

    assert [asyncio.run(turn(number)) for number in range(1, 4)] == [1, 2, 3]
    try:
        saver.get_tuple(CONFIG)
    except ColourError as error:
        assert "await" in str(error)
    else:
        raise AssertionError
    asyncio.run(saver.aclose())

    saver = AsyncRedisSaver.from_conn_string(URL, prefix=PREFIX)
    saver.close()  # never used
    saver = AsyncRedisSaver.from_conn_string(URL, prefix=PREFIX)
    assert asyncio.run(saver.aget(CONFIG))["channel_values"] == {"a": 3}
    saver.close()  # its loop is gone
    saver.close()

    saver = AsyncRedisSaver(Redis.from_url(URL), prefix=PREFIX)
    assert asyncio.run(saver.aget(CONFIG))["channel_values"] == {"a": 3}
    try:
        asyncio.run(saver.aget(CONFIG))
    except ColourError as error:
        assert "from_conn_string" in str(error)
    else:
        raise AssertionError
"""


def run_program(program: str, *args: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *args],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_one_event_loop_after_the_other(redis_server: RedisServer) -> None:
    """The saver's own client is made anew; one that was handed in is refused with what to do."""
    run_program(LOOPS, redis_server.url, fresh())


FORKED = """
    import os, sys, threading
    from threadmark.checkpoint.base import empty_checkpoint
    from threadmark.checkpoint.redis import RedisSaver

    URL, PREFIX = sys.argv[1:]

    def put(saver, name, number):
        config = {"configurable": {"thread_id": name}}
        made = {**empty_checkpoint(), "channel_values": {"a": number}, "channel_versions": {"a": number}}
        saver.put(config, made, {"step": number}, {"a": number})

    with RedisSaver.from_conn_string(URL, prefix=PREFIX) as saver:
        put(saver, "parent", 0)
        children = []
        for child in range(3):
            pid = os.fork()
            if not pid:
                try:
                    for number in range(20):
                        put(saver, f"child {child}", number)
                    assert saver.get_tuple({"configurable": {"thread_id": "parent"}}) is not None
                    os._exit(0)
                except BaseException as error:
                    print(repr(error), file=sys.stderr, flush=True)
                    os._exit(1)
            children.append(pid)
        for number in range(20):
            put(saver, "parent", number + 1)
        for pid in children:
            assert os.waitpid(pid, 0)[1] == 0
        assert {line.thread_id: line.checkpoints for line in saver.list_threads()} == {
            "parent": 21, "child 0": 20, "child 1": 20, "child 2": 20}
"""


@pytest.mark.parametrize("server", ["redis_server", "redis_cluster"])
def test_forked_children_use_connections_of_their_own(server: str, request: pytest.FixtureRequest) -> None:
    run_program(FORKED, request.getfixturevalue(server).url, fresh())


# -- round trips -----------------------------------------------------------------------------------------------------


class Counted(TypedDict):
    n: int


def counting(steps: int) -> Any:
    """A graph whose only node counts to ``steps``."""
    builder = StateGraph(Counted)
    builder.add_node("count", lambda state: {"n": state["n"] + 1})
    builder.add_edge(START, "count")
    builder.add_conditional_edges("count", lambda state: "count" if state["n"] < steps else END)
    return builder


@pytest.fixture
def between(redis_server: RedisServer) -> Iterator[Proxy]:
    with proxy(redis_server.port) as between:
        yield between


def counted(between: Proxy, action: Callable[[], Any]) -> int:
    before = between.asked
    action()
    return between.asked - before


def test_a_superstep_is_one_round_trip(between: Proxy) -> None:
    with RedisSaver.from_conn_string(f"redis://127.0.0.1:{between.port}", prefix=fresh()) as saver:
        few, many = (counting(steps).compile(checkpointer=saver) for steps in (2, 42))
        few.invoke({"n": 0}, config("warm"), durability="sync")
        before = counted(between, lambda: few.invoke({"n": 0}, config("few"), durability="sync"))
        after = counted(between, lambda: many.invoke({"n": 0}, config("many"), durability="sync"))
        assert 0 < after - before <= 40
        assert counted(between, lambda: saver.get_tuple(config("many"))) <= 2


def test_reads_take_a_bounded_number_of_round_trips(between: Proxy) -> None:
    with RedisSaver.from_conn_string(f"redis://127.0.0.1:{between.port}", prefix=fresh()) as saver:
        for count in (4, 60):
            at = filled(saver, sync, f"t{count}", count=count).config
            saver._caches.clear()
            assert counted(between, partial(saver.get_delta_channel_history, config=at, channels=["rows"])) <= 7
            saver._caches.clear()
            assert counted(between, partial(saver.get_tuple, at)) <= 7
            assert counted(between, saver.list_threads) == 2


def test_threads_do_not_wait_for_each_other(between: Proxy) -> None:
    """With 50 ms on the way in each direction, sixteen threads are not sixteen times as slow as one."""
    with RedisSaver.from_conn_string(f"redis://127.0.0.1:{between.port}", prefix=fresh()) as saver:
        under_way, most = set[str](), 0
        lock = threading.Lock()
        wire: Any = saver._port.store.wire  # type: ignore[attr-defined]
        plain = wire.one

        async def one(command: Any) -> Any:
            nonlocal most
            with lock:
                under_way.add(threading.current_thread().name)
                most = max(most, len(under_way))
            try:
                return await plain(command)
            finally:
                with lock:
                    under_way.discard(threading.current_thread().name)

        wire.one = one
        between.latency = 0.05
        threads = [threading.Thread(target=filled, args=(saver, sync, f"t{n}", "", 2)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert most > 4
        between.latency = 0.0
        assert len(saver.thread_ids()) == 16
