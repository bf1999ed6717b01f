"""What stands in Redis: one slot for a thread, indexes that heal, times to live, and what happens when parts vanish."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from redis.crc import key_slot

from tests.integration.redis_kit import fresh, keys_below, names_of, sync
from tests.services.redis import RedisServer
from threadmark.checkpoint.conformance.kit import Grown, checkpoint, config, filled
from threadmark.checkpoint.redis import RedisSaver
from threadmark.checkpoint.redis.keys import Keys
from threadmark.errors import DamagedRow, ForeignDatabase, HeadMoved

ODD = [
    "a",
    "{",
    "}",
    "{}",
    "{a}",
    "a}b{c",
    "a\0b",
    "\0",
    "%7b",
    "{%7b}",
    "é",
    "\U0001f9f5",
    " ",
    "a b",
    "a\nb",
    "a:o",
    "x" * 600,
]


@pytest.fixture
def prefix() -> str:
    return fresh()


@pytest.fixture
def saver(redis_server: RedisServer, prefix: str) -> Iterator[RedisSaver]:
    with RedisSaver.from_conn_string(redis_server.url, prefix=prefix) as saver:
        yield saver


def test_whatever_a_thread_is_called_its_keys_share_a_slot_and_no_other_has_them() -> None:
    keys = Keys("some prefix")
    pairs = [keys.thread(name) for name in ODD]
    assert all(key_slot(rows) == key_slot(order) for rows, order in pairs)
    assert len({key for pair in pairs for key in pair}) == 2 * len(ODD)
    assert len({key_slot(rows) for rows, _ in pairs}) > len(ODD) // 2


def test_odd_names_come_back(saver: RedisSaver) -> None:
    for name in ODD:
        saver.put(config(name, ns=name), checkpoint({"a": name}), {"run_id": name}, {"a": 1})
        assert saver.get(config(name, ns=name))["channel_values"] == {"a": name}
    assert saver.thread_ids() == sorted(ODD)
    saver.delete_for_runs(ODD)
    assert list(saver.list(None)) == []


@pytest.mark.parametrize("prefix", ["", "{a}", "a}"])
def test_a_prefix_that_would_part_keys_is_refused(redis_server: RedisServer, prefix: str) -> None:
    with pytest.raises(ValueError, match="prefix"):
        RedisSaver.from_conn_string(redis_server.url, prefix=prefix)


def test_a_thread_is_two_keys_and_is_gone_without_a_trace(
    saver: RedisSaver, redis_server: RedisServer, prefix: str
) -> None:
    filled(saver, sync, count=3)
    rows, order = (key.decode() for key in Keys(prefix).thread("t"))
    indexes = {Keys(prefix).threads_of("t").decode(), *(Keys(prefix).run(f"r{n}").decode() for n in range(3))}
    assert keys_below(redis_server, prefix) == {rows, order} | indexes
    saver.delete_thread("t")
    assert keys_below(redis_server, prefix) == set()


def test_savers_of_different_prefixes_do_not_see_each_other(redis_server: RedisServer) -> None:
    one, two = (RedisSaver.from_conn_string(redis_server.url, prefix=fresh()) for _ in range(2))
    with one, two:
        filled(one, sync, count=1)
        assert two.thread_ids() == []
        assert two.get_tuple(config()) is None


# -- indexes ---------------------------------------------------------------------------------------------------------


def test_an_entry_of_a_thread_that_never_came_is_skipped_and_in_time_cleaned(
    saver: RedisSaver, redis_server: RedisServer, prefix: str
) -> None:
    filled(saver, sync, count=1)
    index = Keys(prefix).threads_of("ghost")
    with redis_server.client() as client:
        client.zadd(index, {b"ghost\xff12345678": time.time() * 1e6})
        assert saver.thread_ids() == ["t"]
        assert client.zscore(index, b"ghost\xff12345678") is not None  # its writer may be at it right now
        client.zadd(index, {b"ghost\xff12345678": (time.time() - 4000) * 1e6})
        assert saver.thread_ids() == ["t"]
        assert client.zscore(index, b"ghost\xff12345678") is None


def test_a_thread_that_is_deleted_and_made_again_is_listed_once(
    saver: RedisSaver, redis_server: RedisServer, prefix: str
) -> None:
    index = Keys(prefix).threads_of("t")
    with redis_server.client() as client:
        filled(saver, sync, count=1)
        (old,) = client.zrange(index, 0, -1)
        saver.delete_thread("t")
        filled(saver, sync, count=2)
        client.zadd(index, {old: time.time() * 1e6})  # as if the deleter had died before its last command
        assert saver.thread_ids() == ["t"]
        assert [(line.thread_id, line.checkpoints) for line in saver.list_threads()] == [("t", 2)]
        assert client.zscore(index, old) is None
        assert client.zcard(index) == 1


def test_a_thread_that_lost_its_index_is_entered_again_when_it_is_written_to(
    saver: RedisSaver, redis_server: RedisServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown = filled(saver, sync, count=1)
    with redis_server.client() as client:
        client.delete(Keys(prefix).threads_of("t"))
    assert saver.thread_ids() == []
    grown.put({"rows": [], "same": ""})
    assert saver.thread_ids() == []  # what was entered just now is believed to be there
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 700)
    grown.put({"rows": [], "same": ""})
    assert saver.thread_ids() == ["t"]


def test_a_run_goes_on_after_it_was_rolled_back(saver: RedisSaver, redis_server: RedisServer, prefix: str) -> None:
    for thread_id in ("t", "u"):
        grown = Grown(saver, sync, thread_id)
        grown.put({"a": 1}, run_id="first")
        at = grown.config
        grown.put({"a": 2}, run_id="second")
    saver.delete_for_runs(["second"])
    assert Keys(prefix).run("second").decode() not in keys_below(redis_server, prefix)
    saver.put(at, checkpoint({"a": 3}, {"a": 3}), {"run_id": "second"}, {"a": 3})
    assert len(names_of(saver, config("u"))) == 2
    saver.delete_for_runs(["second"])
    assert len(names_of(saver, config("u"))) == 1


# -- time to live ----------------------------------------------------------------------------------------------------


def left(server: RedisServer, prefix: str, thread_id: str = "t") -> tuple[float, float]:
    """When a thread's keys will be gone, Unix time in seconds."""
    with server.client() as client:
        rows, order = (client.pexpiretime(key) / 1000 for key in Keys(prefix).thread(thread_id))
    return rows, order


