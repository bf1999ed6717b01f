"""``threadmark prune``: removes old checkpoints, thread by thread."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, Final, Literal, TypeAlias

import typer
from rich.console import Console

from threadmark.checkpoint.base import PrunedThread, PruneReport
from threadmark.checkpoint.serde.view import ViewSerializer
from threadmark.cli.files import Db, DbOption, Json, Place, advised, database, decrypting, existing, look, opened
from threadmark.cli.patterns import NoMatch, chosen
from threadmark.cli.progress import bar
from threadmark.cli.sizes import plural, size
from threadmark.cli.text import columns, printable, put
from threadmark.errors import DamagedRow, SaverError, UnfinishedPrune

Failure: TypeAlias = dict[str, str]
"""A thread and why it was left as it is."""

FAILED: Final = 1
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

KeepLast = Annotated[
    int | None,
    typer.Option("--keep-last", metavar="N", min=1, help="The newest N of each namespace stay.", show_default=False),
]
OlderThan = Annotated[
    str | None,
    typer.Option(
        "--older-than", metavar="AGE", help="Younger ones stay: 90s, 30m, 12h, 30d or 8w.", show_default=False
    ),
]
OneNamespace = Annotated[
    str | None,
    typer.Option("--ns", metavar="NS", help="Only this namespace; '' for the graph's own.", show_default=False),
]
Threads = Annotated[
    list[str] | None,
    typer.Option("--thread", metavar="PATTERN", help="Only these, such as 'user-*'. May be repeated."),
]
Strategy = Annotated[
    Literal["keep_latest", "delete"],
    typer.Option("--strategy", help="delete removes whole threads, and needs --thread."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Tell what would be removed, change nothing.")]


class NothingPruned(SaverError):
    """Not one thread could be read, or changed."""

    def __init__(self, place: Place, failed: list[Failure]) -> None:
        reasons = list(dict.fromkeys(failure["error"] for failure in failed))
        more = f" (and {plural(len(reasons) - 1, 'other reason')})" if len(reasons) > 1 else ""
        what = f"none of its {len(failed)} threads" if len(failed) > 1 else f"thread {failed[0]['thread']!r}"
        verb = "could" if len(failed) > 1 else "could not"
        super().__init__(f"{place}: nothing was removed, {what} {verb} be read or changed: {reasons[0]}{more}")


def prune(
    db: Db = None,
    db_option: DbOption = None,
    *,
    keep_last: KeepLast = None,
    older_than: OlderThan = None,
    ns: OneNamespace = None,
    thread: Threads = None,
    strategy: Strategy = "keep_latest",
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Remove old checkpoints. The newest of each thread stays, and what open questions and kept checkpoints need.

    Say what to keep: --keep-last, --older-than, or both: then only what is both beyond the last N and older goes. Each
    thread is pruned in one transaction: stopped at any moment, run it again and it goes on.

    Example: threadmark prune checkpoints.db --keep-last 50 --dry-run
    """
    rules = _rules(keep_last, older_than, ns, thread, strategy)
    place = existing(database(db, db_option))

    def work(saver: Any, _: object = None) -> tuple[list[PrunedThread], list[Failure], list[str]]:
        wanted, unmatched = chosen(saver.thread_ids(), thread or [])
        if unmatched and not wanted:
            raise NoMatch(unmatched, str(place), "threads")
        return *_each(saver, wanted, {**rules, "dry_run": dry_run}), unmatched

    if dry_run:
        done, failed, unmatched = look(place, work)
    else:
        with opened(place, decrypting(ViewSerializer()) or ViewSerializer()) as saver:
            done, failed, unmatched = work(saver)
    report = PruneReport(tuple(done), dry_run)
    if as_json:
        print(json.dumps({"database": str(place), **report.to_dict(), "failed": failed}, indent=2))
    elif done or not failed:
        _show(Console(), place, report, failed)
    if failed and not done:
        raise NothingPruned(place, failed)
    if unmatched:
        raise NoMatch(unmatched, str(place), "threads")
    if failed:
        raise typer.Exit(FAILED)


def _rules(
    keep_last: int | None, older_than: str | None, ns: str | None, thread: list[str] | None, strategy: str
) -> dict[str, Any]:
    """The arguments of the saver's method; nothing is removed for want of a word."""
    if strategy == "delete":
        if keep_last is not None or older_than is not None or ns is not None:
            raise typer.BadParameter(
                "it removes whole threads; leave out --keep-last, --older-than and --ns", param_hint="--strategy"
            )
        if not thread:
            raise typer.BadParameter("name the threads to delete with --thread; '*' for all", param_hint="--strategy")
        return {"strategy": strategy}
    if keep_last is None and older_than is None:
        raise typer.BadParameter("say what to keep: --keep-last N, --older-than AGE, or both")
    return {"keep_last": keep_last, "older_than": None if older_than is None else age(older_than), "ns": ns}


def age(text: str) -> timedelta:
    """An age such as ``30d``."""
    found = re.fullmatch(r"(\d{1,6})([smhdw])", text.strip())
    if found is None:
        raise typer.BadParameter(f"{text!r} is no age; write a number and s, m, h, d or w", param_hint="--older-than")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def _each(saver: Any, thread_ids: Sequence[str], rules: dict[str, Any]) -> tuple[list[PrunedThread], list[Failure]]:
    """Every thread in turn. One that cannot be pruned is left as it is, and told about at the end."""
    done, failed = list[PrunedThread](), list[Failure]()
    with bar() as progress:
        for thread_id in progress.track(thread_ids, description="looking" if rules["dry_run"] else "pruning"):
            try:
                done += saver.prune([thread_id], **rules).threads
            except UnfinishedPrune as error:
                cause = error.__cause__ or error
                if rules["dry_run"] and isinstance(cause, DamagedRow):
                    raise cause from None  # it may be encrypted
                failed.append({"thread": thread_id, "error": advised(cause)})
    return done, failed


def _show(console: Console, place: Place, report: PruneReport, failed: list[Failure]) -> None:
    for failure in failed:
        line = f"thread {failure['thread']!r} was left as it is: {failure['error']}"
        console.print(printable(line), style="red", markup=False, highlight=False, soft_wrap=True)
    changed = [one for one in report.threads if one.checkpoints or one.bytes]
    if changed:
        head = ("thread", "kept", "removed", "tasks", "values", "segments", "bytes")
        rows = [
            (
                one.thread_id,
                *(f"{n:,}" for n in (one.kept, one.checkpoints, one.tasks, one.values, one.segments)),
                size(max(one.bytes, 0)),
            )
            for one in changed
        ]
        put(console, columns(head, rows, right=range(1, len(head))))
    gone, kept = report.total("checkpoints"), report.total("kept")
    verb = "would be" if report.dry_run else "was" if gone == 1 else "were"
    text = f"{place}: {plural(gone, 'checkpoint')} of {plural(len(changed), 'thread')} "
    text += f"{verb} removed"
    text += f", {size(max(report.total('bytes'), 0))}; {plural(kept, 'checkpoint')} {'stays' if kept == 1 else 'stay'}"
    text += f"; {plural(len(failed), 'thread')} could not be pruned" if failed else ""
    console.print(printable(text), markup=False, highlight=False, soft_wrap=True)
