"""Servers whose disk is full, in earnest: what was acknowledged is whole, and the run goes on when there is room."""

from __future__ import annotations

import operator
import os
import time
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from tests.conftest import Call
from tests.services.disk import may_mount, small_disk
from tests.services.postgres import postgres
from tests.services.redis import RedisServer, redis_binary, running
from threadmark.checkpoint.conformance.kit import config
from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.checkpoint.postgres.aio import AsyncPostgresSaver
from threadmark.checkpoint.redis import RedisSaver
from threadmark.checkpoint.redis.aio import AsyncRedisSaver
from threadmark.errors import Unavailable
from threadmark.graph import START, StateGraph

STEPS = 30
SIZE = 300_000
NOT_ALLOWED = "this user may not mount a small disk: run it as root. Nothing was tested"


class Chunks(TypedDict):
    chunks: Annotated[list[bytes], operator.add]


class Run:
    """A run whose nodes each add a value that takes its room on the disk, in one colour."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.acknowledged = 0
        """How many chunks were in a checkpoint before the next superstep began."""

    def graph(self, saver: Any) -> Any:
        def add(state: Chunks) -> Any:
            self.acknowledged = len(state["chunks"])
            return {"chunks": [len(state["chunks"]).to_bytes(4, "big") + os.urandom(SIZE)]}

        builder = StateGraph(Chunks)
        builder.add_sequence([(f"n{number}", add) for number in range(STEPS)])
        builder.add_edge(START, "n0")
        return builder.compile(checkpointer=saver)

    def until_there_is_no_room(self, saver: Any) -> None:
        with pytest.raises(Unavailable, match=r"could not|reached|lost|disk"):
            self.call(self.graph(saver), "invoke", {"chunks": []}, config(), durability="sync")
        assert 3 < self.acknowledged < STEPS

    def to_its_end(self, saver: Any) -> None:
        """All that was acknowledged is there, and nothing is there in part; the run goes on from it."""
        assert self.acknowledged <= self.found(saver) < STEPS
        self.call(self.graph(saver), "invoke", None, config(), durability="sync")
        assert self.found(saver) == STEPS

    def found(self, saver: Any) -> int:
        """How many chunks the newest checkpoint has, once every checkpoint was read whole."""
        lengths = []
        for item in self.call(saver, "list", config()):
            chunks = item.checkpoint["channel_values"].get("chunks", [])
            assert [int.from_bytes(chunk[:4], "big") for chunk in chunks] == list(range(len(chunks)))
            assert all(len(chunk) == SIZE + 4 for chunk in chunks)
            lengths.append(len(chunks))
        assert lengths == [*range(lengths[0], -1, -1), 0]
        return lengths[0]


def test_postgres(call: Call) -> None:
    if not may_mount():
        print(NOT_ALLOWED)
        return
    run, kind = Run(call), PostgresSaver if call.colour == "sync" else AsyncPostgresSaver
    with small_disk(200) as disk, postgres(where=disk.path, safe=True) as server:
        saver = kind.from_conn_string(server.url())
        assert call(saver, "get_tuple", config()) is None
        disk.fill(left=4 << 20)
        run.until_there_is_no_room(saver)
        disk.free()
        if server.server.process.poll() is not None:  # it gave up when its log did not fit
            server.server.start()
        run.to_its_end(saver)
        call(saver, "close")


@pytest.mark.parametrize("fsync", ["always", "everysec"])
def test_redis(call: Call, fsync: str) -> None:
    """With ``always`` the server gives itself up when its log does not fit; else it refuses to write."""
    if not may_mount():
        print(NOT_ALLOWED)
        return
    run, kind = Run(call), RedisSaver if call.colour == "sync" else AsyncRedisSaver
    with small_disk(32) as disk, running(redis_binary, *log_on(disk.path, fsync)) as server:
        saver = kind.from_conn_string(server.url)
        assert call(saver, "get_tuple", config()) is None
        disk.fill(left=3 << 20)
        run.until_there_is_no_room(saver)
        disk.free()
        if fsync == "always":
            server.process.wait(60)
            server.start()
        else:
            until_it_writes(server)
        run.to_its_end(saver)
        call(saver, "close")


def log_on(path: Path, fsync: str) -> list[str]:
    """Settings: a log on a disk, which is never written anew."""
    settings = {"appendonly": "yes", "appendfsync": fsync, "dir": str(path), "auto-aof-rewrite-percentage": "0"}
    return [word for name, value in settings.items() for word in (f"--{name}", value)]


def until_it_writes(server: RedisServer) -> None:
    """Redis looks once a second whether its disk takes something again."""
    end = time.monotonic() + 60
    with server.client() as client:
        while client.info("persistence")["aof_last_write_status"] != "ok":
            assert time.monotonic() < end
            time.sleep(0.05)
