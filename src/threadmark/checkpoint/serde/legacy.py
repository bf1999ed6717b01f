"""LangGraph's bytes: its extension codes 0 to 7 and its JSON envelopes (spec 12.2, 12.4).

Only what the tables below name, and what the allow-list permits, is made of them; a class that is neither raises, where
the peer would give back bare data. Models are validated here, since the peer stores nested ones as plain dicts.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from importlib import import_module
from typing import Any

from threadmark.checkpoint.serde import stdlib
from threadmark.checkpoint.serde.allow import Allowed, class_key, is_exception
from threadmark.checkpoint.serde.errors import DeserializationError
from threadmark.checkpoint.serde.records import sort_of
from threadmark.checkpoint.serde.types import _DeltaSnapshot
from threadmark.checkpoint.serde.wire import Decode, Unpack
from threadmark.types import Command, Interrupt, Overwrite, Send, TimeoutPolicy

__all__ = ["BUILDERS", "decoders", "load_json"]


def _of_list(kind: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    return lambda *items: kind(list(stdlib.expect(items[0], list, tuple)) if items else [])


def _of_text(module: str, name: str) -> Callable[[Any], Any]:
    return lambda text: getattr(import_module(module), name)(stdlib.expect(text, str))


def _path(name: str) -> Callable[..., Any]:
    return lambda *parts: getattr(import_module("pathlib"), name)(*(stdlib.expect(part, str) for part in parts))


def _moment(*parts: Any) -> datetime:
    return datetime.fromisoformat(*parts) if type(parts[0]) is str else datetime(*parts)


def _item(*, namespace: Any, key: str, value: Any, created_at: Any, updated_at: Any, **rest: Any) -> Any:
    times = (datetime.fromisoformat(at) if type(at) is str else at for at in (created_at, updated_at))
    made, changed = times
    item = import_module("threadmark.store.base").Item
    return item(namespace=tuple(namespace), key=key, value=value, created_at=made, updated_at=changed)


BUILDERS: dict[str, Callable[..., Any]] = {
    "builtins:set": _of_list(set),
    "builtins:frozenset": _of_list(frozenset),
    "builtins:tuple": _of_list(tuple),
    "builtins:bytes": bytes.fromhex,
    "builtins:bytearray": bytearray.fromhex,
    "collections:deque": _of_list(deque),
    "datetime:datetime": _moment,
    "datetime:date": date,
    "datetime:time": time,
    "datetime:timedelta": timedelta,
    "datetime:timezone": lambda *parts: stdlib.fixed_zone(list(parts)),
    "zoneinfo:ZoneInfo": lambda key: stdlib.named_zone(stdlib.expect(key, str).encode()),
    "decimal:Decimal": _of_text("decimal", "Decimal"),
    "uuid:UUID": _of_text("uuid", "UUID"),
    "re:compile": lambda pattern, flags=0: stdlib.pattern([pattern, flags]),
    **{f"{module}:{name}": _path(name) for module in ("pathlib", "pathlib._local") for name in stdlib.PATH_NAMES},
    **{f"ipaddress:{name}": _of_text("ipaddress", name) for name in stdlib.ADDRESS_NAMES},
    "pydantic.types:SecretStr": _of_text("pydantic", "SecretStr"),
    "langgraph.types:Send": lambda node, arg, timeout=None: Send(node, arg, timeout=timeout),
    "langgraph.types:Command": lambda **fields: Command(**fields),
    "langgraph.types:Interrupt": lambda **fields: Interrupt(**fields),
    "langgraph.types:Overwrite": lambda value, type=None: Overwrite(value),
    "langgraph.types:TimeoutPolicy": lambda **fields: TimeoutPolicy(**fields),
    "langgraph.store.base:Item": _item,
    "langgraph.checkpoint.serde.types:_DeltaSnapshot": lambda value: _DeltaSnapshot(value),
}
_MOVED = {"langgraph.constants": "langgraph.types", "langgraph.types": "threadmark.types",
          "langgraph.errors": "threadmark.errors", "langgraph.store.base": "threadmark.store.base"}  # fmt: skip


class _Legacy:
    """Makes values out of the peer's descriptions of calls."""

    def __init__(self, *tables: Allowed) -> None:
        self._tables = tables

    def make(self, module: str, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        key = f"{module}:{name}"
        builder = BUILDERS.get(key) or BUILDERS.get(f"{_MOVED.get(module, module)}:{name}")
        try:
            if builder is not None:
                return builder(*args, **kwargs)
            return _instance(self._find(module, name), args, kwargs)
        except DeserializationError:
            raise
        except Exception as error:
            raise DeserializationError(
                f"the value of class {module}.{name} that LangGraph stored cannot be made again: "
                f"{type(error).__name__}: {error}",
                class_name=key,
            ) from error

    def _find(self, module: str, name: str) -> type:
        """The allowed class; the peer writes a nested one without the names around it."""
        module = _MOVED.get(module, module)
        for table in self._tables:
            for cls in table.types.values():
                if cls.__module__ == module and name in (cls.__name__, cls.__qualname__):
                    return cls
            for key in table.names:
                if key.startswith(f"{module}:") and key.rpartition(".")[2] == name:
                    return table.resolve(key)
            if table.lists(f"{module}:{name}"):
                return table.resolve(f"{module}:{name}")
        return self._tables[-1].resolve(f"{module}:{name}")


def _instance(cls: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """An instance of an allowed class: models by validation, the other sorts as our own bytes make them."""
    sort = sort_of(cls)
    if sort is None:
        raise DeserializationError(f"class {cls.__name__} is no class that can be stored", class_name=class_key(cls))
    given = kwargs if kwargs or not args else args[0]
    if sort.name == "pydantic":
        return _validated(cls, given)
    if sort.name == "pydantic v1":
        return cls.parse_obj(given)
    if sort.name in ("dataclass", "namedtuple", "attrs", "msgspec") and not args:
        return sort.up(cls)(kwargs)
    if sort.name in ("enum", "subclass"):
        return sort.up(cls)(*args)
    return sort.up(cls)(list(args)) if sort.name == "exception" else cls(*args, **kwargs)


def _validated(cls: Any, given: Any) -> Any:
    invalid = sys.modules["pydantic_core"].ValidationError
    try:
        return cls.model_validate(given)
    except invalid:
        # The peer stores by field name, whatever aliases the fields have.
        return cls.model_validate(given, by_name=True, by_alias=False)


def decoders(allowed: Allowed) -> dict[int, Decode]:
    """Code -> what reads it."""
    legacy = _Legacy(allowed)

    def single(data: bytes, unpack: Unpack) -> Any:
        module, name, arg = unpack(data)
        return legacy.make(module, name, [arg], {})

    def positional(data: bytes, unpack: Unpack) -> Any:
        module, name, args = unpack(data)
        return legacy.make(module, name, stdlib.expect(args, list), {})

    def keyword(data: bytes, unpack: Unpack) -> Any:
        module, name, kwargs = unpack(data)
        return legacy.make(module, name, [], stdlib.expect(kwargs, dict))

    def method(data: bytes, unpack: Unpack) -> Any:
        module, name, arg, called = unpack(data)
        if (module, name, called) != ("datetime", "datetime", "fromisoformat"):
            raise DeserializationError(f"stored bytes may not call {module}.{name}.{called}")
        return datetime.fromisoformat(arg)

    def model(data: bytes, unpack: Unpack) -> Any:
        module, name, fields, *_ = unpack(data)
        if type(fields) is dict:
            return legacy.make(module, name, [], fields)
        return legacy.make(module, name, [fields], {})

    return {0: single, 1: positional, 2: keyword, 3: method, 4: model, 5: model, 6: _array, 7: _snapshot}


def _array(data: bytes, unpack: Unpack) -> Any:
    from threadmark.checkpoint.serde.arrays import from_parts

    dtype, shape, order, buffer = unpack(data)
    if "O" in stdlib.expect(dtype, str):
        raise DeserializationError("LangGraph stored an array of objects as memory addresses; its items are lost")
    return from_parts(dtype, shape, order, buffer)


def _snapshot(data: bytes, unpack: Unpack) -> Any:
    return _DeltaSnapshot(unpack(data))


def load_json(body: bytes, *tables: Allowed) -> Any:
    """A value that an old LangGraph release stored as JSON; any ``method`` of an envelope is ignored."""
    legacy = _Legacy(*tables)

    def revive(found: dict[str, Any]) -> Any:
        id = found.get("id")
        if found.get("lc") not in (1, 2) or found.get("type") != "constructor" or not isinstance(id, list):
            return found
        *module, name = map(str, id)
        key = ".".join(module)
        if found["lc"] == 1 and module[:1] in (["langchain"], ["langchain_core"]):
            key = getattr(getattr(import_module("langchain_core.messages"), name, None), "__module__", key)
        if key == "builtins" and is_exception(f"{key}:{name}"):
            return None
        return legacy.make(key, name, list(found.get("args") or ()), dict(found.get("kwargs") or {}))

    try:
        return json.loads(body.decode(), object_hook=revive)
    except DeserializationError:
        raise
    except Exception as error:
        raise DeserializationError(f"the stored JSON cannot be read ({type(error).__name__}: {error})") from error
