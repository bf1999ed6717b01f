"""Makes a copy of what the LangGraph that is installed where this runs stores in Redis or MongoDB:

    python peer_servers.py redis://127.0.0.1:6379 peer_redis_0_5_2.json.gz
    python peer_servers.py mongodb://127.0.0.1:27017 peer_mongodb_0_5_1.json.gz

It was run once with each of these releases, each in an environment of its own with a LangGraph of its time, on an empty
server: ``langgraph-checkpoint-redis`` 0.0.1, 0.0.8, 0.1.3, 0.3.9 and 0.5.2, of the last its shallow saver too (a third
argument, ``shallow``), on Redis 8 with the module RedisJSON; ``langgraph-checkpoint-mongodb`` 0.1.0 and 0.5.1. A file
is never made anew: what an old release stored has to be readable for ever.

Release 0.3.9 cannot store bytes beside messages; there ``note`` has none (the argument ``plain``). Releases 0.0.1,
0.0.8 and 0.1.3 cannot be answered by the ids of questions; there no thread has been (the argument ``unanswered``).
"""

from __future__ import annotations

import gzip
import json
import sys
from typing import Any

import peer_databases


def redis(url: str, *how: str) -> list:
    """Every key: its name, its kind, whether it expires, and what it holds."""
    import langgraph.checkpoint.redis as savers
    from redis import Redis

    client = Redis.from_url(url)
    assert client.dbsize() == 0, "the server must be empty"
    if "shallow" in how:
        opened = savers.ShallowRedisSaver.from_conn_string(url, ttl={"default_ttl": 600})
    else:
        opened = savers.RedisSaver.from_conn_string(url)
    with opened as saver:
        saver.setup()
        peer_databases.fill(saver, *[("paused",)][: "unanswered" in how])
    return [_key(client, key) for key in sorted(client.scan_iter(count=1000))]


def _key(client: Any, key: bytes) -> list:
    kind = client.type(key).decode()
    held: Any = None
    if kind == "ReJSON-RL":
        held = json.loads(client.execute_command("JSON.GET", key))
    elif kind == "string":
        held = client.get(key).decode()
    elif kind == "zset":
        held = [[name.decode(), score] for name, score in client.zrange(key, 0, -1, withscores=True)]
    return [key.decode(), kind, client.ttl(key) > 0, held]


def mongodb(url: str, *how: str) -> dict:
    """Every document of each collection, as MongoDB's extended JSON."""
    from bson import json_util
    from langgraph.checkpoint.mongodb import MongoDBSaver
    from pymongo import MongoClient

    client: Any = MongoClient(url)
    database = client["checkpointing_db"]
    assert not database.list_collection_names(), "the database must be empty"
    peer_databases.fill(MongoDBSaver(client, "checkpointing_db"))
    return {
        name: json.loads(json_util.dumps(list(database[name].find())))
        for name in sorted(database.list_collection_names())
    }


def main(url: str, path: str, *how: str) -> None:
    if "plain" in how:
        del peer_databases.NOTE["bytes"]
    made = (redis if url.startswith("redis") else mongodb)(url, *how)
    with open(path, "wb") as file, gzip.GzipFile("", "wb", mtime=0, fileobj=file) as packed:
        packed.write(json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
