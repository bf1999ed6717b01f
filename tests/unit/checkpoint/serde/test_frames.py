"""Data frames come back exactly or are refused, and small bytes do not become large frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import ormsgpack
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from threadmark.checkpoint.serde.arrow_stream import refuse_bomb
from threadmark.checkpoint.serde.errors import DeserializationError, SerializationError
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.serde.pandas_frames import TIMESTAMP

SERDE = JsonPlusSerializer()


def test_index_columns_attrs_and_frequency_survive() -> None:
    frame = pd.DataFrame({"a": [1, 2]}, index=pd.date_range("2020-01-01", periods=2, name="day"))
    frame.attrs["unit"] = ("m", 1)
    back = SERDE.loads_typed(SERDE.dumps_typed(frame))
    pd.testing.assert_frame_equal(frame, back, check_freq=True)
    assert back.attrs == frame.attrs
    numbered = pd.DataFrame(np.arange(6).reshape(2, 3))
    assert type(SERDE.loads_typed(SERDE.dumps_typed(numbered)).columns) is pd.RangeIndex


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"mixed": [1, "a"]}),
        pd.DataFrame({"lists": [[1], [2]]}),
        pd.DataFrame({"p": pd.period_range("2020", periods=2, freq="M")}),
        pd.DataFrame({"o": [object()]}),
        pd.DataFrame({("a", 1): [1], "b": [2]}),
        pl.DataFrame({"o": pl.Series([object()], dtype=pl.Object)}),
        pa.table({"v": pa.array(["x"], pa.string_view())}),
    ],
    ids=lambda frame: str(type(frame)),
)
def test_what_arrow_cannot_carry_is_refused_on_writing(frame: Any) -> None:
    with pytest.raises(SerializationError, match=r"state\.frame: "):
        SERDE.dumps_typed({"state": {"frame": frame}})


def _stream(batch: pa.RecordBatch, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write(batch)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_streams_are_refused(codec: str) -> None:
    plain = pa.record_batch({"a": [0] * 100_000, "d": pa.array(["x"] * 100_000).dictionary_encode()})
    refuse_bomb(_stream(plain))
    with pytest.raises(ValueError, match="compressed"):
        refuse_bomb(_stream(plain, compression=codec))


def test_rows_without_bytes_are_refused() -> None:
    nulls = pa.RecordBatch.from_arrays([pa.nulls(10**9)], ["n"])
    with pytest.raises(ValueError, match="rows"):
        refuse_bomb(_stream(nulls))
    with pytest.raises(SerializationError):
        SERDE.dumps_typed(nulls)


@pytest.mark.parametrize("stream", [b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\xff\xff\xff\x7f", b"\0" * 16, b"PAR1" * 9])
def test_what_is_no_stream_is_refused(stream: bytes) -> None:
    import ormsgpack

    for code in (0x78, 0x79, 0x7D):
        with pytest.raises(DeserializationError):
            SERDE.loads_typed(("msgpack", ormsgpack.packb(ormsgpack.Ext(code, stream))))


@pytest.mark.parametrize("zone", ["UTC", "no/such", "dateutil/UTC", 3600])
def test_the_zone_of_a_timestamp_is_no_name_that_pandas_looks_up(zone: Any) -> None:
    body = ormsgpack.packb(ormsgpack.Ext(TIMESTAMP.code, ormsgpack.packb([0, "us", zone, 0])))
    with pytest.raises(DeserializationError, match="not tzinfo"):
        SERDE.loads_typed(("msgpack", body))
    moment = pd.Timestamp("2020-01-01 12:00", tz="Europe/Berlin")
    assert SERDE.loads_typed(SERDE.dumps_typed(moment)) == moment
