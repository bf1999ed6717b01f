"""What a server refuses, and how it is told: typed, with what to do, the driver's error kept, no password."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from redis import exceptions as driver

from tests.integration.redis_kit import fresh, names_of, sync
from tests.services.process import PATIENCE, free_port
from tests.services.redis import Cluster, RedisServer, cluster, redis_binary, running, valkey_binary
from threadmark.checkpoint.conformance.kit import checkpoint, config, filled
from threadmark.checkpoint.redis import RedisSaver
from threadmark.checkpoint.redis.errors import translated
from threadmark.errors import SaverError, Unavailable

SECRET = "hush-hush"


@pytest.fixture(scope="module")
def own_server() -> Iterator[RedisServer]:
    """A server whose settings a test may change."""
    with running(redis_binary, "--appendonly", "no") as server:
        yield server


@pytest.fixture
def saver(own_server: RedisServer) -> Iterator[RedisSaver]:
    with RedisSaver.from_conn_string(own_server.url, prefix=fresh()) as saver:
        yield saver


def full(saver: RedisSaver, server: RedisServer, **settings: Any) -> Any:
    """A thread, and then a server with these settings; the error of the next put, after which they are taken back."""
    at = filled(saver, sync, count=2).config
    with server.client() as client:
        before = {name: client.config_get(name)[name] for name in settings}
        for name, value in settings.items():
            client.config_set(name, value)
        try:
            with pytest.raises(SaverError) as caught:
                saver.put(at, checkpoint({"rows": ["x" * 5000]}), {"step": 9}, {"rows": 9})
            assert saver.get_tuple(at) is not None
        finally:
            for name, value in before.items():
                client.config_set(name, value)
    assert len(names_of(saver, config())) == 2
    saver.put(at, checkpoint({"rows": ["x" * 5000]}), {"step": 9}, {"rows": 9})
    assert len(names_of(saver, config())) == 3
    return caught.value


def test_no_memory_left(saver: RedisSaver, own_server: RedisServer) -> None:
    error = full(saver, own_server, maxmemory="1")
    assert isinstance(error, Unavailable)
    assert "maxmemory" in str(error)
    assert isinstance(error.__cause__, driver.ResponseError)


def test_without_memory_a_thread_is_not_begun_but_may_be_deleted(saver: RedisSaver, own_server: RedisServer) -> None:
    filled(saver, sync, count=2)
    with own_server.client() as client:
        client.config_set("maxmemory", 1)
        try:
            with pytest.raises(Unavailable, match="maxmemory"):
                filled(saver, sync, "new", count=1)
            saver.delete_thread("t")
        finally:
            client.config_set("maxmemory", 0)
    assert saver.thread_ids() == []


def test_too_few_replicas(saver: RedisSaver, own_server: RedisServer) -> None:
    error = full(saver, own_server, **{"min-replicas-to-write": 1})
    assert isinstance(error, Unavailable)
    assert "replicas" in str(error)


def test_a_replica_takes_no_writes(saver: RedisSaver, own_server: RedisServer) -> None:
    at = filled(saver, sync, count=1).config
    with own_server.client() as client:
        client.replicaof("127.0.0.1", free_port())
        try:
            with pytest.raises(Unavailable, match="failover") as caught:
                saver.put(at, checkpoint({"a": 1}), {}, {"a": 1})
            assert isinstance(caught.value.__cause__, driver.ReadOnlyError)
        finally:
            client.replicaof("no", "one")
    saver.put(at, checkpoint({"a": 1}), {}, {"a": 1})


def test_a_disk_that_takes_nothing() -> None:
    """A snapshot that failed makes a server refuse writes."""
    with running(valkey_binary, "--save", "3600 1") as server, server.client() as client:
        saver = RedisSaver(client)
        at = filled(saver, sync, count=1).config
        (server.folder / "dump.rdb").mkdir()  # where its file would be
        snapshot(client, "err")
        with pytest.raises(Unavailable, match="disk"):
            saver.put(at, checkpoint({"a": 1}), {}, {"a": 1})
        assert saver.get_tuple(at) is not None
        (server.folder / "dump.rdb").rmdir()
        snapshot(client, "ok")
        saver.put(at, checkpoint({"a": 1}), {}, {"a": 1})


def snapshot(client: Any, status: str) -> None:
    """Have a snapshot made, and wait until it ended so."""
    client.bgsave()
    end = time.monotonic() + PATIENCE
    while client.info("persistence")["rdb_last_bgsave_status"] != status:
        assert time.monotonic() < end
        time.sleep(0.02)


def test_passwords() -> None:
    with running(redis_binary, "--requirepass", SECRET) as server:
        host = f"127.0.0.1:{server.port}"
        for url, says in (
            (f"redis://{host}", "wants .* password"),
            (f"redis://:{SECRET}-wrong@{host}", "wants another user or password"),
            (f"redis://somebody:{SECRET}-wrong@{host}", "wants another user or password"),
        ):
            with RedisSaver.from_conn_string(url) as saver:
                with pytest.raises(SaverError, match=says) as caught:
                    saver.get_tuple(config())
                assert not isinstance(caught.value, Unavailable)
                assert isinstance(caught.value.__cause__, driver.RedisError)
                assert SECRET not in f"{caught.value} {caught.value.__cause__} {saver!r}"
        with RedisSaver.from_conn_string(f"redis://:{SECRET}@{host}") as saver:
            filled(saver, sync, count=1)
            with server.client(password=SECRET) as client:
                client.acl_setuser("reader", enabled=True, passwords=["+x"], keys=["*"], commands=["+get", "+auth"])
        with (
            RedisSaver.from_conn_string(f"redis://reader:x@{host}") as saver,
            pytest.raises(SaverError, match="EVALSHA") as caught,
        ):
            saver.get_tuple(config())
        assert not isinstance(caught.value, Unavailable)


def test_nobody_there() -> None:
    with RedisSaver.from_conn_string(f"redis://:{SECRET}@127.0.0.1:{free_port()}") as saver:
        with pytest.raises(Unavailable, match="could not be reached") as caught:
            saver.get_tuple(config())
        assert isinstance(caught.value.__cause__, driver.ConnectionError)
        assert SECRET not in str(caught.value)
    with RedisSaver.from_conn_string(f"redis+cluster://:{SECRET}@127.0.0.1:{free_port()}") as saver:
        with pytest.raises(Unavailable) as caught:
            saver.get_tuple(config())
        assert SECRET not in f"{caught.value} {caught.value.__cause__}"


def test_a_cluster_met_by_a_client_for_one_server(redis_cluster: Cluster) -> None:
    with RedisSaver.from_conn_string(redis_cluster.url.replace("+cluster", ""), prefix=fresh()) as saver:
        with pytest.raises(SaverError, match=r"redis\+cluster://") as caught:
            saver.list_threads()  # its index is everywhere
        assert not isinstance(caught.value, Unavailable)


def test_one_server_met_by_a_client_for_a_cluster(own_server: RedisServer) -> None:
    url = own_server.url.replace("redis://", "redis+cluster://")
    with RedisSaver.from_conn_string(url) as saver, pytest.raises(SaverError, match="cluster"):
        saver.get_tuple(config())


@pytest.mark.parametrize("word", ["LOADING", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "BUSY", "NOREPLICAS", "MISCONF"])
def test_what_may_be_retried(word: str) -> None:
    error = translated(driver.ResponseError(f"{word} something is going on"), "redis://h")
    assert isinstance(error, Unavailable)
    assert "redis://h" in str(error)
    assert "something is going on" in str(error)


def test_the_driver_s_own_words_for_it() -> None:
    assert isinstance(translated(driver.BusyLoadingError("Redis is loading"), "h"), Unavailable)
    assert isinstance(translated(driver.ClusterDownError("CLUSTERDOWN it is"), "h"), Unavailable)
    assert isinstance(translated(driver.MaxConnectionsError("Too many connections"), "h"), Unavailable)
    refused = translated(driver.ResponseError("ERR something else"), "h")
    assert type(refused) is SaverError
    assert "something else" in str(refused)


# -- WAITAOF ---------------------------------------------------------------------------------------------------------


def test_waiting_for_the_disk() -> None:
    with running(redis_binary, "--appendonly", "yes", "--appendfsync", "everysec") as server:
        prefix = fresh()
        with RedisSaver.from_conn_string(server.url, prefix=prefix, wait_aof=True) as saver:
            grown = filled(saver, sync, count=3)
            with server.client() as client:
                assert client.info("commandstats")["cmdstat_waitaof"]["calls"] >= 6
            server.kill()
            server.start()
            assert saver.get_tuple(grown.config) is not None
            assert len(names_of(saver, config())) == 3


def test_a_server_that_cannot_say_so_is_told_of_before_anything_is_stored(own_server: RedisServer) -> None:
    with RedisSaver.from_conn_string(own_server.url, prefix=fresh(), wait_aof=True) as saver:
        with pytest.raises(SaverError, match="appendonly yes") as caught:
            filled(saver, sync, count=1)
        assert isinstance(caught.value.__cause__, driver.ResponseError)
        assert saver.get_tuple(config()) is None


def test_waiting_for_the_disk_of_a_cluster() -> None:
    with cluster(valkey_binary, "--appendonly", "yes") as servers:
        with RedisSaver.from_conn_string(servers.url, wait_aof=True) as saver:
            for number in range(4):
                filled(saver, sync, f"t{number}", count=2)
            assert len(saver.thread_ids()) == 4
        calls = 0
        for node in servers.nodes:
            with node.client() as client:
                calls += client.info("commandstats").get("cmdstat_waitaof", {"calls": 0})["calls"]
        assert calls >= 16
