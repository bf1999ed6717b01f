"""LangGraph's SQLite and Postgres tables as the target of a migration, written by LangGraph's own savers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.errors import SaverError
from threadmark.interop.carried import Carried
from threadmark.interop.langgraph import peer_serde
from threadmark.interop.own_store import steps
from threadmark.interop.peer_postgres import PeerPostgres, told_of_server
from threadmark.interop.peer_sqlite import PeerSqlite, check_peers_file, told_of_file
from threadmark.interop.peer_values import PeerValues
from threadmark.interop.rows import StoredCheckpoint, ThreadRows

__all__ = ["PeerTarget", "peer_target"]

_INSTALL: Final = "pip install langgraph-checkpoint-sqlite langgraph-checkpoint-postgres"


def peer_target(serde: Any, *, path: str = "", url: str = "") -> PeerTarget:
    """The store at this path of a SQLite file or URL of a Postgres database, set up by LangGraph's saver.

    ``ForeignDatabase``, before anything is written, for a file of ours.
    """
    if isinstance(serde, EncryptedSerializer):
        raise SaverError("threads are written into LangGraph's tables unencrypted only; leave the key out")
    try:
        if url:
            from langgraph.checkpoint.postgres import PostgresSaver

            opened: Any = PostgresSaver.from_conn_string(url)
            return PeerTarget(opened, lambda values: PeerPostgres(url, values), serde, partial(told_of_server, url))
        from langgraph.checkpoint.sqlite import SqliteSaver
    except ModuleNotFoundError as error:
        raise ImportError(f"LangGraph's tables are written by its own savers: {_INSTALL}") from error
    if Path(path).is_file():
        check_peers_file(path, empty=True)
    opened = SqliteSaver.from_conn_string(path)
    return PeerTarget(opened, lambda values: PeerSqlite(path, values), serde, partial(told_of_file, path))


class PeerTarget:
    """A store of LangGraph's that takes threads in. What its serializer changes is changed: tuples become lists.

    ``told`` turns errors of the driver into ours.
    """

    def __init__(
        self,
        saver: AbstractContextManager[Any],
        read: Callable[[PeerValues], Any],
        serde: Any,
        told: Callable[[], AbstractContextManager[None]],
    ) -> None:
        with told(), ExitStack() as opened:
            self._saver = opened.enter_context(saver)
            self._saver.setup()
            self._opened = opened.pop_all()
        self._told, self._reading = told, ExitStack()
        self._read, self._own, self._theirs = read, serde, peer_serde(serde)
        self._values = PeerValues(serde)

    def has(self, thread_id: str) -> bool:
        """Whether anything of a thread is there."""
        return thread_id in self._reader().thread_ids()

    def thread(self, thread_id: str) -> ThreadRows:
        """All rows of a thread."""
        found: ThreadRows = self._reader().thread(thread_id)
        return found

    def _reader(self) -> Any:
        """One that sees what is stored by now."""
        self._reading.close()
        return self._reading.enter_context(closing(self._read(self._values)))

    def write(self, rows: ThreadRows) -> None:
        """Store a thread by LangGraph's ``put`` and ``put_writes``."""
        self._reading.close()
        with self._told():
            for step in steps(rows):
                for task_id, path, pairs in step.writes:
                    writes = [(channel, self._converted(value)) for channel, value in pairs]
                    self._saver.put_writes(step.config, writes, task_id, path)
                if step.checkpoint is not None:
                    made = _each_value(step.checkpoint, self._converted)
                    self._saver.put(step.config, made, step.metadata, dict(step.new_versions))

    def delete(self, thread_id: str) -> None:
        """Remove a thread."""
        self._reading.close()
        with self._told():
            self._saver.delete_thread(thread_id)

    def expected(self, rows: ThreadRows) -> ThreadRows:
        """The thread as LangGraph's serializer leaves it. SaverError for one that LangGraph's tables cannot hold."""
        if any(head.hidden for head in rows.heads):
            raise SaverError(
                "checkpoints were pruned that its delta channels still need; LangGraph's tables have no place for "
                "such, so only a store of ours takes this thread"
            )

        def again(one: StoredCheckpoint) -> StoredCheckpoint:
            made, metadata = _each_value(one.checkpoint, self._again), json.loads(json.dumps(one.metadata))
            return replace(one, checkpoint=made, metadata=metadata)

        return rows.changed(again, lambda one: replace(one, value=self._again(one.value)))

    def close(self) -> None:
        """Let go of the store."""
        self._reading.close()
        self._opened.close()

    def _converted(self, value: Any) -> Any:
        """A value of ours with LangGraph's classes in it."""
        if type(value) is Carried:
            names = ", ".join(name.replace(":", ".") for name in value.classes)
            raise SaverError(f"LangGraph's savers need the classes of values: list {names or value.why} with --allow")
        return self._theirs.loads_typed(self._own.dumps_typed(value))

    def _again(self, value: Any) -> Any:
        return self._values.serde.loads_typed(self._saver.serde.dumps_typed(self._converted(value)))


def _each_value(checkpoint: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """A checkpoint with its values changed, and the packets that old formats keep beside them."""
    values = {channel: change(value) for channel, value in checkpoint["channel_values"].items()}
    made = {**checkpoint, "channel_values": values}
    if made.get("pending_sends"):
        made["pending_sends"] = change(made["pending_sends"])
    return made
