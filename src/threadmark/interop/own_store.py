"""A store of ours as the source or the target of a migration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

from threadmark.checkpoint.base import Step
from threadmark.checkpoint.layout import Node, Plan
from threadmark.checkpoint.names import config_of, without_secrets
from threadmark.checkpoint.pruning import reduce
from threadmark.checkpoint.reading import Shelf
from threadmark.checkpoint.records import HIDDEN, ORPHANED
from threadmark.cli.files import opened_quietly
from threadmark.cli.traceless import size_of
from threadmark.interop.carried import Later, carrying, is_carrying
from threadmark.interop.resting import Resting
from threadmark.interop.rows import Changed, Head, Place, StoredCheckpoint, StoredWrite, ThreadRows, calls, same
from threadmark.interop.weights import weigh

__all__ = ["OwnSource", "OwnTarget", "steps"]

CHUNK: Final = 8
"""Checkpoints that are read in one go."""
_NOTHING: Final = object()


class OwnSource:
    """A saver of ours, read with a serializer that carries what it cannot make."""

    def __init__(self, name: str, saver: Any) -> None:
        self.name = without_secrets(name)
        self._saver = saver.with_serde(carrying(saver.serde))
        self.serde = self._saver.serde

    def thread_ids(self) -> list[str]:
        """Every thread of which anything is stored."""
        return sorted(self._saver.thread_ids())

    def thread(self, thread_id: str) -> ThreadRows:
        """All rows of a thread."""
        saver = self._saver
        heads, writes = saver._drive(_outline(saver._port, saver._codec, saver._caches, thread_id))
        rows = ThreadRows(thread_id, heads, writes)
        rows.load = _Chunks(saver, thread_id, rows.heads).load
        return rows

    def weights(self, thread_id: str) -> dict[str, int]:
        """The bytes that a thread's rows take here, by channel; those of its checkpoints themselves under ``""``."""
        saver = self._saver
        return dict(saver._drive(weigh(saver._port, saver._codec, saver._caches, thread_id)))

    def size(self) -> int | None:
        """Not known."""
        return None

    def close(self) -> None:
        """Let go of the store."""
        self._saver.close()


class OwnFile(OwnSource):
    """A SQLite file of ours, read so that nothing is made beside it."""

    def __init__(self, path: str, serde: Any) -> None:
        self._path, self._given = path, serde
        self._file, self._opened = Resting(path), ExitStack()
        self._open()

    def _open(self) -> None:
        self._opened.close()
        saver = opened_quietly(self._file.open(), self._path, self._given)
        super().__init__(self._path, self._opened.enter_context(saver))

    def thread(self, thread_id: str) -> ThreadRows:
        """All rows of a thread."""
        if self._file.has_changed():
            self._open()
        with self._file.steady():
            rows = super().thread(thread_id)
        load = rows.load

        def steadily(head: Head) -> StoredCheckpoint:
            assert load is not None
            with self._file.steady():
                return load(head)

        rows.load = steadily
        return rows

    def size(self) -> int | None:
        """Bytes of the file, and of the log beside it."""
        return size_of(Path(self._path))

    def close(self) -> None:
        """Let go of the file."""
        self._opened.close()
        self._file.close()


class _Chunks:
    """Checkpoints of a thread, a few side by side at once, whichever way somebody goes through them."""

    def __init__(self, saver: Any, thread_id: str, heads: Sequence[Head]) -> None:
        self._saver, self._thread_id = saver, thread_id
        self._heads = [head for head in heads if not head.hidden]
        self._number = {head.place: number for number, head in enumerate(self._heads)}
        self._read: dict[Place, Any] = {}

    def load(self, head: Head) -> StoredCheckpoint:
        found = self._unseen(head) if head.hidden else self._seen(head)
        if found is None:
            raise Changed(f"checkpoint {head.id} of thread {self._thread_id!r} was deleted while the thread was read")
        made: Any = {**found.checkpoint}
        shown = found.shown_writes
        return StoredCheckpoint(
            head.ns, head.id, head.parent, made, dict(found.metadata), {}, False, shown, head.hidden
        )

    def _seen(self, head: Head) -> Any:
        if head.place not in self._read:
            self._read = {}
            first = self._number[head.place] // CHUNK * CHUNK
            behind = self._heads[first + CHUNK : first + CHUNK + 1]
            before = config_of(self._thread_id, "", behind[0].id) if behind else None
            limit = len(self._heads[first : first + CHUNK])
            for found in self._saver.list({"configurable": {"thread_id": self._thread_id}}, before=before, limit=limit):
                place = found.config["configurable"]
                self._read[place["checkpoint_ns"], place["checkpoint_id"]] = found
        # Those of two namespaces may have one id, and then a chunk does not end where it should.
        return self._read.get(head.place) or self._saver.get_tuple(config_of(self._thread_id, head.ns, head.id))

    def _unseen(self, head: Head) -> Any:
        saver = self._saver
        return saver._drive(_hidden(saver._port, saver._codec, saver._caches, self._thread_id, head))


async def _hidden(port: Any, codec: Any, caches: Any, thread_id: str, head: Head) -> Any:
    """A checkpoint that nobody sees."""
    async with port.read() as view:
        thread = await view.thread(thread_id)
        row = await view.checkpoint(thread, head.ns, head.id) if thread is not None else None
        if row is None:
            return None
        shelf = Shelf(view, codec, caches, thread_id, thread)
        (opened,) = await shelf.open((row,))
        materials = await shelf.materials((opened,))
        return materials.tuple(opened, keep=False)


