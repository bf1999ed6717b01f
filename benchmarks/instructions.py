"""Counts the machine instructions of one superstep under callgrind: a figure that no busy machine can blur.

Two processes run the 50-node chain a different number of times; the difference leaves out the start of the
interpreter and the imports. Hash seed and Python version are fixed, and written down beside the counts.

    python -m benchmarks.instructions            compare with benchmarks/baseline.json
    python -m benchmarks.instructions --record   write it anew
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.savers import saver
from benchmarks.systems import OURS, PEER, System
from benchmarks.workloads.chain import NODES, build, threads

BASELINE = Path(__file__).with_name("baseline.json")
KINDS = ("none", "memory", "sqlite")
# So that nothing runs beside the superstep.
OPTIONS = {"sqlite": {"durability": "sync"}}
FEW, MANY = 2, 22
# A change of the count by more than this part is worth a look, and makes the comparison fail.
TOLERANCE = 0.03


def run_chain(package: str, kind: str, times: int) -> None:
    """What callgrind watches."""
    with tempfile.TemporaryDirectory() as folder, saver(System(package, Path(folder)), kind) as opened:
        graph = build(System(package, Path()), asynchronous=False).compile(checkpointer=opened)
        configs = threads()
        for _ in range(times):
            assert graph.invoke({"n": 0}, next(configs), **OPTIONS.get(kind, {})) == {"n": NODES}


def instructions(package: str, kind: str) -> int:
    """Instructions of one superstep."""
    run_chain(package, kind, 1)  # compiles what was edited, so that no counted process has to
    return (_counted(package, kind, MANY) - _counted(package, kind, FEW)) // (MANY - FEW) // NODES


def _counted(package: str, kind: str, times: int) -> int:
    program = f"from benchmarks.instructions import run_chain; run_chain({package!r}, {kind!r}, {times})"
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or found is None:
        raise SystemExit(f"callgrind counted nothing:\n{done.stderr}")
    return int(found[1])


def measured(packages: list[str]) -> dict[str, Any]:
    """The counts of this interpreter, in the form of the baseline."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "unit": "instructions a superstep, 50-node chain, blocking calls",
        **{package: {kind: instructions(package, kind) for kind in KINDS} for package in packages},
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions", description="see the module")
    parser.add_argument("--record", action="store_true", help="write the baseline, the peer included")
    if parser.parse_args().record:
        BASELINE.write_text(json.dumps(measured([OURS, PEER]), indent=2) + "\n", encoding="utf-8")
        print(BASELINE.read_text(encoding="utf-8"))
        return 0
    return compared()


def compared() -> int:
    """Count anew and print how the counts differ from the baseline; 1 if one has grown by more than the tolerance."""
    return _compare(json.loads(BASELINE.read_text(encoding="utf-8")), measured([OURS]))


def _compare(before: dict[str, Any], now: dict[str, Any]) -> int:
    for key in ("python", "machine"):
        if before[key] != now[key]:
            raise SystemExit(f"the baseline was recorded with {key} {before[key]}, this is {now[key]}")
    worse = 0
    for kind, count in now[OURS].items():
        change = count / before[OURS][kind] - 1
        worse += change > TOLERANCE
        print(f"chain.{kind}: {count:,} instructions a superstep, {change:+.1%}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
