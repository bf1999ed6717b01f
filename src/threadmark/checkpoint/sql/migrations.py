"""Numbered scripts that bring a database to the current format."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module

from threadmark.errors import ForeignDatabase


@cache
def scripts(package: str) -> tuple[str, ...]:
    """The scripts ``NNNN_name.sql`` in the folder ``schema`` of a package, in order; format n is made by the n-th."""
    # Not by importlib.resources: what that imports would be a thirtieth of a program's start.
    folder = os.path.join(import_module(package).__path__[0], "schema")
    return tuple(_read(os.path.join(folder, name)) for name in sorted(os.listdir(folder)) if name.endswith(".sql"))


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def statements(script: str) -> list[str]:
    """The statements of a script. Scripts of ours have a semicolon behind a statement, and in the bodies of functions
    that stand between two ``$$``; nowhere else.
    """
    text = "\n".join(line for line in script.splitlines() if not line.lstrip().startswith("--"))
    found = [""]
    for at, part in enumerate(text.split("$$")):
        if at % 2:
            found[-1] += f"$${part}$$"
        else:
            first, *rest = part.split(";")
            found[-1] += first
            found += rest
    return [statement.strip() for statement in found if statement.strip()]


def pending(package: str, stored: int) -> list[str]:
    """The scripts that a database of format ``stored`` lacks; ``ForeignDatabase`` when it is of a later format."""
    known = scripts(package)
    if stored > len(known):
        raise ForeignDatabase(
            f"this database has format {stored}, made by a newer version of Threadmark; this version knows "
            f"{len(known)}. Nothing was written to it; upgrade Threadmark"
        )
    return list(known[stored:])
