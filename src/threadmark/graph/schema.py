"""Schemas -> channels: what the annotations of a state mean (spec 2.1)."""

from __future__ import annotations

import copy
import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from typing import Annotated, Any, NotRequired, Required, get_args, get_origin, get_type_hints, is_typeddict

from threadmark.channels import MISSING, BaseChannel, BinaryOperatorAggregate, LastValue
from threadmark.engine.names import ROOT
from threadmark.managed import ManagedValue, is_managed

Channel = BaseChannel[Any, Any, Any]
Managed = type[ManagedValue[Any]]


def hints_of(schema: Any) -> dict[str, Any]:
    """The annotated fields of a schema; empty for a schema that is a single value."""
    if not isinstance(schema, type) or schema.__module__ == "builtins":
        return {}
    try:
        hints = get_type_hints(schema, include_extras=True)
    except NameError as error:
        raise ValueError(
            f"{schema.__name__} is annotated with {error.name!r}, which is not known in its module; "
            f"import it at module level (not under TYPE_CHECKING)"
        ) from error
    # Names such as __root__ are Python's and the engine's own.
    lost = [name for name in hints if name.startswith("__") and not name.endswith("__")]
    if lost and is_typeddict(schema):
        raise ValueError(f"state key {lost[0]!r} of {schema.__name__} begins with two underscores; rename it")
    return {name: hint for name, hint in hints.items() if not name.startswith("__") and name != "model_config"}


def schema_key(schema: Any) -> Any:
    """What stands for a schema in a table: itself, or its text where it cannot be hashed."""
    try:
        hash(schema)
    except TypeError:
        return repr(schema)
    return schema


def channels_of(schema: Any) -> tuple[dict[str, Channel], dict[str, Managed]]:
    """The channels and managed values that a schema's annotations name.

    Raises ``ValueError`` for a reducer that cannot take two arguments.
    """
    hints = hints_of(schema)
    if not hints:
        return {ROOT: _named(ROOT, channel_of(ROOT, schema))}, {}
    channels: dict[str, Channel] = {}
    managed: dict[str, Managed] = {}
    for name, hint in hints.items():
        made = channel_of(name, hint)
        if isinstance(made, BaseChannel):
            channels[name] = _named(name, made)
        else:
            managed[name] = made
    return channels, managed


def _named(name: str, channel: Any) -> Any:
    channel.key = name
    return channel


def _is_wrapper(origin: Any) -> bool:
    """Whether this says how a key may be used, not what it holds. ``ReadOnly`` is of ``typing`` since Python 3.13.

    ``typing_extensions`` is not imported, since whoever has annotated something with it has done so. That saves
    10 million of the 1,061 million instructions that ``import threadmark.graph`` takes with the start of Python.
    """
    if origin is None:
        return False
    homes = (typing, sys.modules.get("typing_extensions"))
    return origin in (Required, NotRequired) or any(origin is getattr(home, "ReadOnly", None) for home in homes)


def channel_of(name: str, hint: Any) -> Channel | Managed:
    """The channel for one annotation."""
    while _is_wrapper(get_origin(hint)):
        hint = get_args(hint)[0]
    if get_origin(hint) is Annotated:
        typ, *metadata = get_args(hint)
        if is_managed(metadata[-1]):
            return metadata[-1]  # type: ignore[no-any-return]
        for item in metadata:
            if isinstance(item, BaseChannel):
                return _typed(copy.copy(item), typ)
            if inspect.isclass(item) and issubclass(item, BaseChannel):
                return item(typ)
        if callable(metadata[-1]) and not inspect.isclass(metadata[-1]):
            return BinaryOperatorAggregate(typ, checked_reducer(name, metadata[-1]))
        return LastValue(typ)
    return LastValue(hint)


def _typed(channel: Channel, typ: Any) -> Channel:
    """A channel instance from a schema, with the annotation's type where it was given none of its own."""
    retype = getattr(channel, "retyped", None)
    if retype is not None:
        return retype(typ)  # type: ignore[no-any-return]
    return channel


def checked_reducer(name: str, reducer: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """The reducer, if it takes (value, write); else ``ValueError``."""
    try:
        parameters = inspect.signature(reducer).parameters.values()
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the reducer of {name!r}, {reducer!r}, does not say what it takes; wrap it in a function (a, b) -> c"
        ) from error
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    count = sum(parameter.kind in positional for parameter in parameters)
    if count != 2:
        raise ValueError(f"Invalid reducer signature for {name!r}. Expected (a, b) -> c. Got {count} arguments")
    return reducer


def coercion(schema: Any) -> Callable[[dict[str, Any]], Any] | None:
    """How a dict becomes what a node with this schema is given; None when it stays a dict."""
    if not isinstance(schema, type) or is_typeddict(schema):
        return None
    if is_dataclass(schema) or hasattr(schema, "model_validate") or hasattr(schema, "__fields__"):
        return lambda values: schema(**values)
    return None


def reader(
    schema: Any, keys: tuple[str, ...], managed: Mapping[str, Managed]
) -> Callable[[Mapping[str, Channel], Any], Any]:
    """How a node's input is read out of the channels. Keys without a value are left out (spec 2.2)."""
    if keys == (ROOT,):
        return _read_root
    coerce = coercion(schema)
    if not managed and coerce is None:
        return lambda channels, run: {key: value for key in keys if (value := channels[key].peek()) is not MISSING}

    def read(channels: Mapping[str, Channel], run: Any) -> Any:
        values = {key: value for key in keys if (value := channels[key].peek()) is not MISSING}
        for key, value in managed.items():
            values[key] = value.get(run.step, run.stop)
        return values if coerce is None else coerce(values)

    return read


def _read_root(channels: Mapping[str, Channel], run: Any) -> Any:
    value = channels[ROOT].peek()
    return None if value is MISSING else value


__all__ = ["channels_of", "coercion", "hints_of", "reader", "schema_key"]
