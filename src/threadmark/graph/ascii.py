"""Boxes and lines in characters: a small layered layout, enough for graphs of a few dozen nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

GAP = 4
"""Columns between boxes of one layer."""
RISE = 4
"""Rows between layers, for the lines."""

Layers = list[list[str]]
Link = tuple[str, str, bool]
"""Upper end, lower end, whether it is dotted."""


def ascii_art(labels: Mapping[str, str], edges: Sequence[Link]) -> str:
    """A picture of boxes with these labels, and lines between them from top to bottom.

    Edges that lead back up are drawn like the others; an edge from a node to itself is marked in its box.
    """
    if not labels:
        return ""
    loops = {a for a, b, _ in edges if a == b}
    boxes = {id: f"{label} (loops)" if id in loops else label for id, label in labels.items()}
    down = _downwards(list(labels), [edge for edge in edges if edge[0] != edge[1]])
    layers, links = _layered(list(labels), down)
    _untangle(layers, links)
    return _painted(boxes, layers, links)


def _downwards(ids: Sequence[str], edges: Iterable[Link]) -> list[Link]:
    """The edges with those turned around that close a circle; two between the same nodes become one."""
    after: dict[str, list[Link]] = {id: [] for id in ids}
    for edge in edges:
        after[edge[0]].append(edge)
    state: dict[str, int] = {}
    out: dict[tuple[str, str], bool] = {}

    def visit(id: str) -> None:
        state[id] = 1
        for _, to, dotted in after[id]:
            pair = (to, id) if state.get(to) == 1 else (id, to)
            out[pair] = out.get(pair, True) and dotted
            if to not in state:
                visit(to)
        state[id] = 2

    for id in ids:
        if id not in state:
            visit(id)
    return [(a, b, dotted) for (a, b), dotted in out.items()]


def _layered(ids: Sequence[str], edges: Sequence[Link]) -> tuple[Layers, list[Link]]:
    """Each node below all that lead to it; long edges pass through a point in each layer between."""
    level = dict.fromkeys(ids, 0)
    for _ in ids:
        for a, b, _ in edges:
            level[b] = max(level[b], level[a] + 1)
    layers: Layers = [[] for _ in range(max(level.values()) + 1)]
    for id in ids:
        layers[level[id]].append(id)
    links: list[Link] = []
    for number, (a, b, dotted) in enumerate(edges):
        upper = a
        for between in range(level[a] + 1, level[b]):
            point = f"\0{number}.{between}"
            layers[between].append(point)
            links.append((upper, point, dotted))
            upper = point
        links.append((upper, b, dotted))
    return layers, links


def _untangle(layers: Layers, links: Sequence[Link]) -> None:
    """Order each layer by the middle of what it hangs on, down and up a few times, so that fewer lines cross."""
    above: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for a, b, _ in links:
        above.setdefault(b, []).append(a)
        below.setdefault(a, []).append(b)
    for turn in range(6):
        ties, order = (above, layers) if turn % 2 == 0 else (below, layers[::-1])
        place: dict[str, float] = {}
        for layer in order:
            middle = {id: _middle([place[tie] for tie in ties.get(id, ())], at) for at, id in enumerate(layer)}
            layer.sort(key=middle.__getitem__)
            size = max(len(layer) - 1, 1)
            place.update((id, at / size) for at, id in enumerate(layer))


def _middle(places: Sequence[float], otherwise: int) -> float:
    return sum(places) / len(places) if places else float(otherwise)


def _painted(boxes: Mapping[str, str], layers: Layers, links: Sequence[Link]) -> str:
    widths = [sum(_width(boxes, id) for id in layer) + GAP * (len(layer) - 1) for layer in layers]
    total = max(widths)
    rows = [[" "] * total for _ in range(len(layers) * (3 + RISE) - RISE)]
    middles: dict[str, int] = {}
    for layer, width in zip(layers, widths, strict=True):
        left = (total - width) // 2
        for id in layer:
            middles[id] = left + _width(boxes, id) // 2
            left += _width(boxes, id) + GAP
    tops = {id: at * (3 + RISE) for at, layer in enumerate(layers) for id in layer}
    for a, b, dotted in links:
        _line(rows, (middles[a], tops[a]), (middles[b], tops[b] + 2), "." if dotted else "*")
    for id, label in boxes.items():
        _box(rows, middles[id], tops[id], label)
    return "\n".join("".join(row).rstrip() for row in rows)


def _width(boxes: Mapping[str, str], id: str) -> int:
    return len(boxes[id]) + 4 if id in boxes else 1


def _line(rows: list[list[str]], start: tuple[int, int], end: tuple[int, int], mark: str) -> None:
    (x0, y0), (x1, y1) = start, end
    steps = max(abs(x1 - x0), y1 - y0)
    for step in range(steps + 1):
        x, y = x0 + round((x1 - x0) * step / steps), y0 + round((y1 - y0) * step / steps)
        if rows[y][x] == " " or mark == "*":
            rows[y][x] = mark


def _box(rows: list[list[str]], middle: int, top: int, label: str) -> None:
    left = middle - (len(label) + 4) // 2
    edge = f"+{'-' * (len(label) + 2)}+"
    for at, text in enumerate((edge, f"| {label} |", edge)):
        rows[top + at][left : left + len(text)] = text


__all__ = ["ascii_art"]
