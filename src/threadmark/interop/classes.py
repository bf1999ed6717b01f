"""Which class of LangGraph's stands for which of ours, so that the same stored bytes serve both (spec 12.2, 12.3)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, Final

from threadmark.checkpoint.serde.records import SORT_OF_CODE, sort_of
from threadmark.checkpoint.serde.tables import Decoders, Encoders
from threadmark.checkpoint.serde.wire import Decode, Encode, Makers, Unpack

__all__ = ["TWINS", "PeerDecoders", "PeerEncoders", "Twin", "to_ours", "to_peers"]


@dataclass(frozen=True, slots=True)
class Twin:
    """A class of LangGraph's and the one of ours that is stored for it: the same fields under the same names."""

    peer: str
    """``"module:name"``."""
    own: str
    fields: tuple[str, ...]
    constants: dict[str, Any] = field(default_factory=dict)
    """What the peer's class has besides, always the same."""


def _twins(module: str, **classes: str) -> tuple[Twin, ...]:
    return tuple(
        Twin(f"langgraph.{module}:{name}", f"threadmark.{module}:{name}", tuple(fields.split()))
        for name, fields in classes.items()
    )


_ITEM: Final = "value key namespace created_at updated_at"
TWINS: Final = (
    *_twins(
        "types",
        Send="node arg timeout",
        Command="graph update resume goto",
        Interrupt="value id response_schema",
        TimeoutPolicy="run_timeout idle_timeout refresh_on",
        StateSnapshot="values next config metadata created_at parent_config tasks interrupts",
        PregelTask="id name path error interrupts state result",
        StateUpdate="values as_node task_id",
        GraphOutput="value interrupts",
        CacheKey="ns key ttl",
    ),
    Twin("langgraph.types:Overwrite", "threadmark.types:Overwrite", ("value",), {"type": "__overwrite__"}),
    *_twins("checkpoint.serde.types", _DeltaSnapshot="value"),
    *_twins(
        "store.base",
        Item=_ITEM,
        SearchItem=f"{_ITEM} score",
        GetOp="namespace key refresh_ttl",
        PutOp="namespace key value index ttl",
        SearchOp="namespace_prefix filter limit offset query refresh_ttl",
        ListNamespacesOp="match_conditions max_depth limit offset",
        MatchCondition="match_type path",
    ),
)
"""Every pair. Stored bytes name the class of ours, or its kind, whichever package wrote them."""

_ERRORS: Final = ("langgraph.errors", "threadmark.errors")
_BY_PEER: Final = {twin.peer: twin for twin in TWINS}
_BY_OWN: Final = {twin.own: twin for twin in TWINS}


def _key(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


@cache
def _class(key: str) -> Any:
    """The class of a name; None when the installed release has none."""
    module, _, name = key.partition(":")
    try:
        return getattr(import_module(module), name, None)
    except ModuleNotFoundError:
        return None


def _other(value: Any, cls: Any, twin: Twin, constants: dict[str, Any]) -> Any:
    """The same content in the other package's class. Nothing is validated: it was when it was made."""
    if issubclass(cls, tuple):
        return tuple.__new__(cls, [getattr(value, name, None) for name in cls._fields])
    made = cls.__new__(cls)
    for name in twin.fields:
        if hasattr(cls, name) or name in getattr(cls, "__dataclass_fields__", ()):
            object.__setattr__(made, name, getattr(value, name, None))
    for name, constant in constants.items():
        if hasattr(cls, name):
            object.__setattr__(made, name, constant)
    return made


def to_ours(value: Any) -> Any:
    """A value of LangGraph's as one of ours, one level deep; any other value as it is."""
    twin = _BY_PEER.get(_key(type(value)))
    return value if twin is None else _other(value, _class(twin.own), twin, {})


def to_peers(value: Any) -> Any:
    """A value of ours as one of LangGraph's, one level deep; any other value as it is."""
    twin = _BY_OWN.get(_key(type(value)))
    cls = None if twin is None else _class(twin.peer)
    return value if twin is None or cls is None else _other(value, cls, twin, twin.constants)


class PeerEncoders(Encoders):
    """Writes LangGraph's classes as ours are written."""

    def _find(self, cls: type) -> Encode:
        module, name = cls.__module__, cls.__qualname__
        if f"{module}:{name}" in _BY_PEER:
            return 0, to_ours
        sort = sort_of(cls)
        if module == _ERRORS[0] and sort is not None and getattr(sys.modules[module], name, None) is cls:
            return sort.code, sort.down(cls, f"{_ERRORS[1]}:{name}")
        return super()._find(cls)


class PeerDecoders(Decoders):
    """Makes LangGraph's classes out of what either package wrote."""

    def _fill(self) -> None:
        super()._fill()
        for code, decode in list(self.items()):
            self[code] = _as_peers_makers(code, decode) if isinstance(decode, Makers) else _as_peers(decode)

    def _fill_peers(self) -> None:
        super()._fill_peers()
        self.update({code: _as_peers(self[code]) for code in range(8)})  # type: ignore[arg-type]


def _as_peers(decode: Decode) -> Decode:
    def decode_for_peer(data: bytes, unpack: Unpack) -> Any:
        return to_peers(decode(data, unpack))

    return decode_for_peer


def _as_peers_makers(code: int, ours: Makers) -> Makers:
    """Instances of a class that a twin stands for, or of an error of the peer's, become the peer's."""

    def find(makers: Makers, key: str) -> Callable[..., Any]:
        module, _, name = key.partition(":")
        error = _class(f"{_ERRORS[0]}:{name}") if module == _ERRORS[1] else None
        if error is not None:
            make = SORT_OF_CODE[code].up(error)
        elif key in _BY_OWN:
            own = ours[key]

            def make(*parts: Any) -> Any:
                return to_peers(own(*parts))
        else:
            return ours[key]
        makers[key] = make
        return make

    return Makers(find)
