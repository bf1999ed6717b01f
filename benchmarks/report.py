"""From figures of many rounds to a table: medians, ratios, and which limits are broken."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.registry import Figures, Workload
from benchmarks.systems import OURS, PEER

Rounds = dict[str, list[Figures]]


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of one workload. ``ratio`` is how many times the peer's figure ours is smaller."""

    workload: str
    metric: str
    ours: float | None
    peer: float | None
    ratio: float | None
    worst_ratio: float | None
    limit: float | None
    goal: float | None
    bound: float | None = None

    @property
    def missed(self) -> bool:
        slow = self.goal is not None and self.ratio is not None and self.ratio < self.goal
        return slow or (self.bound is not None and self.ours is not None and self.ours > self.bound)

    @property
    def broken(self) -> bool:
        return self.limit is not None and self.ours is not None and self.ours > self.limit


def rows(workload: Workload, rounds: Rounds) -> Iterator[Row]:
    """The table of one workload. The worst ratio sets the peer's best round beside our worst."""
    for metric in dict.fromkeys(m for figures in rounds.values() for one in figures for m in one):
        ours, peer = ([one[metric] for one in rounds.get(s, []) if metric in one] for s in (OURS, PEER))
        yield Row(
            workload.name,
            metric,
            statistics.median(ours) if ours else None,
            statistics.median(peer) if peer else None,
            _ratio(statistics.median(peer), statistics.median(ours)) if ours and peer else None,
            _ratio(min(peer), max(ours)) if ours and peer else None,
            workload.limits.get(metric),
            workload.goals.get(metric),
            workload.bounds.get(metric),
        )


def _ratio(peer: float, ours: float) -> float | None:
    return peer / ours if ours > 0 else None


HEAD = ("workload", "metric", OURS, PEER, "ratio", "worst", "asked for")


def table(found: list[Row]) -> str:
    """The rows as a Markdown table."""
    lines = [_cells(row) for row in found]
    widths = [max(len(line[column]) for line in [HEAD, *lines]) for column in range(len(HEAD))]
    rule = tuple("-" * width for width in widths)
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in [HEAD, rule, *lines]
    )


def _cells(row: Row) -> tuple[str, ...]:
    most = row.limit if row.limit is not None else row.bound
    asked = f"at most {number(most)}" if most is not None else ""
    asked = f"at least {times(row.goal)}" if row.goal is not None else asked
    verdict = " BROKEN" if row.broken else " MISSED" if row.missed else ""
    figures = (number(row.ours), number(row.peer), times(row.ratio), times(row.worst_ratio))
    return (row.workload, row.metric, *figures, asked + verdict)


def number(value: float | None) -> str:
    """A figure in three digits, or whole."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def times(value: float | None) -> str:
    """A ratio."""
    return "" if value is None else f"{value:.3g}x"
