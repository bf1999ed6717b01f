"""The graph that ``MODULE:GRAPH`` names, made by code of the user's; errors of that code are told as theirs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from threadmark.engine.compiled import CompiledGraph
from threadmark.errors import ThreadmarkError
from threadmark.origin import line_of, told


class NoGraph(ThreadmarkError):
    """What was named is no graph, or its program raised before it was one."""


def load(name: str) -> CompiledGraph:
    """The graph that ``MODULE:GRAPH`` names: compiled, a builder, or a function without arguments that makes one."""
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise NoGraph(f"{name!r} names no graph; write MODULE:GRAPH, for example shop.flow:graph")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    with _blamed(f"cannot import {module!r}"):
        found: Any = import_module(module)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise NoGraph(f"{module!r} has no {attribute!r}; name the variable that holds the graph")
        found = getattr(found, part)
    if not isinstance(found, CompiledGraph) and not hasattr(found, "compile") and callable(found):
        with _blamed(f"{name!r} was called and made no graph"):
            found = found()
    if not isinstance(found, CompiledGraph) and hasattr(found, "compile"):
        with _blamed(f"{name!r} cannot be compiled"):
            found = found.compile()
    if not isinstance(found, CompiledGraph):
        raise NoGraph(f"{name!r} is of type {type(found).__name__}, not a graph")
    return found


@contextmanager
def _blamed(what: str) -> Iterator[None]:
    """Whatever the user's code raises, told by its class, its message and the line of theirs that it comes from."""
    try:
        yield
    except (Exception, SystemExit) as error:
        is_missing = isinstance(error, ImportError) and line_of(error) is None
        hint = "; run this where your program can be imported" if is_missing else ""
        raise NoGraph(f"{what}: {told(error)}{hint}") from error
