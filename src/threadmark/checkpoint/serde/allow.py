"""Which classes may be written and revived: one table asked on both sides (house rule 7, spec 12.4)."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any, TypeAlias

from threadmark.checkpoint.serde.errors import DeserializationError

__all__ = ["Allow", "Allowed", "class_key", "is_exception", "types_in"]

Allow: TypeAlias = "Iterable[type | str | tuple[str, ...]] | type | str | bool | None"
"""Classes; ``"pkg.mod"`` for all classes of a module; ``"pkg.mod:Name"``, ``"pkg.mod.Name"`` or ``("pkg.mod", "Name")``
for one of them (``Outer.Inner`` for a nested one). True allows every class, None and False none."""

ADVICE = "name it in a schema of the graph, or list it when you make the serializer: allow=[{}]"
"""What to do about a class that is not allowed."""

_EXCEPTIONS = {
    f"builtins:{name}": value
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException) and value.__name__ == name
}
_BUILTIN_TYPES = {
    f"builtins:{kind.__name__}": kind
    for kind in (
        object, type, str, bytes, bytearray, bool, int, float, complex, list, tuple, dict, set, frozenset, range,
        memoryview, type(None),
    )
}  # fmt: skip

OWN_NAMES = frozenset({
    *(f"threadmark.types:{name}" for name in (
        "Send", "Command", "Interrupt", "Overwrite", "TimeoutPolicy", "StateSnapshot", "PregelTask", "StateUpdate",
        "GraphOutput", "CacheKey", "RetryPolicy",
    )),
    "threadmark.checkpoint.serde.types:_DeltaSnapshot",
    *(f"threadmark.store.base:{name}" for name in ("Item", "SearchItem", "GetOp", "PutOp", "SearchOp",
                                                    "ListNamespacesOp", "MatchCondition")),
    *(f"langchain_core.messages.{name}" for name in (
        "ai:AIMessage", "ai:AIMessageChunk", "human:HumanMessage", "human:HumanMessageChunk", "system:SystemMessage",
        "system:SystemMessageChunk", "tool:ToolMessage", "tool:ToolMessageChunk", "chat:ChatMessage",
        "chat:ChatMessageChunk", "function:FunctionMessage", "function:FunctionMessageChunk", "modifier:RemoveMessage",
    )),
    "langchain_core.messages.base:TextAccessor",  # what a message's ``text`` is
    "langchain_core.documents.base:Document",
})  # fmt: skip
"""Our classes and LangChain's messages, always allowed; these modules may be imported to revive them."""


_OWN_ERRORS = "threadmark.errors"


def class_key(cls: type) -> str:
    """The name of a class on the wire: ``"module:qualname"``."""
    return f"{cls.__module__}:{cls.__qualname__}"


def is_exception(key: str) -> bool:
    """Whether a class name is that of a builtin exception."""
    return key in _EXCEPTIONS


class Allowed:
    """An immutable answer to "may this class travel?". A class listed as an object is never imported or looked up."""

    __slots__ = ("advice", "everything", "modules", "names", "types")

    def __init__(self, *lists: Allow, advice: str = ADVICE) -> None:
        self.advice = advice
        """How a class that is missing here is listed; ``{}`` stands for its name."""
        self.types: dict[str, type] = {}
        self.names: frozenset[str] = frozenset()
        self.modules: frozenset[str] = frozenset()
        self.everything = False
        for entries in lists:
            self._add(entries)

    def extended(self, extra: Allow) -> Allowed:
        """This table and ``extra``; a class of ``extra`` replaces a listed one of the same name."""
        made = Allowed(advice=self.advice)
        made.types, made.names, made.modules = dict(self.types), self.names, self.modules
        made.everything = self.everything
        made._add(extra)
        return made

    def _add(self, entries: Allow) -> None:
        if entries is None or isinstance(entries, bool):
            self.everything = self.everything or entries is True
            return
        listed = [entries] if isinstance(entries, type | str) else list(entries)
        if len(listed) > 1 and isinstance(entries, tuple) and all(isinstance(part, str) for part in listed):
            raise TypeError(f"an allow-list is a list of entries; write [{entries!r}] for one class of a module")
        for entry in listed:
            self._add_one(entry)

    def _add_one(self, entry: Any) -> None:
        if isinstance(entry, type):
            self.types[class_key(entry)] = entry
        elif isinstance(entry, str) and ":" in entry:
            self.names |= {entry}
        elif isinstance(entry, str):
            module, _, name = entry.rpartition(".")
            self.modules |= {entry}
            self.names |= {f"{module}:{name}"}
        elif isinstance(entry, tuple) and len(entry) >= 2 and all(isinstance(part, str) for part in entry):
            # LangGraph also writes ("pkg", "mod", "Name").
            self.names |= {f"{'.'.join(entry[:-1])}:{entry[-1]}"}
        else:
            raise TypeError(f"an allow-list holds classes, module names and (module, class name) pairs, not {entry!r}")

    def permits(self, cls: type) -> bool:
        """Whether instances of ``cls`` may be written; then the same table finds the class again on loading."""
        key = class_key(cls)
        if key in self.types:
            return self.types[key] is cls
        if cls is _EXCEPTIONS.get(key) or cls is _BUILTIN_TYPES.get(key):
            return True
        return self.lists(key) and _attribute(key) is cls

    def is_fixed(self, key: str) -> bool:
        """Whether the name stands for the same class as long as this table lives."""
        return key in self.types or key in _EXCEPTIONS or key in _BUILTIN_TYPES

    def resolve(self, key: str) -> type:
        """The class of a stored name. Raises DeserializationError when it is not allowed or not there."""
        found = self.types.get(key) or _EXCEPTIONS.get(key) or _BUILTIN_TYPES.get(key)
        if found is not None:
            return found
        if not self.lists(key):
            raise DeserializationError(
                f"class {key.replace(':', '.')} is not allowed here; {self.advice.format(key.replace(':', '.'))}",
                class_name=key,
            )
        module = key.partition(":")[0]
        try:
            import_module(module)
        except Exception as error:
            raise DeserializationError(
                f"class {key.replace(':', '.')} cannot be revived, since importing {module} failed: {error!r}",
                class_name=key,
            ) from error
        cls = _attribute(key)
        if cls is None:
            raise DeserializationError(
                f"class {key.replace(':', '.')} is gone from its module; give it back, or list a class of that "
                f"module and name in allow",
                class_name=key,
            )
        return cls

    def lists(self, key: str) -> bool:
        """Whether an entry gives this class by name, alone or with its module."""
        if key in self.names or key in OWN_NAMES or self.everything:
            return True
        module, _, qualname = key.partition(":")
        return (
            module in self.modules or module == _OWN_ERRORS or f"{module}:{qualname.rpartition('.')[2]}" in self.names
        )


def _attribute(key: str) -> type | None:
    """The class of that very name in a loaded module; what a module merely imported from elsewhere does not count."""
    module, _, qualname = key.partition(":")
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = vars(found).get(part) if found is not None else None
        if not isinstance(found, type):
            return None
    return found if class_key(found) == key else None


def types_in(annotation: Any) -> set[type]:
    """Every class that a type annotation names and that may need permission, with the classes of their fields."""
    from threadmark.checkpoint.serde.annotations import collect

    return collect(annotation)
