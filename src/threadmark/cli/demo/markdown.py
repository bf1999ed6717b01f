"""The report as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from threadmark.cli.demo.census import Census
from threadmark.cli.sizes import plural, size


def page(census: Census) -> str:
    """The whole page."""
    total = len(census.packages)
    lines = [
        f"# The packages of Python {census.python}",
        "",
        f"{plural(total, 'package')} with {plural(census.files, 'file')}, {size(census.bytes)} on disk.",
        "",
        "## Licences",
        "",
        *table(
            ("licence", "packages", "size"),
            ([share.family, f"{share.packages}", size(share.bytes)] for share in census.shares),
            "lrr",
        ),
        "",
        "## Most needed",
        "",
        *table(("package", "required by"), ([needed.name, str(needed.by)] for needed in census.needed[:20]), "lr"),
        "",
        "## All packages, largest first",
        "",
        *table(
            ("package", "version", "in", "size", "files", "licence", "requires"),
            (
                [p.name, p.version, p.place, size(p.bytes), str(p.files), p.licence or p.family, ", ".join(p.requires)]
                for p in census.packages
            ),
            "lllrrll",
        ),
        "",
        "Sizes are those of the files that are there. A requirement counts when the package it names is installed.",
    ]
    return "\n".join(lines) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], align: str) -> list[str]:
    """A table of cells; ``align`` has ``l`` or ``r`` for each column."""
    rule = ["---:" if side == "r" else "---" for side in align]
    return [_row(head), _row(rule), *(_row([cell.replace("|", "\\|") for cell in row]) for row in rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
