"""``Retention``: what it refuses, and ages in either form."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from threadmark.checkpoint.base import Retention


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "say what to keep"),
        ({"namespaces": [""]}, "say what to keep"),
        ({"keep_last": 0}, "at least 1, not 0"),
        ({"keep_last": -1}, "at least 1, not -1"),
        ({"keep_last": True}, "at least 1, not True"),
        ({"keep_last": 1.5}, "at least 1, not 1.5"),
        ({"older_than": -1}, "must not be negative"),
        ({"older_than": timedelta(seconds=-1)}, "must not be negative"),
        ({"older_than": float("nan")}, "must not be negative"),
    ],
)
def test_a_policy_that_keeps_nothing_or_everything_is_refused(given: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Retention(**given)


def test_one_text_is_not_several_namespaces() -> None:
    with pytest.raises(TypeError, match=r"namespaces=\('child',\)"):
        Retention(keep_last=1, namespaces="child")


@pytest.mark.parametrize("age", ["30d", True, None])
def test_an_age_of_another_kind_is_refused(age: Any) -> None:
    with pytest.raises(TypeError if age is not None else ValueError):
        Retention(older_than=age)


def test_an_age_is_a_timedelta_or_seconds() -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    for age in (90, 90.0, timedelta(minutes=1.5)):
        assert Retention(older_than=age).cutoff(now) == now.timestamp() - 90
    assert Retention(keep_last=1).cutoff(now) is None
