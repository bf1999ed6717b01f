"""Paths into a value: which texts they lead to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from threadmark.store.base import get_text_at_path, tokenize_path

VALUE: dict[str, Any] = {
    "title": "Ünicode",
    "year": 1999,
    "good": True,
    "nothing": None,
    "author": {"name": "Ann", "born": {"place": "Bonn"}},
    "parts": [{"text": "one", "tags": ["x"]}, {"text": "two", "tags": ["y", "z"]}, {"other": 1}],
}


@pytest.mark.parametrize(
    ("path", "texts"),
    [
        ("title", ["Ünicode"]),
        ("year", ["1999"]),
        ("good", ["True"]),
        ("author.born.place", ["Bonn"]),
        ("author", [json.dumps(VALUE["author"], sort_keys=True)]),
        ("author.*", ["Ann", '{"place": "Bonn"}']),
        ("parts[0].text", ["one"]),
        ("parts[-2].text", ["two"]),
        ("parts[*].text", ["one", "two"]),
        ("parts[*].tags[*]", ["x", "y", "z"]),
        ("parts[*].{text,other}", ["one", "two", "1"]),
        ("{title,author.name}", ["Ünicode", "Ann"]),
        ("nothing", []),
        ("missing", []),
        ("parts[9].text", []),
        ("parts[x].text", []),
        ("parts[]", []),
        ("title.deeper", []),
        ("{title", []),
    ],
)
def test_texts_at_a_path(path: str, texts: list[str]) -> None:
    assert get_text_at_path(VALUE, path) == texts


@pytest.mark.parametrize("path", ["", "$"])
def test_all_of_a_value_is_its_json(path: str) -> None:
    (text,) = get_text_at_path(VALUE, path)
    assert json.loads(text) == VALUE
    assert "Ünicode" in text


def test_a_path_may_come_as_its_steps() -> None:
    assert tokenize_path("a.b[0].{c,d}") == ["a", "b", "[0]", "{c,d}"]
    assert get_text_at_path(VALUE, ["parts", "[0]", "text"]) == ["one"]
    assert get_text_at_path(None, "title") == []
