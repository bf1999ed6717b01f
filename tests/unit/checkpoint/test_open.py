"""``open_saver``: which store a name means, and the key in the environment."""

from __future__ import annotations

import logging
from importlib import metadata
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from threadmark.checkpoint.base import BaseCheckpointSaver
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.names import without_secrets
from threadmark.checkpoint.open import GROUP, SCHEMES, open_saver, saver_class
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import SaverError, ThreadmarkError


@pytest.mark.parametrize("name", [":memory:", "sqlite:///:memory:", "sqlite://"])
def test_names(name: str) -> None:
    with open_saver(name) as saver:
        assert isinstance(saver, SqliteSaver)
        assert isinstance(saver.serde, JsonPlusSerializer)


@pytest.mark.parametrize("name", [None, "", 5])
def test_no_name_is_told_as_that(name: Any) -> None:
    with pytest.raises(ValueError, match="name the store"):
        open_saver(name)


@pytest.mark.parametrize("name", ["memory", "memory:"])
def test_a_store_in_memory_is_not_made_as_a_file(name: str) -> None:
    with pytest.raises(ValueError, match="say ':memory:'"):
        open_saver(name)


def test_an_unknown_scheme_says_what_there_is() -> None:
    with pytest.raises(ValueError, match="sqlite:///") as caught:
        open_saver("mysql://user:hush@host/db")
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
def test_every_scheme_has_a_class_that_opens_it(scheme: str) -> None:
    kind = saver_class(f"{scheme}://place")
    assert issubclass(kind, BaseCheckpointSaver)
    assert callable(kind.from_conn_string)


class Elsewhere(InMemorySaver):
    """A saver of somebody else's, which a package of theirs would name in its entry points."""

    url: str

    @classmethod
    def from_conn_string(cls, url: str, *, serde: Any = None) -> Elsewhere:
        made = cls(serde=serde)
        made.url = url
        return made


@pytest.fixture
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    points = EntryPoints([EntryPoint("elsewhere", f"{__name__}:Elsewhere", GROUP)])
    monkeypatch.setattr(metadata, "entry_points", lambda *, group: points.select(group=group))


@pytest.mark.usefixtures("_installed")
def test_a_package_of_others_adds_a_scheme() -> None:
    with open_saver("elsewhere://there") as saver:
        assert (type(saver).__name__, saver.url) == ("Elsewhere", "elsewhere://there")
    with pytest.raises(ValueError, match="elsewhere://"):
        open_saver("mysql://host/db")


@pytest.mark.usefixtures("_installed")
def test_what_cannot_be_opened_read_only_says_so() -> None:
    with pytest.raises(ValueError, match="Elsewhere cannot open a store read-only"):
        open_saver("elsewhere://there", read_only=True)


def test_read_only(tmp_path: Path) -> None:
    path = str(tmp_path / "threads.db")
    with pytest.raises(ThreadmarkError):
        open_saver(path, read_only=True)
    with open_saver(f"sqlite:///{path}") as saver:
        saver.put(config(), checkpoint({"a": 1}), {}, {"a": 1})
    with open_saver(path, read_only=True) as saver:
        assert saver.get(config())["channel_values"] == {"a": 1}
        with pytest.raises(SaverError):
            saver.delete_thread("t")


@pytest.mark.parametrize("variable", ["LANGGRAPH_AES_KEY", "THREADMARK_AES_KEY"])
def test_a_key_in_the_environment_is_used_and_said(
    variable: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(variable, "0123456789abcdef")
    with caplog.at_level(logging.INFO, logger="threadmark"), open_saver(":memory:") as saver:
        assert isinstance(saver.serde, EncryptedSerializer)
    assert variable in caplog.text
    assert "0123456789abcdef" not in caplog.text
    own = JsonPlusSerializer()
    with open_saver(":memory:", serde=own) as saver:
        assert saver.serde is own


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("threads.db", "threads.db"),
        ("db://user:p@ss@host:1/name?password=hush#hush", "db://host:1/name"),
        ("db://host/name", "db://host/name"),
        ("db://user:hu?sh@host/name", "db://host/name"),
        ("db://user:hu#sh/@host/name?a=1", "db://host/name"),
    ],
)
def test_messages_show_no_secrets(name: str, shown: str) -> None:
    assert without_secrets(name) == shown
