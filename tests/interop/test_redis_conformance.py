"""LangGraph's own conformance package passes in full on the Redis savers behind the adapter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.integration.redis_kit import fresh
from tests.interop.test_conformance import EVERYTHING
from tests.services.redis import RedisServer
from threadmark.checkpoint.redis import RedisSaver
from threadmark.checkpoint.redis.aio import AsyncRedisSaver
from threadmark.interop.conformance import report_on


@pytest.mark.filterwarnings("ignore::Warning")
@pytest.mark.parametrize("kind", [RedisSaver, AsyncRedisSaver])
def test_every_capability_is_detected_and_passes(redis_server: RedisServer, kind: Any) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        async with kind.from_conn_string(redis_server.url, prefix=fresh()) as saver:
            yield saver

    report = asyncio.run(report_on(kind.__name__, opened))
    assert {capability for capability, found in report.results.items() if found.detected} == EVERYTHING
    assert [failure for found in report.results.values() for failure in found.failures] == []
    assert report.conformance_level() == "FULL"
