"""Why a check failed, in a few lines: the statement, and the values that its names had."""

from __future__ import annotations

import io
import keyword
import linecache
import tokenize
from pathlib import Path
from types import FrameType
from typing import Final

CHECKS: Final = str(Path(__file__).parent / "checks")
LONGEST: Final = 200
"""Characters of a value that are shown."""


def explained(error: BaseException) -> str:
    """The error, the line of the check where it arose, and what the names in that line stood for."""
    lines = [f"{type(error).__name__}: {_short(str(error))}" if str(error) else type(error).__name__]
    place = None
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename.startswith(CHECKS):
            place = (traceback.tb_frame, traceback.tb_lineno)
        traceback = traceback.tb_next
    if place is not None:
        frame, number = place
        statement = linecache.getline(frame.f_code.co_filename, number).strip()
        lines.append(f"{Path(frame.f_code.co_filename).name}:{number}: {statement}")
        if isinstance(error, AssertionError):
            lines += [f"  {name} = {_short(_repr(value))}" for name, value in _values(frame, statement)]
    return "\n".join(lines)


def _values(frame: FrameType, statement: str) -> list[tuple[str, object]]:
    names = dict.fromkeys(_names(statement))
    hidden = {"self", "saver", "call", "config"}
    return [(name, frame.f_locals[name]) for name in names if name in frame.f_locals and name not in hidden]


def _names(statement: str) -> list[str]:
    found: list[str] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(statement).readline):
            found += [token.string] if token.type == tokenize.NAME and not keyword.iskeyword(token.string) else []
    except (tokenize.TokenError, SyntaxError):  # a statement over several lines
        pass
    return found


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:
        return f"<{type(value).__name__} whose repr raises {type(error).__name__}>"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
