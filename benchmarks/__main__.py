"""Runs workloads of Threadmark and its peer in turns, in fresh processes; prints medians and ratios."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import benchmarks.serde
import benchmarks.workloads  # noqa: F401  both enter their workloads into the table
from benchmarks import counting, instructions, report
from benchmarks.registry import WORKLOADS, Figures, Workload, chosen
from benchmarks.systems import SYSTEMS


def main() -> int:
    """Exit code 1 when a workload failed, or something that is counted exceeds its limit or its baseline."""
    options = _options()
    if options.list:
        print("\n".join(f"{one.name:28} {one.about}" for one in WORKLOADS.values()))
        return 0
    found: list[report.Row] = []
    failed = False
    for one in chosen(options.names):
        rounds = _run(one, options.systems, options.rounds)
        failed |= any(figures is None for results in rounds.values() for figures in results)
        found += report.rows(one, {system: [f for f in results if f] for system, results in rounds.items()})
    if options.json:
        print(json.dumps([dataclasses.asdict(row) for row in found], indent=1))
    else:
        print(report.table(found))
    for row in found:
        if row.missed:
            print(f"less than asked for: {row.workload} {row.metric}", file=sys.stderr)
    broken = [row for row in found if row.broken]
    for row in broken:
        print(f"over the limit: {row.workload} {row.metric}", file=sys.stderr)
    if not options.names and not options.json and shutil.which("valgrind"):
        failed |= bool(instructions.compared())
    return 1 if broken or failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help="workloads, or beginnings of their names; all by default")
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds of each system (default 3)")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--json", action="store_true", help="print rows as JSON instead of a table")
    parser.add_argument("--list", action="store_true", help="name the workloads and stop")
    return parser.parse_args()


def _run(one: Workload, systems: tuple[str, ...], rounds: int) -> dict[str, list[Figures | None]]:
    """The systems take turns, so that a slow minute of the machine hits both; counting comes last."""
    taking_part = [system for system in systems if system in one.systems]
    results: dict[str, list[Figures | None]] = {system: [] for system in taking_part}
    for _ in range(rounds):
        for system in taking_part:
            results[system].append(_child(system, one, dict(os.environ)))
    with tempfile.TemporaryDirectory(prefix="benchmark-counter-") as folder:
        instruments = counting.environment(Path(folder))
        for system in taking_part:
            results[system].append(_child(system, one, instruments))
    return results


def _child(system: str, one: Workload, environment: dict[str, str]) -> Figures | None:
    """The figures of a process of its own; None if it failed."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.child", system, one.name],
        env={**environment, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        print(f"{system} {one.name} failed:\n{done.stderr}", file=sys.stderr)
        return None
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


if __name__ == "__main__":
    sys.exit(main())
