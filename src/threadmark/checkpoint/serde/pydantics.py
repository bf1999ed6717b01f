"""Rows for pydantic: models of both major versions, secrets, URLs.

A model is its attributes, the names of the fields that were set, extra and private attributes. They are put back as
they were, without validation: what was stored was a valid instance, and validating again may change values.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Sequence
from importlib import import_module
from itertools import repeat
from typing import Any

from threadmark.checkpoint.serde import fields as by_fields
from threadmark.checkpoint.serde.fields import NO_DEFAULT, Down, Up, extras_of
from threadmark.checkpoint.serde.kinds import Kind, Sort

__all__ = ["KINDS", "PYDANTIC", "PYDANTIC_V1", "family"]

_set = object.__setattr__
_new = object.__new__


def _is_model(cls: type) -> bool:
    loaded = sys.modules.get("pydantic.main")
    return loaded is not None and issubclass(cls, loaded.BaseModel)


def _is_v1_model(cls: type) -> bool:
    for name in ("pydantic.v1.main", "pydantic.main"):
        base = getattr(sys.modules.get(name), "BaseModel", None)
        if base is not None and issubclass(cls, base) and hasattr(cls, "__fields_set__"):
            return True
    return False


def _down(cls: Any, key: str) -> Down:
    names = tuple(cls.__pydantic_fields__)
    wanted = frozenset(names)
    closed = not _is_open(cls)

    def down_fields(model: Any) -> list[Any]:
        state = model.__dict__
        # That they are there in their usual order is quicker to tell than that they are there.
        if (tuple(state) == names or state.keys() == wanted) and (closed or model.__pydantic_extra__ == {}):
            chosen = model.__pydantic_fields_set__
            return [key, state] if chosen == wanted else [key, state, sorted(chosen)]
        return down(model)

    def even(models: Sequence[Any]) -> list[Any] | None:
        # What is asked of each is asked of all of them at once: less than half of the time.
        states = [model.__dict__ for model in models]
        if set(map(tuple, states)) != {names} or not (closed or all(m.__pydantic_extra__ == {} for m in models)):
            return None
        chosen = [model.__pydantic_fields_set__ for model in models]
        if chosen.count(chosen[0]) < len(chosen):
            return [states, list(map(sorted, chosen))]
        return [states] if chosen[0] == wanted else [states, sorted(chosen[0])]

    def down(model: Any) -> list[Any]:
        state, chosen = model.__dict__, model.__pydantic_fields_set__
        extra, private = model.__pydantic_extra__, model.__pydantic_private__
        fields = {name: state[name] for name in names if name in state}
        return [
            key,
            fields,
            sorted(chosen),
            extra,
            _set_only(private),
            extras_of(cls, state, wanted),
            [name for name in names if name not in fields],
        ]

    if cls.__private_attributes__:
        return down
    down_fields.even = even  # type: ignore[attr-defined]
    return down_fields


def _is_open(cls: Any) -> bool:
    """Whether instances take values beside the fields; without any, pydantic keeps an empty dict and not None."""
    return bool(cls.model_config.get("extra") == "allow")


def _set_only(private: dict[str, Any] | None) -> dict[str, Any] | None:
    if private is None:
        return None
    undefined = sys.modules["pydantic_core"].PydanticUndefined
    return {name: value for name, value in private.items() if value is not undefined}


def _up(cls: Any) -> Up:
    listed = cls.__pydantic_fields__
    names, wanted = tuple(listed), frozenset(listed)
    privates = cls.__private_attributes__
    undefined = sys.modules["pydantic_core"].PydanticUndefined
    slots = vars(sys.modules["pydantic.main"].BaseModel)
    is_open = _is_open(cls)
    set_dict = by_fields.dict_setter(cls)
    set_chosen = slots["__pydantic_fields_set__"].__set__
    set_extra = slots["__pydantic_extra__"].__set__
    set_private = slots["__pydantic_private__"].__set__

    def default(name: str) -> Any:
        # pydantic itself would compile the factory's signature to see if it takes an argument.
        if listed[name].default_factory is not None:
            return listed[name].default_factory()
        given = listed[name].get_default()
        return NO_DEFAULT if given is undefined else given

    def up_fields(fields: dict[str, Any], chosen: list[str] | None = None, *beside: Any) -> Any:
        if beside or (tuple(fields) != names and fields.keys() != wanted):
            return up(fields, chosen, *beside)
        model = _new(cls)
        set_dict(model, fields)
        set_chosen(model, set(fields if chosen is None else chosen))
        set_extra(model, {} if is_open else None)
        set_private(model, None)
        return model

    def many(fields: Sequence[Any], chosen: Sequence[Any] = ()) -> list[Any]:
        # A call of C for each attribute of all of them: half the time of making one after the other.
        if set(map(tuple, fields)) != {names}:
            return list(map(up_fields, fields, chosen or repeat(None)))
        models = list(map(_new, repeat(cls, len(fields))))
        setters: tuple[tuple[Any, Iterable[Any]], ...] = (
            (set_dict, fields),
            (set_chosen, map(set, chosen or fields)),
            (set_extra, [{} for _ in fields] if is_open else repeat(None)),
            (set_private, repeat(None)),
        )
        for setter, values in setters:
            deque(map(setter, models, values), 0)
        return models

    def up(
        fields: dict[str, Any],
        chosen: list[str] | None = None,
        extra: dict[str, Any] | None = None,
        private: dict[str, Any] | None = None,
        others: dict[str, Any] | None = None,
        unset: tuple[str, ...] = (),
    ) -> Any:
        chosen_set = set(fields if chosen is None else chosen)
        if fields.keys() != wanted:
            fields = by_fields.completed(cls, names, fields, unset, default)
        model = _new(cls)
        set_dict(model, {**fields, **others} if others else fields)
        set_chosen(model, chosen_set)
        set_extra(model, extra if others is not None else {} if is_open else None)
        if privates:
            stored = private or {}
            made = ((name, stored.get(name, undefined)) for name in privates)
            found = ((name, privates[name].get_default() if value is undefined else value) for name, value in made)
            private = {**stored, **{name: value for name, value in found if value is not undefined}}
        set_private(model, private)
        return model

    if privates:
        return up
    up_fields.many = many  # type: ignore[attr-defined]
    return up_fields


def _v1_down(cls: Any, key: str) -> Down:
    private_names = tuple(getattr(cls, "__private_attributes__", ()))

    def down(model: Any) -> list[Any]:
        private = {name: getattr(model, name) for name in private_names if hasattr(model, name)}
        return [key, model.__dict__, sorted(model.__fields_set__), *([private] if private else [])]

    return down


def _v1_up(cls: Any) -> Up:
    listed = cls.__fields__

    def default(name: str) -> Any:
        return NO_DEFAULT if listed[name].required else listed[name].get_default()

    def up(fields: dict[str, Any], chosen: list[str], private: dict[str, Any] | None = None) -> Any:
        # Extra values of a model that takes them lie among the fields.
        names = (*listed, *(name for name in fields if name not in listed and cls.__config__.extra == "allow"))
        model = object.__new__(cls)
        _set(model, "__dict__", by_fields.completed(cls, names, fields, (), default))
        _set(model, "__fields_set__", set(chosen))
        for name, item in (private or {}).items():
            if name in cls.__private_attributes__:
                _set(model, name, item)
        return model

    return up


def _secret(parts: list[Any]) -> Any:
    name, value = parts
    kinds: dict[str, type] = {"SecretStr": str, "SecretBytes": bytes}
    package, _, plain = name.rpartition(".")
    if package not in ("", "v1") or type(value) is not kinds[plain]:
        raise TypeError(f"a {plain} holds {kinds[plain].__name__}")
    return getattr(import_module("pydantic.v1" if package else "pydantic"), plain)(value)


def _secret_down(secret: Any) -> list[Any]:
    kind = type(secret)
    name = f"v1.{kind.__name__}" if kind.__module__ == "pydantic.v1.types" else kind.__name__
    return [name, secret.get_secret_value()]


def _url(parts: list[Any]) -> Any:
    name, text = parts
    networks = import_module("pydantic.networks")
    cls = vars(networks)[name]
    if not (isinstance(cls, type) and issubclass(cls, networks._BaseUrl | networks._BaseMultiHostUrl)):
        raise TypeError(f"{name} is no URL type of pydantic")
    return cls(text)


SECRET = Kind(
    0x5A, "pydantic:SecretStr", _secret_down, _secret,
    note="`SecretBytes` too; the secret itself is stored, so encrypt",
)  # fmt: skip
URL = Kind(
    0x5B, "pydantic:AnyUrl", lambda url: [type(url).__name__, str(url)], _url,
    note="and its kin (`HttpUrl`, `PostgresDsn` ...)",
)  # fmt: skip
KINDS = (SECRET, URL)


def family(cls: type) -> Kind | None:
    """The row of a type that belongs to pydantic itself."""
    module = sys.modules.get(cls.__module__)
    if getattr(module, cls.__qualname__, None) is not cls:
        return None
    if cls.__module__ in ("pydantic.types", "pydantic.v1.types") and cls.__name__ in ("SecretStr", "SecretBytes"):
        return SECRET
    if cls.__module__ == "pydantic.networks" and issubclass(cls, module._BaseUrl | module._BaseMultiHostUrl):  # type: ignore[union-attr]
        return URL
    return None


PYDANTIC = Sort("pydantic", lambda cls: _is_model(cls) and hasattr(cls, "__pydantic_fields__"), _down, _up,
                runs="default factories of fields added since")  # fmt: skip
PYDANTIC_V1 = Sort("pydantic v1", _is_v1_model, _v1_down, _v1_up)
