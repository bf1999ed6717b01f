"""A channel with a reducer: ``Annotated[list, operator.add]`` (spec 2.2)."""

from __future__ import annotations

import collections.abc
from collections.abc import Callable, Sequence
from typing import Any, NotRequired, Required, get_args, get_origin

from threadmark.channels.base import MISSING, Value
from threadmark.channels.holding import Holding
from threadmark.errors import ErrorCode, InvalidUpdateError, create_error_message
from threadmark.types import Overwrite

_CONCRETE = {
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
    collections.abc.Mapping: dict,
    collections.abc.MutableMapping: dict,
}


def concrete(typ: Any) -> Any:
    """The class to make an empty value of: without Required, type arguments and abstractness."""
    if type(typ) is type:  # as it is each time that a channel is restored
        return typ
    while get_origin(typ) in (Required, NotRequired):
        typ = get_args(typ)[0]
    typ = get_origin(typ) or typ
    return _CONCRETE.get(typ, typ)


def overwritten(value: Any) -> tuple[bool, Any]:
    """Whether a write is an ``Overwrite``, in any of its forms, and what it overwrites with."""
    if isinstance(value, Overwrite):
        return True, value.value
    if isinstance(value, dict):
        if len(value) == 1 and "__overwrite__" in value:
            return True, value["__overwrite__"]
        if len(value) == 2 and value.get("type") == "__overwrite__" and "value" in value:
            return True, value["value"]
    return False, None


class BinaryOperatorAggregate(Holding[Value]):
    """Folds each write into the value with ``operator(value, write)``.

    Starts with the empty value of its type when the type can be made without arguments, else with the first write.
    """

    __slots__ = ("operator",)

    def __init__(self, typ: Any, operator: Callable[[Value, Value], Value]) -> None:
        super().__init__(typ)
        self.operator = operator
        self.typ = concrete(typ)
        try:
            self.value = self.typ()
        except Exception:  # a type that cannot be made without arguments has no empty value
            pass

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BinaryOperatorAggregate):
            return False
        lambdas = "<lambda>" in (getattr(self.operator, "__name__", ""), getattr(other.operator, "__name__", ""))
        return lambdas or other.operator is self.operator

    __hash__ = None

    def _like(self) -> Any:
        new = self.__class__(self.typ, self.operator)
        new.key = self.key
        return new

    def update(self, values: Sequence[Value]) -> bool:
        if not values:
            return False
        replaced = False
        for value in values:
            is_overwrite, content = overwritten(value)
            if is_overwrite:
                if replaced:
                    raise InvalidUpdateError(
                        create_error_message(
                            message=f"Can receive only one Overwrite value per super-step. Key {self.key!r} got more.",
                            error_code=ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE,
                        )
                    )
                self.value = content
                replaced = True
            elif not replaced:  # what else is written in a superstep with an Overwrite does not count
                self.value = value if self.value is MISSING else self.operator(self.value, value)
        return True


__all__ = ["BinaryOperatorAggregate"]
