"""LangGraph's own conformance package passes in full on the Cosmos DB savers behind the adapter."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.interop.test_conformance import EVERYTHING
from tests.services.cosmosdb import Account
from threadmark.checkpoint.cosmosdb import CosmosDBSaver, CosmosDBSaverSync
from threadmark.interop.conformance import report_on


@pytest.mark.filterwarnings("ignore::Warning")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", [CosmosDBSaverSync, CosmosDBSaver])
def test_every_capability_is_detected_and_passes(cosmos: Account, kind: Any) -> None:
    report = asyncio.run(report_on(kind.__name__, lambda: kind(**cosmos.names())))
    assert {capability for capability, found in report.results.items() if found.detected} == EVERYTHING
    assert [failure for found in report.results.values() for failure in found.failures] == []
    assert report.conformance_level() == "FULL"
