"""``threadmark demo``: runs the graph of ``graph.py`` in front of the user, and goes on with a run that was stopped."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from threadmark.cli.text import program

STOPPED: Final = 130
"""Exit status after Ctrl-C: 128 and the number of the signal."""

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Approve the report without asking.")]
Python = Annotated[
    str | None,
    typer.Option("--python", metavar="PATH", help="Another interpreter or virtual environment.", show_default=False),
]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the report goes.")]
Db = Annotated[
    Path | None,
    typer.Option(
        "--db", metavar="FILE", help="Where checkpoints go; default: checkpoints.db in --out.", show_default=False
    ),
]
Only = Annotated[str, typer.Option("--only", metavar="GLOB", help="Only packages whose names match.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Only so many packages.", show_default=False)]
Pace = Annotated[
    float, typer.Option("--pace", metavar="SECONDS", min=0.0, help="Dawdle in each task; time to stop it.")
]
New = Annotated[bool, typer.Option("--new", help="Begin a new thread even if one was stopped.")]


def demo(
    *,
    yes: Yes = False,
    python: Python = None,
    out: Out = Path("threadmark-demo"),
    db: Db = None,
    only: Only = "*",
    limit: Limit = None,
    pace: Pace = 0.0,
    new: New = False,
) -> None:
    """Run a durable graph over the Python packages of this machine, and write a report.

    Each package is a task. Stop it whenever you like, with Ctrl-C or kill -9, and start it again with the same
    arguments: it goes on where it was.
    """
    console = Console()
    db = db or out / "checkpoints.db"
    try:
        # What runs graphs is loaded for this command only.
        from threadmark.cli.demo.attend import attend

        wanted = {"python": python, "only": only, "limit": limit or 0}
        status = attend(console, db, out, wanted, yes=yes, pace=pace, new=new)
    except KeyboardInterrupt:
        console.print("\nStopped. What is done is stored; the same command goes on from there:", style="yellow")
        again = [*program(), *(argument for argument in sys.argv[1:] if argument != "--new")]
        console.print(Text(f"  {shlex.join(again)}"), soft_wrap=True)
        status = STOPPED
    raise typer.Exit(status)
