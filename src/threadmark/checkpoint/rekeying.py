"""Encrypting what is stored anew: every row of a thread under the active key, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.codec import Codec, Seal, checkpoint_place, segment_place, task_place, value_place
from threadmark.checkpoint.records import Change, CheckpointRow, Port, TaskRow, Thread, View
from threadmark.checkpoint.serde.sealing import is_sealed
from threadmark.checkpoint.transact import look, transact
from threadmark.errors import SaverError


class Rekeyed(NamedTuple):
    """What became of one thread: its rows, and how many of them were not under the active key before."""

    thread_id: str
    rows: int
    old: int


class NotReadBack(SaverError):
    """Rows that were just encrypted do not read back as they were; the thread was left as it is."""


class _Every(NamedTuple):
    """All rows of a thread that are sealed, with their bodies apart: (what is stored, where it belongs)."""

    checkpoints: list[tuple[CheckpointRow, bytes]]
    tasks: list[tuple[TaskRow, bytes]]
    values: Mapping[int, bytes]
    segments: Mapping[bytes, bytes]

    def placed(self) -> dict[tuple[Any, ...], bytes]:
        """Every body by its place."""
        found = {checkpoint_place(row): body for row, body in self.checkpoints}
        found |= {task_place(row): body for row, body in self.tasks}
        found |= {value_place(id): body for id, body in self.values.items()}
        return found | {segment_place(key): data for key, data in self.segments.items()}

    def mapped(self, change: Callable[[tuple[Any, ...], bytes], bytes]) -> _Every:
        """The same rows with other bodies."""
        return _Every(
            [(row, change(checkpoint_place(row), body)) for row, body in self.checkpoints],
            [(row, change(task_place(row), body)) for row, body in self.tasks],
            {id: change(value_place(id), body) for id, body in self.values.items()},
            {key: change(segment_place(key), data) for key, data in self.segments.items()},
        )


async def rekey(port: Port, codec: Codec, caches: Caches, thread_id: str, from_plain: bool, dry_run: bool) -> Rekeyed:
    """Encrypt a thread's rows with the active key, unless all of them are already; read back before it counts.

    A thread that does not exist has no rows. Segments keep their keys, so rows of one thread may be under different
    keys while programs go on writing to it. Needs memory for the thread's rows, twice.
    """
    seal = codec.seal(thread_id)
    if seal is None:
        raise ValueError("this saver's serializer encrypts nothing; give it an EncryptedSerializer")

    async def counted(view: View) -> Rekeyed:
        return await _looked(view, await view.thread(thread_id), thread_id, seal, from_plain)

    if dry_run:
        return await look(port, counted)

    async def work(change: Change) -> Rekeyed:
        thread = await change.thread(thread_id)
        found = await _looked(change, thread, thread_id, seal, from_plain)
        if thread is not None and found.old:
            await _encrypt(change, thread, thread_id, seal)
        return found

    found = await transact(port, work)
    caches.threads.forget(thread_id)
    return found


async def _looked(view: View, thread: Thread | None, thread_id: str, seal: Seal, from_plain: bool) -> Rekeyed:
    """How many rows there are, and how many are old; raises unless every one of them opens, or all are plain."""
    if thread is None:
        return Rekeyed(thread_id, 0, 0)
    bodies = (await _every(view, thread)).placed()
    # A plain row among sealed ones was put there by somebody else: to seal it would be to believe it.
    plain = from_plain and not any(map(is_sealed, bodies.values()))
    if not plain:
        for place, body in bodies.items():
            seal.open(place, body)
    old = sum(not seal.is_current(body) for body in bodies.values())
    return Rekeyed(thread_id, len(bodies), old)


async def _encrypt(change: Change, thread: Thread, thread_id: str, seal: Seal) -> None:
    """Replace every row, and read it back."""

    def opened(place: tuple[Any, ...], body: bytes) -> bytes:
        return seal.open(place, body) if is_sealed(body) else body

    stored = await _every(change, thread)
    plain = stored.mapped(opened)
    sealed = plain.mapped(seal.seal)
    await change.sweep(thread, (), ())
    await change.add_segments(thread, list(sealed.segments.items()))
    await change.add_values(thread, list(sealed.values.items()))
    for task, body in sealed.tasks:
        await change.put_task(thread, task._replace(body=body))
    for row, body in sealed.checkpoints:
        await change.put_checkpoint(thread, row._replace(body=body))
    again = await _every(change, thread)
    current = all(map(seal.is_current, again.placed().values()))
    if not current or again.mapped(seal.open).placed() != plain.placed():
        raise NotReadBack(f"thread {thread_id!r} did not read back as it was encrypted; it was left as it is")


async def _every(view: View, thread: Thread) -> _Every:
    return _Every(
        [(row, row.body) for row in await view.every_checkpoint(thread)],
        [(row, row.body) for row in await view.every_task(thread)],
        dict(await view.every_value(thread)),
        dict(await view.every_segment(thread)),
    )
