"""Squarified treemaps: a rectangle cut into rectangles whose areas are as the given sizes.

The method is that of Bruls, Huizing and van Wijk (2000): lay out row after row along the shorter side, and close a
row when one more member would make its rectangles longer than they are now.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Box(NamedTuple):
    """A rectangle by its upper left corner, width and height."""

    x: float
    y: float
    width: float
    height: float


def treemap(sizes: Sequence[float], box: Box) -> list[Box]:
    """One rectangle for each size, in the same order. Sizes are positive and come largest first."""
    total = sum(sizes)
    if not total:
        return []
    areas = [size * box.width * box.height / total for size in sizes]
    placed: list[Box] = []
    while areas:
        side = min(box.width, box.height)
        count = 1
        while count < len(areas) and _worst(areas[: count + 1], side) <= _worst(areas[:count], side):
            count += 1
        row, areas = areas[:count], areas[count:]
        boxes, box = _cut(row, box)
        placed += boxes
    return placed


def _worst(row: Sequence[float], side: float) -> float:
    """The greatest ratio of length to breadth in a row along a side of this length."""
    thickness = sum(row) / side
    return max(max(thickness**2 / area, area / thickness**2) for area in (row[0], row[-1]))


def _cut(row: Sequence[float], box: Box) -> tuple[list[Box], Box]:
    """Lay a row along the shorter side of a box; the rectangles, and what is left of the box."""
    x, y, width, height = box
    total = sum(row)
    boxes = []
    if width >= height:
        thickness = total / height
        for area in row:
            boxes.append(Box(x, y, thickness, area / thickness))
            y += area / thickness
        return boxes, Box(x + thickness, box.y, max(width - thickness, 0.0), height)
    thickness = total / width
    for area in row:
        boxes.append(Box(x, y, area / thickness, thickness))
        x += area / thickness
    return boxes, Box(box.x, y + thickness, width, max(height - thickness, 0.0))
