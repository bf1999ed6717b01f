"""Rows for numpy: arrays of any shape, order and (structured) dtype, scalars, dtypes.

An array of Python objects is a list of values, each by its own kind. What comes back is always writable.
"""

from __future__ import annotations

import re
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any

from ormsgpack import Ext, packb, unpackb

from threadmark.checkpoint.serde.kinds import Kind
from threadmark.checkpoint.serde.stdlib import expect

if TYPE_CHECKING:
    from threadmark.checkpoint.serde.wire import Encode

__all__ = ["KINDS", "dump_whole", "family", "from_parts", "load_whole"]

# From here on an extension has a length of four bytes.
_LARGE = 1 << 16
_MOST_BARE = 1 << 16


# numpy takes more than this for a dtype, and parses some of it as Python.
_SIMPLE = re.compile(r"[<>|=]?[biufcSUVMm?][0-9]*(\[[0-9]*[A-Za-z\u03bc]+\])?")


def _numpy() -> Any:
    return import_module("numpy")


def _descr(dtype: Any) -> Any:
    """What numpy's own file format says about a dtype: a text, or a list for a structured one."""
    if dtype.hasobject:
        raise TypeError(f"an array of {dtype} holds Python objects beside plain fields; store its columns apart")
    if dtype.kind not in "biufcSUVMm":
        raise TypeError(f"arrays of {dtype} have no fixed layout; convert with .astype('U') or .tolist()")
    described = _listed(_numpy().lib.format.dtype_to_descr(dtype))
    if _dtype(described) != dtype:
        raise TypeError(f"dtype {dtype!r} does not survive numpy's own description of it")
    return described


def _dtype(described: Any) -> Any:
    dtype = _numpy().lib.format.descr_to_dtype(_retupled(described))
    if dtype.hasobject:
        raise TypeError("stored arrays hold no objects in this form")
    return dtype


def _retupled(described: Any) -> Any:
    # msgpack has lists only; numpy wants (name or (title, name), format[, shape]) as tuples.
    if not isinstance(described, list):
        if type(described) is not str or not _SIMPLE.fullmatch(described):
            raise TypeError(f"{described!r} is no dtype that is stored")
        return described
    if not all(type(field) is list for field in described):
        raise TypeError("a field of a dtype is a list")
    return [_field(*field) for field in described]


def _field(name: Any, form: Any, shape: Any = None) -> tuple[Any, ...]:
    title = tuple(name) if type(name) is list else name
    if shape is None:
        return (title, _retupled(form))
    sides = shape if type(shape) is list else [shape]
    if not all(type(side) is int for side in sides):
        raise TypeError(f"{shape!r} is no shape of a field")
    return (title, _retupled(form), tuple(sides))


def _listed(described: Any) -> Any:
    if isinstance(described, tuple):
        return [_listed(part) for part in described]
    if isinstance(described, list):
        return [_listed(part) for part in described]
    return described


def _array_down(array: Any) -> bytes:
    return b"".join(_array_parts(array))


def _array_parts(array: Any) -> tuple[Any, ...]:
    np = _numpy()
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    _refuse_bare(array.dtype, array.shape)
    head = packb([_descr(array.dtype), list(array.shape), order])
    return len(head).to_bytes(4, "big"), head, _buffer(np, array, order)


def dump_whole(array: Any) -> bytes | None:
    """The msgpack of one large array with a single copy of its memory; None for what takes the usual way."""
    if array.nbytes <= _LARGE or array.dtype.kind == "O":
        return None
    parts = _array_parts(array)
    size = sum(map(len, parts))
    return b"".join((b"\xc9", size.to_bytes(4, "big"), bytes([ARRAY.code]), *parts))


def load_whole(data: bytes | memoryview) -> Any:
    """The array of ``dump_whole``, again with a single copy; None when the bytes are anything else."""
    if data[5] != ARRAY.code or int.from_bytes(data[1:5], "big") != len(data) - 6:
        return None
    return _array(memoryview(data)[6:])


