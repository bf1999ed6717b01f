"""Rows for data frames: Arrow tables, pandas and polars, all as uncompressed Arrow streams.

A frame is read back while it is written and compared, since Arrow has not every dtype and index that the libraries
have; what would come back otherwise is refused then and there.
"""

from __future__ import annotations

import io
import sys
from importlib import import_module
from typing import Any

from threadmark.checkpoint.serde.arrow_stream import refuse_bomb
from threadmark.checkpoint.serde.kinds import Kind

__all__ = ["KINDS", "family"]


# -- Arrow ---------------------------------------------------------------------------------------------------


def _stream(table: Any) -> bytes:
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


def _table(data: bytes) -> Any:
    schema, batches = _tables(data)
    return import_module("pyarrow").Table.from_batches(batches, schema)


def _batch(data: bytes) -> Any:
    schema, batches = _tables(data)
    if len(batches) == 1:
        return batches[0]
    return import_module("pyarrow").RecordBatch.from_pylist([], schema)


# -- pandas --------------------------------------------------------------------------------------------------


def _pandas_down(frame: Any) -> list[Any]:
    pa = import_module("pyarrow")
    beside = _beside(frame)
    try:
        parts = [_stream(pa.Table.from_pandas(frame)), *([beside] if beside else [])]
        back = _pandas(parts)
    except Exception as error:
        raise TypeError(f"this frame does not fit into Arrow ({error}); {_ADVICE}") from error
    for name, lost in _differences(frame, back):
        raise TypeError(f"{name} of this frame does not survive Arrow ({lost}); {_ADVICE}")
    return parts


def _beside(frame: Any) -> dict[str, Any]:
    """What pandas knows and Arrow does not: attrs, numbered columns, the frequency of a time index."""
    found: dict[str, Any] = {}
    if frame.attrs:
        found["attrs"] = dict(frame.attrs)
    if type(frame.columns).__name__ == "RangeIndex":
        found["columns"] = [frame.columns.start, frame.columns.stop, frame.columns.step]
    if getattr(frame.index, "freq", None) is not None:
        found["freq"] = frame.index.freqstr
    return found


_ADVICE = "give its columns fixed dtypes and text names, or store frame.to_dict('list')"


def _differences(frame: Any, back: Any) -> list[tuple[str, str]]:
    found = [
        (f"the {axis}", f"{type(mine).__name__} of {mine.dtype} becomes {type(other).__name__} of {other.dtype}")
        for axis, mine, other in (("index", frame.index, back.index), ("column axis", frame.columns, back.columns))
        if type(mine) is not type(other) or mine.dtype != other.dtype or not mine.equals(other)
        or list(mine.names) != list(other.names) or getattr(mine, "freq", None) != getattr(other, "freq", None)
    ]  # fmt: skip
    if found:
        return found
    found += [
        (f"column {name!r}", f"{mine} becomes {other}")
        for name, mine, other in zip(frame.columns, frame.dtypes, back.dtypes, strict=True)
        if mine != other
    ]
    if not found and not frame.equals(back):
        found.append(("a value", "mixed types in one column"))
    return found


def _pandas(parts: list[Any]) -> Any:
    stream, beside = parts if len(parts) > 1 else (*parts, {})
    pd = import_module("pandas")
    frame = _table(stream).to_pandas()
    if "columns" in beside:
        frame.columns = pd.RangeIndex(*beside["columns"], name=frame.columns.name)
    if "freq" in beside:
        frame.index.freq = beside["freq"]
    frame.attrs.update(beside.get("attrs", {}))
    return frame


def _series_down(series: Any) -> list[Any]:
    return [series.name, series.to_frame("_")]


def _series(parts: list[Any]) -> Any:
    name, frame = parts
    return frame["_"].rename(name)


def _timestamp_down(moment: Any) -> list[Any]:
    return [moment.to_datetime64().astype("int64").item(), moment.unit, moment.tzinfo, moment.fold]


def _timestamp(parts: list[Any]) -> Any:
    value, unit, zone, fold = parts
    pd, np = import_module("pandas"), import_module("numpy")
    moment = pd.Timestamp(np.datetime64(value, unit)).as_unit(unit)
    if zone is not None:
        moment = moment.tz_localize("UTC").tz_convert(zone)
    return moment.replace(fold=fold) if fold else moment


def _timedelta(parts: list[Any]) -> Any:
    value, unit = parts
    return import_module("pandas").Timedelta(import_module("numpy").timedelta64(value, unit)).as_unit(unit)


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


_EQUAL = "dtypes, index and values"
TABLE = Kind(0x78, "pyarrow:Table", _stream, _table, raw=True, equal=".equals(), same schema")
BATCH = Kind(0x79, "pyarrow:RecordBatch", _stream, _batch, raw=True, equal=".equals(), same schema")
FRAME = Kind(0x7A, "pandas:DataFrame", _pandas_down, _pandas, equal=_EQUAL, note="what Arrow can carry exactly")
SERIES = Kind(0x7B, "pandas:Series", _series_down, _series, equal=_EQUAL, note="what Arrow can carry exactly")
TIMESTAMP = Kind(0x74, "pandas:Timestamp", _timestamp_down, _timestamp, note="unit and zone included")
TIMEDELTA = Kind(0x75, "pandas:Timedelta",
                 lambda delta: [delta.to_timedelta64().astype("int64").item(), delta.unit], _timedelta)  # fmt: skip
POLARS = Kind(0x7D, "polars:DataFrame", _polars_down, _polars, raw=True, equal=".equals(), same schema")
POLARS_SERIES = Kind(0x7E, "polars:Series", _polars_series_down, _polars_series, equal=".equals(), same dtype")
KINDS: tuple[Kind, ...] = (TABLE, BATCH, FRAME, SERIES, TIMESTAMP, TIMEDELTA, POLARS, POLARS_SERIES)

_ROWS = {row.type: row for row in KINDS}


def family(cls: type) -> Kind | None:
    """The row of a type that belongs to one of the libraries, wherever in it the class was defined."""
    library = cls.__module__.partition(".")[0]
    row = _ROWS.get(f"{library}:{cls.__name__}")
    return row if row is not None and getattr(sys.modules.get(library), cls.__name__, None) is cls else None
