"""The commands put together, and the one door through which errors leave."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from threadmark.cli import compat, doctor, log, migrate, prune, rekey, show, threads
from threadmark.cli.demo import command as demo
from threadmark.cli.files import WrongCall
from threadmark.cli.text import printable
from threadmark.errors import ThreadmarkError

FAILED: Final = 1
WRONG_CALL: Final = 2
app = typer.Typer(
    name="threadmark",
    help="Durable graphs: look at the threads in a database, and see a graph at work.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        print(f"threadmark {version('threadmark')}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")]


@app.callback()
def _options(version: Version = False) -> None:
    """What holds for all commands."""


app.command("threads")(threads.threads)
app.command("log")(log.log)
app.command("show")(show.show)
app.command("check-compat")(compat.check_compat)
app.command("rekey")(rekey.rekey)
app.command("prune")(prune.prune)
app.command("doctor")(doctor.doctor)
app.command("migrate")(migrate.migrate)
app.command("demo")(demo.demo)


def run() -> None:
    """Run the command that ``sys.argv`` names, and exit with its status."""
    try:
        app()
    except ThreadmarkError as error:
        complaint = Text.assemble(("threadmark: ", "bold red"), printable(str(error)))
        Console(stderr=True).print(complaint, soft_wrap=True)
        sys.exit(WRONG_CALL if isinstance(error, WrongCall) else FAILED)
    except KeyboardInterrupt:
        sys.exit(demo.STOPPED)
