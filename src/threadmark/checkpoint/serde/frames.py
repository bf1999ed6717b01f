"""Rows for Arrow tables and polars frames, as uncompressed Arrow streams.

A frame is read back while it is written and compared, since Arrow has not every dtype and index that the libraries
have; what would come back otherwise is refused then and there.
"""

from __future__ import annotations

import io
import re
import sys
from importlib import import_module
from typing import Any

from threadmark.checkpoint.serde.arrow_stream import refuse_bomb
from threadmark.checkpoint.serde.kinds import Kind
from threadmark.checkpoint.serde.stdlib import is_zone

__all__ = ["KINDS", "family", "is_known_zone", "of_library", "stream_of", "table_of"]


_OFFSET = re.compile(r"[+-][0-9]{2}:[0-9]{2}")


# -- Arrow ---------------------------------------------------------------------------------------------------


def stream_of(table: Any) -> bytes:
    """An Arrow table or batch as a stream. Raises for types that are not stored."""
    pa = import_module("pyarrow")
    for field in table.schema:
        _check_type(pa, field.type, field.name)
    sink = pa.BufferOutputStream()
    with import_module("pyarrow.ipc").new_stream(sink, table.schema) as writer:
        writer.write(table)
    stream: bytes = sink.getvalue().to_pybytes()
    refuse_bomb(stream)
    return stream


def _tables(data: bytes) -> tuple[Any, list[Any]]:
    """Schema and batches of a stream, each checked by Arrow itself."""
    refuse_bomb(data)
    pa = import_module("pyarrow")
    reader = import_module("pyarrow.ipc").open_stream(data)
    for field in reader.schema:
        _check_type(pa, field.type, field.name)
    batches = list(reader)
    for batch in batches:
        batch.validate(full=True)
    return reader.schema, batches


def _check_type(pa: Any, kind: Any, name: str) -> None:
    """Refuses types whose values can overlap or repeat, so that few bytes would become many."""
    types = pa.types
    if types.is_dictionary(kind) or types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        _check_type(pa, kind.value_type, name)
    elif types.is_timestamp(kind) and kind.tz is not None:
        if not is_known_zone(kind.tz):
            raise TypeError(f"column {name!r} is in an unknown time zone {kind.tz!r}")
    elif types.is_struct(kind):
        for at in range(kind.num_fields):
            _check_type(pa, kind.field(at).type, name)
    elif not (
        types.is_primitive(kind)
        or types.is_null(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_decimal(kind)
    ):
        raise TypeError(f"column {name!r} has the Arrow type {kind}, which is not stored; cast it first")


def table_of(data: bytes) -> Any:
    """The table of a stream, checked. Raises for anything that is none, or a bomb."""
    schema, batches = _tables(data)
    return import_module("pyarrow").Table.from_batches(batches, schema)


def is_known_zone(name: Any) -> bool:
    """Whether Arrow's name of a time zone is a fixed offset or a zone of this system."""
    return type(name) is str and (_OFFSET.fullmatch(name) is not None or is_zone(name))


def _batch(data: bytes) -> Any:
    schema, batches = _tables(data)
    if len(batches) == 1:
        return batches[0]
    return import_module("pyarrow").RecordBatch.from_pylist([], schema)


# -- polars --------------------------------------------------------------------------------------------------


def _polars_down(frame: Any) -> bytes:
    pl = import_module("polars")
    buffer = io.BytesIO()
    try:
        frame.write_ipc_stream(buffer, compression="uncompressed", compat_level=pl.CompatLevel.oldest())
    except BaseException as error:
        # Rust code that panics raises something that is no Exception.
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        raise TypeError(f"this frame does not fit into Arrow ({error}); cast its columns to plain types") from None
    back = _polars(buffer.getvalue())
    if back.schema != frame.schema or not back.equals(frame):
        raise TypeError(f"this frame does not survive Arrow ({frame.schema} becomes {back.schema}); cast its columns")
    return buffer.getvalue()


def _polars(data: bytes) -> Any:
    refuse_bomb(data)
    try:
        return import_module("polars").read_ipc_stream(io.BytesIO(data), use_pyarrow=False)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        raise ValueError(f"polars cannot read the stored frame: {error}") from None


def _polars_series_down(series: Any) -> list[Any]:
    return [series.name, series.to_frame("_")]


def _polars_series(parts: list[Any]) -> Any:
    name, frame = parts
    return frame["_"].rename(name)


TABLE = Kind(0x78, "pyarrow:Table", stream_of, table_of, raw=True, equal=".equals(), same schema")
BATCH = Kind(0x79, "pyarrow:RecordBatch", stream_of, _batch, raw=True, equal=".equals(), same schema")
POLARS = Kind(0x7D, "polars:DataFrame", _polars_down, _polars, raw=True, equal=".equals(), same schema")
POLARS_SERIES = Kind(0x7E, "polars:Series", _polars_series_down, _polars_series, equal=".equals(), same dtype")
KINDS: tuple[Kind, ...] = (TABLE, BATCH, POLARS, POLARS_SERIES)

_ROWS = {row.type: row for row in KINDS}


def family(cls: type) -> Kind | None:
    """The row of a type that belongs to pyarrow or polars, wherever in them the class was defined."""
    return of_library(cls, _ROWS)


def of_library(cls: type, rows: dict[str, Kind]) -> Kind | None:
    """The row of a class that its library offers at the top under this name."""
    library = cls.__module__.partition(".")[0]
    row = rows.get(f"{library}:{cls.__name__}")
    return row if row is not None and getattr(sys.modules.get(library), cls.__name__, None) is cls else None