def test_all_of_a_thread_lives_on_with_each_write(redis_server: RedisServer, prefix: str) -> None:
    with RedisSaver.from_conn_string(redis_server.url, prefix=prefix, ttl=timedelta(hours=2)) as saver:
        grown = filled(saver, sync, count=2)
        first = left(redis_server, prefix)
        assert first[0] == first[1]
        assert 7100 < first[0] - time.time() <= 7200
        time.sleep(0.01)
        saver.get_tuple(config())
        assert left(redis_server, prefix) == first
        saver.put_writes(grown.config, [("a", 1)], "later")
        assert left(redis_server, prefix) > first


def test_runs_of_threads_that_expire_are_found_without_an_index(redis_server: RedisServer, prefix: str) -> None:
    """A thread lives on with its newest run, however long ago the others were."""
    with RedisSaver.from_conn_string(redis_server.url, prefix=prefix, ttl=500) as saver:
        filled(saver, sync, count=3)
        filled(saver, sync, "u", count=1)
        assert not any(":run:" in key for key in keys_below(redis_server, prefix))
        saver.delete_for_runs(["r0"])
        assert [item.metadata["run_id"] for item in saver.list(None)] == ["r2", "r1"]


def test_reading_counts_where_it_is_asked_for(redis_server: RedisServer, prefix: str) -> None:
    with RedisSaver.from_conn_string(redis_server.url, prefix=prefix, ttl=500, refresh_on_read=True) as saver:
        filled(saver, sync, count=2)
        for look, counts in (
            (lambda: saver.get_tuple(config()), True),
            (lambda: list(saver.list(config())), True),
            (saver.list_threads, False),
        ):
            first = left(redis_server, prefix)
            time.sleep(0.01)
            look()
            assert (left(redis_server, prefix) > first) is counts
        saver.delete_for_runs(["r1"])
        assert [item.metadata["run_id"] for item in saver.list(config())] == ["r0"]


