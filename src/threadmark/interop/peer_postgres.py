"""LangGraph's tables in Postgres, read-only (spec 13.2)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from threadmark.checkpoint.names import without_secrets
from threadmark.errors import ForeignDatabase, SaverError
from threadmark.interop.peer_values import PeerValues
from threadmark.interop.rows import Head, StoredCheckpoint, StoredWrite, ThreadRows, Unreadable

__all__ = ["PeerPostgres", "holders", "place", "told_of_server"]

_TABLES: Final = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
_THERE: Final = (
    "SELECT (SELECT count(*) FROM unnest(%s::text[]) AS name WHERE to_regclass(name) IS NOT NULL), "
    "to_regclass('threadmark.threadmark') IS NOT NULL"
)
_PLACE: Final = (
    "SELECT pg_postmaster_start_time()::text, oid::bigint, current_schema()::text FROM pg_database "
    "WHERE datname = current_database()"
)
_THREADS: Final = "SELECT thread_id FROM checkpoints UNION SELECT thread_id FROM checkpoint_writes ORDER BY thread_id"
_HEADS: Final = (
    "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, pg_column_size(checkpoints.*) "
    "FROM checkpoints WHERE thread_id = %s"
)
_CHECKPOINT: Final = (
    "SELECT checkpoint, metadata FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s"
)
_BLOBS_SIZE: Final = (
    "SELECT coalesce(sum(octet_length(thread_id) + octet_length(checkpoint_ns) + octet_length(channel) "
    "+ octet_length(version) + coalesce(octet_length(blob), 0)), 0)::bigint FROM checkpoint_blobs WHERE thread_id = %s"
)
_BLOBS: Final = (
    "SELECT channel, version, type, blob FROM checkpoint_blobs JOIN unnest(%s::text[], %s::text[]) AS wanted(c, v) "
    "ON channel = c AND version = v WHERE thread_id = %s AND checkpoint_ns = %s"
)
_WRITES: Final = (
    "SELECT checkpoint_ns, checkpoint_id, task_id, {path}, idx, channel, type, blob FROM checkpoint_writes "
    "WHERE thread_id = %s ORDER BY checkpoint_id, checkpoint_ns, task_id, idx"
)
_HAS_PATH: Final = "SELECT 1 FROM pg_attribute WHERE attrelid = 'checkpoint_writes'::regclass AND attname = 'task_path'"
_TASKS: Final = "__pregel_tasks"
_NAMESPACES: Final = 3
"""Those whose last values are kept: a graph and its children store theirs in turns."""


_REASONS: Final = {
    "authentication failed": "the server does not take this user and password",
    "no password supplied": "the server wants a password",
    "Connection refused": "no server listens there",
    "does not exist": "the server has no such database or user",
    "resolve": "there is no such host",
    "translate host name": "there is no such host",
    "invalid": "it is no URL that PostgreSQL's driver understands",
}
"""Why no connection was made, by what libpq says. Its own words may repeat the URL, and the URL holds a password."""


@contextmanager
def told_of_server(url: str) -> Iterator[None]:
    """The driver's errors as ours, which name the database and never the password."""
    try:
        import psycopg
    except ImportError as error:
        raise ImportError("Postgres needs its driver: pip install 'threadmark[postgres]'") from error
    try:
        yield
    except psycopg.Error as error:
        if error.sqlstate and error.diag.message_primary:  # the server's words, and it does not know the URL
            raise SaverError(f"{without_secrets(url)} refused it: {error.diag.message_primary}") from error
        said = str(error)
        reason = next((why for words, why in _REASONS.items() if words in said), type(error).__name__)
        raise SaverError(f"{without_secrets(url)} cannot be used: {reason}") from None


def _connected(url: str) -> Any:
    with told_of_server(url):
        import psycopg

        return psycopg.connect(url, autocommit=True, options="-c default_transaction_read_only=on")


def holders(url: str) -> tuple[bool, bool]:
    """Whether LangGraph's tables are found there on the search path, and whether our schema is there."""
    with _connected(url) as conn, told_of_server(url):
        return _holders(conn)


def _holders(conn: Any) -> tuple[bool, bool]:
    found, ours = conn.execute(_THERE, (list(_TABLES),)).fetchone()
    return found == len(_TABLES), bool(ours)


def place(url: str) -> tuple[str, int, str | None]:
    """Which running server, which database in it and which schema a URL leads to, however it is spelt."""
    with _connected(url) as conn, told_of_server(url):
        found: tuple[str, int, str | None] = conn.execute(_PLACE).fetchone()
        return found


