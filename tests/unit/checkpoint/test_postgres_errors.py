"""What is said when no connection could be made: whether to try again, and nothing of a password."""

from __future__ import annotations

import psycopg
import pytest

from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.checkpoint.postgres.errors import unreachable
from threadmark.errors import SaverError, Unavailable


@pytest.mark.parametrize(
    "said",
    [
        "failed to resolve host 'cret@db.example': [Errno -2] Name or service not known",
        'could not translate host name "cret@db.example" to address: Name or service not known',
    ],
)
def test_what_may_be_a_part_of_a_password_is_not_repeated(said: str) -> None:
    error = unreachable(psycopg.OperationalError(said))
    assert type(error) is Unavailable
    assert "cret" not in str(error)
    assert "Name or service not known" in str(error)


def test_a_password_with_an_at_sign_is_not_shown() -> None:
    with (
        pytest.raises(SaverError) as caught,
        PostgresSaver.from_conn_string("postgresql://me:se@cret@nowhere.invalid/db") as saver,
    ):
        saver.get_tuple({"configurable": {"thread_id": "t"}})
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    "said",
    [
        'password authentication failed for user "me"',
        "fe_sendauth: no password supplied",
        'database "x" does not exist',
    ],
)
def test_what_will_not_change_by_itself_is_no_call_to_try_again(said: str) -> None:
    assert type(unreachable(psycopg.OperationalError(f"connection failed: {said}"))) is SaverError
