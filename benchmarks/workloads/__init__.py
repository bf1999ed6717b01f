"""All workloads; importing this package enters them into the table."""

from __future__ import annotations

from benchmarks.workloads import chain, conversation, crowd, fanout, history, imports, interop, nested, process, storage

__all__ = ["chain", "conversation", "crowd", "fanout", "history", "imports", "interop", "nested", "process", "storage"]
