"""What only a pickle can carry travels when pickles are asked for; secrets of pydantic 1 come back as such."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pydantic.v1
import pytest

from threadmark.checkpoint.serde.errors import SerializationError
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer

ODD = {
    "mixed": pd.DataFrame({"a": [1, "x", [1]]}),
    "periods": pd.DataFrame({"p": pd.period_range("2020", periods=2, freq="M")}),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("wrap", [lambda frame: frame, lambda frame: {"deep": [frame]}])
def test_a_frame_that_arrow_cannot_carry_is_pickled_when_asked(name: str, wrap: Any) -> None:
    frame = ODD[name]
    serde = JsonPlusSerializer(pickle_fallback=True)
    back = serde.loads_typed(serde.dumps_typed(wrap(frame)))
    assert (back["deep"][0] if isinstance(back, dict) else back).equals(frame)
    with pytest.raises(SerializationError, match="Arrow"):
        JsonPlusSerializer().dumps_typed(wrap(frame))


def test_a_frame_that_arrow_can_carry_is_no_pickle() -> None:
    written = JsonPlusSerializer(pickle_fallback=True).dumps_typed(pd.DataFrame({"a": [1, 2]}))
    assert JsonPlusSerializer().loads_typed(written).equals(pd.DataFrame({"a": [1, 2]}))


@pytest.mark.parametrize("secret", [pydantic.v1.SecretStr("s"), pydantic.v1.SecretBytes(b"s")])
def test_secrets_of_pydantic_1(secret: Any) -> None:
    serde = JsonPlusSerializer()
    back = serde.loads_typed(serde.dumps_typed({"key": secret}))["key"]
    assert type(back) is type(secret)
    assert back.get_secret_value() == secret.get_secret_value()
