"""``threadmark doctor``: what a database of LangGraph's holds, what is wrong with it, what it would take here."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from threadmark.checkpoint.names import without_secrets
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.cli.files import Json
from threadmark.cli.progress import bar
from threadmark.cli.sizes import plural, size
from threadmark.cli.stores import Allow, serializer
from threadmark.cli.text import columns, one_line, printable, put
from threadmark.errors import SaverError
from threadmark.interop.doctor import ADVICE, Finding, ThreadReport, examine
from threadmark.interop.own_store import OwnTarget
from threadmark.interop.stores import open_source

FAILED: Final = 1
_SHOWN: Final = 12
"""Rows of each table, and threads named for each kind of finding."""

Store = Annotated[str, typer.Argument(metavar="DB", help="A path or URL of LangGraph's tables, or of a saver.")]


def doctor(db: Store, *, allow: Allow = None, as_json: Json = False) -> None:
    """Examine a database of LangGraph's, without changing it and without running code from it.

    Every value is decoded, and copied into a throw-away SQLite file to measure what it would take here.

    Example: threadmark doctor langgraph.db
    """
    serde = serializer(allow)
    try:
        with closing(open_source(db, serde)) as source, _scratch(serde) as (scratch, path):
            reports = _each(source, scratch)
            scratch.close()
            now, here = source.size(), path.stat().st_size
    except (OSError, ImportError, ValueError) as error:
        raise SaverError(str(error)) from error
    about = _summary(without_secrets(db), reports, now, here)
    if as_json:
        print(json.dumps(about, indent=2))
    else:
        _show(Console(), about)
    if about["unreadable"]:
        raise typer.Exit(FAILED)


@contextmanager
def _scratch(serde: Any) -> Iterator[tuple[OwnTarget, Path]]:
    """An empty store that goes away, encrypted if the source may be."""
    with TemporaryDirectory(prefix="threadmark-doctor-") as folder:
        path = Path(folder, "scratch.db")
        saver = SqliteSaver.from_conn_string(str(path), serde=serde, synchronous="OFF")
        yield OwnTarget(str(path), saver, in_parts=True), path


def _each(source: Any, scratch: OwnTarget) -> list[ThreadReport]:
    with bar() as progress:
        threads = source.thread_ids()
        return list(progress.track(examine(source, scratch), total=len(threads), description="examining"))


def _summary(name: str, reports: list[ThreadReport], now: int | None, here: int) -> dict[str, Any]:
    """Everything about a database, as ``--json`` prints it."""
    channels_now, channels_here = Counter[str](), Counter[str]()
    for one in reports:
        channels_now.update(one.channels_now)
        channels_here.update(one.channels_here)
    findings = [found for one in reports for found in one.findings]
    sealed = [one for one in reports if one.sealed]
    if sealed:
        # A thread wholly in the clear beside encrypted ones is no mixed thread, and counts as well.
        findings += [
            Finding("plaintext", one.thread_id, f"{one.plain} of {one.plain} rows")
            for one in reports
            if one.plain and not one.sealed
        ]
    return {
        "database": name,
        "threads": len(reports),
        "checkpoints": sum(one.checkpoints for one in reports),
        "writes": sum(one.writes for one in reports),
        "values": sum(one.values for one in reports),
        "carried": sum(one.carried for one in reports),
        "unreadable": sum(found.kind == "unreadable" for found in findings),
        "size_now": now,
        "size_here": here,
        "channels": {
            name: {"now": channels_now[name], "here": channels_here[name]}
            for name in sorted(channels_now | channels_here, key=lambda name: -channels_now[name])
        },
        "findings": [asdict(found) for found in findings],
        "by_thread": [
            {"thread": one.thread_id, "checkpoints": one.checkpoints, "writes": one.writes, "stands": one.stands,
             "size_now": one.now, "size_here": one.here}
            for one in reports
        ],
    }  # fmt: skip


def _show(console: Console, about: dict[str, Any]) -> None:
    def line(text: str, style: str = "") -> None:
        console.print(printable(text), style=style, markup=False, highlight=False, soft_wrap=True)

    now, here = about["size_now"], about["size_here"]
    if now is None:  # a store that cannot tell: what its threads take
        now = sum(one["size_now"] for one in about["by_thread"])
    line(
        f"{about['database']}: {plural(about['threads'], 'thread')}, {plural(about['checkpoints'], 'checkpoint')}, "
        f"{plural(about['writes'], 'task write')}"
    )
    line(f"{size(now)} now, {size(here)} here" + (f": {here / now:.1%}" if now else ""), "bold")
    checked = about["values"] - about["carried"]
    line(f"{plural(checked, 'value')} decoded and compared, {about['carried']} of unknown classes carried as bytes")
    channels = [(name or "(checkpoints themselves)", size(each["now"]), size(each["here"]))
                for name, each in about["channels"].items()]  # fmt: skip
    console.print()
    put(console, columns(("channel", "now", "here"), channels[:_SHOWN], right=(1, 2)))
    threads = sorted(about["by_thread"], key=lambda one: -one["size_now"])
    rows = [(one_line(one["thread"], 40), str(one["checkpoints"]), size(one["size_now"]), _size(one["size_here"]),
             one["stands"]) for one in threads[:_SHOWN]]  # fmt: skip
    console.print()
    put(console, columns(("thread", "checkpoints", "now", "here", "stands"), rows, right=(1, 2, 3)))
    if len(threads) > _SHOWN:
        line(f"and {len(threads) - _SHOWN} smaller ones; --json lists all", "dim")
    for kind, meaning in ADVICE.items():
        found = [one for one in about["findings"] if one["kind"] == kind]
        if found:
            console.print()
            line(f"{kind}: {meaning}", "yellow")
            for one in found[:_SHOWN]:
                line(f"  {one_line(one['thread_id'], 40)}  {one['what']}")
            if len(found) > _SHOWN:
                line(f"  and {len(found) - _SHOWN} more", "dim")


def _size(count: int | None) -> str:
    return "" if count is None else size(count)
