"""Reading a SQLite file, whoever writes to it meanwhile, so that nothing is made or changed: not beside it either."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.parse import quote

__all__ = ["Way", "beside", "is_resting", "marks", "size_of", "way_into"]


class Way(NamedTuple):
    """How to open a file."""

    uri: str
    """For ``sqlite3.connect(uri, uri=True)``."""
    is_still: bool
    """Whether it is read as a file that nobody changes: compare its ``marks`` before and after."""


@contextmanager
def way_into(path: Path) -> Iterator[Way]:
    """The way that leaves no trace, good for as long as the block lasts.

    In WAL mode SQLite needs two files beside the database, and makes them even for a reader. Where there are none,
    nobody has the database open: it is read as one that does not change. Where one is missing, a copy is read.
    """
    log, index = beside(path)
    if is_resting(path):
        yield Way(_uri(path, "&immutable=1"), True)
    elif index.exists():
        yield Way(_uri(path), False)
    else:
        with TemporaryDirectory(prefix="threadmark-") as folder:
            copy = Path(folder, path.name)
            shutil.copyfile(path, copy)
            shutil.copyfile(log, beside(copy)[0])
            yield Way(_uri(copy), False)


def _uri(path: Path, how: str = "") -> str:
    return f"file:{quote(os.path.abspath(path))}?mode=ro{how}"


def beside(path: Path) -> tuple[Path, Path]:
    """The log of a database in WAL mode, and the index of the log."""
    return path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")


def is_resting(path: Path) -> bool:
    """Whether all there is stands in the main file, and no process has it open for writing."""
    log, _ = beside(path)
    return not log.exists() or log.stat().st_size == 0


def size_of(path: Path) -> int:
    """Bytes of a database, its log included."""
    log, _ = beside(path)
    return path.stat().st_size + (log.stat().st_size if log.exists() else 0)


def marks(path: Path) -> tuple[object, ...]:
    """What differs after somebody has written to the database."""
    about = path.stat()
    return about.st_mtime_ns, about.st_size, about.st_ino, is_resting(path)
