"""The custom checkpointer of the public page, made a working program on SQLite.

python examples/custom_sqlite_saver.py notes.db

The names, the tables and the order of things are the page's. Where the contract asks for more than the page shows,
a comment that starts with "Differs" says what and why. It passes base and delta conformance, in the awaited colour,
which is all that it serves.
"""

from __future__ import annotations

import asyncio
import json
import operator
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypeVar

from typing_extensions import TypedDict

from threadmark.channels import DeltaChannel
from threadmark.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_id,
    get_checkpoint_metadata,
    get_thread_id,
)
from threadmark.config import RunnableConfig
from threadmark.graph import START, StateGraph

T = TypeVar("T")

TABLES = """
CREATE TABLE IF NOT EXISTS checkpoints (
    thread_id TEXT NOT NULL,
    checkpoint_ns TEXT NOT NULL DEFAULT '',
    checkpoint_id TEXT NOT NULL,
    parent_checkpoint_id TEXT,
    type TEXT,
    checkpoint BLOB,
    -- Differs: bytes of the serializer with their tag, as the page's aput writes them, where its table has JSONB.
    metadata_type TEXT,
    metadata BLOB,
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
);
CREATE TABLE IF NOT EXISTS writes (
    thread_id TEXT NOT NULL,
    checkpoint_ns TEXT NOT NULL DEFAULT '',
    checkpoint_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    task_path TEXT NOT NULL DEFAULT '',
    idx INTEGER NOT NULL,
    channel TEXT NOT NULL,
    type TEXT,
    value BLOB,
    -- Differs: without task_path, so that a task has one write at a place, whatever path it is given with.
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
);
"""


