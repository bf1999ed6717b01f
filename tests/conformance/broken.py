"""Savers with one fault each, for tests of the suite: what it must find."""

from __future__ import annotations

from typing import Any

from threadmark.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from threadmark.checkpoint.memory import InMemorySaver


class Plain(BaseCheckpointSaver[str]):
    """The base methods of the blocking colour over ``InMemorySaver``, to be broken one at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = InMemorySaver(serde=self.serde)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "serde" and "inner" in vars(self):
            self.inner.serde = value

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        return self.inner.put(config, checkpoint, metadata, new_versions)

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        self.inner.put_writes(config, writes, task_id, task_path)

    def get_tuple(self, config: Any) -> Any:
        return self.inner.get_tuple(config)

    def list(self, config: Any, *, filter: Any = None, before: Any = None, limit: Any = None) -> Any:
        yield from self.inner.list(config, filter=filter, before=before, limit=limit)

    def delete_thread(self, thread_id: str) -> None:
        self.inner.delete_thread(thread_id)

    def get_next_version(self, current: Any, channel: None) -> str:
        return self.inner.get_next_version(current, channel)


class ForgetsParents(Plain):
    def get_tuple(self, config: Any) -> Any:
        found = super().get_tuple(config)
        return found and CheckpointTuple(*found[:3], None, found.pending_writes)


class IgnoresIds(Plain):
    def get_tuple(self, config: Any) -> Any:
        named = {key: value for key, value in config["configurable"].items() if key != "checkpoint_id"}
        return super().get_tuple({"configurable": named})


class DropsUnknownMetadata(Plain):
    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        known = {key: value for key, value in metadata.items() if key in ("source", "step", "parents", "run_id")}
        return super().put(config, checkpoint, known, new_versions)


class OrdersWritesByTask(Plain):
    def get_tuple(self, config: Any) -> Any:
        found = super().get_tuple(config)
        return found and found._replace(pending_writes=sorted(found.pending_writes, key=lambda write: write[0]))


class StoresWritesOneByOne(Plain):
    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        for number in range(len(writes)):
            super().put_writes(config, writes[: number + 1], task_id, task_path)


class StoresAfterFailing(Plain):
    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        super().put(config, {**checkpoint, "channel_values": {}}, metadata, new_versions)
        return super().put(config, checkpoint, metadata, new_versions)


class ScansForIds(Plain):
    def get_tuple(self, config: Any) -> Any:
        wanted = config["configurable"].get("checkpoint_id")
        place = {key: config["configurable"].get(key, "") for key in ("thread_id", "checkpoint_ns")}
        found = list(self.inner.list({"configurable": place}))
        return next((f for f in found if not wanted or f.config["configurable"]["checkpoint_id"] == wanted), None)


class LimitsBeforeFiltering(Plain):
    def list(self, config: Any, *, filter: Any = None, before: Any = None, limit: Any = None) -> Any:
        for found in super().list(config, before=before, limit=limit):
            if all(found.metadata.get(key) == value for key, value in (filter or {}).items()):
                yield found


class LosesRaces(Plain):
    """Reads, then writes back what it read: of two writers one is forgotten."""

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        import time

        busy = vars(self).setdefault("busy", set())
        if busy:
            return
        busy.add(task_id)
        time.sleep(0.001)
        super().put_writes(config, writes, task_id, task_path)
        busy.discard(task_id)


class HalfAsync(Plain):
    async def aget_tuple(self, config: Any) -> Any:
        return self.get_tuple(config)


BROKEN = {
    ForgetsParents: {"put", "get_tuple", "delta_channel_history", "list"},
    IgnoresIds: {"get_tuple", "delta_channel_history"},
    DropsUnknownMetadata: {"put", "list"},
    OrdersWritesByTask: {"put_writes", "delta_channel_history"},
    StoresWritesOneByOne: {"put_writes", "put"},
    StoresAfterFailing: {"put"},
    ScansForIds: {"get_tuple"},
    LimitsBeforeFiltering: {"list"},
    LosesRaces: {"put"},
}
"""A faulty saver, and capabilities in which the suite must find it."""
