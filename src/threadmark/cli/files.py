"""The database that a command looks at: how it is named, and how it is read without touching it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import quote

import typer

from threadmark.checkpoint.serde.encrypted import KEY_VARIABLES, EncryptedSerializer
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.cli.meter import Meter
from threadmark.errors import DamagedRow, SaverError, ThreadNotFound

T = TypeVar("T")

VARIABLE: Final = "THREADMARK_DB"
ATTEMPTS: Final = 5
"""How often a file is read anew because another process began to write to it meanwhile."""

Db = Annotated[
    Path | None,
    typer.Argument(metavar="DB", help=f"The SQLite file; else --db, else ${VARIABLE}.", show_default=False),
]
DbOption = Annotated[Path | None, typer.Option("--db", metavar="FILE", help="The same by option.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Namespace = Annotated[str, typer.Option("--ns", metavar="NS", help="A sub-graph's namespace; default: the root.")]


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


# -- which file ------------------------------------------------------------------------------------------------------


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


# -- reading it ------------------------------------------------------------------------------------------------------


def look(path: Path, read: Callable[[SqliteSaver, Meter], T]) -> T:
    """What ``read`` finds in the database, while others write it or not. No file is made or changed, not beside it
    either."""
    if not path.exists():
        raise NoDatabase(path, "does not exist")
    if not path.is_file():
        raise NoDatabase(path, "is not a file")
    meter = Meter()
    try:
        return _read(path, lambda saver: read(saver, meter), meter)
    except DamagedRow as error:
        # Encrypted rows look like damaged ones to whoever has no key.
        serde = _decrypting(meter)
        if serde is None:
            raise DamagedRow(f"{error}; if the file is encrypted, put its key into {KEY_VARIABLES[0]}") from error
        return _read(path, lambda saver: read(saver, meter), serde)


def _decrypting(meter: Meter) -> EncryptedSerializer | None:
    """The same view through the key in the environment; None if there is no key."""
    if not any(os.environ.get(name) for name in KEY_VARIABLES):
        return None
    try:
        return EncryptedSerializer.from_pycryptodome_aes(serde=meter)
    except (ValueError, ImportError) as error:
        raise SaverError(str(error)) from error


def _read(path: Path, read: Callable[[SqliteSaver], T], serde: Any) -> T:
    """Read again if another process began to write meanwhile."""
    for _ in range(ATTEMPTS):
        before = _marks(path)
        try:
            with _opened(path, serde) as saver:
                found = read(saver)
        except Exception:
            if _marks(path) == before:
                raise
            continue
        if not _resting(path) or _marks(path) == before:
            return found
    raise NoDatabase(path, "changes too quickly to be read at rest; try again")


@contextmanager
def _opened(path: Path, serde: Any) -> Iterator[SqliteSaver]:
    """The database by the way that leaves no trace.

    In WAL mode SQLite needs two files beside the database, and makes them even for a reader. Where there are none,
    nobody has the database open: it is read as one that does not change. Where one is missing, a copy is read.
    """
    log, index = _beside(path)
    if _resting(path):
        with _reader(path, serde, "&immutable=1") as saver:
            yield saver
    elif index.exists():
        with _reader(path, serde) as saver:
            yield saver
    else:
        with TemporaryDirectory() as folder:
            copy = Path(folder, path.name)
            shutil.copyfile(path, copy)
            shutil.copyfile(log, _beside(copy)[0])
            with _reader(copy, serde) as saver:
                yield saver


def _reader(path: Path, serde: Any, how: str = "") -> SqliteSaver:
    uri = f"file:{quote(os.path.abspath(path))}?mode=ro{how}"
    try:
        return SqliteSaver.open_read_only(uri, serde=serde)
    except SaverError as error:
        raise type(error)(str(error).replace(uri, str(path))) from error


def _beside(path: Path) -> tuple[Path, Path]:
    return path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")


def _resting(path: Path) -> bool:
    """Whether all there is stands in the main file, and no process has it open for writing."""
    log, _ = _beside(path)
    return not log.exists() or log.stat().st_size == 0


def _marks(path: Path) -> tuple[object, ...]:
    """What differs after somebody has written to the database."""
    about = path.stat()
    return about.st_mtime_ns, about.st_size, about.st_ino, _resting(path)