class Database:
    """The page's ``self.db``: statements that are awaited, each in a transaction of its own or with others."""

    def __init__(self, path: str) -> None:
        self.conn = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self.conn.row_factory = sqlite3.Row
        self.conn.executescript(TABLES)
        self._lock = threading.Lock()

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run ``work`` in one transaction, in a thread. A caller that is cancelled leaves none half done."""

        def alone() -> T:
            with self._lock:
                self.conn.execute("BEGIN IMMEDIATE")
                try:
                    result = work(self.conn)
                except BaseException:
                    self.conn.execute("ROLLBACK")
                    raise
                self.conn.execute("COMMIT")
                return result

        return await asyncio.to_thread(alone)

    async def execute(self, statement: str, *args: Any) -> None:
        await self.run(lambda conn: conn.execute(statement, args))

    async def fetchone(self, statement: str, *args: Any) -> Any:
        return await self.run(lambda conn: conn.execute(statement, args).fetchone())

    async def fetchall(self, statement: str, *args: Any) -> list[Any]:
        return await self.run(lambda conn: conn.execute(statement, args).fetchall())


class MyCheckpointer(BaseCheckpointSaver[int]):
    """The page's class: the five base methods, and the history of delta channels in a fixed number of queries."""

    def __init__(self, db: Database, *, serde: Any = None) -> None:
        super().__init__(serde=serde)
        self.db = db

    @classmethod
    @asynccontextmanager
    async def create(cls, path: str) -> AsyncIterator[MyCheckpointer]:
        db = Database(path)
        try:
            yield cls(db)
        finally:
            db.conn.close()

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        # Differs: the id as text, or a clear error, where the page takes what is there; no namespace means the root.
        thread_id = get_thread_id(config)
        checkpoint_ns = config["configurable"].get("checkpoint_ns", "")
        checkpoint_id = checkpoint["id"]
        parent_id = config["configurable"].get("checkpoint_id")

        type_, blob = self.serde.dumps_typed(checkpoint)
        # Differs: what the config adds (config["metadata"], run ids) is stored too, as filters and rollbacks expect.
        completed = get_checkpoint_metadata(config, metadata, self.config_keys)
        serialized_metadata = self.serde.dumps_typed(completed)

        # Differs: OR REPLACE, since a checkpoint may be put again, after a crash for one.
        await self.db.execute(
            "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            thread_id, checkpoint_ns, checkpoint_id, parent_id,
            type_, blob, *serialized_metadata,
        )  # fmt: skip
        return _named(thread_id, checkpoint_ns, checkpoint_id)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        thread_id = get_thread_id(config)
        checkpoint_ns = config["configurable"].get("checkpoint_ns", "")
        checkpoint_id = config["configurable"]["checkpoint_id"]

        # Differs: special writes replace what is at their place, of regular ones the first stays; and all writes of
        # a call are stored, or none.
        kept, replaced = [], []
        for idx, (channel, value) in enumerate(writes):
            type_, blob = self.serde.dumps_typed(value)
            final_idx = WRITES_IDX_MAP.get(channel, idx)
            (kept if final_idx >= 0 else replaced).append(
                (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, final_idx, channel, type_, blob)
            )

        def store(conn: sqlite3.Connection) -> None:
            conn.executemany("INSERT OR IGNORE INTO writes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", kept)
            conn.executemany("INSERT OR REPLACE INTO writes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", replaced)

        await self.db.run(store)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread_id = get_thread_id(config)
        checkpoint_ns = config["configurable"].get("checkpoint_ns", "")
        checkpoint_id = config["configurable"].get("checkpoint_id")

        # Differs: both queries in one transaction, so that checkpoint and writes are of one moment.
        def read(conn: sqlite3.Connection) -> Any:
            if checkpoint_id:
                row = conn.execute(
                    "SELECT * FROM checkpoints WHERE thread_id=? AND checkpoint_ns=? AND checkpoint_id=?",
                    (thread_id, checkpoint_ns, checkpoint_id),
                ).fetchone()
            else:
                row = conn.execute(
                    "SELECT * FROM checkpoints WHERE thread_id=? AND checkpoint_ns=? "
                    "ORDER BY checkpoint_id DESC LIMIT 1",
                    (thread_id, checkpoint_ns),
                ).fetchone()
            if row is None:
                return None, []
            # Differs: the order starts with task_path, which is the order in which tasks are applied.
            writes = conn.execute(
                "SELECT task_id, channel, type, value FROM writes "
                "WHERE thread_id=? AND checkpoint_ns=? AND checkpoint_id=? ORDER BY task_path, task_id, idx",
                (thread_id, checkpoint_ns, row["checkpoint_id"]),
            ).fetchall()
            return row, writes

        row, writes = await self.db.run(read)
        if row is None:
            return None

        pending_writes = [(w["task_id"], w["channel"], self.serde.loads_typed((w["type"], w["value"]))) for w in writes]
        checkpoint = self.serde.loads_typed((row["type"], row["checkpoint"]))
        metadata = self.serde.loads_typed((row["metadata_type"], row["metadata"]))

        parent_config = None
        if row["parent_checkpoint_id"]:
            parent_config = _named(thread_id, checkpoint_ns, row["parent_checkpoint_id"])

        return CheckpointTuple(
            config=_named(thread_id, checkpoint_ns, row["checkpoint_id"]),
            checkpoint=checkpoint,
            metadata=metadata,
            parent_config=parent_config,
            pending_writes=pending_writes,
        )

    # The page describes the last two in words: newest first, `before`, `limit`; and "delete both kinds of rows".

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        if limit is not None and limit < 0:
            raise ValueError(f"limit must be 0 or more, not {limit}")
        bound = get_checkpoint_id(before) if before is not None else None
        if before is not None and bound is None:
            raise ValueError("before must name a checkpoint")

        named = config["configurable"] if config else {}
        asked = [(key, named[key]) for key in ("thread_id", "checkpoint_ns", "checkpoint_id") if key in named]
        conditions = [f"{key} = ?" for key, _ in asked] + (["checkpoint_id < ?"] if bound else [])
        rows = await self.db.fetchall(
            "SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints WHERE "
            + " AND ".join(conditions or ["1"])
            + " ORDER BY checkpoint_id DESC, thread_id, checkpoint_ns",
            *(str(value) for _, value in asked),
            *([bound] if bound else []),
        )
        # Differs: filters compare metadata in Python, so any key and any value will do; None is not "absent".
        for row in rows:
            if limit == 0:
                return
            found = await self.aget_tuple(_named(*row))
            if found is None or any(found.metadata.get(key, ...) != value for key, value in (filter or {}).items()):
                continue
            yield found
            limit = None if limit is None else limit - 1

    async def adelete_thread(self, thread_id: str) -> None:
        def delete(conn: sqlite3.Connection) -> None:
            conn.execute("DELETE FROM checkpoints WHERE thread_id = ?", (str(thread_id),))
            conn.execute("DELETE FROM writes WHERE thread_id = ?", (str(thread_id),))

        await self.db.run(delete)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> dict[str, DeltaChannelHistory]:
        if not channels:
            return {}

        thread_id = get_thread_id(config)
        checkpoint_ns = config["configurable"].get("checkpoint_ns", "")
        checkpoint_id = config["configurable"].get("checkpoint_id")
        if not checkpoint_id:  # Differs: the newest is meant, as everywhere else.
            newest = await self.db.fetchone(
                "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id=? AND checkpoint_ns=?",
                thread_id, checkpoint_ns,
            )  # fmt: skip
            checkpoint_id = newest[0]

        # Differs: the page takes all rows with a smaller id, and with them those of other branches. The chain of
        # parents is what counts, so the query walks it.
        ancestors = await self.db.fetchall(
            "WITH RECURSIVE chain(id, depth) AS ("
            " SELECT parent_checkpoint_id, 1 FROM checkpoints"
            " WHERE thread_id=?1 AND checkpoint_ns=?2 AND checkpoint_id=?3"
            " UNION ALL"
            " SELECT c.parent_checkpoint_id, depth + 1 FROM chain JOIN checkpoints c"
            " ON c.thread_id=?1 AND c.checkpoint_ns=?2 AND c.checkpoint_id=chain.id) "
            "SELECT checkpoint_id, type, checkpoint FROM chain JOIN checkpoints"
            " ON thread_id=?1 AND checkpoint_ns=?2 AND checkpoint_id=chain.id ORDER BY depth",
            thread_id, checkpoint_ns, checkpoint_id,
        )  # fmt: skip

        chain_by_ch: dict[str, list[str]] = {ch: [] for ch in channels}
        seed_by_ch: dict[str, Any] = {}
        remaining = set(channels)
        for row in ancestors:
            if not remaining:
                break
            ckpt = self.serde.loads_typed((row["type"], row["checkpoint"]))
            cv = ckpt.get("channel_values") or {}
            for ch in list(remaining):
                chain_by_ch[ch].append(row["checkpoint_id"])
                if ch in cv:
                    seed_by_ch[ch] = cv[ch]
                    remaining.discard(ch)

        result: dict[str, DeltaChannelHistory] = {}
        for ch in channels:
            chain = chain_by_ch[ch]
            write_rows = await self.db.fetchall(
                "SELECT checkpoint_id, task_id, type, value FROM writes "
                "WHERE thread_id=? AND checkpoint_ns=? AND channel=? "
                # Differs: json_each in place of a "?" for each id, of which SQLite takes only so many; and task_path.
                "AND checkpoint_id IN (SELECT value FROM json_each(?)) ORDER BY task_path, task_id, idx",
                thread_id, checkpoint_ns, ch, json.dumps(chain),
            )  # fmt: skip
            writes_by_cid: dict[str, list[PendingWrite]] = {}
            for row in write_rows:
                value = self.serde.loads_typed((row["type"], row["value"]))
                writes_by_cid.setdefault(row["checkpoint_id"], []).append((row["task_id"], ch, value))

            # chain is newest-first; the writes are wanted oldest-first
            collected: list[PendingWrite] = []
            for cid in reversed(chain):
                collected.extend(writes_by_cid.get(cid, []))
            entry: DeltaChannelHistory = {"writes": collected}
            if ch in seed_by_ch:
                entry["seed"] = seed_by_ch[ch]
            result[ch] = entry
        return result


