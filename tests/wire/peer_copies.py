"""Puts the copies that ``peer_servers.py`` made onto a server again."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

REDIS = ("0_0_1", "0_0_8", "0_1_3", "0_3_9", "0_5_2", "0_5_2_shallow")
MONGODB = ("0_1_0", "0_5_1")
UNANSWERED = ("redis_0_0_1", "redis_0_0_8", "redis_0_1_3")
"""Those that hold no thread that was answered."""
HALF_ANSWERED = ("redis_0_3_9", "redis_0_5_2")
"""Those whose thread "finished" is not: LangGraph was given both answers, and one of them did not arrive."""


def copy_of(name: str) -> Any:
    """What a release stored, as ``redis_0_5_2``."""
    path = Path(__file__).with_name(f"peer_{name}.json.gz")
    return json.loads(gzip.decompress(path.read_bytes()))


def onto_redis(client: Any, release: str) -> None:
    """Every key as it was, on a server with RedisJSON."""
    for key, kind, expires, held in copy_of(f"redis_{release}"):
        if kind == "ReJSON-RL":
            client.execute_command("JSON.SET", key, "$", json.dumps(held, ensure_ascii=False))
        elif kind == "zset":
            client.zadd(key, dict(held))
        else:
            client.set(key, held)
        if expires:
            client.expire(key, 3600)


def onto_mongodb(database: Any, release: str) -> None:
    """Every document as it was."""
    from bson import json_util

    for name, documents in copy_of(f"mongodb_{release}").items():
        database[name].insert_many(json_util.loads(json.dumps(documents)))
