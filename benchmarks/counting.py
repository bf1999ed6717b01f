"""Counting what SQLite does: write transactions by its own log, flushes to the disk by a preloaded counter.

Both are counted from outside and in a run of their own, so that neither system can hold anything back and the
timed runs carry no instruments.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sqlite3
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.clock import stored
from benchmarks.registry import Figures

COUNTING = "BENCHMARKS_COUNT"
COUNTER = """
#define _GNU_SOURCE
#include <dlfcn.h>
static long flushes;
long benchmark_flushes(void) { return __atomic_load_n(&flushes, __ATOMIC_SEQ_CST); }
#define COUNT(name) int name(int file) { \\
    static int (*real)(int); if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, #name); \\
    __atomic_add_fetch(&flushes, 1, __ATOMIC_SEQ_CST); return real(file); }
COUNT(fsync)
COUNT(fdatasync)
"""
WAL_HEADER, FRAME_HEADER = 32, 24


def enabled() -> bool:
    """Is this process the one that counts?"""
    return COUNTING in os.environ


def environment(folder: Path) -> dict[str, str]:
    """The environment of a counting child; without a C compiler flushes are not counted."""
    found = {**os.environ, COUNTING: "1"}
    library = folder / "counter.so"
    source = folder / "counter.c"
    compiler = shutil.which("cc")
    if compiler is not None:
        source.write_text(COUNTER, encoding="ascii")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        found["LD_PRELOAD"] = str(library)
    return found


def prepare() -> None:
    """From now on every new connection keeps its log, so that the log can be read as a record."""
    connect = sqlite3.connect

    def connect_and_keep_log(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **kwargs)
        connection.execute("PRAGMA wal_autocheckpoint=0")
        return connection

    sqlite3.connect = connect_and_keep_log  # type: ignore[assignment]


@contextmanager
def weighed(database: Path, *, runs: int, parts: int) -> Iterator[Figures]:
    """Yields the figures that hold, after the block, commits and flushes per run and bytes per part."""
    figures: Figures = {}
    bytes_before, commits, flushes = stored(database), _commits(database), _flushes()
    yield figures
    figures["commits/run"] = (_commits(database) - commits) / runs
    if flushes is not None:
        figures["fsyncs/run"] = ((_flushes() or 0) - flushes) / runs
    figures["bytes/superstep"] = (stored(database) - bytes_before) / runs / parts


def _flushes() -> int | None:
    counter = getattr(ctypes.CDLL(None), "benchmark_flushes", None)
    if counter is None:
        return None
    counter.restype = ctypes.c_long
    return int(counter())


def _commits(database: Path) -> int:
    """Committed write transactions in the log: frames that name the size of the database after a commit."""
    log = database.with_name(f"{database.name}-wal")
    if not log.exists():
        return 0
    data = log.read_bytes()
    if len(data) < WAL_HEADER:
        return 0
    page_size, salt = struct.unpack(">8xI4x8s", data[:24])
    commits = 0
    for at in range(WAL_HEADER, len(data) - FRAME_HEADER - page_size + 1, FRAME_HEADER + page_size):
        size_after, frame_salt = struct.unpack(">4xI8s", data[at : at + 16])
        if frame_salt == salt:
            commits += size_after != 0
    return commits
