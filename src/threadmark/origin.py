"""Where in a user's program an error arose: for commands that run such a program, and show nothing of ours then."""

from __future__ import annotations

import os
from sysconfig import get_path
from traceback import FrameSummary, extract_tb
from typing import Final

_OURS: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")


def told(error: BaseException) -> str:
    """The class and message of an error, and below them the user's line that it comes from, if there is one."""
    frame = line_of(error)
    at = "" if frame is None else f"\n  {frame.filename}:{frame.lineno}, in {frame.name}: {frame.line}"
    return f"{type(error).__name__}: {error}{at}"


def line_of(error: BaseException) -> FrameSummary | None:
    """The innermost line of the user's program, else of a package that they installed; None for none of either."""
    foreign = [one for one in extract_tb(error.__traceback__) if not one.filename.startswith((_OURS, "<frozen "))]
    library, packages = _folder("stdlib"), (_folder("purelib"), _folder("platlib"))
    installed = [one for one in foreign if one.filename.startswith(packages)]
    own = [one for one in foreign if not one.filename.startswith((library, *packages))]
    return next(reversed(own or installed), None)


def _folder(name: str) -> str:
    return os.path.join(get_path(name), "")


__all__ = ["line_of", "told"]
