"""The database that a command looks at: how it is named, and how it is read without touching it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import typer

from threadmark.checkpoint.names import without_secrets
from threadmark.checkpoint.open import open_saver, saver_class
from threadmark.checkpoint.serde.encrypted import KEY_VARIABLES, OLD_KEYS_VARIABLE, EncryptedSerializer
from threadmark.checkpoint.serde.errors import UnknownKey, WrongKey
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.checkpoint.sqlite.saver import path_from
from threadmark.cli.meter import Meter
from threadmark.cli.traceless import is_resting, marks, way_into
from threadmark.errors import DamagedRow, SaverError, ThreadmarkError, ThreadNotFound

T = TypeVar("T")

VARIABLES: Final = ("THREADMARK_DB", "DATABASE_URL")
"""The environment's names for the database, the first that is set counts."""
ATTEMPTS: Final = 5
"""How often a file is read anew because another process began to write to it meanwhile."""

_HELP: Final = "A path of a SQLite file, or any URL that open_saver() takes"
Db = Annotated[
    str | None,
    typer.Argument(
        metavar="DB", help=f"{_HELP}; else --db, else ${VARIABLES[0]} or ${VARIABLES[1]}.", show_default=False
    ),
]
DbOption = Annotated[str | None, typer.Option("--db", metavar="DB", help="The same by option.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Namespace = Annotated[str, typer.Option("--ns", metavar="NS", help="A sub-graph's namespace; default: the root.")]


class Url:
    """The URL of a store that is no SQLite file. As text it shows no user and no password."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return without_secrets(self.text)

    __repr__ = __str__


Place: TypeAlias = Path | Url
"""What a command looks at."""


class WrongCall(ThreadmarkError):
    """What was named on the command line cannot be used for what it was named for: exit status 2."""


class NoDatabase(SaverError):
    """What was named cannot be looked at."""

    def __init__(self, place: Place, what: str) -> None:
        super().__init__(f"{place} {what}; nothing was made or changed. Name the SQLite file that a SqliteSaver wrote")
        self.place = place


class NoThread(ThreadNotFound):
    """The database has no such thread, or no such namespace in it."""

    def __init__(self, thread_id: str, ns: str, place: Place) -> None:
        super().__init__(thread_id, ns)
        self.place = place

    def __str__(self) -> str:
        where = f" with namespace {self.ns!r}" if self.ns else ""
        return f"there is no thread {self.thread_id!r}{where} in {self.place}; `threadmark threads` lists what there is"


# -- which one -------------------------------------------------------------------------------------------------------


def database(argument: str | None, option: str | None) -> Place:
    """The database that was named, by whatever means."""
    found = option or argument or next(filter(None, map(os.environ.get, VARIABLES)), None)
    if found is None:
        raise typer.BadParameter(f"name the database as DB, with --db, or in ${VARIABLES[0]}: a path or a URL")
    return _place(found)


def _place(name: str) -> Place:
    if name.startswith("sqlite://"):
        return Path(path_from(name))
    return Url(name) if "://" in name else Path(name)


def thread_and_database(thread: str, argument: str | None, option: str | None) -> tuple[str, Place]:
    """What two arguments mean; ``DB THREAD`` is understood as well as ``THREAD DB``."""
    swapped = "://" in thread or Path(thread).is_file()
    if option is None and argument is not None and swapped and "://" not in argument and not Path(argument).exists():
        return argument, _place(thread)
    return thread, database(argument, option)


def existing(place: Place) -> Place:
    """The same; ``NoDatabase`` for a path where no file is."""
    if isinstance(place, Path) and not place.is_file():
        raise NoDatabase(place, "is not a file" if place.exists() else "does not exist")
    return place


def opened(place: Place, serde: Any = None, *, read_only: bool = False) -> Any:
    """A saver on an existing database; where nothing is to be changed one that cannot, if its class has such."""
    name = str(place) if isinstance(place, Path) else place.text
    try:
        return open_saver(name, serde=serde, read_only=read_only and hasattr(saver_class(name), "open_read_only"))
    except ValueError as error:
        raise SaverError(str(error)) from error


# -- reading it ------------------------------------------------------------------------------------------------------


def look(place: Place, read: Callable[[Any, Meter], T]) -> T:
    """What ``read`` finds in the database through a saver, while others write it or not.

    Of a SQLite file nothing is made or changed, not beside it either.
    """
    existing(place)
    meter = Meter()
    try:
        return _read(place, lambda saver: read(saver, meter), meter)
    except DamagedRow as error:
        # Encrypted rows look like damaged ones to whoever has no key.
        serde = decrypting(meter)
        if serde is None:
            raise DamagedRow(advised(error)) from error
    try:
        return _read(place, lambda saver: read(saver, meter), serde)
    except (UnknownKey, WrongKey) as error:
        raise SaverError(advised(error)) from error


def advised(error: BaseException) -> str:
    """What an error of reading says, and where commands take keys from if one is missing, or may be."""
    told = str(error)
    if isinstance(error, UnknownKey | WrongKey):
        return f"{told}; commands take it from {KEY_VARIABLES[0]} or {OLD_KEYS_VARIABLE}"
    if isinstance(error, DamagedRow) and not _has_key() and KEY_VARIABLES[0] not in told:
        return f"{told}; if it is encrypted, put its key into {KEY_VARIABLES[0]}"
    return told


def _has_key() -> bool:
    return any(os.environ.get(name) for name in KEY_VARIABLES)


def decrypting(serde: Any) -> EncryptedSerializer | None:
    """The same serializer behind the key in the environment; None if there is no key."""
    if not _has_key():
        return None
    try:
        return EncryptedSerializer.from_pycryptodome_aes(serde=serde)
    except (ValueError, ImportError) as error:
        raise SaverError(str(error)) from error


def _read(path: Place, read: Callable[[Any], T], serde: Any) -> T:
    """Read a file again if another process began to write meanwhile."""
    if isinstance(path, Url):
        with opened(path, serde, read_only=True) as saver:
            return read(saver)
    for _ in range(ATTEMPTS):
        before = marks(path)
        try:
            with _untouched(path, serde) as saver:
                found = read(saver)
        except Exception:
            if marks(path) == before:
                raise
            continue
        if not is_resting(path) or marks(path) == before:
            return found
    raise NoDatabase(path, "changes too quickly to be read at rest; try again")


@contextmanager
def _untouched(path: Path, serde: Any) -> Iterator[SqliteSaver]:
    with way_into(path) as way, opened_quietly(way.uri, path, serde) as saver:
        yield saver


def opened_quietly(uri: str, path: Path | str, serde: Any) -> SqliteSaver:
    """A read-only saver on a file of ours by one of the ways into it; errors name the file."""
    try:
        return SqliteSaver.open_read_only(uri, serde=serde)
    except SaverError as error:
        raise type(error)(str(error).replace(uri, str(path))) from error
