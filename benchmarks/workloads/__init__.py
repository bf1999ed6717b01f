"""All workloads; importing this package enters them into the table."""

from __future__ import annotations

from benchmarks.workloads import chain, conversation, fanout, imports, storage

__all__ = ["chain", "conversation", "fanout", "imports", "storage"]
