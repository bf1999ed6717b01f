"""Puts figures into the documentation, so that nobody copies them by hand.

    python -m benchmarks --json > figures.json
    python -m benchmarks.pages figures.json     several files: of what is in two, the last one counts

writes the table of all of them into docs/explanation/benchmarks.md and a short one into the README, each between its
two marks.
"""

from __future__ import annotations

import argparse
import json
import platform
import sqlite3
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from benchmarks.report import Row, number, table, times

ROOT: Final = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
SHORT: Final = (
    ("chain.none", "cpu us/superstep", "a superstep without saver, us"),
    ("chain.memory", "cpu us/superstep", "with the memory saver, us"),
    ("chain.sqlite.async", "cpu us/superstep", "with SQLite, `async`, us"),
    ("chain.sqlite.sync", "cpu us/superstep", "with SQLite, `sync`: one transaction, one flush, us"),
    ("fanout.sqlite", "cpu us/task", "fan-out of 1,000 tasks on SQLite, us a task"),
    ("conversation.sqlite", "total s", "conversation of 1,000 turns on SQLite, s"),
    ("conversation.sqlite", "stored MB", "what it stores, MB"),
    ("process.sqlite", "cpu ms/turn", "a cold process for each turn, ms"),
    ("import.graph", "wall ms", "`import threadmark.graph`, ms"),
)


def main() -> None:
    """What the command runs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description="see the module")
    parser.add_argument("files", nargs="+", type=Path)
    rows: dict[tuple[str, str], Row] = {}
    for file in parser.parse_args().files:
        found = [Row(**row) for row in json.loads(file.read_text(encoding="utf-8"))]
        rows |= {(row.workload, row.metric): row for row in found}
    measured = _about()
    _put("docs/explanation/benchmarks.md", f"{measured}\n\n{table(list(rows.values()))}")
    _put("README.md", short(rows))


def short(rows: dict[tuple[str, str], Row]) -> str:
    """The table of a few figures, in words."""
    lines = [
        f"| {words} | {number(row.ours)} | {number(row.peer)} | {times(row.ratio)} |"
        for workload, metric, words in SHORT
        if (row := rows.get((workload, metric))) is not None
    ]
    return "\n".join(
        ["| processor time or size | Threadmark | LangGraph | times less |", "|---|---:|---:|---:|", *lines]
    )


def _about() -> str:
    peer, day = version("langgraph"), datetime.now(UTC)
    return (
        f"Version `{version('threadmark')}` beside langgraph {peer}, {day:%d} {day:%B} {day.year}; "
        f"CPython {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {platform.machine()}."
    )


def _put(page: str, text: str) -> None:
    path = ROOT / page
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    if not after:
        raise SystemExit(f"{page} has no {BEGIN} and {END} for the figures to stand between")
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
