"""One workload of one system in this fresh process; prints its figures as one line of JSON."""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from pathlib import Path

import benchmarks.workloads  # noqa: F401  enters the workloads into the table
from benchmarks import counting
from benchmarks.registry import WORKLOADS
from benchmarks.systems import System


def main(package: str, name: str) -> None:
    """Runs workload ``name`` of ``package`` in a folder that is removed afterwards."""
    if counting.enabled():
        counting.prepare()
    if name not in WORKLOADS:  # libraries that most programs do not load stay out of the other processes
        importlib.import_module(f"benchmarks.{name.partition('.')[0]}")
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        figures = WORKLOADS[name].measure(System(package, Path(folder)))
    print(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])
