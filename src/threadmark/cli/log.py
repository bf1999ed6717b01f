"""``threadmark log``: the history of a thread as a tree."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from threadmark.checkpoint.base import CheckpointTuple
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.cli import pending
from threadmark.cli.files import Db, DbOption, Json, Namespace, NoThread, Place, look, thread_and_database
from threadmark.cli.lanes import draw
from threadmark.cli.meter import Meter
from threadmark.cli.sizes import plural, size
from threadmark.cli.text import columns, moment, put
from threadmark.cli.threads import names

Thread = Annotated[str, typer.Argument(metavar="THREAD", help="The thread's id.", show_default=False)]
Limit = Annotated[
    int | None, typer.Option("--limit", "-n", min=1, help="Only so many of the newest.", show_default=False)
]
SHORT = 8
"""Letters at the end of a checkpoint id that stand for it, unless two ids of the list share them."""


def log(
    thread: Thread,
    db: Db = None,
    db_option: DbOption = None,
    *,
    ns: Namespace = "",
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Show the history of a thread, newest first, with its branches.

    Example: threadmark log my-thread checkpoints.db
    """
    thread_id, path = thread_and_database(thread, db, db_option)
    history, others = look(path, partial(_history, path, thread_id, ns, limit))
    if as_json:
        print(
            json.dumps({"thread": thread_id, "namespace": ns, "namespaces": others, "checkpoints": history}, indent=2)
        )
        return
    console = Console()
    put(console, _lines(history))
    inner = [name for name in others if name != ns]
    if inner:
        put(
            console,
            [Text(f"also: --ns {name}" if name else "also: the root graph, without --ns", "dim") for name in inner],
        )


def _history(
    path: Place, thread_id: str, ns: str, limit: int | None, saver: SqliteSaver, meter: Meter
) -> tuple[list[dict[str, Any]], list[str]]:
    known = next((info for info in saver.list_threads() if info.thread_id == thread_id), None)
    if known is None or ns not in known.namespaces:
        raise NoThread(thread_id, ns, path)
    config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns}}
    return [_about(saved, meter) for saved in saver.list(config, limit=limit)], list(known.namespaces)


def _about(saved: CheckpointTuple, meter: Meter) -> dict[str, Any]:
    """What the log says about a checkpoint. ``size`` is in bytes: its state, or input, as the serializer writes it."""
    values = saved.checkpoint["channel_values"]
    tasks = pending.tasks(saved)
    parent = saved.parent_config["configurable"]["checkpoint_id"] if saved.parent_config else None
    return {
        "checkpoint": saved.checkpoint["id"],
        "parent": parent,
        "step": saved.metadata.get("step"),
        "source": saved.metadata.get("source"),
        "created_at": saved.checkpoint["ts"],
        "next": [task.node for task in tasks if task.node != pending.UNKNOWN],
        "failed": sorted({task.node for task in tasks if task.status == "failed"}),
        "questions": sum(len(task.questions) for task in tasks),
        "size": meter.weigh(value for channel, value in values.items() if pending.is_weighed(channel)),
    }


def _lines(history: Sequence[dict[str, Any]]) -> list[Text]:
    length = shortest([entry["checkpoint"] for entry in history])
    by_id = {entry["checkpoint"]: entry for entry in history}
    rows = []
    for id, graph in draw((entry["checkpoint"], entry["parent"]) for entry in history):
        drawing = Text(graph, "cyan")
        rows.append((drawing, *(_cells(by_id[id], length) if id is not None else [""] * 7)))
    head = ("", "checkpoint", "step", "source", "made (UTC)", "parent", "size", "then")
    return columns(head, rows, right=(2, 6))


def _cells(entry: dict[str, Any], length: int) -> list[str | Text]:
    step, parent = entry["step"], entry["parent"]
    return [
        Text(entry["checkpoint"][-length:], "bold"),
        "" if step is None else str(step),
        str(entry["source"] or ""),
        moment(entry["created_at"]),
        "" if parent is None else parent[-length:],
        size(entry["size"]),
        _then(entry),
    ]


def _then(entry: dict[str, Any]) -> Text:
    """What ran or is to run from a checkpoint, and what stands in the way."""
    text = Text(names(entry["next"]) if entry["next"] else "end", "" if entry["next"] else "dim")
    if entry["questions"]:
        text.append(f"  {plural(entry['questions'], 'open question')}", "yellow")
    if entry["failed"]:
        text.append(f"  failed: {names(entry['failed'])}", "red")
    return text


def shortest(found: Sequence[str]) -> int:
    """How many letters at the end of each id tell them all apart; ``SHORT`` at least."""
    length = SHORT
    while len({id[-length:] for id in found}) < len(found):
        length += 1
    return length
