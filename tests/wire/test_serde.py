"""What an earlier release stored, and what LangGraph stored, still loads."""

from __future__ import annotations

import pytest

from tests.unit.checkpoint.serde.equality import same
from tests.unit.checkpoint.serde.samples import SAMPLES
from tests.wire.serde import ENCRYPTED, KEY, OURS, PEER, PLACE, SEALED, SERDE, read, stored
from tests.wire.values import PEER_VALUES
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.serde.errors import DeserializationError
from threadmark.checkpoint.serde.view import ViewSerializer

# What these libraries write says which release of them it was.
CHANGING = {name for name in SAMPLES if name.startswith(("pandas", "polars", "Arrow", "LangChain"))}


@pytest.mark.parametrize("name", SAMPLES)
def test_format_version_1_loads(name: str) -> None:
    golden = read(OURS)[name]
    assert len(golden) == len(SAMPLES[name]), "run python -m tests.wire.serde"
    for value, (tag, body) in zip(SAMPLES[name], golden, strict=True):
        assert same(value, SERDE.loads_typed((tag, bytes.fromhex(body)))), repr(value)
        ViewSerializer().loads_typed((tag, bytes.fromhex(body)))


@pytest.mark.parametrize("name", sorted(SAMPLES.keys() - CHANGING))
def test_the_same_bytes_are_written_today(name: str) -> None:
    assert [stored(value) for value in SAMPLES[name]] == read(OURS)[name]


def test_sealed_values_open() -> None:
    sealed = read(SEALED)
    [[tag, body]] = sealed["by itself"]
    assert ENCRYPTED.loads_typed((tag, bytes.fromhex(body))) == {"a": (1, {2})}
    [[_, row]] = sealed["in a row"]
    assert ENCRYPTED.bind("thread").open(PLACE, bytes.fromhex(row)) == b"row"


@pytest.mark.parametrize("name", PEER_VALUES)
def test_langgraphs_bytes_load(name: str) -> None:
    [[tag, body]] = read(PEER)[name]
    data = (tag, bytes.fromhex(body))
    ViewSerializer().loads_typed(data)
    if PEER_VALUES[name] is DeserializationError:
        with pytest.raises(DeserializationError):
            SERDE.loads_typed(data)
    else:
        value, loaded = PEER_VALUES[name], SERDE.loads_typed(data)
        # The peer does not store which fields of a model were set; equality of models leaves that out.
        assert same(value, loaded) or (type(loaded) is type(value) and loaded == value)


@pytest.mark.parametrize("mode", [9, 11])
def test_langgraphs_encrypted_bytes_load(mode: int) -> None:
    [[tag, body]] = read(PEER)[f"encrypted, mode {mode}"]
    serde = EncryptedSerializer.from_pycryptodome_aes(key=KEY, mode=mode)
    assert serde.loads_typed((tag, bytes.fromhex(body))) == {"a": [1, 2]}
