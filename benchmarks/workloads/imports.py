"""What a program pays before its first line: time and memory of an import in an empty process."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial

from benchmarks.counting import enabled
from benchmarks.registry import Figures, Workload, enter_all
from benchmarks.systems import System

SETS = {
    "graph": ("graph",),
    "graph+memory": ("graph", "checkpoint.memory"),
    "graph+sqlite": ("graph", "checkpoint.sqlite"),
}
# The harness itself loads much that a system would otherwise have to load, so it must not be in the process.
TIMING = """
import time
cpu, wall = time.process_time(), time.perf_counter()
import {modules}
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
import json, os, resource, sys
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
if os.path.exists("/proc/self/status"):  # what getrusage says is never less than the parent process had
    (line,) = (line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
    peak = int(line.split()[1]) * 1024
print(json.dumps({{"wall ms": wall * 1e3, "cpu ms": cpu * 1e3, "memory MB": peak / 1e6}}))
"""
COUNTING = """
import {modules}, json, sys
print(json.dumps({{"modules": len(sys.modules)}}))
"""


def measure(system: System, *, modules: tuple[str, ...]) -> Figures:
    names = ", ".join(f"{system.package}.{module}" for module in modules)
    program = (COUNTING if enabled() else TIMING).format(modules=names)
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    figures: Figures = json.loads(done.stdout)
    return figures


enter_all(
    tuple(
        Workload(
            f"import.{name}",
            partial(measure, modules=modules),
            f"imports {' and '.join(modules)}",
            goals={"wall ms": 5, "memory MB": 2},
        )
        for name, modules in SETS.items()
    )
)
