"""Running the demo's graph in front of a person: what is said, shown and asked."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.prompt import Confirm
from rich.text import Text

from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.cli.demo import graph as example
from threadmark.cli.demo import packages, runs
from threadmark.cli.files import WrongCall
from threadmark.cli.sizes import plural, size
from threadmark.cli.text import program
from threadmark.types import Command

UNANSWERED: Final = 3
"""Exit status when the question was asked and there was nobody to answer."""
TASKS_AT_A_TIME: Final = 8


class Unwritable(WrongCall):
    """What was named for the report or the checkpoints cannot be written."""

    def __init__(self, path: Path, what: str, option: str) -> None:
        super().__init__(f"{path} {what}, and nothing was done; name another one with {option}")


def attend(console: Console, db: Path, out: Path, wanted: dict[str, Any], *, yes: bool, pace: float, new: bool) -> int:
    """Run until the report is written or refused; the exit status."""
    wanted = {**wanted, "python": packages.interpreter(wanted["python"]), "folder": os.path.abspath(out)}
    _make(out, "--out")
    if db.is_dir():
        raise Unwritable(db, "is a folder", "--db")
    _make(db.parent, "--db")
    with runs.alone(out):
        return _attend(console, db, wanted, yes=yes, pace=pace, new=new)


def _make(folder: Path, option: str) -> None:
    """Make a folder unless it is there; ``Unwritable`` where no files can be made in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except (FileExistsError, NotADirectoryError):
        raise Unwritable(folder, "is a file, or lies in one", option) from None
    except OSError as error:
        raise Unwritable(folder, f"cannot be written ({error.strerror})", option) from error


def _attend(console: Console, db: Path, wanted: dict[str, Any], *, yes: bool, pace: float, new: bool) -> int:
    with SqliteSaver.from_conn_string(str(db)) as saver:
        graph = example.build().compile(checkpointer=saver)
        run = runs.choose(saver, graph, wanted, new=new)
        config = {
            "configurable": {"thread_id": run.thread_id},
            "metadata": runs.metadata(wanted),
            "max_concurrency": TASKS_AT_A_TIME,
        }
        _introduce(console, db, wanted, run)
        _follow(console, graph, run.input, config, pace)
        state = graph.get_state(config)
        if state.interrupts:
            answer = _answer(console, state.interrupts[0].value, yes=yes)
            if answer is None:
                _farewell(console, db, run, "Nobody answered: the run is paused. Start it again, with --yes or not.")
                return UNANSWERED
            graph.invoke(Command(resume=answer), config, context=example.Context(pace), durability="sync")
            state = graph.get_state(config)
    written = state.values.get("written", [])
    _farewell(console, db, run, "\n".join(["Written:", *written]) if written else "Nothing was written, as you wished.")
    return 0


def _follow(console: Console, graph: Any, input: Any, config: dict[str, Any], pace: float) -> None:
    """Run the graph with a bar that moves as each task ends. What was stored by an earlier run counts at once."""
    events = graph.stream(
        input, config, context=example.Context(pace), stream_mode=["updates", "values"], durability="sync"
    )
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )
    with bar:
        line = bar.add_task("listing", total=None)
        for mode, event in events:
            if mode == "values" and "found" in event:
                done = len(event.get("measured", ()))
                bar.update(line, description="measuring", total=len(event["found"]), completed=done)
            elif mode == "updates" and "measure" in event:
                bar.advance(line)


def _introduce(console: Console, db: Path, wanted: dict[str, Any], run: runs.Run) -> None:
    console.print(f"The packages of {wanted['python']}, one task each", style="bold", highlight=False, soft_wrap=True)
    console.print(f"checkpoints in {db}, thread {run.thread_id}", highlight=False, soft_wrap=True)
    if run.input is None:
        done = f"{plural(run.done, 'task')} had finished and {'is' if run.done == 1 else 'are'} not repeated"
        console.print(
            f"An earlier run was stopped. Going on where it was: {done}.",
            style="green",
            highlight=False,
            soft_wrap=True,
        )


def _answer(console: Console, asked: dict[str, Any], *, yes: bool) -> bool | None:
    """The person's answer to the graph's question; None when there is nobody."""
    found = f"{plural(asked['packages'], 'package')}, {plural(asked['files'], 'file')}, {size(asked['bytes'])}"
    console.print(f"Found {found}.", highlight=False)
    if yes:
        console.print(Text(f"{asked['question']} yes (--yes)"), soft_wrap=True)
        return True
    try:
        return Confirm.ask(Text(asked["question"]), console=console)
    except EOFError:
        console.print()
        return None


def _farewell(console: Console, db: Path, run: runs.Run, outcome: str) -> None:
    console.print()
    console.print(Text(outcome), soft_wrap=True)
    console.print("\nLook at the history:")
    started, thread_id = program(), run.thread_id
    for command in (("threads", str(db)), ("log", thread_id, str(db)), ("show", thread_id, str(db))):
        console.print(Text(f"  {shlex.join([*started, *command])}", "cyan"), soft_wrap=True)
