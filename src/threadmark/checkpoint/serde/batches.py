"""Lists of instances as one extension: packing them together costs a third of packing each by itself.

A list that is the value, or an item of a dict that is the value, is taken so when it has a few items and each is an
instance of a class that is written by its fields. The payload is ``[classes, rows]``: a class is the code of its sort
and its name, a row the number of its class and what stands behind the name in an instance that is written alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from threadmark.checkpoint.serde.errors import DeserializationError, not_made

if TYPE_CHECKING:
    from threadmark.checkpoint.serde.wire import Decode, Encode, Makers

__all__ = ["BATCH", "Batch", "batch_down", "batch_up", "gathered"]

BATCH = 0x5C
_SORTS = range(0x50, 0x59)
"""Codes of the sorts of classes, see ``kinds.CLASS_CODES``."""
_FEWEST = 4
_MOST_CLASSES = 16


class Batch:
    """Stands for a list of instances on its way to the wire."""

    __slots__ = ("encoders", "items")

    def __init__(self, items: list[Any], encoders: Mapping[type, Encode]) -> None:
        self.items, self.encoders = items, encoders


def gathered(value: Any, encoders: Mapping[type, Encode]) -> Any:
    """The value with batches in the place of such lists."""
    if type(value) is list:
        return _batch(value, encoders) or value
    if type(value) is dict:
        found = {key: _batch(item, encoders) for key, item in value.items() if type(item) is list}
        found = {key: batch for key, batch in found.items() if batch is not None}
        return value | found if found else value
    return value


def _batch(items: list[Any], encoders: Mapping[type, Encode]) -> Batch | None:
    if len(items) < _FEWEST or type(items[0]).__module__ == "builtins":
        return None
    classes = set(map(type, items))
    if len(classes) > _MOST_CLASSES or any(cls.__module__ == "builtins" for cls in classes):
        return None
    found = {cls: encoders[cls] for cls in classes}
    return Batch(items, found) if all(code in _SORTS for code, _ in found.values()) else None


def batch_down(batch: Batch) -> list[Any]:
    """The payload of a batch."""
    downs = {cls: down for cls, (_, down) in batch.encoders.items()}
    rows: list[list[Any]] = [downs[type(item)](item) for item in batch.items]
    numbers: dict[str, int] = {}
    sorts: dict[str, int] = {}
    for row, item in zip(rows, batch.items, strict=True):
        name = row[0]
        number = numbers.get(name)
        if number is None:
            number = numbers[name] = len(numbers)
            sorts[name] = batch.encoders[type(item)][0]
        row[0] = number
    return [[[sorts[name], name] for name in numbers], rows]


def batch_up(payload: Any, decoders: Mapping[int, Decode | Makers]) -> list[Any]:
    """The list of instances. DeserializationError names the class that could not be made again."""
    classes, rows = payload
    names = [name for _, name in classes]
    makers = [_maker(code, name, decoders) for code, name in classes]
    made: list[Any] = []
    number = 0
    try:
        for row in rows:
            number = row[0]
            make = makers[number]
            made.append(make(row[1]) if len(row) == 2 else make(*row[1:]))
    except Exception as error:
        raise not_made(names[number], error) from error
    return made


def _maker(code: Any, name: Any, decoders: Mapping[int, Any]) -> Any:
    makers = decoders[code] if code in _SORTS else None
    if not isinstance(makers, dict):
        raise DeserializationError(f"{name!r} stands in a list of instances and is of no sort of class")
    return makers[name]