async def _outline(port: Any, codec: Any, caches: Any, thread_id: str) -> tuple[list[Head], list[StoredWrite]]:
    """Where the checkpoints of a thread stand, and what its tasks wrote."""
    async with port.read() as view:
        thread = await view.thread(thread_id)
        if thread is None:
            return [], []
        shelf = Shelf(view, codec, caches, thread_id, thread)
        rows, stored = await view.every_checkpoint(thread), await view.every_task(thread)
        tasks = [(row, shelf.open_task(row)) for row in stored]
        materials = await shelf.gathered((), [body for _, task in tasks for _, _, body in task.entries])
    writes = [
        StoredWrite(row.ns, row.id, task_id, row.path, place, channel, value, len(row.body))
        for row, task in tasks
        for place, (task_id, channel, value) in enumerate(materials.writes([task]))
    ]
    there = {(row.ns, row.id) for row in rows}
    heads = []
    for row in rows:
        # One that is shown without a parent may still be rebuilt from it.
        shows = not row.flags & ORPHANED or (row.ns, row.columns.parent) in there
        hidden = bool(row.flags & HIDDEN)
        heads.append(Head(row.ns, row.id, row.columns.parent if shows else None, hidden=hidden))
    return heads, writes


class OwnTarget(OwnSource):
    """A saver of ours that takes threads in, each in one go: in one transaction where the store has them.

    With ``in_parts`` a thread is stored a few supersteps at a time, which takes less memory than the whole of it.
    """

    def __init__(self, name: str, saver: Any, *, in_parts: bool = False) -> None:
        super().__init__(name, saver)
        self._in_parts = in_parts

    def has(self, thread_id: str) -> bool:
        """Whether anything of a thread is there."""
        return thread_id in self._saver.thread_ids()

    def write(self, rows: ThreadRows) -> None:
        """Store a thread."""
        writer = self._saver.open_writer(config_of(rows.thread_id, "", ""))
        lean = is_carrying(self.serde)
        for number, step in enumerate(steps(rows), 1):
            writer.add(_lean(rows, step) if lean else step)
            if self._in_parts and number % CHUNK == 0:
                writer.flush()
        writer.flush()
        if any(head.hidden for head in rows.heads):
            saver = self._saver
            saver._drive(reduce(saver._port, saver._codec, rows.thread_id, lambda nodes: _as_pruned(rows, nodes)))

    def delete(self, thread_id: str) -> None:
        """Remove a thread."""
        self._saver.delete_thread(thread_id)


def _lean(rows: ThreadRows, step: Step) -> Step:
    """The same step without the values that its checkpoint has from the one before: a writer holds what it is given."""
    if step.checkpoint is None:
        return step
    place = (step.config["configurable"]["checkpoint_ns"], step.checkpoint["id"])
    values = {
        channel: value if channel in step.new_versions else Later(partial(_value, rows, place, channel))
        for channel, value in step.checkpoint["channel_values"].items()
    }
    made: Any = {**step.checkpoint, "channel_values": values}
    return step._replace(checkpoint=made)


def _value(rows: ThreadRows, place: Place, channel: str) -> Any:
    found = rows.at(place)
    assert found is not None
    return found.checkpoint["channel_values"][channel]


def _as_pruned(rows: ThreadRows, nodes: Iterable[Node]) -> Plan:
    """What makes a thread that was stored whole as it is at its source: nobody sees what nobody saw there."""
    hidden = {head.place for head in rows.heads if head.hidden}
    written: dict[Place, set[str]] = {}
    for write in rows.writes:
        written.setdefault((write.ns, write.id), set()).add(write.channel)
    stored = {(node.ns, node.id): node.stored for node in nodes}
    return Plan(
        keep=frozenset(head.place for head in rows.heads if not head.hidden),
        drop=frozenset(),
        hide={place: stored[place] | written.get(place, set()) for place in hidden},
        orphaned=frozenset(
            head.place for head in rows.heads if not head.hidden and (head.ns, head.parent or "") in hidden
        ),
    )


def steps(rows: ThreadRows) -> Iterator[Step]:
    """The supersteps of a thread, as its engine stored them: writes with the checkpoint that takes them in."""
    writes = rows.by_place()
    for one in rows.checkpoints():
        parent = rows.parent(one)
        mine: Sequence[Any] = calls(writes.pop((one.ns, one.parent or ""), ())) if parent is not None else ()
        before = parent.checkpoint if parent is not None else None
        made: Any = one.checkpoint
        yield Step(
            _config(rows.thread_id, one.ns, one.parent),
            made,
            one.metadata,  # type: ignore[arg-type]
            _moved(made, before),
            mine,
            one.shown_writes,
        )
    for (ns, id), left in writes.items():
        if rows.has((ns, id)):
            yield Step(config_of(rows.thread_id, ns, id), writes=calls(left))


def _config(thread_id: str, ns: str, id: str | None) -> Any:
    config = config_of(thread_id, ns, id or "")
    if id is None:
        del config["configurable"]["checkpoint_id"]
    return config


def _moved(checkpoint: Mapping[str, Any], before: Mapping[str, Any] | None) -> dict[str, Any]:
    """Channels whose version moved, or whose value is another one although it did not.

    LangGraph stores some values late: a join may be stored as it stood a superstep later.
    """
    versions = checkpoint["channel_versions"]
    if before is None:
        return dict(versions)
    old, now, then = before["channel_versions"], checkpoint["channel_values"], before["channel_values"]
    return {
        channel: version
        for channel, version in versions.items()
        if old.get(channel) != version or not same(now.get(channel, _NOTHING), then.get(channel, _NOTHING))
    }
