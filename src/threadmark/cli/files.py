"""The database that a command looks at: how it is named, and how it is opened without touching it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import quote

import typer

from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.cli.meter import Meter
from threadmark.errors import SaverError, ThreadNotFound

VARIABLE: Final = "THREADMARK_DB"

Db = Annotated[
    Path | None,
    typer.Argument(metavar="[DB]", help=f"The SQLite file; else --db, else ${VARIABLE}.", show_default=False),
]
DbOption = Annotated[Path | None, typer.Option("--db", metavar="FILE", help="The same by option.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Namespace = Annotated[
    str, typer.Option("--ns", metavar="NS", help="The namespace of a sub-graph; default: the root's.")
]


class NoDatabase(SaverError):
    """The file that was named cannot be looked at."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path} {what}; nothing was made or changed. Name the SQLite file that a SqliteSaver wrote")
        self.path = path


class NoThread(ThreadNotFound):
    """The database has no such thread, or no such namespace in it."""

    def __init__(self, thread_id: str, ns: str, path: Path) -> None:
        super().__init__(thread_id, ns)
        self.path = path

    def __str__(self) -> str:
        where = f" with namespace {self.ns!r}" if self.ns else ""
        return f"there is no thread {self.thread_id!r}{where} in {self.path}; `threadmark threads` lists what there is"


def database(argument: Path | None, option: Path | None) -> Path:
    """The file that was named, by whatever means."""
    found = option or argument or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if found is None:
        raise typer.BadParameter(f"name the SQLite file as DB, with --db, or in ${VARIABLE}")
    return found


def thread_and_database(thread: str, argument: Path | None, option: Path | None) -> tuple[str, Path]:
    """What two arguments mean; ``DB THREAD`` is understood as well as ``THREAD DB``."""
    if option is None and argument is not None and not argument.exists() and Path(thread).is_file():
        return str(argument), Path(thread)
    return thread, database(argument, option)


@contextmanager
def opened(path: Path) -> Iterator[tuple[SqliteSaver, Meter]]:
    """The database for reading, while others write it or not; no file is made beside it."""
    if not path.exists():
        raise NoDatabase(path, "does not exist")
    if not path.is_file():
        raise NoDatabase(path, "is not a file")
    meter = Meter()
    with SqliteSaver.open_read_only(_uri(path), serde=meter) as saver:
        yield saver, meter


def _uri(path: Path) -> str:
    """How to open a file without a trace.

    In WAL mode SQLite makes two files beside the database even for a reader, unless they are there. When they are
    not, nobody has the database open, and it can be read as one that does not change.
    """
    log = path.with_name(path.name + "-wal")
    resting = not log.exists() or log.stat().st_size == 0
    return f"file:{quote(os.path.abspath(path))}?mode=ro{'&immutable=1' if resting else ''}"
