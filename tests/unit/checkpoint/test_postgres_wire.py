"""Values as PostgreSQL's binary protocol has them, and texts that it could not hold as they are."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadmark.checkpoint.postgres import errors
from threadmark.checkpoint.postgres.call import PARAMETERS, Believed, values_of
from threadmark.checkpoint.postgres.statements import Statements, quoted
from threadmark.checkpoint.postgres.wire import BLOBS, INTS, TEXTS, Kind, put_text, take_text
from threadmark.checkpoint.records import CheckpointRow, Columns, Conflict, TaskRow
from threadmark.errors import DamagedRow, SaverError, Unavailable

TEXT = st.text(st.characters(codec="utf-8")) | st.text(st.sampled_from("\0\1\2a"))


@given(TEXT)
def test_text_comes_back_and_never_holds_a_zero(text: str) -> None:
    assert take_text(put_text(text)) == text
    assert b"\0" not in put_text(text)


@given(TEXT, TEXT)
def test_text_keeps_its_order(one: str, other: str) -> None:
    assert (put_text(one) < put_text(other)) == (one.encode() < other.encode())


@pytest.mark.parametrize(
    ("kind", "items"),
    [
        (TEXTS, []),
        (TEXTS, ["a"]),
        (TEXTS, ["", "é", None, "a\0b"]),
        (TEXTS, [None]),
        (INTS, [0, -1, 2**63 - 1, -(2**63), None]),
        (BLOBS, [b"", b"\0" * 300]),
    ],
)
def test_lists_come_back(kind: Kind, items: list[Any]) -> None:
    data = kind.put(items)
    assert data is not None
    assert kind.take(data) == items


def test_a_schema_s_name_cannot_end_its_quotes() -> None:
    assert quoted('a"; DROP') == '"a""; DROP"'
    assert b'FROM "a""b".thread' in Statements('a"b').thread_ids().request[0]


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("40001", Conflict),
        ("40P01", Conflict),
        ("23505", Conflict),
        ("57P01", Conflict),
        ("08006", Conflict),
        ("53100", Unavailable),
        ("53300", Unavailable),
        ("57014", Unavailable),
        ("42501", SaverError),
        ("25006", SaverError),
        ("42P01", SaverError),
        ("54000", SaverError),
        ("XX001", DamagedRow),
        ("22000", SaverError),
        ("99999", SaverError),
    ],
)
def test_what_the_server_says_has_one_meaning(state: str, kind: type[Exception]) -> None:
    error = psycopg.DatabaseError("it said so")
    error.sqlstate = state
    found = errors.translated(error, "threadmark")
    assert type(found) is kind
    assert "it said so" in str(found)


# -- the call that stores ----------------------------------------------------------------------------------------------

NAMES = st.text(st.sampled_from("\0ab"), max_size=3)
BODIES = st.binary(max_size=3)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
MAYBE = st.none() | NAMES
COLUMNS = st.builds(Columns, MAYBE, MAYBE, st.none() | NUMBERS, MAYBE, NAMES, MAYBE)


def few(rows: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(rows, max_size=2)


@given(
    st.none()
    | st.builds(
        Believed,
        NAMES,
        st.none() | BODIES,
        st.dictionaries(NAMES, MAYBE, max_size=2),
        st.dictionaries(st.tuples(NAMES, NAMES), BODIES, max_size=2),
    ),
    few(st.tuples(BODIES, BODIES)),
    few(st.tuples(NUMBERS, BODIES)),
    few(st.builds(TaskRow, NAMES, NAMES, NAMES, NAMES, BODIES)),
    few(st.builds(CheckpointRow, NAMES, NAMES, COLUMNS, NUMBERS, BODIES)),
)
def test_a_call_is_the_same_however_few_rows_it_has(
    believed: Believed | None, segments: Any, values: Any, tasks: Any, checkpoints: Any
) -> None:
    data = values_of(7, believed, segments, values, tasks, checkpoints)
    assert type(data) is list  # psycopg before 3.3 takes nothing else
    found = [None if one is None else kind.take(one) for kind, one in zip(PARAMETERS, data, strict=True)]
    heads, bases = (list(believed.heads.items()), believed.bases.items()) if believed else ([], ())
    rows = [
        (heads, 2),
        ([(*name, body) for name, body in bases], 3),
        (segments, 2),
        (values, 2),
        (tasks, 5),
        ([(row.ns, row.id, *row.columns, row.flags, row.body) for row in checkpoints], 10),
    ]
    columns = [[row[at] for row in kind] for kind, width in rows for at in range(width)]
    first = [True, None, 7, None] if believed is None else [False, believed.thread_id, 7, believed.salt]
    assert found == [*first, *columns]
