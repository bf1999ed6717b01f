"""Rows for pandas: frames and series through Arrow, timestamps and timedeltas.

pandas rebuilds a frame from a description that it lays into the Arrow schema. Of that only forms are taken which are
known to name dtypes; whatever else a description can say, it may not say here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import tzinfo
from importlib import import_module
from typing import Any

from threadmark.checkpoint.serde.frames import is_known_zone, of_library, stream_of, table_of
from threadmark.checkpoint.serde.kinds import Kind

__all__ = ["KINDS", "family"]


def _pandas_down(frame: Any) -> list[Any]:
    pa = import_module("pyarrow")
    beside = _beside(frame)
    try:
        parts = [stream_of(_checked(pa.Table.from_pandas(frame))), *([beside] if beside else [])]
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
    frame = _checked(table_of(stream)).to_pandas()
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
        # pandas would look the name of a zone up in packages.
        if not isinstance(zone, tzinfo):
            raise TypeError(f"the zone of a timestamp is {type(zone).__name__}, not tzinfo")
        moment = moment.tz_localize("UTC").tz_convert(zone)
    return moment.replace(fold=fold) if fold else moment


def _timedelta(parts: list[Any]) -> Any:
    value, unit = parts
    return import_module("pandas").Timedelta(import_module("numpy").timedelta64(value, unit)).as_unit(unit)


_DTYPE = re.compile(
    r"object|str|bool|boolean|category|string(\[\w+\])?|[uU]?[iI]nt(8|16|32|64)|[fF]loat(16|32|64)"
    r"|(datetime64|timedelta64)(\[(s|ms|us|ns)\])?|[a-z0-9_]+\[pyarrow\]"
)
_COUNTS = ("num_categories", "precision", "scale")
_NOTES: dict[str, set[Any]] = {"encoding": {"UTF-8"}, "ordered": {True, False}}


def _checked(table: Any) -> Any:
    """The table, if the description that pandas is going to follow says nothing unusual."""
    noted = json.loads((table.schema.metadata or {}).get(b"pandas", b"{}").decode())
    for problem in _unusual(noted):
        raise TypeError(f"the description of a frame says {problem!r}, which is not stored")
    return table


def _unusual(noted: dict[str, Any]) -> Iterator[Any]:
    for column in [*noted.get("columns", ()), *noted.get("column_indexes", ())]:
        if not _DTYPE.fullmatch(str(column.get("numpy_type"))) or not str(column.get("pandas_type")).isidentifier():
            yield column
        for name, value in (column.get("metadata") or {}).items():
            known = is_known_zone(value) if name == "timezone" else type(value) is int and name in _COUNTS
            if not known and value not in _NOTES.get(name, ()):
                yield {name: value}
    for index in noted.get("index_columns", ()):
        numbers = isinstance(index, dict) and [index.get(name) for name in ("start", "stop", "step")]
        if not isinstance(index, str) and not (numbers and all(type(number) is int for number in numbers)):
            yield index


_EQUAL = "dtypes, index and values"
_NOTE = "what Arrow can carry exactly"
FRAME = Kind(0x7A, "pandas:DataFrame", _pandas_down, _pandas, equal=_EQUAL, note=_NOTE)
SERIES = Kind(0x7B, "pandas:Series", _series_down, _series, equal=_EQUAL, note=_NOTE)
TIMESTAMP = Kind(0x74, "pandas:Timestamp", _timestamp_down, _timestamp, note="unit and zone included")
TIMEDELTA = Kind(0x75, "pandas:Timedelta",
                 lambda delta: [delta.to_timedelta64().astype("int64").item(), delta.unit], _timedelta)  # fmt: skip
KINDS: tuple[Kind, ...] = (FRAME, SERIES, TIMESTAMP, TIMEDELTA)

_ROWS = {row.type: row for row in KINDS}


def family(cls: type) -> Kind | None:
    """The row of a type that belongs to pandas."""
    return of_library(cls, _ROWS)
