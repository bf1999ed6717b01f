"""Random histories in Redis, over two savers with memories of their own."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.contract.test_histories import Histories
from tests.integration.redis_kit import fresh
from tests.services.redis import RedisServer
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.redis import RedisSaver

FEW = settings(
    max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)


def test_histories(redis_server: RedisServer) -> None:
    class InRedis(Histories):
        def open(self) -> list[Any]:
            prefix = self.__dict__.setdefault("_prefix", fresh())
            savers = [RedisSaver.from_conn_string(redis_server.url, prefix=prefix) for _ in range(2)]
            savers[1]._caches = Caches(scale=0.001)
            self.__dict__.setdefault("_opened", []).extend(savers)
            return savers

        def teardown(self) -> None:
            try:
                super().teardown()
            finally:
                for saver in self.__dict__.get("_opened", ()):
                    saver.close()

    run_state_machine_as_test(InRedis, settings=FEW)  # type: ignore[no-untyped-call]
