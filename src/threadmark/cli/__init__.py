"""The command ``threadmark``: looks into stores of threads, and runs the demo. Needs the extra ``cli``."""

from __future__ import annotations

import sys


def main() -> None:
    """What the console script and ``python -m threadmark`` run."""
    try:
        from threadmark.cli.app import run
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "click", "rich"):
            raise
        sys.exit(f"threadmark: {error.name} is missing; install the command line: pip install 'threadmark[cli]'")
    run()
