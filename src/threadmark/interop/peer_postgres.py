"""LangGraph's tables in Postgres, read-only (spec 13.2)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from threadmark.checkpoint.names import without_secrets
from threadmark.errors import ForeignDatabase, SaverError
from threadmark.interop.peer_values import PeerValues, Unreadable
from threadmark.interop.rows import StoredCheckpoint, StoredWrite, ThreadRows

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
_CHECKPOINTS: Final = (
    "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata, pg_column_size(checkpoints.*) "
    "FROM checkpoints WHERE thread_id = %s ORDER BY checkpoint_id, checkpoint_ns"
)
_BLOBS: Final = "SELECT checkpoint_ns, channel, version, type, blob FROM checkpoint_blobs WHERE thread_id = %s"
_WRITES: Final = (
    "SELECT checkpoint_ns, checkpoint_id, task_id, {path}, idx, channel, type, blob FROM checkpoint_writes "
    "WHERE thread_id = %s ORDER BY checkpoint_id, checkpoint_ns, task_id, idx"
)
_HAS_PATH: Final = "SELECT 1 FROM pg_attribute WHERE attrelid = 'checkpoint_writes'::regclass AND attname = 'task_path'"
_TASKS: Final = "__pregel_tasks"


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
        """All rows of a thread, as they were at one moment."""
        with told_of_server(self._url), self._conn.transaction():
            self._conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            stored = self._conn.execute(_CHECKPOINTS, (thread_id,)).fetchall()
            blobs = self._conn.execute(_BLOBS, (thread_id,)).fetchall()
            written = self._conn.execute(self._writes, (thread_id,)).fetchall()
        rows = ThreadRows(thread_id)
        self._add_writes(rows, written)
        values: dict[tuple[str, str, str], tuple[Any, int, bool]] = {}
        for ns, channel, version, tag, blob in blobs:
            rows.size += len(thread_id) + len(ns) + len(channel) + len(version) + len(blob or b"")
            if tag == "empty":
                continue
            try:
                values[ns, channel, version] = (*_sized(self._values, tag, blob),)
            except Unreadable as error:
                rows.problems.append(f"channel {channel!r}, version {version}, namespace {ns!r}: {error}")
        sends = {(one.ns, one.id): [] for one in rows.writes if one.channel == _TASKS}  # type: dict[Any, list[Any]]
        for one in sorted(rows.writes, key=lambda one: (one.path, one.task_id, one.place)):
            if one.channel == _TASKS:
                sends[one.ns, one.id].append(one.value)
        for ns, id, parent, checkpoint, metadata, size in stored:
            rows.size += size
            made = _assembled(ns, checkpoint, values)
            if made[0].get("v", 1) < 4 and parent and (ns, parent) in sends:
                made[0]["pending_sends"] = sends[ns, parent]
            rows.checkpoints.append(StoredCheckpoint(ns, id, parent or None, made[0], metadata, made[1], made[2]))
        return rows

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


def _sized(values: PeerValues, tag: str | None, blob: bytes | None) -> tuple[Any, int, bool]:
    value, sealed = values.value(tag, blob)
    return value, len(blob or b""), sealed


def _assembled(ns: str, checkpoint: Any, blobs: Any) -> tuple[dict[str, Any], dict[str, int], bool]:
    """A checkpoint with its values from both places; a blob wins over what stands inline."""
    inline = dict(checkpoint.get("channel_values") or {})
    sizes = dict.fromkeys(inline, 8)
    sealed = False
    for channel, version in (checkpoint.get("channel_versions") or {}).items():
        found = blobs.get((ns, channel, str(version)))
        if found is not None:
            inline[channel], sizes[channel] = found[0], found[1]
            sealed = sealed or found[2]
    made = {**checkpoint, "channel_values": inline}
    made.setdefault("v", 1)
    made.setdefault("versions_seen", {})
    return made, sizes, sealed
