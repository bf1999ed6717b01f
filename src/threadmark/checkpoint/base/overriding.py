"""Which methods of a saver are its own, and which of them may stand in for others."""

from __future__ import annotations

from collections.abc import Sequence

from threadmark.checkpoint.base.contract import BaseCheckpointSaver


def implements(saver: object, method: str) -> bool:
    """Whether a saver has its own ``method``, not the base's that only raises ``NotImplementedError``."""
    if method in vars(saver):
        return True
    definer = _definer(type(saver), method)
    return definer is not None and definer is not BaseCheckpointSaver


def _definer(kind: type, method: str) -> type | None:
    return next((base for base in kind.__mro__ if method in vars(base)), None)


_PER_CALL = ("put", "put_writes", "aput", "aput_writes")
_READS = ("get_tuple", "aget_tuple")


def steps_supported(saver: object) -> bool:
    """Whether ``put_step`` and ``open_writer`` may stand in for ``put`` and ``put_writes`` on this saver.

    Only if the class that defines them is the one whose ``put`` and ``put_writes`` are in force, or derives from
    it: a subclass with its own ``put`` must see every checkpoint, so it switches them off.
    """
    kind = type(saver)
    writer, step = _definer(kind, "open_writer"), _definer(kind, "put_step")
    if writer is None or step is None or not issubclass(writer, step):
        return False
    return _stands_for(saver, step, _PER_CALL)


def partial_reads_supported(saver: object) -> bool:
    """Whether ``get_partial`` may stand in for ``get_tuple`` on this saver, and so for what a subclass makes of it."""
    partial = _definer(type(saver), "get_partial")
    return partial is not None and _stands_for(saver, partial, _READS)


def parents_supported(saver: object) -> bool:
    """Whether ``get_with_parent`` may stand in for ``get_tuple`` and ``get_partial`` on this saver."""
    both = _definer(type(saver), "get_with_parent")
    return both is not None and _stands_for(saver, both, (*_READS, "get_partial", "aget_partial"))


def _stands_for(saver: object, definer: type, methods: Sequence[str]) -> bool:
    """Whether ``definer`` is the class whose ``methods`` are in force, or derives from it."""
    if not vars(saver).keys().isdisjoint(methods):
        return False
    others = (_definer(type(saver), name) for name in methods)
    return all(other is None or issubclass(definer, other) for other in others)
