"""What came of a run of the suite."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TextIO, TypeAlias

from threadmark.checkpoint.capabilities import BASE, CAPABILITIES, EXTENDED, OWN, Capabilities, Colour

Level: TypeAlias = Literal["FULL", "BASE+PARTIAL", "BASE", "NONE"]
ORDER: Final = {each.name: number for number, each in enumerate(CAPABILITIES)}


@dataclass(frozen=True)
class Result:
    """One check in one colour. ``payload`` is ``own`` or ``hex``: whose serializer was in force."""

    capability: str
    check: str
    colour: Colour
    payload: str
    error: str | None = None
    """What went wrong; None when the check passed."""

    @property
    def passed(self) -> bool:
        """Whether the check passed."""
        return self.error is None


@dataclass
class Report:
    """All results for one saver."""

    name: str
    capabilities: Capabilities
    results: list[Result] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def failures(self, *, colour: Colour | None = None) -> list[Result]:
        """The checks that failed, in one colour or in all."""
        return [r for r in self.results if not r.passed and colour in (None, r.colour)]

    def passed(self, capability: str, colour: Colour | None = None) -> bool:
        """Whether a capability is there, was checked and never failed, in one colour or in all that there are."""
        found = [r for r in self.results if r.capability == capability and colour in (None, r.colour)]
        return bool(found) and all(r.passed for r in found)

    @property
    def colours(self) -> tuple[Colour, ...]:
        """The colours that were checked."""
        return tuple(colour for colour in self.capabilities.colours if any(r.colour == colour for r in self.results))

    def passed_all_base(self) -> bool:
        """Whether each base method is there in every colour that the saver offers, and passed all its checks."""
        return bool(self.colours) and all(self.passed(name, colour) for name in BASE for colour in self.colours)

    def passed_all(self) -> bool:
        """``passed_all_base``, and everything else that the saver offers passed too."""
        return self.passed_all_base() and not self.failures()

    def conformance_level(self) -> Level:
        """FULL: base and all it offers passed. BASE+PARTIAL: base and part of the rest. BASE: nothing of the rest."""
        if not self.passed_all_base():
            return "NONE"
        rest = [name for name in (*EXTENDED, *OWN) if any(r.capability == name for r in self.results)]
        good = [name for name in rest if self.passed(name)]
        if len(good) == len(rest):
            return "FULL"
        return "BASE+PARTIAL" if good else "BASE"

    def to_dict(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return {
            "name": self.name,
            "level": self.conformance_level(),
            "passed_all_base": self.passed_all_base(),
            "passed_all": self.passed_all(),
            "capabilities": self.capabilities.to_dict(),
            "notes": list(self.notes),
            "counts": {
                name: {colour: dict(zip(("passed", "of"), self._count(name, colour), strict=True)) for colour in found}
                for name, found in self._colours_by_capability().items()
            },
            "failures": [
                {
                    "capability": r.capability,
                    "check": r.check,
                    "colour": r.colour,
                    "payload": r.payload,
                    "error": r.error,
                }
                for r in self.failures()
            ],
        }

    def print_report(self, file: TextIO | None = None) -> None:
        """Write the report for people, to standard output unless told."""
        (file or sys.stdout).write("\n".join([*self.lines(), ""]))

    def lines(self) -> list[str]:
        """The report for people."""
        table = [f"{self.name}: {self.conformance_level()}", ""]
        table.append(f"  {'':24}{''.join(f'{colour:>12}' for colour in ('sync', 'async'))}")
        table += [
            f"  {each.name:24}{self._cell(each.name, 'sync'):>12}{self._cell(each.name, 'async'):>12}"
            for each in CAPABILITIES
        ]
        table += ["", *(f"  note: {note}" for note in self.notes)]
        return [*table, *failure_lines(self.failures())]

    def _cell(self, name: str, colour: Colour) -> str:
        passed, of = self._count(name, colour)
        if of:
            return f"{passed}/{of}" + ("" if passed == of else " !")
        return "-" if not self.capabilities.has(name, colour) else "not asked"

    def _count(self, name: str, colour: Colour) -> tuple[int, int]:
        found = [r.passed for r in self.results if r.capability == name and r.colour == colour]
        return sum(found), len(found)

    def _colours_by_capability(self) -> dict[str, list[Colour]]:
        seen = Counter((r.capability, r.colour) for r in self.results)
        names = sorted({name for name, _ in seen}, key=lambda name: ORDER[name])
        return {name: [colour for colour in self.colours if seen[name, colour]] for name in names}


def failure_lines(failures: Iterable[Result]) -> list[str]:
    """Failed checks, each once, with where it failed and the first reason."""
    grouped: dict[tuple[str, str], list[Result]] = {}
    for r in failures:
        grouped.setdefault((r.capability, r.check), []).append(r)
    lines: list[str] = []
    for (capability, check), found in grouped.items():
        where = "; ".join(f"{r.colour}, {r.payload}" for r in found)
        lines += [f"  FAILED {capability}: {check} ({where})"]
        lines += [f"      {line}" for line in (found[0].error or "").splitlines()]
    return lines
