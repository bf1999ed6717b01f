"""Which classes a saver may revive for a graph (house 1.7: strict loading by default)."""

from __future__ import annotations

from typing import Any, Final

from threadmark.types import Interrupt, Overwrite, Send, _DeltaSnapshot

OWN: Final = frozenset({Interrupt, Overwrite, Send, _DeltaSnapshot})
"""Classes that runs store by themselves. Our savers know them; those of other packages have to be told."""


def allowing(keeper: Any, types: set[type]) -> Any:
    """A saver or cache that may revive these types as well; anything else as it is."""
    extend = None if isinstance(keeper, bool) else getattr(keeper, "with_allowlist", None)
    if extend is None:
        return keeper
    ours = type(keeper).with_allowlist.__module__.partition(".")[0] == __name__.partition(".")[0]
    return extend(types if ours else types | OWN)


__all__ = ["allowing"]
