"""Lists of instances as one extension: packing them together costs a third of packing each by itself.

A list that is the value, or an item of a dict that is the value, is taken so when it has a few items and each is an
instance of a class that is written by its fields. The payload is ``[classes, rows]``: a class is the code of its sort
and its name, a row the number of its class and what stands behind the name in an instance that is written alone.

Fields that hold instances themselves become columns, ``[classes, rows, columns]``: a column is the number of a class,
the name of the field and, for each row of that class, the row of what it holds; None for what stands in its place.

Rows of one class, which have the same parts, may lie side by side, ``[number, fields of each]`` or ``[number, fields of
each, chosen]``: the names of the fields that were set are those of each, or one list of names for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Any

from threadmark.checkpoint.serde.errors import DeserializationError, not_made

if TYPE_CHECKING:
    from threadmark.checkpoint.serde.wire import Decode, Encode, Makers

__all__ = ["BATCH", "Batch", "batch_down", "batch_up", "filled", "gathered", "spread"]

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
        self.firsts: list[list[Any]] = []
        """The first row of each."""

    def rows(self, items: list[Any]) -> list[Any]:
        """Instances as their rows, side by side where that can be."""
        known = self.known
        if len(items) >= _FEWEST and len(set(map(type, items))) == 1:
            even = getattr(self.encoders[type(items[0])][1], "even", None)
            parts = None if even is None else even(items)
            if parts is not None:
                ((number, *_),) = self.rows(items[:1])
                return [number, *parts]
        rows: list[Any] = []
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
                self.firsts.append(row)
            row[0] = number
            rows.append(row)
        return rows

    def in_column(self, name: Any, value: Any) -> bool:
        """Whether the values of a field become a column, seen from the first one."""
        return type(name) is str and self.has(type(value))

    def has(self, cls: type) -> bool:
        """Whether instances of a class have rows."""
        return cls in self.known or (cls.__module__ != "builtins" and self.encoders[cls][0] in _SORTS)


def _columns(rows: list[Any], classes: _Classes) -> Iterator[list[Any]]:
    """The columns of those fields that hold an instance in the first row of a class; the rows give them away."""
    for number, first in enumerate(classes.firsts[:]):
        fields = first[1]
        names = (
            [name for name, value in fields.items() if classes.in_column(name, value)] if type(fields) is dict else ()
        )
        if not names:
            continue
        if _is_even(rows):
            yield from _columns_of(number, rows[1], names, classes)
            continue
        mine = [row for row in rows if row[0] == number]
        found = [row[1] for row in mine]
        yield from _columns_of(number, found, names, classes)
        for row, own in zip(mine, found, strict=True):
            row[1] = own


def _columns_of(number: int, fields: list[dict[Any, Any]], names: list[str], classes: _Classes) -> Iterator[list[Any]]:
    for name in names:
        values = [own.get(name) for own in fields]
        held = {cls for cls in set(map(type, values)) if classes.has(cls)}
        inner = classes.rows([value for value in values if type(value) in held])
        for at, value in enumerate(values):
            if type(value) in held:
                fields[at] = own = fields[at].copy()  # what an instance has is its own
                own[name] = None
        if not _is_even(inner) or len(held) < len(set(map(type, values))):
            left = iter(spread(inner))
            inner = [next(left) if type(value) in held else None for value in values]
        yield [number, name, inner]


def _is_even(rows: Any) -> bool:
    """Whether rows lie side by side."""
    return bool(rows) and type(rows[0]) is int


def spread(rows: list[Any]) -> list[Any]:
    """Rows one by one."""
    if not _is_even(rows):
        return rows
    number, fields, *chosen = rows
    if not chosen:
        return [[number, own] for own in fields]
    of_each = _of_each(chosen[0], len(fields))
    return [[number, own, names] for own, names in zip(fields, of_each, strict=True)]


def _of_each(chosen: list[Any], count: int) -> Iterable[Any]:
    if not chosen or type(chosen[0]) is str:
        return repeat(chosen, count)
    if len(chosen) != count:
        raise ValueError("names of fields are not as many as instances")
    return chosen


def batch_up(payload: Any, decoders: Mapping[int, Decode | Makers]) -> list[Any]:
    """The list of instances. DeserializationError names the class that could not be made again."""
    classes = payload[0]
    names = [name for _, name in classes]
    makers = [_maker(code, name, decoders) for code, name in classes]
    return _made(filled(payload, lambda rows: _made(rows, makers, names)), makers, names)


def filled(payload: Any, made: Callable[[list[Any]], list[Any]]) -> list[Any]:
    """The rows of a payload, with what is ``made`` of its columns in its place."""
    _, rows, columns = payload if len(payload) == 3 else (*payload, ())
    for number, name, column in columns:
        fields = rows[1] if _is_even(rows) else [row[1] for row in rows if row[0] == number]
        if not _is_even(column):
            fields = [own for own, inner in zip(fields, column, strict=True) if inner is not None]
            column = [inner for inner in column if inner is not None]
        for own, value in zip(fields, made(column), strict=True):
            own[name] = value
    return rows  # type: ignore[no-any-return]


def _made(rows: list[Any], makers: list[Callable[..., Any]], names: list[Any]) -> list[Any]:
    made: list[Any] = []
    number = 0
    try:
        if _is_even(rows):
            number, fields, *chosen = rows
            many = getattr(makers[number], "many", None)
            if many is not None:
                return many(fields, *[_of_each(each, len(fields)) for each in chosen])  # type: ignore[no-any-return]
        for row in spread(rows):
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
