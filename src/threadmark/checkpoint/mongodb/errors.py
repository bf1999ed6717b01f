"""The driver's errors, translated at one door."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pymongo.errors import (
    BulkWriteError,
    ConnectionFailure,
    DocumentTooLarge,
    ExecutionTimeout,
    InvalidOperation,
    OperationFailure,
    PyMongoError,
    WaitQueueTimeoutError,
    WTimeoutError,
)

from threadmark.checkpoint.records import Conflict
from threadmark.errors import SaverError, Unavailable

DUPLICATE: Final = 11000
WRITE_CONFLICT: Final = 112
_CONFLICTS: Final = frozenset((WRITE_CONFLICT, 251, DUPLICATE))
"""Write conflict; a transaction that the server has given up; a document that another writer has just made."""
_TOO_LARGE: Final = frozenset((10334, 17419, 17420))
_REFUSED: Final = frozenset((8000, 13, 18))
_PASSING: Final = frozenset((6, 7, 50, 64, 89, 91, 189, 262, 317, 9001, 10107, 11600, 11602, 13435, 13436))
"""No host or network, out of time, no (longer a) primary, shutting down: MongoDB's own list of what to try again."""


@contextmanager
def door(place: str) -> Iterator[None]:
    """Errors of the driver leave this block as ours."""
    try:
        yield
    except PyMongoError as error:
        raise translated(error, place) from error


def translated(error: PyMongoError, place: str) -> Exception:
    """The error of ours that says what happened and what to do; the driver's own where it says it better."""
    code = code_of(error)
    if error.has_error_label("TransientTransactionError") or code in _CONFLICTS:
        return Conflict()
    if isinstance(error, (ConnectionFailure, ExecutionTimeout, WTimeoutError, WaitQueueTimeoutError)):
        return Unavailable(f"{place} could not be reached; try again, or look at the server ({_told(error)})")
    if code in _PASSING:
        return Unavailable(f"{place} cannot do this now; try again ({_told(error)})")
    if code in _REFUSED:
        return SaverError(f"{place} does not let us in or lets us not do this; look at user and roles ({_told(error)})")
    if isinstance(error, DocumentTooLarge) or code in _TOO_LARGE:
        return SaverError(f"{place} takes no document as long as this one; nothing of it was stored ({_told(error)})")
    if isinstance(error, InvalidOperation) and "close" in str(error):
        return SaverError(f"the saver on {place} is closed; open a new one")
    return error


def code_of(error: PyMongoError) -> int | None:
    """The server's code; of several errors the first one's."""
    if isinstance(error, BulkWriteError):
        details = error.details or {}
        found = [*details.get("writeErrors", ()), *details.get("writeConcernErrors", ())]
        return found[0].get("code") if found else None
    return error.code if isinstance(error, OperationFailure) else None


def _told(error: PyMongoError) -> str:
    """The driver's words, without the descriptions of servers that it puts behind them."""
    return str(error).partition(", Timeout:")[0].partition(", full error:")[0][:300]
