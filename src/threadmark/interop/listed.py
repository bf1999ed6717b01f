"""Whether what an allow-list names is there: a name that is mistyped would allow nothing, silently."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from threadmark.checkpoint.serde.allow import Allow

__all__ = ["check_listed"]


def check_listed(allow: Allow) -> None:
    """ValueError for an entry by name whose module or class is not there. Modules of classes are imported."""
    if allow is None or isinstance(allow, bool | type):
        return
    for entry in [allow] if isinstance(allow, str) else allow:
        if isinstance(entry, str):
            _check(entry, entry)
        elif isinstance(entry, tuple) and len(entry) >= 2 and all(isinstance(part, str) for part in entry):
            _check(f"{'.'.join(entry[:-1])}:{entry[-1]}", entry)


def _check(name: str, entry: Any) -> None:
    module, colon, cls = name.partition(":")
    if not colon:
        if _is_module(name):
            return
        module, _, cls = name.rpartition(".")
    if not cls or not _is_module(module):
        raise ValueError(f"allow: there is no module {module or name!r}, which {entry!r} names; look at its spelling")
    try:
        found = import_module(module)
    except Exception as error:
        raise ValueError(f"allow: {entry!r} cannot be looked up, since importing {module} failed: {error!r}") from error
    if getattr(found.__spec__, "_initializing", False):
        return  # it lists a class of its own, which may stand further down
    if not any(cls in (one.__qualname__, one.__name__) for one in _classes(found, found)):
        raise ValueError(
            f"allow: the module {module} defines no class {cls!r}, which {entry!r} names{_hint(found, cls)}"
        )


def _is_module(name: str) -> bool:
    if name in sys.modules:
        return True
    try:
        return find_spec(name) is not None
    except Exception:  # a package above it was imported, and may raise anything
        return False


def _classes(module: ModuleType, inside: Any) -> Iterator[type]:
    """The classes that a module defines, nested ones too; not what it imported from elsewhere."""
    for name, value in list(vars(inside).items()):
        outer = f"{inside.__qualname__}." if isinstance(inside, type) else ""
        if isinstance(value, type) and value.__module__ == module.__name__ and value.__qualname__ == f"{outer}{name}":
            yield value
            yield from _classes(module, value)


def _hint(module: ModuleType, cls: str) -> str:
    other = vars(module).get(cls)
    return f"; it is {other.__module__}:{other.__qualname__}" if isinstance(other, type) else ""
