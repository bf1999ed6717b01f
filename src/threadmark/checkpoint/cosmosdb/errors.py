"""The SDK's errors, translated at one door."""

from __future__ import annotations

from typing import Final

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ServiceRequestError,
    ServiceResponseError,
)
from azure.cosmos.exceptions import CosmosBatchOperationError, CosmosClientTimeoutError, CosmosHttpResponseError

from threadmark.errors import SaverError, Unavailable

IN_THE_WAY: Final = frozenset((404, 409, 412, 424, 449))
"""How an operation of a batch ends, and nothing is stored, because another writer was faster."""
BUSY: Final = frozenset((408, 410, 429, 449))
_OWNER_MISSING: Final = 1003


class InTheWay(Exception):
    """A batch was refused, whole, because of what another writer has stored or removed."""


class Unheard(Unavailable):
    """A batch may have been stored, or not: the answer to it never came."""


def is_missing_item(error: AzureError) -> bool:
    """Whether a point read found nothing, though there is a container."""
    return isinstance(error, CosmosHttpResponseError) and error.status_code == 404 and not _no_container(error)


def is_there_already(error: AzureError) -> bool:
    """Whether something could not be made because somebody else has made it."""
    return isinstance(error, CosmosHttpResponseError) and error.status_code == 409


def is_not_there(error: AzureError) -> bool:
    """Whether what was asked for does not exist."""
    return isinstance(error, CosmosHttpResponseError) and error.status_code == 404


def translated(error: AzureError, place: str, *, writing: bool = False) -> Exception:
    """The error of ours that says what happened and what to do. ``writing``: it may have happened all the same."""
    status = error.status_code if isinstance(error, HttpResponseError) else None
    if isinstance(error, CosmosBatchOperationError) and status in IN_THE_WAY:
        return InTheWay(str(status))
    if isinstance(error, CosmosClientTimeoutError | ServiceResponseError):
        kind = Unheard if writing else Unavailable
        return kind(f"{place} did not answer ({_short(error)}); try again")
    if isinstance(error, ClientAuthenticationError) or status in (401, 403):
        return SaverError(
            f"{place} refuses us ({_short(error)}); look at the key, or at the role that the identity has in the "
            f"account (Cosmos DB Built-in Data Contributor; making databases and containers needs more)"
        )
    if isinstance(error, CosmosHttpResponseError) and _no_container(error):
        return SaverError(f"{place} does not exist any more; call setup() to make it, or name another")
    if status == 449:
        return InTheWay(str(status))
    if status in BUSY or isinstance(error, ServiceRequestError):
        return Unavailable(f"{place} is too busy or cannot be reached ({_short(error)}); try again, or raise its units")
    if status is not None and status >= 500:
        kind = Unheard if writing else Unavailable
        return kind(f"{place} has a fault ({_short(error)}); try again")
    return SaverError(f"{place} answers what was not expected: {_short(error)}")


def _no_container(error: CosmosHttpResponseError) -> bool:
    return error.status_code == 404 and error.sub_status == _OWNER_MISSING


def _short(error: AzureError) -> str:
    status = error.status_code if isinstance(error, HttpResponseError) else None
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"{'' if status is None else f'{status}: '}{lines[0][:200]}"
