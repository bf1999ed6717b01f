"""``open_saver``: which store a name means, and the key in the environment."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.open import open_saver
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import SaverError, ThreadmarkError


@pytest.mark.parametrize("name", [":memory:", "sqlite:///:memory:", "sqlite://"])
def test_names(name: str) -> None:
    with open_saver(name) as saver:
        assert isinstance(saver, SqliteSaver)
        assert isinstance(saver.serde, JsonPlusSerializer)


def test_an_unknown_scheme_says_what_there_is() -> None:
    with pytest.raises(ValueError, match="sqlite:///"):
        open_saver("mysql://host/db")


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
