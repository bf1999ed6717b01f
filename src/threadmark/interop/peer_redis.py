"""LangGraph's documents in Redis, read-only (spec 13.5). They are RedisJSON's, so the server has that module."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from typing import Any, Final

from threadmark.checkpoint.names import without_secrets
from threadmark.errors import ForeignDatabase
from threadmark.interop.peer_values import PeerValues
from threadmark.interop.redis_values import blob, standard, write_value
from threadmark.interop.rows import Head, StoredCheckpoint, StoredWrite, ThreadRows, Unreadable

__all__ = ["PeerRedis", "holds_documents"]

_KINDS: Final = ("checkpoint", "checkpoint_write", "checkpoint_blob")
_NONE: Final = ("", "__empty__", "00000000-0000-0000-0000-000000000000")
"""How a namespace, or a parent, is stored that is empty."""
_PIPED: Final = 200
"""Commands that are sent together."""
_LOOKED_AT: Final = 100_000
"""Keys that are looked through for documents where nobody said whose they are."""
_HEAD: Final = ("$.checkpoint_ns", "$.parent_checkpoint_id", "$.checkpoint.id")
_TASKS: Final = "__pregel_tasks"


@contextmanager
def _told_of_server(url: str) -> Iterator[None]:
    """The driver's errors as ours, which name the server and never the password."""
    try:
        from redis.exceptions import AuthenticationError, RedisError, ResponseError

        from threadmark.checkpoint.redis.errors import translated
    except ImportError as error:
        raise ImportError("Redis needs its driver: pip install 'threadmark[redis]'") from error
    try:
        yield
    except RedisError as error:
        shown = without_secrets(url)
        if isinstance(error, ResponseError) and "unknown command" in str(error):
            told = (
                f"{shown} does not know the JSON commands: LangGraph's savers store documents of the module RedisJSON"
            )
            raise ForeignDatabase(told) from error
        raise translated(error, shown) from (None if isinstance(error, AuthenticationError) else error)


def _client(url: str) -> Any:
    with _told_of_server(url):
        import redis

        from threadmark.checkpoint.redis.urls import DEFAULTS, place_of

        place = place_of(url)
        kind = redis.RedisCluster if place.is_cluster else redis.Redis
        return kind.from_url(place.url, **DEFAULTS)


def holds_documents(url: str) -> bool:
    """Whether LangGraph's checkpoints are among the first keys of a server."""
    with closing(_client(url)) as client, _told_of_server(url):
        for key in islice(client.scan_iter(match="checkpoint:*", count=1000), _LOOKED_AT):
            if _text(client.type(key)).startswith("ReJSON"):
                return True
    return False


