"""The graph that ``MODULE:GRAPH`` names, made by code of the user's; errors of that code are told as theirs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from sysconfig import get_path
from traceback import FrameSummary, extract_tb
from typing import Any, Final

import threadmark
from threadmark.engine.compiled import CompiledGraph
from threadmark.errors import ThreadmarkError

_OURS: Final = os.path.join(os.path.dirname(os.path.abspath(threadmark.__file__)), "")
_INSTALLED: Final = tuple(os.path.join(path, "") for path in {get_path("purelib"), get_path("platlib")})
_STDLIB: Final = os.path.join(get_path("stdlib"), "")


class NoGraph(ThreadmarkError):
    """What was named is no graph, or its program raised before it was one."""


def load(name: str) -> CompiledGraph:
    """The graph that ``MODULE:GRAPH`` names: compiled, a builder, or a function without arguments that makes one."""
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise NoGraph(f"{name!r} names no graph; write MODULE:GRAPH, for example shop.flow:graph")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    with _told(f"cannot import {module!r}"):
        found: Any = import_module(module)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise NoGraph(f"{module!r} has no {attribute!r}; name the variable that holds the graph")
        found = getattr(found, part)
    if not isinstance(found, CompiledGraph) and not hasattr(found, "compile") and callable(found):
        with _told(f"{name!r} was called and made no graph"):
            found = found()
    if not isinstance(found, CompiledGraph) and hasattr(found, "compile"):
        with _told(f"{name!r} cannot be compiled"):
            found = found.compile()
    if not isinstance(found, CompiledGraph):
        raise NoGraph(f"{name!r} is of type {type(found).__name__}, not a graph")
    return found


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Whatever the user's code raises, told by its class, its message and the line of theirs that it comes from."""
    try:
        yield
    except (Exception, SystemExit) as error:
        frame = _theirs(extract_tb(error.__traceback__))
        hint = (
            "; run this where your program can be imported" if frame is None and isinstance(error, ImportError) else ""
        )
        at = "" if frame is None else f"\n  {frame.filename}:{frame.lineno}, in {frame.name}: {frame.line}"
        raise NoGraph(f"{what}: {type(error).__name__}: {error}{hint}{at}") from error


def _theirs(frames: Sequence[FrameSummary]) -> FrameSummary | None:
    """The innermost frame of the user's program, else of a package that they installed."""
    foreign = [frame for frame in frames if not frame.filename.startswith((_OURS, "<frozen "))]
    installed = [frame for frame in foreign if frame.filename.startswith(_INSTALLED)]
    own = [frame for frame in foreign if not frame.filename.startswith((_STDLIB, *_INSTALLED))]
    return next(reversed(own or installed), None)
