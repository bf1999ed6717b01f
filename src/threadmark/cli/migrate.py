"""``threadmark migrate``: copies threads from one store to another, and compares every value."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from dataclasses import asdict
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from threadmark.checkpoint.names import without_secrets
from threadmark.cli.files import Json
from threadmark.cli.patterns import NoMatch, chosen
from threadmark.cli.progress import bar
from threadmark.cli.sizes import plural
from threadmark.cli.stores import Allow, serializer
from threadmark.cli.text import printable
from threadmark.errors import SaverError
from threadmark.interop.migration import Outcome
from threadmark.interop.migration import migrate as migrated
from threadmark.interop.stores import check_pair, has_tables, open_source, open_target

FAILED: Final = 1

Source = Annotated[str, typer.Argument(metavar="SOURCE", help="A path or URL, of LangGraph's tables or of a saver.")]
Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET", help="A path or URL; langgraph+sqlite:///PATH or langgraph+postgresql://... for LangGraph."
    ),
]
Threads = Annotated[
    list[str] | None,
    typer.Option("--thread", metavar="PATTERN", help="Only these, such as 'user-*'. May be repeated."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Read and check everything, store nothing.")]
Replace = Annotated[bool, typer.Option("--replace", help="Replace threads that the target has with other content.")]


def migrate(
    source: Source,
    target: Target,
    *,
    thread: Threads = None,
    allow: Allow = None,
    dry_run: DryRun = False,
    replace: Replace = False,
    as_json: Json = False,
) -> None:
    """Copy threads into another store, one after the other, each compared value by value afterwards.

    The source is only read. Stopped at any moment, by Ctrl-C or kill -9, it goes on where it was when it is started
    again. Values of classes that are not named with --allow go along as the bytes that they are.

    Example: threadmark migrate langgraph.db threads.db
    """
    serde = serializer(allow)
    try:
        check_pair(source, target)
        with closing(open_source(source, serde)) as opened:
            threads, unmatched = chosen(opened.thread_ids(), thread or [])
            if unmatched and not threads:  # no target is made for a source that has nothing for it, or that fails
                raise NoMatch(unmatched, without_secrets(source), "doctor")
            with closing(_target(target, serde, dry_run)) as made:
                done = _each(opened, made, threads, dry_run, replace)
    except (OSError, ImportError, ValueError) as error:
        raise SaverError(str(error)) from error
    if as_json:
        told = {"source": without_secrets(source), "target": without_secrets(target), "dry_run": dry_run}
        print(json.dumps({**told, "threads": [asdict(one) for one in done]}, indent=2))
    else:
        _show(Console(), source, target, done)
    if unmatched:
        raise NoMatch(unmatched, without_secrets(source), "doctor")
    if any(one.state == "failed" for one in done):
        raise typer.Exit(FAILED)


class _Nowhere:
    """The target of a dry run that is not there yet."""

    def has(self, thread_id: str) -> bool:
        return False

    def close(self) -> None:
        pass


def _target(name: str, serde: Any, dry_run: bool) -> Any:
    """The store to write to. A dry run makes no file and no tables that are not there."""
    return _Nowhere() if dry_run and not has_tables(name) else open_target(name, serde)


def _each(source: Any, target: Any, threads: list[str], dry_run: bool, replace: bool) -> list[Outcome]:
    with bar() as progress:
        outcomes = migrated(source, target, threads, dry_run=dry_run, replace=replace)
        return list(progress.track(outcomes, total=len(threads), description="reading" if dry_run else "copying"))


def _show(console: Console, source: str, target: str, done: list[Outcome]) -> None:
    def put(line: str, style: str = "") -> None:
        console.print(printable(line), style=style, markup=False, highlight=False, soft_wrap=True)

    for one in done:
        for problem in one.problems:
            put(f"thread {one.thread_id!r} was left out: {problem}", "red")
    classes = Counter(name for one in done for name in one.classes)
    for name, count in sorted(classes.items()):
        put(f"{name.replace(':', '.')}: not known here, taken along as bytes in {plural(count, 'thread')}", "yellow")
    orphans = sum(one.orphans for one in done)
    if orphans:
        put(f"{plural(orphans, 'write')} of checkpoints that are not there: left behind", "yellow")
    states = Counter(one.state for one in done)
    told = ", ".join(f"{count} {state}" for state, count in states.items()) or "none"
    values = sum(one.values for one in done if one.state in ("copied", "there already"))
    put(f"{without_secrets(source)} -> {without_secrets(target)}: {plural(len(done), 'thread')}: {told}")
    if values:
        put(f"{plural(values, 'value')} compared, all equal")
