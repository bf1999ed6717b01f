"""What every saver promises, as classes of tests. A backend's test module gives a ``saver`` fixture and subclasses."""

from __future__ import annotations

from tests.contract.suite.deltas import DeltaContract
from tests.contract.suite.listing import ListContract
from tests.contract.suite.puts import PutContract
from tests.contract.suite.steps import StepContract
from tests.contract.suite.upkeep import UpkeepContract
from tests.contract.suite.values import ValueContract
from tests.contract.suite.writes import WritesContract


class SaverContract(
    PutContract, WritesContract, ListContract, StepContract, UpkeepContract, DeltaContract, ValueContract
):
    """All of it."""


__all__ = ["SaverContract"]