class PeerPostgres:
    """A database that LangGraph's PostgresSaver wrote."""

    def __init__(self, url: str, values: PeerValues) -> None:
        self.name = without_secrets(url)
        self._values = values
        self._url, self._conn = url, _connected(url)
        with told_of_server(url):
            if not _holders(self._conn)[0]:
                self._conn.close()
                raise ForeignDatabase(f"{self.name} holds no tables of LangGraph's; name one that its saver set up")
            path = "task_path" if self._conn.execute(_HAS_PATH).fetchone() else "''"
        self._writes = _WRITES.format(path=path)

    def thread_ids(self) -> list[str]:
        """Every thread of which anything is stored."""
        with told_of_server(self._url):
            return [thread_id for (thread_id,) in self._conn.execute(_THREADS)]

    def thread(self, thread_id: str) -> ThreadRows:
        """All rows of a thread, as they are at this moment, until the next one is asked for."""
        with told_of_server(self._url):
            self._conn.execute("ROLLBACK")
            self._conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            stored = self._conn.execute(_HEADS, (thread_id,)).fetchall()
            written = self._conn.execute(self._writes, (thread_id,)).fetchall()
            (blobs,) = self._conn.execute(_BLOBS_SIZE, (thread_id,)).fetchone()
        heads = [Head(ns, id, parent or None) for ns, id, parent, _ in stored]
        sends: dict[Any, list[Any]] = {}
        kept = _Blobs(self._read_blobs, thread_id)
        rows = ThreadRows(thread_id, heads, (), lambda head: self._checkpoint(thread_id, head, kept, sends))
        rows.size = int(blobs) + sum(size for *_, size in stored)
        self._add_writes(rows, written)
        for one in sorted(rows.writes, key=lambda one: (one.path, one.task_id, one.place)):
            if one.channel == _TASKS:
                sends.setdefault((one.ns, one.id), []).append(one.value)
        return rows

    def _checkpoint(self, thread_id: str, head: Head, blobs: _Blobs, sends: Mapping[Any, Any]) -> StoredCheckpoint:
        with told_of_server(self._url):
            found = self._conn.execute(_CHECKPOINT, (thread_id, head.ns, head.id)).fetchone()
        if found is None:
            raise Unreadable("it is gone")
        checkpoint, metadata = found
        made, sizes, sealed = _assembled(checkpoint, blobs.of(head.ns, checkpoint.get("channel_versions") or {}))
        if made.get("v", 1) < 4 and head.parent and (head.ns, head.parent) in sends:
            made["pending_sends"] = sends[head.ns, head.parent]
        return StoredCheckpoint(head.ns, head.id, head.parent, made, metadata, sizes, sealed)

    def _read_blobs(self, thread_id: str, ns: str, wanted: Collection[tuple[str, str]]) -> dict[Any, Any]:
        channels, versions = [channel for channel, _ in wanted], [version for _, version in wanted]
        with told_of_server(self._url):
            stored = self._conn.execute(_BLOBS, (channels, versions, thread_id, ns)).fetchall()
        found: dict[Any, Any] = {}
        for channel, version, tag, blob in stored:
            if tag != "empty":
                try:
                    found[channel, version] = _sized(self._values, tag, blob)
                except Unreadable as error:
                    raise Unreadable(f"channel {channel!r}, version {version}: {error}") from error
        return found

    def _add_writes(self, rows: ThreadRows, written: list[Any]) -> None:
        for ns, id, task_id, path, place, channel, tag, blob in written:
            rows.size += sum(map(len, (rows.thread_id, ns, id, task_id, path, channel))) + len(blob or b"") + 4
            try:
                value, sealed = self._values.value(tag, blob)
            except Unreadable as error:
                rows.problems.append(f"write {channel!r} of task {task_id} at checkpoint {id}: {error}")
                continue
            rows.writes.append(StoredWrite(ns, id, task_id, path, place, channel, value, len(blob or b""), sealed))

    def size(self) -> int | None:
        """Bytes of the tables with their indexes."""
        with told_of_server(self._url):
            sizes = (self._conn.execute("SELECT pg_total_relation_size(%s::regclass)", (name,)) for name in _TABLES)
            return sum(int(found.fetchone()[0]) for found in sizes)

    def close(self) -> None:
        """Let go of the connection."""
        self._conn.close()


class _Blobs:
    """The values of one thread, each decoded once while checkpoint after checkpoint has the same version of it."""

    def __init__(self, read: Callable[..., dict[Any, Any]], thread_id: str) -> None:
        self._read, self._thread_id = read, thread_id
        self._kept: dict[str, dict[Any, Any]] = {}
        self._counted: set[Any] = set()

    def of(self, ns: str, versions: Mapping[str, Any]) -> dict[str, tuple[Any, int, bool]]:
        """Value, bytes and whether it was encrypted, of each channel with a blob; bytes only where it is met first."""
        wanted = [(channel, str(version)) for channel, version in versions.items()]
        before = self._kept.get(ns, {})
        missing = [each for each in wanted if each not in before]
        found = self._read(self._thread_id, ns, missing) if missing else {}
        now = {each: before[each] if each in before else found.get(each) for each in wanted}
        self._kept.pop(ns, None)
        while len(self._kept) >= _NAMESPACES:
            del self._kept[next(iter(self._kept))]
        self._kept[ns] = now
        made = {}
        for each, kept in now.items():
            if kept is not None:
                value, size, sealed = kept
                made[each[0]] = (value, 0 if (ns, *each) in self._counted else size, sealed)
                self._counted.add((ns, *each))
        return made


def _sized(values: PeerValues, tag: str | None, blob: bytes | None) -> tuple[Any, int, bool]:
    value, sealed = values.value(tag, blob)
    return value, len(blob or b""), sealed


def _assembled(
    checkpoint: Any, blobs: Mapping[str, tuple[Any, int, bool]]
) -> tuple[dict[str, Any], dict[str, int], bool]:
    """A checkpoint with its values from both places; a blob wins over what stands inline."""
    inline = dict(checkpoint.get("channel_values") or {})
    sizes = dict.fromkeys(inline, 8)
    inline.update({channel: value for channel, (value, _, _) in blobs.items()})
    sizes.update({channel: size for channel, (_, size, _) in blobs.items()})
    made = {**checkpoint, "channel_values": inline}
    made.setdefault("v", 1)
    made.setdefault("versions_seen", {})
    return made, sizes, any(sealed for _, _, sealed in blobs.values())
