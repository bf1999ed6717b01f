"""``Retention``: what it refuses, and ages in either form."""

from __future__ import annotations

from datetime import timedelta
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
        ({"older_than": float("nan")}, "NaN"),
    ],
)
def test_a_policy_that_keeps_nothing_or_everything_is_refused(given: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Retention(**given)


def test_one_text_is_not_several_namespaces() -> None:
    with pytest.raises(TypeError, match=r"namespaces=\('child',\)"):
        Retention(keep_last=1, namespaces="child")


def test_an_age_is_a_timedelta_or_seconds() -> None:
    assert Retention(older_than=90).age == Retention(older_than=timedelta(minutes=1.5)).age == timedelta(seconds=90)
    assert Retention(keep_last=1).age == timedelta(0)
