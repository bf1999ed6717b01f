"""A tree drawn beside its list, newest first, in the manner of version control."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

DOT, LINE, FORK, END, CROSS, MEET = "●", "│", "├", "╯", "┼", "┴"


class Drawn(NamedTuple):
    """A line of the drawing: beside a node, or between two (``id`` None) where branches meet their parent."""

    id: str | None
    graph: str


def draw(nodes: Iterable[tuple[str, str | None]]) -> Iterator[Drawn]:
    """Lines for (id, parent) pairs in which every child comes before its parent.

    A lane is a branch on its way down to the parent it waits for. A parent that never comes ends nothing: its lane
    goes on to the bottom.
    """
    lanes: list[str | None] = []
    for id, parent in nodes:
        waiting = [at for at, wanted in enumerate(lanes) if wanted == id]
        if len(waiting) > 1:
            yield Drawn(None, _meeting(lanes, waiting))
            for at in waiting[1:]:
                lanes[at] = None
        while lanes and lanes[-1] is None:
            lanes.pop()
        at = waiting[0] if waiting else _free(lanes)
        lanes[at] = id
        yield Drawn(id, " ".join(DOT if lane == id else LINE if lane else " " for lane in lanes))
        lanes[at] = parent


def _free(lanes: list[str | None]) -> int:
    if None not in lanes:
        lanes.append(None)
    return lanes.index(None)


def _meeting(lanes: list[str | None], waiting: list[int]) -> str:
    """The line on which all lanes that wait for one node turn into the first of them."""
    first, last = waiting[0], waiting[-1]
    glyphs = []
    for at, lane in enumerate(lanes):
        inside = first < at < last
        if at == first:
            glyph = FORK
        elif at == last:
            glyph = END
        elif at in waiting:
            glyph = MEET
        else:
            glyph = (CROSS if inside else LINE) if lane else ("─" if inside else " ")
        glyphs.append(glyph + ("─" if first <= at < last else " "))
    return "".join(glyphs).rstrip()
