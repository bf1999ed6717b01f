"""Text for a terminal: safe to print, aligned in columns, never wrapped."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import TypeAlias

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

Cell: TypeAlias = str | Text


def printable(text: str) -> str:
    """Stored text without the control characters that would steer a terminal; they are shown as escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape", "replace").decode() for c in text)


def one_line(text: str, longest: int = 60) -> str:
    """The same on one line and not longer than this."""
    flat = printable(" ".join(text.split()))
    return flat if len(flat) <= longest else flat[: longest - 1] + "…"


def moment(stamp: str) -> str:
    """An ISO 8601 time to the second, in UTC as it is stored."""
    return printable(stamp[:19].replace("T", " "))


def columns(head: Sequence[str], rows: Sequence[Sequence[Cell]], *, right: Sequence[int] = ()) -> list[Text]:
    """Lines with their cells under each other; the columns ``right`` are aligned at their right ends."""
    lines = [[Text(cell, "dim") for cell in head], *([_text(cell) for cell in row] for row in rows)]
    widths = [max(line[at].cell_len for line in lines) for at in range(len(head))]
    return [_line(line, widths, right) for line in lines]


def _text(cell: Cell) -> Text:
    return cell if isinstance(cell, Text) else Text(printable(cell))


def _line(cells: Sequence[Text], widths: Sequence[int], right: Sequence[int]) -> Text:
    line = Text()
    for at, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        space = " " * (width - cell_len(cell.plain))
        line.append_text(Text(space) + cell if at in right else cell + Text(space))
        line.append("  ")
    line.rstrip()
    return line


def put(console: Console, lines: Sequence[Text]) -> None:
    """Print lines as long as they are, so that pipes and searches see them whole."""
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)


def program() -> list[str]:
    """How to start this program from a shell, in words that work where it was started."""
    started, python = sys.argv[0], os.path.basename(sys.executable)
    if os.path.basename(started) == "__main__.py":
        return [python if shutil.which(python) == sys.executable else sys.executable, "-m", "threadmark"]
    found = shutil.which("threadmark")
    on_path = found is not None and os.path.realpath(found) == os.path.realpath(started)
    return ["threadmark" if on_path else started]
