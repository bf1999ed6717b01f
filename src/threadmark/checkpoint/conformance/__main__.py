"""``python -m threadmark.checkpoint.conformance package.module:factory``: run the suite and print the report."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Final

from threadmark.checkpoint.capabilities import CAPABILITIES, Capabilities, capabilities_of
from threadmark.checkpoint.conformance.factory import Registered, load, opened
from threadmark.checkpoint.conformance.payloads import PAYLOADS
from threadmark.checkpoint.conformance.report import Report, Result
from threadmark.checkpoint.conformance.runner import PATIENCE, validate
from threadmark.origin import line_of, told

PASSED, FAILED, WRONG_USE = 0, 1, 2
_SHOWN: Final = {frozenset({"sync", "async"}): "both", frozenset({"sync"}): "sync", frozenset({"async"}): "async"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the result is its exit status: 0 all passed, 1 something failed, 2 wrong use."""
    asked = _parser().parse_args(arguments)
    sys.path.insert(0, "")
    try:
        suites = [load(name) for name in asked.factory]
        return _carry_out(asked, suites)
    except Exception as error:
        if line_of(error) is not None:  # raised by the program that opens the saver
            sys.stderr.write(f"{told(error)}\n")
        elif isinstance(error, (ValueError, ImportError, TypeError)):
            sys.stderr.write(f"{error}\n")
        else:
            raise
        return WRONG_USE


def _carry_out(asked: argparse.Namespace, suites: Sequence[Registered]) -> int:
    if asked.table:
        sys.stdout.write(table([(suite.name, asyncio.run(_capabilities(suite))) for suite in suites]))
        return PASSED
    payloads = PAYLOADS if asked.payload == "both" else (asked.payload,)
    only = asked.only.split(",") if asked.only else None
    reports: list[Report] = []
    for suite in suites:
        run = validate(suite, capabilities=only, progress=_dot, payloads=payloads, patience=asked.patience)
        reports.append(asyncio.run(run))
    sys.stderr.write("\n")
    if asked.json:
        sys.stdout.write(json.dumps([report.to_dict() for report in reports], indent=2) + "\n")
    else:
        for report in reports:
            report.print_report()
    good = all(not report.failures() if only else report.passed_all() for report in reports)
    return PASSED if good else FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m threadmark.checkpoint.conformance", description=__doc__)
    parser.add_argument("factory", nargs="+", help="package.module:name of a function or class that opens a saver")
    parser.add_argument("--json", action="store_true", help="print the reports as JSON")
    parser.add_argument("--only", metavar="A,B", help="only these capabilities")
    parser.add_argument("--payload", choices=[*PAYLOADS, "both"], default="both", help="which serializer (both)")
    parser.add_argument(
        "--patience", type=float, default=PATIENCE, metavar="S", help="when a check hangs (%(default)s)"
    )
    parser.add_argument("--table", action="store_true", help="run nothing: print what each saver can do, as Markdown")
    return parser


def _dot(result: Result) -> None:
    sys.stderr.write("." if result.passed else "F")
    sys.stderr.flush()


async def _capabilities(suite: Registered) -> Capabilities:
    async with opened(suite.factory) as saver:
        return capabilities_of(saver)


def table(savers: Sequence[tuple[str, Capabilities]]) -> str:
    """What each saver can do, as a Markdown table: a row a capability, a column a saver."""
    lines = [
        "| | " + " | ".join(f"`{name}`" for name, _ in savers) + " |",
        "|---" * (len(savers) + 1) + "|",
    ]
    for each in CAPABILITIES:
        cells = [_cell(found, each.name) for _, found in savers]
        lines.append(f"| `{each.name}`: {each.enables} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _cell(found: Capabilities, name: str) -> str:
    if not found.has(name):
        return "-"
    shown = _SHOWN[found.offers[name]]
    return f"{shown}, by default" if name in found.inherited else shown


if __name__ == "__main__":
    sys.exit(main())
