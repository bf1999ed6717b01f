"""Measuring inside one process: time of repeated runs, memory, and the size of a database file."""

from __future__ import annotations

import resource
import sqlite3
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.registry import Figures

# A measurement goes on until it has lasted this long, in seconds, and has at least this many runs.
LONG_ENOUGH = 0.4
FEWEST = 5


def repeated(run: Callable[[], object], *, parts: int, what: str) -> Figures:
    """Median wall and processor time of ``run``, divided by its ``parts``, in microseconds; one warm-up."""
    run()
    walls: list[float] = []
    cpus: list[float] = []
    began = time.perf_counter()
    while len(walls) < FEWEST or time.perf_counter() - began < LONG_ENOUGH:
        cpu, wall = time.process_time(), time.perf_counter()
        run()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return _per_part(walls, cpus, parts, what)


async def repeated_async(run: Callable[[], Awaitable[object]], *, parts: int, what: str) -> Figures:
    """The same as :func:`repeated` on the running event loop."""
    await run()
    walls: list[float] = []
    cpus: list[float] = []
    began = time.perf_counter()
    while len(walls) < FEWEST or time.perf_counter() - began < LONG_ENOUGH:
        cpu, wall = time.process_time(), time.perf_counter()
        await run()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return _per_part(walls, cpus, parts, what)


def _per_part(walls: list[float], cpus: list[float], parts: int, what: str) -> Figures:
    scale = 1e6 / parts
    return {
        f"wall us/{what}": statistics.median(walls) * scale,
        f"cpu us/{what}": statistics.median(cpus) * scale,
    }


def milliseconds(run: Callable[[], object], *, times: int = 7) -> float:
    """Median wall time of one ``run`` in milliseconds."""
    walls = []
    for _ in range(times):
        began = time.perf_counter()
        run()
        walls.append(time.perf_counter() - began)
    return statistics.median(walls) * 1e3


def resident() -> float:
    """Memory of this process now, in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


def peak() -> float:
    """The most memory that this process ever had, in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # what getrusage says is never less than the parent process had when it started this one
        (line,) = (line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def stored(database: Path) -> int:
    """Bytes of the file once all that was committed has moved into it."""
    connection = sqlite3.connect(database)
    try:
        busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert not busy, "the log could not be moved into the file: someone still reads it"
    finally:
        connection.close()
    return database.stat().st_size
