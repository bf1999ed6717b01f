"""``threadmark rekey``: encrypts what a file holds with a new key, thread by thread."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from threadmark.checkpoint.rekeying import Rekeyed
from threadmark.checkpoint.serde.encrypted import (
    KEY_VARIABLES,
    OLD_KEYS_VARIABLE,
    EncryptedSerializer,
    checked_key,
    key_in,
    old_keys_in_environment,
)
from threadmark.cli.files import Db, DbOption, Json, Place, database, existing, opened
from threadmark.cli.progress import bar
from threadmark.cli.sizes import plural
from threadmark.cli.text import printable
from threadmark.errors import ThreadmarkError

FAILED: Final = 1
_SECURE_DELETE: Final = "PRAGMA secure_delete = ON"
_EMPTY_LOG: Final = "PRAGMA wal_checkpoint(TRUNCATE)"

Key = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="FILE|env:NAME",
        help=f"Where the new key is; default: ${KEY_VARIABLES[0]} or ${KEY_VARIABLES[1]}.",
        show_default=False,
    ),
]
OldKey = Annotated[
    list[str] | None,
    typer.Option(
        "--old-key",
        metavar="FILE|env:NAME",
        help=f"Where a key is that rows may be under now; may be repeated. Default: ${OLD_KEYS_VARIABLE}.",
        show_default=False,
    ),
]
Name = Annotated[str, typer.Option("--name", metavar="NAME", help="What the program calls the new key in from_keys().")]
FromPlain = Annotated[bool, typer.Option("--from-plain", help="Encrypt threads that were never encrypted, too.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Read and check everything, change nothing.")]


class NoKey(ThreadmarkError):
    """A key that was named is not there, or is none."""


def rekey(
    db: Db = None,
    db_option: DbOption = None,
    *,
    key: Key = None,
    old_key: OldKey = None,
    name: Name = "",
    from_plain: FromPlain = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Encrypt every row of a database with a new key.

    Each thread is changed in one transaction and read back before that ends: stopped at any moment, by Ctrl-C or
    kill -9, a thread is under its old keys or under the new one. Run it again and it goes on. Keys are read from files
    or environment variables, never from the command line.

    Example: threadmark rekey checkpoints.db --key new.key --old-key old.key
    """
    path = existing(database(db, db_option))
    serde = _serializer(key, old_key or (), name)
    failed: list[dict[str, str]] = []
    with _opened(path, serde, dry_run=dry_run) as saver:
        done = _each(saver, from_plain, dry_run, failed)
        if not dry_run and isinstance(path, Path):
            saver.conn.execute(_EMPTY_LOG)  # old ciphertext stands in there, too
    if as_json:
        print(json.dumps(_told(path, done, failed, dry_run), indent=2))
    else:
        _show(Console(), path, done, failed, dry_run)
    if failed:
        raise typer.Exit(FAILED)


def _each(saver: Any, from_plain: bool, dry_run: bool, failed: list[dict[str, str]]) -> list[Rekeyed]:
    """Every thread in turn. One that cannot be read is left as it is, and told about at the end."""
    done = []
    with bar() as progress:
        for thread_id in progress.track(saver.thread_ids(), description="checking" if dry_run else "encrypting"):
            try:
                done.append(saver.rekey(thread_id, from_plain=from_plain, dry_run=dry_run))
            except ThreadmarkError as error:
                failed.append({"thread": thread_id, "error": str(error)})
    return done


@contextmanager
def _opened(path: Place, serde: Any, *, dry_run: bool) -> Iterator[Any]:
    with opened(path, serde, read_only=dry_run) as saver:
        if isinstance(path, Path) and not dry_run:
            saver.conn.execute(_SECURE_DELETE)  # else rows under the old key stay in the file's free pages
        yield saver


# -- keys ------------------------------------------------------------------------------------------------------------


def _serializer(key: str | None, old: Sequence[str], name: str) -> EncryptedSerializer:
    try:
        new = _key_from(key) if key is not None else _from_environment()
        retired = tuple(map(_key_from, old)) if old else old_keys_in_environment()
        return EncryptedSerializer.from_keys({name: new}, retired=retired)
    except (ValueError, ImportError) as error:
        raise NoKey(str(error)) from error


def _from_environment() -> bytes:
    variable = next((each for each in KEY_VARIABLES if os.environ.get(each)), None)
    if variable is None:
        raise NoKey(f"name the new key's file with --key, or put the key into {KEY_VARIABLES[0]}")
    return key_in(variable)


def _key_from(source: str) -> bytes:
    """The key in a file, or in the variable of ``env:NAME``. A line break at a file's end is no part of it."""
    if source.startswith("env:"):
        return key_in(source.removeprefix("env:"))
    try:
        data = Path(source).read_bytes()
    except OSError as error:
        # It may be a key that somebody wrote onto the command line: it is not shown again.
        raise NoKey(
            f"the file that an option names cannot be read ({error.strerror}); --key and --old-key take a file with a "
            f"key of 16, 24 or 32 bytes, or env:NAME"
        ) from error
    return checked_key(data if len(data) in (16, 24, 32) else data.rstrip(b"\r\n"), f"{source} has")


# -- telling ---------------------------------------------------------------------------------------------------------


def _told(path: Place, done: list[Rekeyed], failed: list[dict[str, str]], dry_run: bool) -> dict[str, Any]:
    return {
        "database": str(path),
        "dry_run": dry_run,
        "threads": len(done) + len(failed),
        "changed": [each.thread_id for each in done if each.old],
        "rows": sum(each.rows for each in done),
        "changed_rows": sum(each.rows for each in done if each.old),
        "failed": failed,
    }


def _show(console: Console, path: Place, done: list[Rekeyed], failed: list[dict[str, str]], dry_run: bool) -> None:
    changed = [each for each in done if each.old]
    for failure in failed:
        line = f"thread {failure['thread']!r} was left as it is: {failure['error']}"
        console.print(printable(line), style="red", markup=False, highlight=False, soft_wrap=True)
    if not changed and not failed:
        text = f"{path}: all {plural(len(done), 'thread')} are under the new key already"
    else:
        rows = plural(sum(each.rows for each in changed), "row")
        verb = "would be" if dry_run else "were"
        text = f"{path}: {rows} of {plural(len(changed), 'thread')} {verb} encrypted with the new key"
        text += f", {len(done) - len(changed)} threads are under it already"
        text += f", {len(failed)} cannot be read" if failed else ""
    console.print(printable(text), markup=False, highlight=False, soft_wrap=True)
