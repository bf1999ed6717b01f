"""Which classes a saver may revive for a graph (house 1.7: strict loading by default)."""

from __future__ import annotations

from typing import Any, Final

from threadmark.types import Interrupt, Overwrite, Send, _DeltaSnapshot

OWN: Final = frozenset({Interrupt, Overwrite, Send, _DeltaSnapshot})
"""Classes that runs store by themselves. Our savers know them; those of other packages have to be told."""
_SAMPLES: Final = (Send("node", {"item": b"1"}), Interrupt(value="?", id="1"), Overwrite([1]), _DeltaSnapshot([1]))


def allowing(keeper: Any, types: set[type]) -> Any:
    """A saver or cache that may revive these types as well; anything else as it is.

    TypeError for one of another package whose serializer loses what runs store by themselves, as LangGraph's for Redis.
    """
    extend = None if isinstance(keeper, bool) else getattr(keeper, "with_allowlist", None)
    if extend is None:
        return keeper
    ours = type(keeper).with_allowlist.__module__.partition(".")[0] == __name__.partition(".")[0]
    if ours:
        return extend(types)
    extended = extend(types | OWN)
    lost = _lost(getattr(extended, "serde", None))
    if lost:
        raise TypeError(
            f"{type(keeper).__name__} cannot keep threads of this package: its serializer loses what is in "
            f"{', '.join(lost)}, which runs store. Use a saver of threadmark.checkpoint on that store"
        )
    return extended


def _lost(serde: Any) -> list[str]:
    """Names of the classes whose instances do not come back."""
    if not hasattr(serde, "dumps_typed") or not hasattr(serde, "loads_typed"):
        return []
    return [type(sample).__name__ for sample in _SAMPLES if not _comes_back(serde, sample)]


def _comes_back(serde: Any, sample: Any) -> bool:
    try:
        (found,) = serde.loads_typed(serde.dumps_typed([sample]))
    except Exception:  # of whatever kind: it is somebody else's
        return False
    return type(found) is type(sample) and bool(found == sample)


__all__ = ["allowing"]