class PeerRedis:
    """A server on which LangGraph's RedisSaver, or its shallow one, keeps threads."""

    def __init__(self, url: str, values: PeerValues) -> None:
        self.name = without_secrets(url)
        self._url, self._values = url, values
        self._client = _client(url)
        # The keys of a large server do not fit into memory. This database is a file that has no name.
        self._keys = sqlite3.connect("", check_same_thread=False)
        self._keys.execute("CREATE TABLE keys (thread TEXT, kind TEXT, key BLOB)")
        self._keys.execute("CREATE INDEX by_thread ON keys (thread)")
        with _told_of_server(url):
            self._gather()
        if not self._keys.execute("SELECT 1 FROM keys LIMIT 1").fetchone():
            self.close()
            raise ForeignDatabase(
                f"{self.name} holds no documents of LangGraph's; name a database that its saver wrote"
            )

    def _gather(self) -> None:
        found = self._client.scan_iter(match="checkpoint*", count=1000)
        keys = ((kind, key) for key in found if (kind := _text(key).partition(":")[0]) in _KINDS)
        while part := list(islice(keys, _PIPED)):
            # Strings and sets under such names are pointers to documents, or other people's.
            told = self._each([("JSON.GET", key, "$.thread_id") for _, key in part], doubtful=True)
            rows = [(json.loads(said)[0], *each) for each, said in zip(part, told, strict=True) if _is_found(said)]
            self._keys.executemany("INSERT INTO keys VALUES (?, ?, ?)", rows)

    def _each(self, commands: Iterable[Sequence[Any]], *, doubtful: bool = False) -> Iterator[Any]:
        """What each command gives; if ``doubtful``, None where the key holds something that it is not for."""
        from redis.exceptions import ResponseError

        remaining = iter(commands)
        while part := list(islice(remaining, _PIPED)):
            with self._client.pipeline(transaction=False) as pipe:
                for command in part:
                    pipe.execute_command(*command)
                for said in pipe.execute(raise_on_error=False):
                    refused = isinstance(said, ResponseError) and "unknown command" not in str(said)
                    if isinstance(said, Exception) and not (doubtful and refused):
                        raise said
                    yield None if isinstance(said, Exception) else said

    def thread_ids(self) -> list[str]:
        """Every thread of which anything is stored, as it was when the source was opened."""
        return [thread for (thread,) in self._keys.execute("SELECT DISTINCT thread FROM keys ORDER BY thread")]

    def thread(self, thread_id: str) -> ThreadRows:
        """All documents of a thread."""
        keys: dict[str, list[bytes]] = {kind: [] for kind in _KINDS}
        for kind, key in self._keys.execute("SELECT kind, key FROM keys WHERE thread = ?", (thread_id,)):
            keys[kind].append(key)
        with _told_of_server(self._url):
            told = list(self._each([("JSON.GET", key, *_HEAD) for key in keys["checkpoint"]]))
            heads = [_head(key, json.loads(said)) for key, said in zip(keys["checkpoint"], told, strict=True) if said]
            blobs = _Blobs(self, keys["checkpoint_blob"])
            sends: dict[Any, list[Any]] = {}
            rows = ThreadRows(thread_id, heads, (), lambda head: self._checkpoint(head, blobs, sends, rows.lost))
            sizes = self._each([("MEMORY", "USAGE", key) for each in keys.values() for key in each], doubtful=True)
            rows.size = sum(size or 0 for size in sizes)
            for said in self._each([("JSON.GET", key) for key in keys["checkpoint_write"]]):
                if said:
                    self._add_write(rows, json.loads(said))
        rows.writes.sort(key=lambda one: (one.path, one.task_id, one.place))
        for one in rows.writes:
            if one.channel == _TASKS:
                sends.setdefault((one.ns, one.id), []).append(one.value)
        return rows

    def _add_write(self, rows: ThreadRows, found: dict[str, Any]) -> None:
        channel, id, task_id = found["channel"], found["checkpoint_id"], found["task_id"]
        try:
            tag, data = blob(found["type"], found["blob"])
            if tag == "json":
                data = _dumped(write_value(channel, data, rows.lost))
            value, sealed = self._values.value(tag, data)
        except (Unreadable, ValueError) as error:
            rows.problems.append(f"write {channel!r} of task {task_id} at checkpoint {id}: {error}")
            return
        path, place = found.get("task_path") or "", int(found["idx"])
        ns = _plain(found["checkpoint_ns"])
        rows.writes.append(StoredWrite(ns, id, task_id, path, place, channel, value, len(found["blob"] or ""), sealed))

    def _checkpoint(self, head: Head, blobs: _Blobs, sends: Any, lost: set[str]) -> StoredCheckpoint:
        with _told_of_server(self._url):
            said = self._client.execute_command("JSON.GET", head.row)
        if said is None:
            raise Unreadable("it is gone: it has expired, or was deleted")
        try:
            return self._made(head, json.loads(said), blobs, sends, lost)
        except (KeyError, TypeError, ValueError) as error:
            raise Unreadable(f"it is no document of LangGraph's ({type(error).__name__}: {error})") from error

    def _made(self, head: Head, found: Any, blobs: _Blobs, sends: Any, lost: set[str]) -> StoredCheckpoint:
        made = found["checkpoint"]
        made.pop("type", None)
        metadata = found.get("metadata") or {}
        metadata = json.loads(metadata) if isinstance(metadata, str) else metadata
        sizes: dict[str, int] = {}
        values: dict[str, Any] = {}
        for channel, value in (made.get("channel_values") or {}).items():
            data = _dumped(standard(value, lost))
            sizes[channel] = len(data)
            values[channel] = None if value is None else self._values.value("json", data)[0]
        for channel, version in made["channel_versions"].items():
            if channel not in values and (head.ns, channel, str(version)) in blobs:
                values[channel], sizes[channel] = blobs.read(head.ns, channel, str(version), lost)
        made["channel_values"] = values
        made.setdefault("v", 1)
        pending = made.get("pending_sends")
        if pending:
            made["pending_sends"] = self._values.value("json", _dumped(standard(pending, lost)))[0]
        elif made["v"] < 4 and head.parent and (head.ns, head.parent) in sends:
            made["pending_sends"] = sends[head.ns, head.parent]
        return StoredCheckpoint(head.ns, head.id, head.parent, made, metadata, sizes, False)

    def size(self) -> int | None:
        """Not known: other things may lie on the server."""
        return None

    def close(self) -> None:
        """Let go of the server."""
        self._client.close()
        self._keys.close()


class _Blobs:
    """Values that the first releases stored in documents of their own, by namespace, channel and version."""

    def __init__(self, source: PeerRedis, keys: Sequence[bytes]) -> None:
        self._source = source
        fields = ("$.checkpoint_ns", "$.channel", "$.version", "$.type")
        told = source._each([("JSON.GET", key, *fields) for key in keys])
        self._keys: dict[tuple[str, str, str], bytes] = {}
        for key, said in zip(keys, told, strict=True):
            if said:
                ns, channel, version, tag = (each[0] for each in json.loads(said).values())
                if tag != "empty":
                    self._keys[_plain(ns), channel, str(version)] = key

    def __contains__(self, name: object) -> bool:
        return name in self._keys

    def read(self, ns: str, channel: str, version: str, lost: set[str]) -> tuple[Any, int]:
        """A value, and its bytes as they are stored."""
        with _told_of_server(self._source._url):
            said = self._source._client.execute_command("JSON.GET", self._keys[ns, channel, version])
        if said is None:
            raise Unreadable(f"the value of channel {channel!r} is gone: it has expired, or was deleted")
        found = json.loads(said)
        tag, data = blob(found["type"], found["blob"])
        if tag == "json":
            data = _dumped(standard(data, lost))
        return self._source._values.value(tag, data)[0], len(found["blob"] or "")


def _head(key: bytes, told: dict[str, list[Any]]) -> Head:
    """Where a checkpoint stands. Some releases filed it under its parent's id, so its own counts."""
    ns, parent, id = (told[path][0] if told[path] else "" for path in _HEAD)
    return Head(_plain(ns), id, _plain(parent) or None, key)


def _plain(name: Any) -> str:
    return "" if name is None or name in _NONE else str(name)


def _is_found(said: Any) -> bool:
    return said is not None and bool(json.loads(said))


def _dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _text(data: Any) -> str:
    return data.decode(errors="replace") if isinstance(data, bytes) else str(data)
