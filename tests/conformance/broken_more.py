"""More savers with one fault each: in what base savers are asked about races and bytes, and in what is optional."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from tests.conformance.broken import Plain
from threadmark.checkpoint.base import WRITES_IDX_MAP, CheckpointTuple, PruneReport, Step
from threadmark.errors import HeadMoved


def at_of(thread: Any, ns: str = "", id: str | None = None) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, **({} if id is None else {"checkpoint_id": id})}}


def names_of(found: CheckpointTuple) -> tuple[str, str, str]:
    named = found.config["configurable"]
    return named["thread_id"], named["checkpoint_ns"], named["checkpoint_id"]


# -- base ------------------------------------------------------------------------------------------------------------


class KnowsItsBytes(Plain):
    """Looks into what the serializer makes."""

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        tag, _ = self.serde.dumps_typed(checkpoint)
        if tag != "msgpack":
            raise TypeError(f"what is {tag}?")
        return super().put(config, checkpoint, metadata, new_versions)


class NewestIsLastPut(Plain):
    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        at = super().put(config, checkpoint, metadata, new_versions)
        named = at["configurable"]
        vars(self).setdefault("last", {})[named["thread_id"], named["checkpoint_ns"]] = at
        return at

    def get_tuple(self, config: Any) -> Any:
        named = config["configurable"]
        last = vars(self).setdefault("last", {}).get((str(named.get("thread_id")), named.get("checkpoint_ns", "")))
        return super().get_tuple(config if named.get("checkpoint_id") or last is None else last)


class KeepsValuesByVersion(Plain):
    """Two branches with equal versions share their values."""

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        at = super().put(config, checkpoint, metadata, new_versions)
        for channel, value in checkpoint["channel_values"].items():
            key = at["configurable"]["thread_id"], channel, checkpoint["channel_versions"].get(channel)
            vars(self).setdefault("shared", {})[key] = value
        return at

    def get_tuple(self, config: Any) -> Any:
        found = super().get_tuple(config)
        if found is None:
            return None
        thread, versions = names_of(found)[0], found.checkpoint["channel_versions"]
        values = found.checkpoint["channel_values"]
        shared: Any = {
            name: vars(self)["shared"].get((thread, name, versions.get(name)), values[name]) for name in values
        }
        return found._replace(checkpoint={**found.checkpoint, "channel_values": shared})


class MakesVersionsText(Plain):
    def get_tuple(self, config: Any) -> Any:
        found = super().get_tuple(config)
        if found is None:
            return None
        versions = {name: str(version) for name, version in found.checkpoint["channel_versions"].items()}
        return found._replace(checkpoint={**found.checkpoint, "channel_versions": versions})


class MakesTuplesLists(Plain):
    def get_tuple(self, config: Any) -> Any:
        found = super().get_tuple(config)
        if found is None:
            return None
        values = found.checkpoint["channel_values"].items()
        listed = {name: list(value) if type(value) is tuple else value for name, value in values}
        return found._replace(checkpoint={**found.checkpoint, "channel_values": listed})


class FirstSpecialWriteStays(Plain):
    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        found = self.get_tuple(config)
        held = {(task, channel) for task, channel, _ in (found.pending_writes if found else ())}
        kept = [w for w in writes if w[0] not in WRITES_IDX_MAP or (task_id, w[0]) not in held]
        super().put_writes(config, kept, task_id, task_path)


class PutDropsWrites(Plain):
    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        named = config["configurable"]
        old = at_of(named["thread_id"], named.get("checkpoint_ns", ""), checkpoint["id"])
        if self.get_tuple(old) is not None:
            vars(self).setdefault("dropped", set()).add(checkpoint["id"])
        return super().put(config, checkpoint, metadata, new_versions)

    def get_tuple(self, config: Any) -> Any:
        found = super().get_tuple(config)
        if found is None or found.checkpoint["id"] not in vars(self).get("dropped", ()):
            return found
        return found._replace(pending_writes=[])


class ListsUnderItsLock(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        if not self.lock.acquire(timeout=0.1):
            raise RuntimeError("waits for whoever lists")
        try:
            return super().put(config, checkpoint, metadata, new_versions)
        finally:
            self.lock.release()

    def list(self, config: Any, *, filter: Any = None, before: Any = None, limit: Any = None) -> Any:
        with self.lock:
            yield from super().list(config, filter=filter, before=before, limit=limit)


class DeletesTheRootOnly(Plain):
    def delete_thread(self, thread_id: str) -> None:
        kept = [found for found in self.inner.list(at_of(thread_id, None)) if names_of(found)[1]]  # type: ignore[arg-type]
        super().delete_thread(thread_id)
        put_back(self, kept)


def put_back(saver: Plain, kept: list[CheckpointTuple]) -> None:
    """Store checkpoints again, the oldest first, with their writes."""
    for found in sorted(kept, key=lambda found: names_of(found)[2]):
        thread, ns, _ = names_of(found)
        parent = found.parent_config["configurable"]["checkpoint_id"] if found.parent_config else None
        versions = found.checkpoint["channel_versions"]
        at = saver.inner.put(at_of(thread, ns, parent), found.checkpoint, found.metadata, versions)
        for number, (task, channel, value) in enumerate(found.pending_writes or ()):
            saver.inner.put_writes(at, [(channel, value)], task, f"{number:09}")


# -- delta channels --------------------------------------------------------------------------------------------------


class CountsTheTargetsWrites(Plain):
    def get_delta_channel_history(self, *, config: Any, channels: Any) -> Any:
        told: Any = dict(self.inner.get_delta_channel_history(config=config, channels=channels))
        found = self.get_tuple(config)
        for channel in channels if found is not None else ():
            own = [write for write in found.pending_writes if write[1] == channel]
            told[channel] = {**told[channel], "writes": [*told[channel]["writes"], *own]}
        return told


class FollowsIds(Plain):
    """Takes everything with a smaller id for an ancestor."""

    def get_delta_channel_history(self, *, config: Any, channels: Any) -> Any:
        found = self.get_tuple(config)
        told: Any = {channel: {"writes": []} for channel in channels}
        if found is None:
            return told
        thread, ns, _ = names_of(found)
        open_channels = set(channels)
        for each in self.inner.list(at_of(thread, ns), before=found.config):
            for channel in set(open_channels):
                mine = [write for write in each.pending_writes or () if write[1] == channel]
                told[channel]["writes"] = [*mine, *told[channel]["writes"]]
                if channel in each.checkpoint["channel_values"]:
                    told[channel]["seed"] = each.checkpoint["channel_values"][channel]
                    open_channels.discard(channel)
        return told


# -- what is optional ------------------------------------------------------------------------------------------------


class CopiesTheHead(Plain):
    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        newest = {}
        for found in self.inner.list(at_of(source_thread_id, None)):  # type: ignore[arg-type]
            newest.setdefault(names_of(found)[1], found)
        put_back(self, [f._replace(config=at_of(target_thread_id, *names_of(f)[1:])) for f in newest.values()])


class DeletesRunsOfTheRoot(Plain):
    def delete_for_runs(self, run_ids: Any) -> None:
        everything = list(self.inner.list(None))
        gone = [f for f in everything if f.metadata.get("run_id") in run_ids and not names_of(f)[1]]
        kept = [found for found in everything if found not in gone]
        for thread in {names_of(found)[0] for found in everything}:
            self.inner.delete_thread(thread)
        put_back(self, kept)


class PrunesAncestorsOfDeltas(Plain):
    """Keeps the newest, and nothing of what delta channels in it are rebuilt from."""

    def prune(self, thread_ids: Any, *, strategy: str = "keep_latest") -> Any:
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(strategy)
        for thread in thread_ids:
            newest: dict[str, CheckpointTuple] = {}
            for found in self.inner.list(at_of(thread, None)):  # type: ignore[arg-type]
                newest.setdefault(names_of(found)[1], found)
            self.inner.delete_thread(thread)
            if strategy == "keep_latest":
                put_back(self, list(newest.values()))


class Ruled(Plain):
    """Passes a prune's rules on."""

    def prune(
        self, thread_ids: Any, *, strategy: str = "keep_latest", keep_last: Any = None, older_than: Any = None,
        ns: Any = None, dry_run: bool = False,
    ) -> PruneReport:  # fmt: skip
        rules = self.rules(keep_last=keep_last, older_than=older_than, ns=ns, dry_run=dry_run)
        return self.inner.prune(thread_ids, strategy=strategy, **rules)

    def rules(self, **rules: Any) -> Mapping[str, Any]:
        return rules

    def get_delta_channel_history(self, *, config: Any, channels: Any) -> Any:
        return self.inner.get_delta_channel_history(config=config, channels=channels)


