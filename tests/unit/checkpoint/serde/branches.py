"""Which branches of a package were taken: conditional jumps by line, seen through ``sys.settrace``."""

from __future__ import annotations

import dis
import sys
import types
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

Arc = tuple[str, int, int]


class Branches:
    """Records arcs between lines of the modules below ``folder`` while it is entered."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._taken: set[Arc] = set()

    def __enter__(self) -> Branches:
        sys.settrace(self._call)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)

    def _call(self, frame: types.FrameType, event: str, arg: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(self._folder):
            return None
        last = frame.f_lineno
        taken = self._taken

        def line(frame: types.FrameType, event: str, arg: Any) -> Any:
            nonlocal last
            if event == "line":
                taken.add((name, last, frame.f_lineno))
                last = frame.f_lineno
            return line

        return line

    def counts(self) -> dict[str, tuple[int, int]]:
        """File name -> branches taken, branches there are; functions that were never compiled in are counted too."""
        found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for path in sorted(Path(self._folder).glob("*.py")):
            code = compile(path.read_text(encoding="utf-8"), str(path), "exec", dont_inherit=True)
            for arc in set(_arcs(code, str(path))):
                found[path.name][0] += arc in self._taken
                found[path.name][1] += 1
        return {name: (taken, there) for name, (taken, there) in found.items()}


def _arcs(code: types.CodeType, name: str) -> Iterator[Arc]:
    """Both ways out of every conditional jump between different lines, functions only."""
    lines = {offset: line for start, end, line in code.co_lines() if line for offset in range(start, end, 2)}
    steps = list(dis.get_instructions(code))
    inside_function = bool(code.co_flags & 2)
    for step, following in pairwise(steps):
        conditional = "IF" in step.opname or step.opname == "FOR_ITER"
        if inside_function and conditional and step.opcode in (*dis.hasjrel, *dis.hasjabs):
            here = lines.get(step.offset)
            for target in (following.offset, step.argval):
                there = lines.get(target)
                if here and there and there != here:
                    yield name, here, there
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _arcs(constant, name)
