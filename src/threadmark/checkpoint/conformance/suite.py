"""The checks as pytest classes. A saver's test module subclasses them and says how to open a fresh saver::

    class TestMySaver(BaseConformance, DeltaConformance):
        def open_saver(self):
            return MySaver(...)

``open_saver`` may return the saver or yield it, in either colour, or return a context manager of either colour.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

if "threadmark.checkpoint.conformance.checks" not in sys.modules:
    pytest.register_assert_rewrite("threadmark.checkpoint.conformance.checks")

from threadmark.checkpoint.capabilities import COLOURS, Colour, capabilities_of
from threadmark.checkpoint.conformance.calls import Caller, LoopThread
from threadmark.checkpoint.conformance.checks import (
    CopyRaceChecks,
    CopyThreadChecks,
    CrashChecks,
    DeleteForRunsChecks,
    DeleteThreadChecks,
    DeltaChecks,
    ExpectedHeadChecks,
    GetChecks,
    ListChecks,
    PruneChecks,
    PruneRaceChecks,
    PruneRuleChecks,
    PutChecks,
    PutStepChecks,
    RaceChecks,
    ReadChecks,
    ValueChecks,
    WriteChecks,
    WriterChecks,
)
from threadmark.checkpoint.conformance.factory import opened
from threadmark.checkpoint.conformance.kit import cases_of
from threadmark.checkpoint.conformance.payloads import PAYLOADS, HexSerializer
from threadmark.checkpoint.conformance.plan import runs_once

__all__ = [
    "BaseConformance",
    "Conformance",
    "CopyThreadConformance",
    "DeleteForRunsConformance",
    "DeltaConformance",
    "FullConformance",
    "PruneConformance",
    "PruneRulesConformance",
    "StepConformance",
]


class Conformance:
    """What all the classes share: the fixtures ``saver`` and ``call``, and in which ways each check is run."""

    colours: ClassVar[tuple[Colour, ...]] = COLOURS
    """The colours that the saver serves: ``sync``, ``async``."""
    payloads: ClassVar[tuple[str, ...]] = PAYLOADS
    """``own`` for the saver's serializer, ``hex`` for bytes in which nothing can be recognised."""
    not_asked: ClassVar[frozenset[str]] = frozenset()
    """Capabilities that the saver has and that are left unchecked on purpose."""

    def open_saver(self) -> Any:
        """A fresh saver on an empty store."""
        raise NotImplementedError(f"{type(self).__name__} must define open_saver(), which opens a fresh saver")

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Run each check once a case, colour and payload."""
        found = cases_of(metafunc.function)
        if found is not None:
            name, values = found
            metafunc.parametrize(name, list(values.values()), ids=list(values))
        if "saver" not in metafunc.fixturenames:
            return
        ways = [(colour, payload) for colour in self.colours for payload in self.payloads]
        owner = next((kind for kind in metafunc.cls.__mro__ if metafunc.function.__name__ in vars(kind)), metafunc.cls)
        ways = ways[:1] if runs_once(owner) else ways
        metafunc.parametrize("conformance_way", ways, ids=["-".join(way) for way in ways])

    @pytest.fixture
    def conformance_loop(self) -> Iterator[LoopThread]:
        """An event loop that runs in another thread."""
        loop = LoopThread()
        yield loop
        loop.close()

    @pytest.fixture
    def call(self, conformance_way: tuple[Colour, str], conformance_loop: LoopThread) -> Caller:
        """Calls methods in the colour of this run."""
        return Caller(conformance_way[0], conformance_loop.run)

    @pytest.fixture
    def saver(self, conformance_way: tuple[Colour, str], conformance_loop: LoopThread) -> Iterator[Any]:
        """A fresh saver, over this run's serializer."""
        manager = opened(self.open_saver)
        saver = conformance_loop.run(manager.__aenter__())
        if conformance_way[1] == "hex":
            saver.serde = HexSerializer(saver.serde)
        yield saver
        conformance_loop.run(manager.__aexit__(None, None, None))

    def test_everything_that_the_saver_offers_is_asked_about(self, saver: Any) -> None:
        """Fails when a saver has learned something that no class of its test module checks."""
        asked = {kind.capability for kind in type(self).__mro__ if hasattr(kind, "capability")}
        offered = {name for name in capabilities_of(saver).offers if name not in self.not_asked}
        assert offered - asked == set(), "mix in the class of these capabilities, or name them in not_asked"


class BaseConformance(
    PutChecks, ValueChecks, RaceChecks, CrashChecks, WriteChecks, GetChecks, ReadChecks, ListChecks,
    DeleteThreadChecks, Conformance,
):  # fmt: skip
    """The five base methods, what they do with values, when they meet and when they die, and what reads cost."""


class DeltaConformance(DeltaChecks, Conformance):
    """``get_delta_channel_history``, the base's default or the saver's own."""


class DeleteForRunsConformance(DeleteForRunsChecks, Conformance):
    """``delete_for_runs``."""


class CopyThreadConformance(CopyThreadChecks, CopyRaceChecks, Conformance):
    """``copy_thread``."""


class PruneConformance(PruneChecks, PruneRaceChecks, Conformance):
    """``prune``."""


class PruneRulesConformance(PruneRuleChecks, Conformance):
    """``prune`` with ``keep_last``, ``older_than``, ``ns`` and ``dry_run``."""


class StepConformance(PutStepChecks, WriterChecks, ExpectedHeadChecks, Conformance):
    """``put_step``, ``open_writer`` and ``expected_head``."""


class FullConformance(
    BaseConformance, DeltaConformance, DeleteForRunsConformance, CopyThreadConformance, PruneConformance,
    PruneRulesConformance, StepConformance,
):  # fmt: skip
    """Everything."""