class ForecastsForReal(Ruled):
    def rules(self, **rules: Any) -> Mapping[str, Any]:
        return {**rules, "dry_run": False}


class PrunesEveryNamespace(Ruled):
    def rules(self, **rules: Any) -> Mapping[str, Any]:
        return {**rules, "ns": None}


class ForgetsTheAge(Ruled):
    def rules(self, **rules: Any) -> Mapping[str, Any]:
        return {**rules, "older_than": None}


class Stepping(Plain):
    """Stores steps as the one inside does, a head that is expected included."""

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any, *, expected_head: Any = ...) -> Any:
        more = {} if expected_head is ... else {"expected_head": expected_head}
        return self.inner.put(config, checkpoint, metadata, new_versions, **more)

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        self.inner.put_writes(config, writes, task_id, task_path)

    def put_step(self, *args: Any, **more: Any) -> Any:
        return self.inner.put_step(*args, **more)

    def open_writer(self, config: Any) -> Any:
        return self.inner.open_writer(config)


class StepsInTwo(Stepping):
    """The writes, and then the checkpoint."""

    def put_step(
        self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any, writes: Any = (), **more: Any
    ) -> Any:
        for task_id, path, told in writes:
            self.inner.put_writes(config, told, task_id, path)
        return self.inner.put_step(config, checkpoint, metadata, new_versions, (), **more)

    open_writer = Stepping.open_writer  # counts beside a ``put_step`` of the same class


