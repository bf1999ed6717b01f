"""Addresses of Cosmos DB accounts: names, connection strings, URLs; and what the SDK's errors become."""

from __future__ import annotations

from typing import Any

import pytest
from azure.core.exceptions import AzureError, ClientAuthenticationError, ServiceRequestError, ServiceResponseError
from azure.cosmos.exceptions import CosmosBatchOperationError, CosmosHttpResponseError

from threadmark.checkpoint.cosmosdb.connection import Address, address, address_from
from threadmark.checkpoint.cosmosdb.errors import InTheWay, Unheard, is_missing_item, translated
from threadmark.errors import SaverError, Unavailable


@pytest.fixture(autouse=True)
def _no_account_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COSMOSDB_ENDPOINT", "COSMOSDB_KEY"):
        monkeypatch.delenv(name, raising=False)


def parts(found: Address) -> tuple[Any, ...]:
    return found.endpoint, found.credential, found.database, found.container


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("AccountEndpoint=https://a:443/;AccountKey=k==;", ("https://a:443/", "k==", "threadmark", "checkpoints")),
        ("AccountEndpoint=https://a/;Database=d;Container=c", ("https://a/", None, "d", "c")),
        ("accountendpoint=https://a/;accountkey=k", ("https://a/", "k", "threadmark", "checkpoints")),
        ("cosmosdb://a.documents.azure.com", ("https://a.documents.azure.com/", None, "threadmark", "checkpoints")),
        ("cosmosdb://a:8081/d/c%20d?key=k%2B%3D", ("https://a:8081/", "k+=", "d", "c d")),
        ("cosmosdb://a/d?key=k+k==", ("https://a/", "k+k==", "d", "checkpoints")),
        ("cosmosdb+http://localhost:8081/d/c", ("http://localhost:8081/", None, "d", "c")),
        ("https://a.documents.azure.com:443/d/c", ("https://a.documents.azure.com:443/", None, "d", "c")),
    ],
)
def test_texts(text: str, wanted: tuple[Any, ...]) -> None:
    assert parts(address_from(text)) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "", "AccountKey=hush", "AccountEndpoint=https://a/;Other=hush", "cosmosdb://", "cosmosdb://a/d/c/e?key=hush",
        "cosmosdb://a/d/c?secret=hush",
    ],
)  # fmt: skip
def test_texts_that_say_something_else(text: str) -> None:
    with pytest.raises(ValueError, match="Cosmos DB is") as caught:
        address_from(text)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("names", [(None, "c"), ("d", None), ("d", ""), (7, "c")])
def test_names_must_be_names(names: Any) -> None:
    with pytest.raises(TypeError, match="_name must be a name"):
        address(*names, endpoint="https://a/", credential="k", options=None)


def test_a_key_is_not_told() -> None:
    found = address("d", "c", endpoint="https://a/", credential="hush", options={"proxies": "hush"})
    assert "hush" not in repr(found)
    assert found.place == "container 'c' of database 'd' at https://a/"


def test_options_are_the_user_s_where_they_say_something() -> None:
    found = address("d", "c", endpoint="https://a/", credential="k", options={"retry_throttle_total": 2, "x": 1})
    assert found.client_options() == {"retry_throttle_total": 2, "retry_throttle_backoff_max": 30, "x": 1}


class Response:
    """What the SDK keeps of an answer."""

    reason = ""

    def __init__(self, status: int, sub_status: int = 0) -> None:
        self.status_code, self.headers = status, {"x-ms-substatus": str(sub_status)}

    def text(self) -> str:
        return ""


def answer(status: int, sub_status: int = 0) -> CosmosHttpResponseError:
    return CosmosHttpResponseError(status_code=status, message="said", response=Response(status, sub_status))


def in_batch(status: int) -> CosmosBatchOperationError:
    return CosmosBatchOperationError(
        error_index=0, headers={}, status_code=status, message="said", operation_responses=[]
    )


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (in_batch(409), InTheWay),
        (in_batch(412), InTheWay),
        (in_batch(404), InTheWay),
        (in_batch(449), InTheWay),
        (in_batch(429), Unavailable),
        (in_batch(413), SaverError),
        (answer(449), InTheWay),
        (answer(429), Unavailable),
        (answer(503), Unheard),
        (answer(500), Unheard),
        (answer(401), SaverError),
        (answer(403), SaverError),
        (answer(404, 1003), SaverError),
        (answer(400), SaverError),
        (ClientAuthenticationError("said"), SaverError),
        (ServiceRequestError("said"), Unavailable),
        (ServiceResponseError("said"), Unheard),
        (AzureError("said"), SaverError),
    ],
)
def test_errors_of_the_sdk(error: AzureError, kind: type[Exception]) -> None:
    found = translated(error, "the place", writing=True)
    assert type(found) is kind
    if kind is not InTheWay:
        assert str(found).startswith("the place ")


def test_a_read_that_was_not_heard_is_only_unavailable() -> None:
    for error in (answer(503), ServiceResponseError("said")):
        assert type(translated(error, "the place")) is Unavailable


def test_an_item_that_is_missing_is_no_missing_container() -> None:
    assert is_missing_item(answer(404))
    assert not is_missing_item(answer(404, 1003))
    assert not is_missing_item(answer(409))
    assert not is_missing_item(ServiceRequestError("said"))
