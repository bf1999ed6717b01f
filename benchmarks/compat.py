"""Puts the figures of a run of the peer's own tests into docs/explanation/compatibility.md.

    python -m benchmarks.compat RESULTS

``RESULTS`` is the folder that the runner of those tests has written: ``results.csv`` has one row a test, with its id,
category, scope (``in`` or ``stretch``) and outcome; it may hold the rows of several runs. Neighbours (``stretch``)
count where the core's own tests have them. A test function that does not pass must be explained in
``compat.toml`` by a difference that the page names; the exit code is 1 when one is not.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "compatibility.md"
REASONS = Path(__file__).with_name("compat.toml")
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
PASSED = frozenset({"passed", "xfailed"})
SCOPES = {"in": "core", "stretch": "neighbours"}
CORE = "core/"
"""What ids of the core's own tests begin with; the others are those of savers and their serializers."""


@dataclass(frozen=True, slots=True)
class Function:
    """One test function of the peer; it runs once per saver."""

    name: str
    category: str
    scope: str
    runs: int
    passed: int

    @property
    def whole(self) -> bool:
        """Whether it passes in all its runs."""
        return self.runs == self.passed


def functions(rows: Iterable[Mapping[str, str]], without: Sequence[str] = ()) -> list[Function]:
    """The selected test functions; those with one of the words ``without`` in their id are left out."""
    gathered: dict[str, list[Mapping[str, str]]] = defaultdict(list)
    for row in rows:
        counts = row["scope"] == "in" or (row["scope"] in SCOPES and row["id"].startswith(CORE))
        if counts and not any(word in row["id"].lower() for word in without):
            gathered[row["id"].partition("[")[0]].append(row)
    return [
        Function(
            name,
            found[0]["category"],
            found[0]["scope"],
            len(found),
            sum(one["outcome"] in PASSED for one in found),
        )
        for name, found in sorted(gathered.items())
    ]


def figures(found: Sequence[Function], reasons: Mapping[str, str]) -> str:
    """The part of the page that is made: totals, a table by category, and what does not pass."""
    lines = [f"{_total(found, scope, called)}" for scope, called in SCOPES.items()]
    lines += ["", "| area | | runs that pass | test functions that pass |", "|---|---|---|---|"]
    by_area: dict[tuple[str, str], list[Function]] = defaultdict(list)
    for one in found:
        by_area[one.scope, one.category].append(one)
    for (scope, area), members in sorted(by_area.items()):
        runs = f"{sum(one.passed for one in members)} of {sum(one.runs for one in members)}"
        lines.append(f"| {area} | {SCOPES[scope]} | {runs} | {sum(one.whole for one in members)} of {len(members)} |")
    failing = [one for one in found if not one.whole]
    if failing:
        lines += ["", "| test function that does not pass | why |", "|---|---|"]
        lines += [f"| `{one.name}` | {reason_of(one, reasons) or 'not explained yet'} |" for one in failing]
    return "\n".join(lines)


def _total(found: Sequence[Function], scope: str, called: str) -> str:
    members = [one for one in found if one.scope == scope]
    passed, whole = sum(one.passed for one in members), sum(one.whole for one in members)
    return (
        f"* {called}: {passed} of {sum(one.runs for one in members)} runs, {whole} of {len(members)} test functions "
        f"({whole / len(members):.1%})"
        if members
        else f"* {called}: not run"
    )


def reason_of(one: Function, reasons: Mapping[str, str]) -> str | None:
    """Why a function does not pass, if that is decided: by its name, or by a pattern that fits it."""
    return next((why for pattern, why in reasons.items() if re.fullmatch(pattern, one.name)), None)


def put(page: str, made: str) -> str:
    """The page with its figures exchanged."""
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"the page has no place for figures: it needs {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{made}\n\n{END}{after}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page; 1 when some function that does not pass is not explained."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compat", description=__doc__)
    parser.add_argument("results", type=Path, help="the folder with results.csv")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--without", nargs="*", default=[], help="words of ids that do not count")
    options = parser.parse_args(arguments)
    with (options.results / "results.csv").open(newline="", encoding="utf-8") as file:
        found = functions(csv.DictReader(file), options.without)
    reasons = tomllib.loads(REASONS.read_text(encoding="utf-8"))["reasons"]
    options.page.write_text(put(options.page.read_text(encoding="utf-8"), figures(found, reasons)), encoding="utf-8")
    unexplained = [one.name for one in found if not one.whole and reason_of(one, reasons) is None]
    for name in unexplained:
        print(f"not explained: {name}", file=sys.stderr)
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
