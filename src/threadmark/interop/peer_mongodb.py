"""LangGraph's collections in MongoDB, read-only (spec 13.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from threadmark.checkpoint.names import without_secrets
from threadmark.errors import ForeignDatabase, SaverError
from threadmark.interop.peer_values import PeerValues
from threadmark.interop.rows import Head, StoredCheckpoint, StoredWrite, ThreadRows, Unreadable

__all__ = ["DATABASE", "PeerMongoDB", "holds_collections"]

DATABASE: Final = "checkpointing_db"
"""Where LangGraph's saver stores unless it is told otherwise."""
_CHECKPOINTS, _WRITES = "checkpoints", "checkpoint_writes"
_HEAD: Final = ("checkpoint_ns", "checkpoint_id", "parent_checkpoint_id")
_SIZES: Final = {"$group": {"_id": None, "size": {"$sum": {"$bsonSize": "$$ROOT"}}}}
_THEIRS: Final = {"thread_id": {"$exists": True}, "checkpoint_id": {"$exists": True}, "metadata": {"$exists": True}}
"""What documents of theirs have, and none of ours."""


@contextmanager
def _told_of_server(url: str) -> Iterator[None]:
    """The driver's errors as ours, which name the server and never the password."""
    try:
        from pymongo.errors import PyMongoError

        from threadmark.checkpoint.mongodb.errors import translated
    except ImportError as error:
        raise ImportError("MongoDB needs its driver: pip install 'threadmark[mongodb]'") from error
    shown = without_secrets(url)
    try:
        yield
    except PyMongoError as error:
        made = translated(error, shown)
        raise made if made is not error else SaverError(f"{shown} refused: {error}") from error


def _settings(url: str) -> dict[str, Any]:
    """Settings that the URI does not have."""
    return {} if "serverselectiontimeoutms" in url.lower() else {"serverSelectionTimeoutMS": 10_000}


def _database(url: str) -> tuple[Any, Any]:
    with _told_of_server(url):
        from pymongo import MongoClient
        from pymongo.errors import ConfigurationError

        try:
            client: Any = MongoClient(url, **_settings(url))
        except (ConfigurationError, ValueError) as error:  # the driver's words may hold a part of the URI
            shown = without_secrets(url)
            raise SaverError(f"{shown} is no URI that MongoDB's driver takes ({type(error).__name__})") from None
        return client, client.get_default_database(DATABASE)


def holds_collections(url: str) -> bool:
    """Whether LangGraph's checkpoints are in the database that a URL names."""
    client, database = _database(url)
    with client, _told_of_server(url):
        return database[_CHECKPOINTS].find_one(_THEIRS, {"_id": 1}) is not None


class PeerMongoDB:
    """A database that LangGraph's MongoDBSaver wrote."""

    def __init__(self, url: str, values: PeerValues) -> None:
        self.name = without_secrets(url)
        self._url, self._values = url, values
        if not holds_collections(url):
            raise ForeignDatabase(
                f"{self.name} holds no collections of LangGraph's; name a database that its saver wrote, as in "
                f"langgraph+mongodb://HOST/{DATABASE}"
            )
        self._client, database = _database(url)
        self._checkpoints, self._writes = database[_CHECKPOINTS], database[_WRITES]

    def thread_ids(self) -> list[str]:
        """Every thread of which anything is stored."""
        with _told_of_server(self._url):
            groups = [{"$group": {"_id": "$thread_id"}}]
            found = {one["_id"] for each in (self._checkpoints, self._writes) for one in each.aggregate(groups)}
        return sorted(one for one in found if isinstance(one, str))

    def thread(self, thread_id: str) -> ThreadRows:
        """All documents of a thread."""
        mine = {"thread_id": thread_id}
        with _told_of_server(self._url):
            stored = self._checkpoints.find(mine, dict.fromkeys(_HEAD, 1))
            heads = [_head(found) for found in stored]
            rows = ThreadRows(thread_id, heads, (), self._checkpoint)
            for each in (self._checkpoints, self._writes):
                rows.size += sum(one["size"] for one in each.aggregate([{"$match": mine}, _SIZES]))
            for found in self._writes.find(mine):
                self._add_write(rows, found)
        rows.writes.sort(key=lambda one: (one.path, one.task_id, one.place))
        return rows

    def _add_write(self, rows: ThreadRows, found: dict[str, Any]) -> None:
        ns, id, task_id = found.get("checkpoint_ns") or "", found["checkpoint_id"], found["task_id"]
        path, channel, data = found.get("task_path") or "", found["channel"], found["value"]
        try:
            value, sealed = self._values.value(found["type"], None if data is None else bytes(data))
        except Unreadable as error:
            rows.problems.append(f"write {channel!r} of task {task_id} at checkpoint {id}: {error}")
            return
        size = len(data or b"")
        rows.writes.append(StoredWrite(ns, id, task_id, path, int(found["idx"]), channel, value, size, sealed))

    def _checkpoint(self, head: Head) -> StoredCheckpoint:
        with _told_of_server(self._url):
            found = self._checkpoints.find_one({"_id": head.row})
        if found is None:
            raise Unreadable("it is gone: it has expired, or was deleted")
        made, sizes, sealed = self._values.checkpoint(found.get("type"), bytes(found["checkpoint"]))
        if made["id"] != head.id:
            raise Unreadable(f"it is the checkpoint {made['id']}, put into another place")
        metadata = {key: self._part(value) for key, value in (found.get("metadata") or {}).items()}
        made["channel_versions"] = _as_text(made["channel_versions"])
        made["versions_seen"] = {node: _as_text(seen) for node, seen in made["versions_seen"].items()}
        return StoredCheckpoint(head.ns, head.id, head.parent, made, metadata, sizes, sealed)

    def _part(self, value: Any) -> Any:
        """A part of metadata: dicts stand as they are, whatever else is in them as tag and bytes, or as JSON."""
        if isinstance(value, dict):
            return {key: self._part(each) for key, each in value.items()}
        tag, data = value if isinstance(value, list) and len(value) == 2 else ("json", value)
        return self._values.value(tag, bytes(data))[0] if isinstance(data, bytes) else value

    def size(self) -> int | None:
        """Not known: other collections may lie beside them."""
        return None

    def close(self) -> None:
        """Let go of the server."""
        self._client.close()


def _as_text(versions: Mapping[str, Any]) -> dict[str, Any]:
    """Versions as all the other savers write them: theirs counts in whole numbers, and no run may have both kinds."""
    return {channel: f"{version:032}.0.5" if type(version) is int else version for channel, version in versions.items()}


def _head(found: dict[str, Any]) -> Head:
    ns, id, parent = (found.get(name) for name in _HEAD)
    return Head(ns or "", str(id), parent or None, found["_id"])
