"""A checkpoint on the terminal, for ``threadmark show``."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rich.console import Console
from rich.highlighter import ReprHighlighter
from rich.text import Text

from threadmark.cli.sizes import size
from threadmark.cli.text import moment, one_line, printable
from threadmark.cli.threads import names
from threadmark.cli.values import brief, pretty

_STYLES = {"failed": "red", "asks": "yellow", "waiting": "dim", "finished": "green"}
"""How each status looks, those first that people look for."""
_MANY_TASKS = 20
WIDTH = 160
"""Columns that values are laid out in where there is no terminal."""


def print_sheet(console: Console, about: dict[str, Any], *, full: bool) -> None:
    """Everything that ``show`` knows about a checkpoint."""
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
        _title(console, "Tasks from here", f"{told}; {about['next_is']}")
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
