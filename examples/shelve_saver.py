"""A saver for ``shelve``, the standard library's dictionary in a file: what docs/how-to/write-a-saver.md arrives at.

python examples/shelve_saver.py notes

It passes base and delta conformance. It is for one process at a time, and a power cut may take the last entries.
"""

from __future__ import annotations

import dbm.dumb
import json
import operator
import shelve
import sys
import threading
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from typing_extensions import TypedDict

from threadmark.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
    get_thread_id,
)
from threadmark.graph import START, StateGraph


def place_of(config: Any) -> tuple[str, str]:
    """Thread and namespace of a config; MissingThreadId without a thread."""
    return get_thread_id(config), config["configurable"].get("checkpoint_ns") or ""


def config_of(thread: str, ns: str, id: str) -> Any:
    """The config that names one checkpoint."""
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": id}}


class ShelveSaver(BaseCheckpointSaver[int]):
    """Two kinds of entries, found by key: ``[kind, thread, namespace, id]``, kind being checkpoint or writes."""

    def __init__(self, path: str, *, serde: Any = None) -> None:
        super().__init__(serde=serde)
        self._lock = threading.RLock()  # a graph calls from several threads
        self._shelf = shelve.Shelf(dbm.dumb.open(path, "c"))  # noqa: SIM115
        self._ids: dict[tuple[str, str], list[str]] = {}  # ids of each namespace, rising: "newest" needs no scan
        for kind, thread, ns, id in map(json.loads, self._shelf):
            if kind == "checkpoint":
                insort(self._ids.setdefault((thread, ns), []), id)

    def close(self) -> None:
        self._shelf.close()

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        (thread, ns), id = place_of(config), checkpoint["id"]
        # Encode before anything is stored: a value that cannot be encoded must leave nothing behind.
        kept = get_checkpoint_metadata(config, metadata, self.config_keys)
        entry = self.serde.dumps_typed(checkpoint), self.serde.dumps_typed(kept), get_checkpoint_id(config)
        with self._lock:
            self._shelf[json.dumps(["checkpoint", thread, ns, id])] = entry
            ids = self._ids.setdefault((thread, ns), [])
            if id not in ids[bisect_left(ids, id) :][:1]:
                insort(ids, id)
        return config_of(thread, ns, id)

    def put_writes(self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        thread, ns = place_of(config)
        key = json.dumps(["writes", thread, ns, config["configurable"]["checkpoint_id"]])
        new = [
            ((task_id, WRITES_IDX_MAP.get(channel, place)), (task_path, channel, self.serde.dumps_typed(value)))
            for place, (channel, value) in enumerate(writes)
        ]
        with self._lock:
            stored = self._shelf.get(key, {})
            for name, entry in new:
                if name[1] < 0 or name not in stored:  # special writes replace, of regular ones the first stays
                    stored[name] = entry
            if stored:
                self._shelf[key] = stored

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        thread, ns = place_of(config)
        with self._lock:
            ids = self._ids.get((thread, ns))
            id = get_checkpoint_id(config) or (ids[-1] if ids else None)
            entry = self._shelf.get(json.dumps(["checkpoint", thread, ns, id]))
            stored = self._shelf.get(json.dumps(["writes", thread, ns, id]), {})
        if entry is None or id is None:
            return None
        checkpoint, metadata, parent = entry
        ordered = sorted(stored.items(), key=lambda item: (item[1][0], item[0]))  # path, task, place
        return CheckpointTuple(
            config=config_of(thread, ns, id),
            checkpoint=self.serde.loads_typed(checkpoint),
            metadata=self.serde.loads_typed(metadata),
            parent_config=config_of(thread, ns, parent) if parent else None,
            pending_writes=[
                (task, channel, self.serde.loads_typed(value)) for (task, _), (_, channel, value) in ordered
            ],
        )

    def list(
        self, config: Any, *, filter: dict[str, Any] | None = None, before: Any = None, limit: int | None = None
    ) -> Iterator[CheckpointTuple]:
        if limit is not None and limit < 0:
            raise ValueError(f"limit must be 0 or more, not {limit}")
        bound = get_checkpoint_id(before) if before is not None else None
        if before is not None and bound is None:
            raise ValueError("before must name a checkpoint")
        asked = (config or {}).get("configurable") or {}
        wanted = {key: asked[key] for key in ("thread_id", "checkpoint_ns", "checkpoint_id") if key in asked}
        with self._lock:  # names only, so that whoever writes meanwhile waits for nobody
            every = [config_of(*place, id) for place, ids in sorted(self._ids.items()) for id in ids]
        names = [at for at in every if wanted.items() <= at["configurable"].items()]
        names.sort(key=lambda at: at["configurable"]["checkpoint_id"], reverse=True)  # stable: thread, namespace
        for at in names:
            if limit == 0:
                return
            is_older = bound is None or at["configurable"]["checkpoint_id"] < bound
            found = self.get_tuple(at) if is_older else None  # None too when it was deleted since
            if found is None or any(found.metadata.get(k, ...) != v for k, v in (filter or {}).items()):
                continue
            yield found
            limit = limit - 1 if limit is not None else None

    def delete_thread(self, thread_id: str) -> None:
        with self._lock:
            for key in [key for key in self._shelf if json.loads(key)[1] == str(thread_id)]:
                del self._shelf[key]
            for place in [place for place in self._ids if place[0] == str(thread_id)]:
                del self._ids[place]


class Notes(TypedDict):
    """A list that grows."""

    notes: Annotated[list[str], operator.add]


if __name__ == "__main__":
    saver = ShelveSaver(sys.argv[1])
    builder = StateGraph(Notes).add_node("count", lambda state: {"notes": [f"{len(state['notes'])} so far"]})
    graph = builder.add_edge(START, "count").compile(checkpointer=saver)
    print(graph.invoke({"notes": ["a note"]}, {"configurable": {"thread_id": "one"}})["notes"])
    saver.close()
