"""How much a test does: enough to find what it is for or, with ``FULL_SIZE`` in the environment, all of it."""

from __future__ import annotations

import os


def sized(full: int, quick: int) -> int:
    """``full`` when the environment says ``FULL_SIZE=1``, else ``quick``."""
    return full if os.environ.get("FULL_SIZE", "0") != "0" else quick
