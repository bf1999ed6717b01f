"""Numbers as people read them."""

from __future__ import annotations

_UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def size(count: int) -> str:
    """A number of bytes in decimal units with three digits at least, such as ``71.4 MB``."""
    for unit, step in _UNITS:
        if count >= step * 0.9995:
            number = count / step
            return f"{number:.{0 if number >= 99.95 else 1 if number >= 9.995 else 2}f} {unit}"
    return f"{count} B"


def plural(count: int, noun: str) -> str:
    """A count with its noun, such as ``1 package`` and ``1,024 packages``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
