"""The checks, in the order in which they are run. A check is a method ``test_...(self, saver, call)``."""

from __future__ import annotations

from typing import Any, Final

from threadmark.checkpoint.conformance.checks.copies import CopyThreadChecks
from threadmark.checkpoint.conformance.checks.crashes import CrashChecks
from threadmark.checkpoint.conformance.checks.deletes import DeleteForRunsChecks, DeleteThreadChecks
from threadmark.checkpoint.conformance.checks.deltas import DeltaChecks
from threadmark.checkpoint.conformance.checks.gets import GetChecks
from threadmark.checkpoint.conformance.checks.lists import ListChecks
from threadmark.checkpoint.conformance.checks.prune_rules import PruneRuleChecks
from threadmark.checkpoint.conformance.checks.prunes import PruneChecks
from threadmark.checkpoint.conformance.checks.puts import PutChecks
from threadmark.checkpoint.conformance.checks.races import CopyRaceChecks, PruneRaceChecks, RaceChecks
from threadmark.checkpoint.conformance.checks.reads import ReadChecks
from threadmark.checkpoint.conformance.checks.values import ValueChecks
from threadmark.checkpoint.conformance.checks.whole_steps import ExpectedHeadChecks, PutStepChecks, WriterChecks
from threadmark.checkpoint.conformance.checks.writes import WriteChecks

__all__ = [
    "CHECKS",
    "CopyRaceChecks",
    "CopyThreadChecks",
    "CrashChecks",
    "DeleteForRunsChecks",
    "DeleteThreadChecks",
    "DeltaChecks",
    "ExpectedHeadChecks",
    "GetChecks",
    "ListChecks",
    "PruneChecks",
    "PruneRaceChecks",
    "PruneRuleChecks",
    "PutChecks",
    "PutStepChecks",
    "RaceChecks",
    "ReadChecks",
    "ValueChecks",
    "WriteChecks",
    "WriterChecks",
]

CHECKS: Final[tuple[type[Any], ...]] = (
    PutChecks,
    ValueChecks,
    RaceChecks,
    CrashChecks,
    WriteChecks,
    GetChecks,
    ReadChecks,
    ListChecks,
    DeleteThreadChecks,
    DeleteForRunsChecks,
    CopyThreadChecks,
    CopyRaceChecks,
    PruneChecks,
    PruneRaceChecks,
    PruneRuleChecks,
    DeltaChecks,
    PutStepChecks,
    WriterChecks,
    ExpectedHeadChecks,
)
"""Each class says with ``capability`` what it is about; a saver without that is not asked."""
