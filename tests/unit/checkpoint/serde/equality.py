"""The comparison behind the law ``loads(dumps(v)) == v``: same types all the way down, values by their kind's rule."""

from __future__ import annotations

import enum
import math
from collections import ChainMap, OrderedDict, defaultdict, deque
from decimal import Decimal
from pathlib import PurePath
from typing import Any

import numpy as np
import pandas as pd

_MISSING = object()


def same(a: Any, b: Any) -> bool:
    """Whether ``b`` is what ``a`` was."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float) and type(a) is float:
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, Decimal):
        return str(a) == str(b)
    if isinstance(a, enum.Enum | type):
        return a is b
    if isinstance(a, np.ndarray):
        return _same_array(a, b)
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, memoryview):
        return (a.format, a.shape, a.readonly, a.tobytes()) == (b.format, b.shape, b.readonly, b.tobytes())
    if isinstance(a, BaseException):
        return same(a.args, b.args) and same(_state(a), _state(b))
    if isinstance(a, PurePath):
        return bool(a == b)
    if isinstance(a, pd.Timestamp | pd.Timedelta):
        return (a, a.unit, str(getattr(a, "tz", None))) == (b, b.unit, str(getattr(b, "tz", None)))
    if hasattr(a, "equals"):
        return _same_frame(a, b)
    return _same_parts(a, b)


def _same_parts(a: Any, b: Any) -> bool:
    if isinstance(a, ChainMap):
        return same(a.maps, b.maps)
    if isinstance(a, dict):
        ordered = not isinstance(a, OrderedDict) or same(list(a), list(b))
        factory = getattr(a, "default_factory", None) is getattr(b, "default_factory", None)
        return ordered and factory and _same_members(a.items(), b.items()) and same(_state(a), _state(b))
    if isinstance(a, list | tuple | deque):
        sizes = len(a) == len(b) and getattr(a, "maxlen", None) == getattr(b, "maxlen", None)
        return sizes and all(map(same, a, b)) and same(_state(a), _state(b))
    if isinstance(a, set | frozenset):
        return _same_members(a, b)
    if (state := _state(a)) is not None and not isinstance(a, str | bytes | int):
        return same(state, _state(b))
    return bool(a == b)


def _same_members(a: Any, b: Any) -> bool:
    """Members of unordered collections, paired by equality; NaN keys equal nothing, so order is tried first."""
    left, right = list(a), list(b)
    if len(left) != len(right):
        return False
    if all(map(same, left, right)):
        return True
    return all(any(same(x, y) for y in right) for x in left)


def _same_array(a: Any, b: Any) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape or not b.flags.writeable:
        return False
    if a.dtype.kind == "O":
        return same(a.ravel().tolist(), b.ravel().tolist())
    fortran = a.flags.f_contiguous and not a.flags.c_contiguous
    return a.tobytes() == b.tobytes() and (not fortran or b.flags.f_contiguous)


def _same_frame(a: Any, b: Any) -> bool:
    for name in ("dtypes", "schema", "dtype", "columns", "index"):
        left, right = getattr(a, name, None), getattr(b, name, None)
        if type(left) is not type(right):
            return False
    return a.equals(b) and getattr(a, "attrs", None) == getattr(b, "attrs", None)


def _state(value: Any) -> dict[str, Any] | None:
    """The attributes of an object; None when it has none."""
    state = dict(getattr(value, "__dict__", None) or {})
    for cls in type(value).__mro__:
        slots = getattr(cls, "__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            name = f"_{cls.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name
            if name in ("__dict__", "__weakref__", "_attrs_cached_hash", "__pydantic_private__"):
                continue
            found = getattr(value, name, _MISSING)
            if found is not _MISSING:
                state[name] = found
    for name in getattr(type(value), "__struct_fields__", ()):
        state[name] = getattr(value, name)
    if isinstance(value, defaultdict):
        return None
    return state or None
