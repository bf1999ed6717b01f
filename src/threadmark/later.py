"""Modules of the standard library that are loaded when something of them is wanted."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["asyncio"]


class _Later:
    """Stands for a module that has perhaps not been loaded yet."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


if TYPE_CHECKING:
    import asyncio
else:
    # A blocking program never needs it, and it is a sixth of what an import of graph and saver would take.
    asyncio = _Later("asyncio")
