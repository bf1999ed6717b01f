"""What is counted and not timed is a promise: transactions, flushes to the disk, bytes. And the workloads run."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import benchmarks.workloads  # noqa: F401  enters the workloads into the table
from benchmarks import clock, counting, pages, report
from benchmarks.registry import WORKLOADS, Figures, Workload, chosen
from benchmarks.systems import OURS, System
from benchmarks.workloads import crowd

ROOT = Path(__file__).resolve().parents[2]
# Quick ones of each kind; the big states are weighed by the benchmarks themselves.
CHAINS = [f"chain.{kind}" for kind in ("none", "memory", "sqlite", "redis", "postgres.sync", "postgres.async.aio")]
SMALL = [
    *CHAINS, "fanout.none", "fanout.sqlite.aio", "import.graph", "storage.trim", "storage.untouched.channels",
    "nested", "pause", "history.memory", "crowd", "process",
    "interop.conversation.10",
]  # fmt: skip


def counted(name: str, folder: Path) -> Figures:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.child", OURS, name],
        cwd=ROOT,
        env={**os.environ, **counting.environment(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures: Figures = json.loads(done.stdout)
    return figures


@pytest.mark.parametrize("name", [one.name for one in chosen(["chain.sqlite"])])
def test_a_superstep_is_one_transaction_and_one_flush(name: str, tmp_path: Path) -> None:
    figures = counted(name, tmp_path)
    limits = WORKLOADS[name].limits
    assert {metric: value for metric, value in figures.items() if value > limits[metric]} == {}


@pytest.mark.parametrize("one", chosen(SMALL), ids=lambda one: one.name)
def test_a_workload_runs_and_reports(one: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "LONG_ENOUGH", 0)
    monkeypatch.setattr(clock, "FEWEST", 1)
    monkeypatch.setattr(crowd, "TURNS", dict.fromkeys(crowd.TURNS, 4))
    figures = one.measure(System(OURS, tmp_path))
    rows = list(report.rows(one, {OURS: [figures]}))
    assert rows
    assert [row for row in rows if row.broken] == []
    assert one.name in report.table(rows)


def test_the_memory_of_whoever_starts_a_measurement_is_not_counted() -> None:
    ballast = b"x" * (200 << 20)
    done = subprocess.run(
        [sys.executable, "-c", "from benchmarks import clock; print(clock.resident(), clock.peak())"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    now, most = map(float, done.stdout.split())
    assert now <= most < len(ballast) / 1e6


def test_a_broken_limit_is_shown() -> None:
    one = Workload("w", lambda system: {}, "", limits={"bytes": 10})
    (row,) = report.rows(one, {OURS: [{"bytes": 11}], "langgraph": [{"bytes": 44}]})
    assert row.broken
    assert row.ratio == 4
    assert "BROKEN" in report.table([row])


def test_a_bound_that_is_passed_is_told_but_breaks_nothing() -> None:
    one = Workload("w", lambda system: {}, "", bounds={"times": 1.6})
    (row,) = report.rows(one, {OURS: [{"times": 1.7}]})
    assert (row.missed, row.broken) == (True, False)
    assert "at most 1.6 MISSED" in report.table([row])


def test_figures_are_put_between_the_marks_of_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs" / "explanation").mkdir(parents=True)
    written = [tmp_path / "README.md", tmp_path / "docs" / "explanation" / "benchmarks.md"]
    for page in written:
        page.write_text(f"before\n{pages.BEGIN}\nold\n{pages.END}\nafter\n", encoding="utf-8")
    one = Workload("import.graph", lambda system: {}, "")
    rows = [*report.rows(one, {OURS: [{"wall ms": 10.0, "modules": 5}], "langgraph": [{"wall ms": 70.0}]})]
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    first.write_text(json.dumps([dataclasses.asdict(row) for row in rows]), encoding="utf-8")
    second.write_text(json.dumps([{**dataclasses.asdict(rows[1]), "ours": 6}]), encoding="utf-8")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["pages", str(first), str(second)])
    pages.main()
    short, long = (page.read_text(encoding="utf-8") for page in written)
    assert "| `import threadmark.graph`, ms | 10 | 70 | 7x |" in short
    assert "| import.graph | modules | 6 " in long
    assert all(
        text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text for text in (short, long)
    )
    written[0].write_text("no marks", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"README\.md has no"):
        pages.main()


def test_a_name_that_begins_no_workload_is_refused() -> None:
    with pytest.raises(SystemExit, match="no workload"):
        chosen(["nonsense"])
