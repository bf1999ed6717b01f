"""Public constants (spec 1.7)."""

from __future__ import annotations

import sys
from typing import Final

START: Final = sys.intern("__start__")
"""The virtual first node, and the channel that takes a run's input."""
END: Final = sys.intern("__end__")
"""The virtual last node."""
TAG_HIDDEN: Final = sys.intern("langsmith:hidden")
"""Tag of nodes that do not show up in streams and histories."""
TAG_NOSTREAM: Final = sys.intern("nostream")
"""Tag that keeps a chat model's tokens out of the ``messages`` stream."""

__all__ = ["END", "START", "TAG_HIDDEN", "TAG_NOSTREAM"]