def test_a_thread_that_expired_is_gone_whole_and_its_name_is_free(redis_server: RedisServer, prefix: str) -> None:
    with RedisSaver.from_conn_string(redis_server.url, prefix=prefix, ttl=0.2) as saver:
        grown = filled(saver, sync, count=2)
        old = grown.config
        time.sleep(0.3)
        assert saver.get_tuple(config()) is None
        assert list(saver.list(None)) == []
        assert list(saver.list_threads()) == []
        at = old["configurable"]["checkpoint_id"]
        with pytest.raises(HeadMoved):
            saver.put(old, checkpoint({"rows": []}), {}, {}, expected_head=at)
        saver.put(old, checkpoint({"rows": ["anew"], "same": "x"}, {"rows": 3, "same": 1}), {}, {"rows": 3})
        assert saver.get(config())["channel_values"] == {"rows": ["anew"], "same": "x"}


def test_a_new_thread_cleans_up_after_those_that_expired(redis_server: RedisServer, prefix: str) -> None:
    with RedisSaver.from_conn_string(redis_server.url, prefix=prefix, ttl=0.05) as saver:
        keys = Keys(prefix)
        others = [f"t{n}" for n in range(200) if keys.threads_of(f"t{n}") == keys.threads_of("new")][:2]
        for thread_id in others:
            filled(saver, sync, thread_id, count=1)
        time.sleep(0.1)
        with redis_server.client() as client:
            index = keys.threads_of("new")
            for member in client.zrange(index, 0, -1):
                client.zadd(index, {member: (time.time() - 4000) * 1e6})
            assert client.zcard(index) == 2
            filled(saver, sync, "new", count=1)
            assert client.zcard(index) == 1


@pytest.mark.parametrize("ttl", [0, -1, timedelta(0), 0.0001])
def test_no_time_to_live_is_a_mistake(redis_server: RedisServer, ttl: Any) -> None:
    with pytest.raises(ValueError, match="ttl"):
        RedisSaver.from_conn_string(redis_server.url, ttl=ttl)


# -- what others did to the keys -------------------------------------------------------------------------------------


def test_an_evicted_order_is_told_and_an_evicted_thread_is_gone(
    saver: RedisSaver, redis_server: RedisServer, prefix: str
) -> None:
    grown = filled(saver, sync, count=2)
    _, order = Keys(prefix).thread("t")
    with redis_server.client() as client:
        client.delete(order)
        with pytest.raises(DamagedRow, match="maxmemory-policy"):
            saver.get_tuple(config())
        filled(saver, sync, "u", count=2)
        client.delete(Keys(prefix).thread("u")[0])
    assert saver.get_tuple(config("u")) is None
    saver.delete_thread("t")
    filled(saver, sync, "u", count=1)
    assert len(names_of(saver, config("u"))) == 1
    assert saver.get_tuple(grown.config) is None


@pytest.mark.parametrize("which", [0, 1])
def test_keys_of_others_are_left_alone(saver: RedisSaver, redis_server: RedisServer, prefix: str, which: int) -> None:
    taken = Keys(prefix).thread("t")[which]
    with redis_server.client() as client:
        client.set(taken, "theirs")
        with pytest.raises(ForeignDatabase, match="prefix"):
            filled(saver, sync, count=1)
        assert client.get(taken) == b"theirs"


@pytest.mark.parametrize(
    "damage", [b"", b"no row", b"\xff" * 6, b"\xff\xff\xff\xff\xff\xff?\xffbody", b"\xc3\xff\xff\xff\xff\xff\xff0\xff"]
)
def test_a_damaged_row_is_told(saver: RedisSaver, redis_server: RedisServer, prefix: str, damage: bytes) -> None:
    at = filled(saver, sync, count=1).config["configurable"]["checkpoint_id"]
    saver._caches.clear()
    with redis_server.client() as client:
        client.hset(Keys(prefix).thread("t")[0], b"c\xff" + at.encode(), damage)
    with pytest.raises(DamagedRow):
        saver.get_tuple(config())
