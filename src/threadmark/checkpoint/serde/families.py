"""Finds the row of a type: by its own name, or by the library it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from threadmark.checkpoint.serde.kinds import Kind, by_type_name

__all__ = ["row_of"]

_FAMILIES = {
    "numpy": "arrays",
    "pandas": "pandas_frames",
    "polars": "frames",
    "pyarrow": "frames",
    "pydantic": "pydantics",
}


def row_of(cls: type) -> Kind | None:
    """The row that writes exactly this type; None when no kind does."""
    row = by_type_name(cls)
    if row is not None:
        return row
    module = _FAMILIES.get(cls.__module__.partition(".")[0])
    if module is None:
        return None
    family: Callable[[type], Kind | None] = import_module(f"threadmark.checkpoint.serde.{module}").family
    return family(cls)
