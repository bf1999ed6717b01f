"""The tables that one serializer looks things up in; they fill as types turn up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ormsgpack import Ext, packb

from threadmark.checkpoint.serde.allow import Allowed, class_key
from threadmark.checkpoint.serde.batches import BATCH, Batch, batch_down, batch_up
from threadmark.checkpoint.serde.errors import DeserializationError
from threadmark.checkpoint.serde.families import row_of
from threadmark.checkpoint.serde.kinds import CLASS_CODES, FIRST_OWN_CODE, PICKLE, Kind, Sort, kinds
from threadmark.checkpoint.serde.records import SORT_OF_CODE, encoder, sort_of
from threadmark.checkpoint.serde.wire import Decode, Encode, Makers, NotSerializable, Unpack, dump

__all__ = ["Decoders", "Encoders"]

CLASS = CLASS_CODES["class"]


class Encoders(dict[type, Encode]):
    """Type -> what writes it. Only types that may be written get an entry."""

    def __init__(self, allowed: Allowed, *, pickle: bool) -> None:
        super().__init__({Batch: (BATCH, batch_down)})
        self._allowed = allowed
        self._pickle = pickle

    def __missing__(self, cls: type) -> Encode:
        found = self._find(cls)
        self[cls] = found
        return found

    def _find(self, cls: type) -> Encode:
        row = row_of(cls)
        if row is not None:
            of_pandas = cls.__module__.partition(".")[0] == "pandas"
            return self._or_pickle(row) if self._pickle and of_pandas else row.encoder()
        if issubclass(cls, type):
            return 0, self._encode_class
        sort = sort_of(cls)
        if sort is not None and self._allowed.permits(cls):
            return encoder(cls, sort)
        if self._pickle:
            return -PICKLE, _pickled
        raise NotSerializable(_refusal(cls) if sort is None else _not_allowed(cls, self._allowed))

    def _or_pickle(self, row: Kind) -> Encode:
        """A frame goes by its row if Arrow can carry it, else as a pickle: that is what the fallback is for."""

        def either(value: Any) -> Ext:
            try:
                parts = row.down(value)
                return Ext(row.code, parts if row.raw else dump(parts, self))
            except Exception:
                return Ext(PICKLE, _pickled(value))

        return 0, either

    def _encode_class(self, cls: type) -> Ext:
        if self._allowed.permits(cls):
            return Ext(CLASS, packb([class_key(cls)]))
        if self._pickle:
            return Ext(PICKLE, _pickled(cls))
        raise NotSerializable(_not_allowed(cls, self._allowed, of="class "))


def _pickled(value: Any) -> bytes:
    import pickle

    try:
        return pickle.dumps(value, protocol=5)
    except Exception as error:
        raise NotSerializable(f"not even pickle can carry it: {error}") from error


_HINTS = {
    "function": "store its name, and look the function up in the node",
    "builtin_function_or_method": "store its name, and look the function up in the node",
    "method": "store the name of the method and the object's data",
    "module": "import it in the node that needs it",
    "generator": "store the items that it gives, as a list",
    "coroutine": "await it first, and store its result",
    "Thread": "store data only; start threads in the node that needs them",
    "lock": "store data only; keep locks outside of the state",
    "ContextVar": "store its value",
}
_NO_HINT = "make it a dataclass or a pydantic model, or put plain data in the state"


def _refusal(cls: type) -> str:
    return f"{cls.__qualname__} is not serializable; {_HINTS.get(cls.__name__, _NO_HINT)}"


def _not_allowed(cls: type, allowed: Allowed, of: str = "") -> str:
    name = class_key(cls).replace(":", ".")
    if class_key(cls) in allowed.types:
        return f"{of}{name} is not the class that was listed under this name; list this one: allow=[{name}]"
    return f"{of}{name} is not allowed here, and would be refused on loading; {allowed.advice.format(name)}"


class Decoders(dict[int, Decode | Makers]):
    """Extension code -> what reads it."""

    def __init__(self, allowed: Allowed, *, pickle: bool) -> None:
        super().__init__()
        self._allowed = allowed
        self._pickle = pickle

    def __missing__(self, code: int) -> Decode | Makers:
        if not self:
            self._fill()
            if code in self:
                return self[code]
        if 0 <= code < 8:
            self._fill_peers()
            return self[code]
        newer = " (a newer release may have written it)" if code >= FIRST_OWN_CODE else ""
        raise DeserializationError(f"the stored bytes hold an unknown kind of value, {code}{newer}")

    def _fill_peers(self) -> None:
        """LangGraph's codes, when one of them turns up."""
        from threadmark.checkpoint.serde.legacy import decoders

        self.update(decoders(self._allowed))

    def _fill(self) -> None:
        """Every code of ours."""
        self.update({row.code: row.decoder() for row in kinds()})
        self.update({code: _makers(sort, self._allowed) for code, sort in SORT_OF_CODE.items()})
        self[CLASS] = lambda data, unpack: self._allowed.resolve(*unpack(data))
        self[BATCH] = lambda data, unpack: batch_up(unpack(data), self)
        self[PICKLE] = _decode_pickle if self._pickle else _refuse_pickle


def _makers(sort: Sort, allowed: Allowed) -> Makers:
    """The makers of one sort of classes, for those that the allow-list permits."""
    by_class: dict[type, Callable[..., Any]] = {}

    def find(makers: Makers, key: str) -> Callable[..., Any]:
        cls = allowed.resolve(key)
        make = by_class.get(cls)
        if make is None:
            if not sort.fits(cls):
                raise DeserializationError(
                    f"class {key.replace(':', '.')} was of the sort {sort.name!r} when this value was stored and is no "
                    f"more; make it one again, or write the value anew with update_state",
                    class_name=key,
                )
            make = by_class[cls] = sort.up(cls)
        if allowed.is_fixed(key):
            # A class given by name is looked up each time: its module may have been reloaded.
            makers[key] = make
        return make

    return Makers(find)


_TRUST = (
    "was stored with pickle, which can run any code when it is loaded; if you trust whoever can write to the storage, "
    "use JsonPlusSerializer(pickle_fallback=True)"
)


def _decode_pickle(data: bytes, _: Unpack) -> Any:
    import pickle

    return pickle.loads(data)


def _refuse_pickle(data: bytes, _: Unpack) -> Any:
    raise DeserializationError(f"part of this value {_TRUST}")