def _buffer(np: Any, array: Any, order: str) -> Any:
    """The array's bytes, without a copy where its memory is in one piece."""
    if array.dtype.itemsize == 0 or array.size == 0:
        return b""
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        array = np.ascontiguousarray(array)
    return memoryview(array.reshape(-1, order=order).view(np.uint8))


def _array(data: bytes | memoryview) -> Any:
    start = 4 + int.from_bytes(data[:4], "big")
    described, shape, order = unpackb(data[4:start])
    return from_parts(described, shape, order, memoryview(data)[start:])


def from_parts(described: Any, shape: Any, order: str, buffer: Any) -> Any:
    """A new array over a copy of ``buffer``. Raises when the bytes do not fill the shape exactly."""
    np = _numpy()
    dtype = _dtype(described)
    if type(buffer) not in (bytes, memoryview) or not all(type(side) is int and side >= 0 for side in shape):
        raise TypeError("an array is made of bytes and a shape of numbers")
    if len(buffer) != prod(shape) * dtype.itemsize:
        raise ValueError(f"{len(buffer)} bytes do not make an array of {dtype} and shape {shape}")
    if not len(buffer):
        _refuse_bare(dtype, shape)
        return np.empty(shape, dtype, order)
    return np.frombuffer(bytearray(buffer), dtype=np.uint8).view(dtype).reshape(shape, order=order)


def _refuse_bare(dtype: Any, shape: Any) -> None:
    # numpy takes memory for items that have no size, and nothing in the bytes would limit their number.
    if dtype.itemsize == 0 and prod(shape) > _MOST_BARE:
        raise ValueError(f"more than {_MOST_BARE} items of a dtype without size ({dtype}) are not stored")


def _scalar_down(scalar: Any) -> list[Any]:
    np = _numpy()
    # numpy strips NULs from the end of text in arrays, not from scalars.
    if type(scalar) is np.str_:
        return ["U", str.__getitem__(scalar, slice(None))]
    if type(scalar) is np.bytes_:
        return ["S", bytes(scalar)]
    return ["", _array_down(np.asarray(scalar))]


def _scalar(parts: list[Any]) -> Any:
    np = _numpy()
    form, data = parts
    if form:
        return np.str_(expect(data, str)) if form == "U" else np.bytes_(expect(data, bytes))
    return _array(expect(data, bytes))[()]


def _objects_down(wrapped: _ObjectArray) -> list[Any]:
    return [list(wrapped.array.shape), wrapped.array.ravel().tolist()]


def _objects(parts: list[Any]) -> Any:
    np = _numpy()
    shape, items = parts
    flat = np.empty(len(items), dtype=object)
    for at, item in enumerate(items):
        flat[at] = item
    return flat.reshape(shape)


class _ObjectArray:
    """Stands for an array of objects on its way to the row that writes those."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array


class _ArrayKind(Kind):
    """Arrays: those of objects take another row, which only their dtype tells."""

    __slots__ = ()

    def encoder(self) -> Encode:
        code, down = self.code, self.down
        return 0, lambda array: _ObjectArray(array) if array.dtype.kind == "O" else Ext(code, down(array))


OBJECTS = Kind(0x73, "threadmark.checkpoint.serde.arrays:_ObjectArray", _objects_down, _objects, equal="its items",
               note="items by their own kinds")  # fmt: skip
ARRAY = _ArrayKind(0x70, "numpy:ndarray", _array_down, _array, raw=True, equal="dtype, shape, order and bytes",
                   note="structured dtypes and Fortran order too; writable")  # fmt: skip
SCALAR = Kind(0x71, "numpy:generic", _scalar_down, _scalar, equal="==, same dtype", note="every scalar type")
DTYPE = Kind(0x72, "numpy:dtype", _descr, _dtype)
KINDS: tuple[Kind, ...] = (ARRAY, SCALAR, DTYPE, OBJECTS)


def family(cls: type) -> Kind | None:
    """The row of a type that belongs to numpy."""
    np = _numpy()
    if issubclass(cls, np.generic) and getattr(np, cls.__name__, None) is cls:
        return SCALAR
    return DTYPE if issubclass(cls, np.dtype) else None
