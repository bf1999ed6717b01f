"""``InMemorySaver`` keeps the contract, with and without its memories."""

from __future__ import annotations

import pytest

from tests.contract.suite import SaverContract
from threadmark.checkpoint.caches import Caches
from threadmark.checkpoint.memory import InMemorySaver


class TestInMemorySaver(SaverContract):
    @pytest.fixture(params=["remembering", "forgetful"])
    def saver(self, request: pytest.FixtureRequest) -> InMemorySaver:
        saver = InMemorySaver()
        if request.param == "forgetful":
            saver._caches = Caches(scale=0)
        return saver
