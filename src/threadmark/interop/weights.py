"""What a thread takes in a store of ours, by channel."""

from __future__ import annotations

from collections import Counter
from typing import Any

from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.codec import Codec, segment_place, value_place
from threadmark.checkpoint.layout import frames_wanted, open_segments, read_programs
from threadmark.checkpoint.reading import Shelf
from threadmark.checkpoint.records import Port

__all__ = ["weigh"]


async def weigh(port: Port, codec: Codec, caches: Caches, thread_id: str) -> Counter[str]:
    """Bytes of rows by channel: values and task writes, each segment with the first that uses it.

    Checkpoints themselves, and segments that no value uses, stand under ``""``.
    """
    weights = Counter[str]()
    async with port.read() as view:
        thread = await view.thread(thread_id)
        if thread is None:
            return weights
        shelf = Shelf(view, codec, caches, thread_id, thread)
        rows, tasks = await view.every_checkpoint(thread), await view.every_task(thread)
        opened = await shelf.open(rows, tasks)
        stored, sizes = await view.every_value(thread), await view.sizes(thread)
        segments = await view.every_segment(thread)
    seal = shelf.seal
    if seal is not None:
        segments = {key: seal.open(segment_place(key), data) for key, data in segments.items()}
    left = dict(sizes.segments)

    def add(channel: str, size: int, body: bytes) -> None:
        weights[channel] += size
        frames = open_segments({key: segments[key] for key in frames_wanted((body,))})
        (program,) = read_programs((body,), frames)
        for key in (*frames, *(program.keys if program is not None else ())):
            weights[channel] += left.pop(key, 0)

    used: dict[int, str] = {}
    for item in opened:
        weights[""] += len(item.row.body) + len(item.row.id) + len(item.row.ns)
        for channel, ref in item.known.fields.values.items():
            if isinstance(ref, int):
                used.setdefault(ref, channel)
    for id, data in stored.items():
        body = data if seal is None else seal.open(value_place(id), data)
        add(_shown(used.get(id, "")), sizes.values[id], body)
    for row in tasks:
        for _, channel, body in shelf.open_task(row).entries:
            add(channel, len(body), body)
    weights[""] += sum(left.values())
    return weights


def _shown(channel: Any) -> str:
    """Large metadata stands among the values, under names that no channel has."""
    return "" if channel[:1] == "\0" else str(channel)