def _named(thread_id: str, checkpoint_ns: str, checkpoint_id: str) -> RunnableConfig:
    return {
        "configurable": {
            "thread_id": thread_id,
            "checkpoint_ns": checkpoint_ns,
            "checkpoint_id": checkpoint_id,
        }
    }


# -- a graph on it ---------------------------------------------------------------------------------------------------


def extend(notes: list[str], writes: Sequence[list[str]]) -> list[str]:
    """A reducer for a delta channel: it is given all writes of a superstep at once."""
    return operator.add(notes, [note for write in writes for note in write])


class Notes(TypedDict):
    """State whose checkpoints hold what is new."""

    notes: Annotated[list[str], DeltaChannel(extend)]


async def main(path: str) -> None:
    """Take two notes on one thread, and count what was stored."""
    async with MyCheckpointer.create(path) as saver:
        builder = StateGraph(Notes).add_node("count", lambda state: {"notes": [f"{len(state['notes'])} so far"]})
        graph = builder.add_edge(START, "count").compile(checkpointer=saver)
        config: RunnableConfig = {"configurable": {"thread_id": "one"}}
        for note in ("first note", "second note"):
            state = await graph.ainvoke({"notes": [note]}, config)
        print(state["notes"])
        print(len([item async for item in graph.aget_state_history(config)]), "checkpoints")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