class IgnoresTheHead(Stepping):
    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any, *, expected_head: Any = ...) -> Any:
        return self.inner.put(config, checkpoint, metadata, new_versions)


class LooksAtTheHeadTooEarly(Stepping):
    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any, *, expected_head: Any = ...) -> Any:
        named = config["configurable"]
        if expected_head is not ...:
            newest = self.inner.get_tuple(at_of(named["thread_id"], named.get("checkpoint_ns", "")))
            found = newest.checkpoint["id"] if newest else None
            if found != expected_head:
                raise HeadMoved(named["thread_id"], named.get("checkpoint_ns", ""), expected_head, found)
            time.sleep(0.01)
        return self.inner.put(config, checkpoint, metadata, new_versions)


class Late:
    """Encodes when it is flushed."""

    def __init__(self, writer: Any) -> None:
        self.writer, self.steps = writer, list[Step]()

    def add(self, step: Step) -> None:
        self.steps.append(step)

    def flush(self) -> None:
        for step in self.steps:
            self.writer.add(step)
        self.steps.clear()
        self.writer.flush()


class EncodesLate(Stepping):
    def open_writer(self, config: Any) -> Any:
        return Late(self.inner.open_writer(config))


FAULTS: dict[type[Plain], set[str]] = {
    NewestIsLastPut: {"get_tuple"},
    KeepsValuesByVersion: {"put"},
    MakesVersionsText: {"put"},
    MakesTuplesLists: {"put"},
    FirstSpecialWriteStays: {"put_writes"},
    PutDropsWrites: {"put"},
    ListsUnderItsLock: {"put"},
    DeletesTheRootOnly: {"delete_thread"},
    CountsTheTargetsWrites: {"delta_channel_history"},
    FollowsIds: {"delta_channel_history"},
    CopiesTheHead: {"copy_thread"},
    DeletesRunsOfTheRoot: {"delete_for_runs"},
    PrunesAncestorsOfDeltas: {"prune"},
    ForecastsForReal: {"prune_rules"},
    PrunesEveryNamespace: {"prune_rules"},
    ForgetsTheAge: {"prune_rules"},
    StepsInTwo: {"put_step"},
    IgnoresTheHead: {"expected_head"},
    LooksAtTheHeadTooEarly: {"expected_head"},
    EncodesLate: {"open_writer"},
}
"""A faulty saver, and the capability in which the suite must find it."""
SOUND: dict[type[Plain], set[str]] = {
    Ruled: {"prune", "prune_rules"},
    Stepping: {"put_step", "open_writer", "expected_head"},
}
"""What those are made of, without the fault."""
