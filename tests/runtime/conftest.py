"""Each behaviour of the runtime is shown in both colours, on memory and on a SQLite file."""

from __future__ import annotations

from tests.acceptance.conftest import node, saver

__all__ = ["node", "saver"]
