"""Lists of instances as one extension: packing them together costs a third of packing each by itself.

A list that is the value, or an item of a dict that is the value, is taken so when it has a few items and each is an
instance of a class that is written by its fields. The payload is ``[classes, rows]``: a class is the code of its sort
and its name, a row the number of its class and what stands behind the name in an instance that is written alone.

Fields that hold instances themselves become columns, ``[classes, rows, columns]``: a column is the number of a class,
the name of the field and, for each row of that class, the row of what it holds; None for what stands in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from threadmark.checkpoint.serde.errors import DeserializationError, not_made

if TYPE_CHECKING:
    from threadmark.checkpoint.serde.wire import Decode, Encode, Makers

__all__ = ["BATCH", "Batch", "batch_down", "batch_up", "filled", "gathered"]

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
    return Batch(items, encoders) if all(encoders[cls][0] in _SORTS for cls in classes) else None


def batch_down(batch: Batch) -> list[Any]:
    """The payload of a batch."""
    classes = _Classes(batch.encoders)
    rows = classes.rows(batch.items)
    columns = list(_columns(rows, classes))
    return [classes.listed, rows, columns] if columns else [classes.listed, rows]


class _Classes:
    """Numbers for the classes of instances, as they turn up."""

    def __init__(self, encoders: Mapping[type, Encode]) -> None:
        self.encoders = encoders
        self.known: dict[type, tuple[Callable[[Any], list[Any]], int]] = {}
        """What takes their instances apart, and their numbers."""
        self.listed: list[list[Any]] = []
        """Code of the sort and name of each."""

    def rows(self, items: list[Any]) -> list[list[Any]]:
        """Instances as their rows."""
        rows: list[list[Any]] = []
        known = self.known
        if len(items) >= _FEWEST and len(set(map(type, items))) == 1:
            rows, items = self.rows(items[:1]), items[1:]
            down, number = known[type(items[0])]
            many = getattr(down, "many", None)
            if many is not None:
                return rows + many(items, number)  # type: ignore[no-any-return]
        for item in items:
            cls = type(item)
            if cls in known:
                down, number = known[cls]
                row = down(item)
            else:
                sort, down = self.encoders[cls]
                row, number = down(item), len(known)
                known[cls] = down, number
                self.listed.append([sort, row[0]])
            row[0] = number
            rows.append(row)
        return rows

    def has(self, cls: type) -> bool:
        """Whether instances of a class have rows."""
        return cls in self.known or (cls.__module__ != "builtins" and self.encoders[cls][0] in _SORTS)


def _columns(rows: list[list[Any]], classes: _Classes) -> Iterator[list[Any]]:
    """The columns of those fields that hold an instance in the first row of a class; the rows give them away."""
    by_class: dict[int, list[list[Any]]] = {}
    for row in rows:
        by_class.setdefault(row[0], []).append(row)
    for number, mine in by_class.items():
        fields = mine[0][1]
        if type(fields) is not dict:
            continue
        for name in [name for name, value in fields.items() if type(name) is str and classes.has(type(value))]:
            values = [row[1].get(name) for row in mine]
            held = {cls for cls in set(map(type, values)) if classes.has(cls)}
            inner = iter(classes.rows([value for value in values if type(value) in held]))
            column: list[Any] = []
            for row, value in zip(mine, values, strict=True):
                if type(value) in held:
                    column.append(next(inner))
                    row[1] = fields = row[1].copy()
                    fields[name] = None
                else:
                    column.append(None)
            yield [number, name, column]


def batch_up(payload: Any, decoders: Mapping[int, Decode | Makers]) -> list[Any]:
    """The list of instances. DeserializationError names the class that could not be made again."""
    classes, _ = payload[:2]
    names = [name for _, name in classes]
    makers = [_maker(code, name, decoders) for code, name in classes]
    return _made(filled(payload, lambda rows: _made(rows, makers, names)), makers, names)


def filled(payload: Any, made: Callable[[list[Any]], list[Any]]) -> list[Any]:
    """The rows of a payload, with what is ``made`` of its columns in its place."""
    _, rows, columns = payload if len(payload) == 3 else (*payload, ())
    for number, name, column in columns:
        mine = rows if len(column) == len(rows) else [row for row in rows if row[0] == number]
        if None in column:
            mine = [row for row, inner in zip(mine, column, strict=True) if inner is not None]
            column = [inner for inner in column if inner is not None]
        for row, value in zip(mine, made(column), strict=True):
            row[1][name] = value
    return rows  # type: ignore[no-any-return]


def _made(rows: list[Any], makers: list[Callable[..., Any]], names: list[Any]) -> list[Any]:
    made: list[Any] = []
    number = 0
    try:
        if len(rows) >= _FEWEST and len(set(map(len, rows))) == 1:
            numbers, *parts = zip(*rows, strict=True)
            number = numbers[0]
            many = getattr(makers[number], "many", None)
            if many is not None and 0 < len(parts) < 3 and len(set(numbers)) == 1:
                return many(*parts)  # type: ignore[no-any-return]
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
