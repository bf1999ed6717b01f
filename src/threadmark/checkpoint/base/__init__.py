"""The saver contract: what a graph needs from a store, and the values that travel between the two (spec 1, 11).

Whoever writes a saver subclasses ``BaseCheckpointSaver`` and gives it ``put``, ``put_writes``, ``get_tuple``,
``list`` and ``delete_thread``, or their twins whose names start with ``a``, or both.
"""

from __future__ import annotations

from threadmark.checkpoint.base.configs import (
    CONFIG_KEYS,
    EXCLUDED_METADATA_KEYS,
    get_checkpoint_id,
    get_checkpoint_metadata,
    get_thread_id,
)
from threadmark.checkpoint.base.contract import BaseCheckpointSaver
from threadmark.checkpoint.base.making import copy_checkpoint, create_checkpoint, empty_checkpoint
from threadmark.checkpoint.base.overriding import (
    implements,
    parents_supported,
    partial_reads_supported,
    steps_supported,
)
from threadmark.checkpoint.base.retention import PrunedThread, PruneReport, Retention
from threadmark.checkpoint.base.values import (
    UNSET,
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    NextStep,
    PendingWrite,
    Step,
    StepWriter,
    TaskWrites,
    Unset,
)

__all__ = [
    "CONFIG_KEYS",
    "EXCLUDED_METADATA_KEYS",
    "UNSET",
    "WRITES_IDX_MAP",
    "BaseCheckpointSaver",
    "ChannelVersions",
    "Checkpoint",
    "CheckpointMetadata",
    "CheckpointTuple",
    "DeltaChannelHistory",
    "NextStep",
    "PendingWrite",
    "PruneReport",
    "PrunedThread",
    "Retention",
    "Step",
    "StepWriter",
    "TaskWrites",
    "Unset",
    "copy_checkpoint",
    "create_checkpoint",
    "empty_checkpoint",
    "get_checkpoint_id",
    "get_checkpoint_metadata",
    "get_thread_id",
    "implements",
    "parents_supported",
    "partial_reads_supported",
    "steps_supported",
]
