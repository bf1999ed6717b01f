"""The Cosmos DB savers keep the contract, against our fake of the service or the account of ``COSMOS_ENDPOINT``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.contract.ours import OurPromises
from tests.services import cosmosdb
from threadmark.checkpoint.conformance.suite import DeleteForRunsConformance, StepConformance
from threadmark.checkpoint.cosmosdb import CosmosDBSaver, CosmosDBSaverSync


@pytest.fixture(scope="module")
def split() -> Iterator[cosmosdb.Account]:
    """An account whose containers have two partition key ranges."""
    with cosmosdb.account(ranges=2) as account:
        yield account


class OnAccount:
    """Each check on a container of its own."""

    payloads = ("own",)
    account: cosmosdb.Account

    @pytest.fixture(autouse=True)
    def _account(self, cosmos: cosmosdb.Account) -> None:
        self.account = cosmos

    def open_saver(self) -> Iterator[CosmosDBSaverSync]:
        with CosmosDBSaverSync(**self.account.names()) as saver:
            yield saver


class TestBlocking(OnAccount, OurPromises):
    """Over the SDK's blocking client."""

    colours = ("sync",)


class TestAwaited(OnAccount, OurPromises):
    """Over its asynchronous client, which only an event loop can use."""

    colours = ("async",)
    # Thousands of requests that are the same in both colours are made once, above.
    test_death_while_a_call_is_under_way = None
    test_death_between_calls = None
    test_going_on_where_the_last_answer_was = None
    test_reads_by_id_touch_no_more_in_a_long_thread = None

    async def open_saver(self) -> AsyncIterator[CosmosDBSaver]:
        async with CosmosDBSaver(**self.account.names()) as saver:
            yield saver


class TestInThreads(OnAccount, StepConformance):
    """Awaited methods over the blocking client: each call has a thread to itself."""

    colours = ("async",)
    not_asked = frozenset(
        ("put", "put_writes", "get_tuple", "list", "delete_thread", "delete_for_runs", "copy_thread", "prune")
    ) | {"delta_channel_history", "prune_rules"}


class TestTwoRanges(OnAccount, DeleteForRunsConformance):
    """Queries over all threads where the service has split the container."""

    not_asked = TestInThreads.not_asked - {"delete_for_runs"} | {"put_step", "open_writer", "expected_head"}

    @pytest.fixture(autouse=True)
    def _account(self, split: cosmosdb.Account) -> None:
        self.account = split
