"""``threadmark show``: one checkpoint, with its state, writes, tasks and questions."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.highlighter import ReprHighlighter
from rich.text import Text

from threadmark.checkpoint.base import CheckpointTuple
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.cli import pending
from threadmark.cli.files import Db, DbOption, Json, Namespace, NoThread, look, thread_and_database
from threadmark.cli.meter import Meter
from threadmark.cli.sizes import size
from threadmark.cli.text import moment, one_line, printable
from threadmark.cli.threads import names
from threadmark.cli.values import as_json as plain
from threadmark.cli.values import brief, pretty
from threadmark.errors import SaverError

Name = Annotated[
    str,
    typer.Argument(
        metavar="THREAD[@CHECKPOINT]",
        help="The thread, newest checkpoint; or with @ and an id's beginning or end, an older one.",
        show_default=False,
    ),
]
Full = Annotated[bool, typer.Option("--full", help="Cut nothing short.")]
INFERRED = "read from the stored triggers, without the graph"


class NoCheckpoint(SaverError, LookupError):
    """The text behind @ names no checkpoint of the thread, or several."""

    def __init__(self, thread_id: str, part: str, found: list[str]) -> None:
        what = f"{len(found)} checkpoints: {', '.join(found[:4])}" if found else "no checkpoint"
        super().__init__(f"{part!r} names {what} of thread {thread_id!r}; `threadmark log` lists them with their ids")
        self.found = found


def show(
    name: Name,
    db: Db = None,
    db_option: DbOption = None,
    *,
    ns: Namespace = "",
    full: Full = False,
    as_json: Json = False,
) -> None:
    """Show a checkpoint: state, writes, what is next and which questions are open.

    Example: threadmark show my-thread@ca86d9ae checkpoints.db
    """
    name, path = thread_and_database(name, db, db_option)
    about = look(path, partial(_about, path, name, ns))
    if as_json:
        print(json.dumps(plain(about), indent=2))
    else:
        _print(Console(), about, full=full)


# -- finding ---------------------------------------------------------------------------------------------------------


def _split(saver: SqliteSaver, meter: Meter, name: str, ns: str, path: Path) -> tuple[str, str | None]:
    """Thread and checkpoint. A thread id may hold an @ itself: the whole name is tried first."""
    known = {info.thread_id for info in saver.list_threads()}
    thread_id, at, part = name.rpartition("@")
    if name in known:
        return name, None
    if not at or thread_id not in known:
        raise NoThread(thread_id if at else name, "", path)
    config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns}}
    ids = []
    for saved in saver.list(config):
        ids.append(saved.checkpoint["id"])
        meter.forget()
    found = [id for id in ids if id == part] or [id for id in ids if id.startswith(part) or id.endswith(part)]
    if len(found) != 1 or not part:
        raise NoCheckpoint(thread_id, part, found)
    return thread_id, found[0]


def _about(path: Path, name: str, ns: str, saver: SqliteSaver, meter: Meter) -> dict[str, Any]:
    """Everything about a checkpoint, with values as plain data."""
    thread_id, id = _split(saver, meter, name, ns, path)
    config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns}}
    newest = saver.get_tuple(config)
    saved = newest if id is None else saver.get_tuple({"configurable": {**config["configurable"], "checkpoint_id": id}})
    if saved is None or newest is None:
        raise NoThread(thread_id, ns, path)
    state = {key: value for key, value in saved.checkpoint["channel_values"].items() if pending.is_state(key)}
    weight = meter.weigh(value for key, value in saved.checkpoint["channel_values"].items() if pending.is_weighed(key))
    tasks = pending.tasks(saved)
    is_newest = saved.checkpoint["id"] == newest.checkpoint["id"]
    due = [task.node for task in tasks if task.node != pending.UNKNOWN]
    parent = saved.parent_config["configurable"]["checkpoint_id"] if saved.parent_config else None
    return {
        "thread": thread_id,
        "namespace": ns,
        "checkpoint": saved.checkpoint["id"],
        "parent": parent,
        "newest": is_newest,
        "step": saved.metadata.get("step"),
        "source": saved.metadata.get("source"),
        "created_at": saved.checkpoint["ts"],
        "size": weight,
        "metadata": dict(saved.metadata),
        "values": state["__root__"] if list(state) == ["__root__"] else state,
        "writes": _writes(saver, saved),
        "next": pending.to_run(tasks) if is_newest else due,
        "next_is": INFERRED,
        "tasks": [_task(task) for task in tasks],
        "interrupts": [
            {"id": q.id, "node": task.node, "value": q.value, "response_schema": q.response_schema}
            for task in tasks
            for q in task.questions
        ],
    }


def _writes(saver: SqliteSaver, saved: CheckpointTuple) -> Any:
    """What was written to get here: the input, or the outputs of the tasks that ran from the parent, by node."""
    source = saved.metadata.get("source")
    if source == "input":
        return saved.checkpoint["channel_values"].get("__start__")
    if source == "fork":
        return None
    shown = saved.shown_writes
    if shown is not None:
        return shown["writes"] if isinstance(shown, dict) and "writes" in shown else shown
    parent = saver.get_tuple(saved.parent_config) if saved.parent_config else None
    return (pending.outputs(pending.tasks(parent)) if parent is not None else None) or None


def _task(task: pending.Task) -> dict[str, Any]:
    return {
        "id": task.id,
        "node": task.node,
        "status": task.status,
        "sent": task.sent,
        "error": task.error,
        "output": pending.output(task.writes),
    }


# -- printing --------------------------------------------------------------------------------------------------------

_STYLES = {"failed": "red", "asks": "yellow", "waiting": "dim", "finished": "green"}
"""How each status looks, those first that people look for."""
_MANY_TASKS = 20
WIDTH = 160
"""Columns that values are laid out in where there is no terminal."""


def _print(console: Console, about: dict[str, Any], *, full: bool) -> None:
    _head(console, about)
    if about["interrupts"]:
        _title(console, "Open questions")
        for question in about["interrupts"]:
            name = Text(f"  {printable(question['node'])}  ", "yellow")
            console.print(name + Text(printable(question["id"]), "dim"), soft_wrap=True)
            _indented(console, question["value"], 4, full=full)
    if about["tasks"]:
        counts = Counter(task["status"] for task in about["tasks"])
        told = ", ".join(f"{counts[status]} {status}" for status in _STYLES if counts[status])
        _title(console, "Tasks from here", f"{told}; {INFERRED}")
        _tasks(console, about["tasks"], full=full)
    _title(console, "State", f"{size(about['size'])} as stored")
    _value(console, about["values"], full=full)
    _title(console, "Written to get here")
    _value(console, about["writes"], full=full)


def _head(console: Console, about: dict[str, Any]) -> None:
    following = names(about["next"], 100) or "nothing: the run has finished"
    rows = {
        "thread": about["thread"] + (f"  namespace {about['namespace']}" if about["namespace"] else ""),
        "checkpoint": about["checkpoint"] + ("  (the newest)" if about["newest"] else ""),
        "parent": about["parent"] or "none",
        "step": f"{about['step']}  from {about['source']}",
        "made": f"{moment(about['created_at'])} UTC",
        "next": following,
    }
    own = {key: value for key, value in about["metadata"].items() if key not in ("step", "source", "parents")}
    rows.update({key: one_line(brief(value), 100) for key, value in own.items()})
    width = max(map(len, rows)) + 2
    for label, value in rows.items():
        console.print(Text(printable(label).ljust(width), "dim") + Text(printable(str(value))), soft_wrap=True)


def _tasks(console: Console, tasks: list[dict[str, Any]], *, full: bool) -> None:
    ranked = sorted(tasks, key=lambda task: list(_STYLES).index(task["status"]))
    shown = ranked if full else ranked[:_MANY_TASKS]
    for task in shown:
        line = Text(f"  {task['status']:<9}", _STYLES[task["status"]]) + Text(printable(task["node"]))
        notes = [task["error"], None if task["sent"] is None else f"sent {brief(task['sent'])}"]
        if task["output"] is not None:
            notes.append(f"wrote {brief(task['output'])}")
        for note in (note for note in notes if note):
            line.append(
                "  " + (printable(note) if full else one_line(note, 70)), "red" if note == task["error"] else "dim"
            )
        console.print(line, soft_wrap=True, highlight=False)
    if len(shown) < len(tasks):
        console.print(Text(f"  and {len(tasks) - len(shown)} more; --full shows them", "dim"))


def _title(console: Console, text: str, note: str = "") -> None:
    console.print()
    console.print(Text(text, "bold") + Text(f"  {note}" if note else "", "dim"), soft_wrap=True)


def _value(console: Console, value: Any, *, full: bool) -> None:
    if not isinstance(value, dict) or not value:
        console.print(Text("  nothing", "dim")) if value in (None, {}) else _indented(console, value, 2, full=full)
        return
    width = min(max(len(printable(str(key))) for key in value), 24)
    for key, member in value.items():
        label = Text(f"  {printable(str(key)).ljust(width)}", "cyan")
        lines = _laid_out(console, member, full=full)
        if len(lines) == 1:
            console.print(label + Text("  ") + _highlighted(lines[0]), soft_wrap=True)
        else:
            console.print(label, soft_wrap=True)
            _indented(console, member, 4, full=full)


def _indented(console: Console, value: Any, by: int, *, full: bool) -> None:
    for line in _laid_out(console, value, full=full):
        console.print(Text(" " * by) + _highlighted(line), soft_wrap=True)


def _laid_out(console: Console, value: Any, *, full: bool) -> list[str]:
    return pretty(value, (console.width if console.is_terminal else WIDTH) - 4, full=full)


_highlighted = ReprHighlighter()
