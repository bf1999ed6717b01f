"""Reads stored bytes for looking at them: no class is needed, nothing is imported, nothing is unpickled."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

from threadmark.checkpoint.serde import arrays, frames, legacy, pandas_frames, pydantics, stdlib
from threadmark.checkpoint.serde.batches import filled, spread
from threadmark.checkpoint.serde.errors import DeserializationError
from threadmark.checkpoint.serde.kinds import CLASS_CODES, PICKLE, Kind, kinds
from threadmark.checkpoint.serde.types import _DeltaSnapshot
from threadmark.checkpoint.serde.wire import Decode, Unpack, load

__all__ = ["Opaque", "ViewSerializer"]


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value whose class is not needed for looking at it.

    ``name`` is ``"module:qualname"``; ``fields`` what was stored of it: a dict of fields, the value of an enum member,
    the arguments of an exception, or a note in words.
    """

    name: str
    fields: Any

    def __hash__(self) -> int:
        # Members of sets and keys of dicts may hold what has no hash.
        return hash(self.name)


class ViewSerializer:
    """Loads every value of ours and of LangGraph, with ``Opaque`` in the place of instances. It writes nothing.

    Secrets of pydantic stay hidden. Raises DeserializationError for damaged bytes only.
    """

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        raise TypeError("this serializer is for looking at stored values; it writes none")

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        tag, body = data
        if tag == "msgpack":
            return load(body, _DECODERS)
        if tag in ("null", "empty"):
            return None
        if tag == "bytes":
            return bytes(body)
        if tag == "bytearray":
            return bytearray(body)
        if tag == "json":
            return _json(body)
        inner, plus, cipher = tag.rpartition("+")
        return Opaque(f"{inner} encrypted with {cipher}" if plus else tag, f"{len(body)} bytes")


def _json(body: bytes) -> Any:
    try:
        return json.loads(body.decode())
    except ValueError as error:
        raise DeserializationError(f"the stored JSON cannot be read: {error}") from error


def _by_row(row: Kind) -> Decode:
    """A value of the standard library as itself; where that is not possible, what was stored of it."""

    def decode(data: bytes, unpack: Unpack) -> Any:
        wire = data if row.raw else unpack(data)
        try:
            return row.up(wire)
        except Exception:
            return Opaque(row.type, wire)

    return decode


def _instance(data: bytes, unpack: Unpack) -> Any:
    name, *parts = unpack(data)
    return Opaque(str(name), _fields(parts))


def _fields(parts: list[Any]) -> Any:
    fields = parts[0] if parts else {}
    if len(parts) > 1 and fields is None:
        return parts[1]  # an enum member by its name
    # Attributes beside the fields, pydantic's extra values and the like come as further dicts.
    more = [part for part in parts[1:] if isinstance(part, dict)]
    if isinstance(fields, dict):
        return {name: value for part in (fields, *more) for name, value in part.items()}
    return [fields, *more] if more else fields


def _batch(data: bytes, unpack: Unpack) -> Any:
    payload = unpack(data)
    classes = payload[0]

    def made(rows: Any) -> list[Any]:
        return [Opaque(str(classes[number][1]), _fields(parts)) for number, *parts in spread(rows)]

    return made(filled(payload, made))


def _class(data: bytes, unpack: Unpack) -> Any:
    return Opaque("builtins:type", unpack(data)[0])


def _array(data: bytes, unpack: Unpack) -> Any:
    described, shape, _ = unpack(data[4 : 4 + int.from_bytes(data[:4], "big")])
    return Opaque("numpy:ndarray", {"dtype": described, "shape": tuple(shape)})


_NUMBERS = {"i": "bhiq", "u": "BHIQ", "f": " efd", "b": "?"}


def _scalar(data: bytes, unpack: Unpack) -> Any:
    form, value = unpack(data)
    if form:
        return value
    head, raw = unpack(value[4 : 4 + int.from_bytes(value[:4], "big")]), value[4 + int.from_bytes(value[:4], "big") :]
    dtype = head[0]
    if type(dtype) is str and len(raw) in (1, 2, 4, 8) and dtype[1:2] in _NUMBERS:
        code = _NUMBERS[dtype[1]][len(raw).bit_length() - 1]
        return struct.unpack(("<" if dtype[0] == "|" else dtype[0]) + code, raw)[0]
    return Opaque("numpy:generic", {"dtype": dtype, "bytes": raw})


def _secret(data: bytes, unpack: Unpack) -> Any:
    return Opaque(f"pydantic:{unpack(data)[0]}", "hidden")


def _named(prefix: str) -> Decode:
    def decode(data: bytes, unpack: Unpack) -> Any:
        name, fields = unpack(data)
        return Opaque(f"{prefix}:{name}", fields)

    return decode


def _size(name: str) -> Decode:
    return lambda data, _: Opaque(name, f"{len(data)} bytes")


def _peers(code: int) -> Decode:
    def decode(data: bytes, unpack: Unpack) -> Any:
        parts = unpack(data)
        if code == 7:
            return _DeltaSnapshot(parts)
        if code == 6:
            dtype, shape, *_ = parts
            return Opaque("numpy:ndarray", {"dtype": dtype, "shape": tuple(shape)})
        module, name, fields, *_ = parts
        key = f"{module}:{name}"
        if "SecretStr" in key or "SecretBytes" in key:
            return Opaque(key, "hidden")
        build = legacy.BUILDERS.get(key) if module in stdlib.MODULES else None
        if build is None:
            return Opaque(key, fields)
        try:
            if code == 2:
                return build(**fields)
            return build(*fields) if code == 1 else build(fields)
        except Exception:
            return Opaque(key, fields)

    return decode


class _Decoders(dict[int, Decode]):
    def __missing__(self, code: int) -> Decode:
        if not self:
            self.update({row.code: _by_row(row) for row in kinds()})
            self.update(dict.fromkeys(CLASS_CODES.values(), _instance))
            self.update({code: _peers(code) for code in range(8)})
            self.update({
                CLASS_CODES["class"]: _class,
                CLASS_CODES["batch"]: _batch,
                PICKLE: _size("pickle"),
                arrays.ARRAY.code: _array,
                arrays.SCALAR.code: _scalar,
                arrays.DTYPE.code: lambda data, unpack: Opaque("numpy:dtype", unpack(data)),
                arrays.OBJECTS.code: lambda data, unpack: Opaque("numpy:ndarray", unpack(data)[1]),
                **{row.code: _size(row.type) for row in frames.KINDS if row.raw},
                pandas_frames.FRAME.code: lambda data, unpack: Opaque(pandas_frames.FRAME.type, f"{len(data)} bytes"),
                pandas_frames.SERIES.code: _named("pandas.Series"),
                frames.POLARS_SERIES.code: _named("polars.Series"),
                pandas_frames.TIMESTAMP.code: lambda data, unpack: Opaque(pandas_frames.TIMESTAMP.type, unpack(data)),
                pandas_frames.TIMEDELTA.code: lambda data, unpack: Opaque(pandas_frames.TIMEDELTA.type, unpack(data)),
                pydantics.SECRET.code: _secret,
                pydantics.URL.code: _named("pydantic.networks"),
            })  # fmt: skip
            return self[code]
        return _size(f"unknown kind {code}")


_DECODERS = _Decoders()
