"""Small makers of checkpoints and configs, and a thread that grows step by step."""

from __future__ import annotations

from typing import Any

from threadmark.checkpoint.base import Checkpoint, empty_checkpoint


def config(thread_id: Any = "t", id: str | None = None, ns: str | None = "", **more: Any) -> Any:
    named: dict[str, Any] = {"thread_id": thread_id, **more}
    if ns is not None:
        named["checkpoint_ns"] = ns
    if id is not None:
        named["checkpoint_id"] = id
    return {"configurable": named}


def checkpoint(values: dict[str, Any] | None = None, versions: dict[str, Any] | None = None, **more: Any) -> Checkpoint:
    """A checkpoint with these values, each at version 1 unless told."""
    made: dict[str, Any] = {**empty_checkpoint(), "updated_channels": sorted(values or {}), **more}
    made["channel_values"] = dict(values or {})
    made["channel_versions"] = dict.fromkeys(values or {}, 1) if versions is None else dict(versions)
    return made  # type: ignore[return-value]


class Grown:
    """A thread built by puts: each ``put`` follows the one before it."""

    def __init__(self, saver: Any, call: Any, thread_id: Any = "t", ns: str = "") -> None:
        self.saver, self.call = saver, call
        self.config = config(thread_id, ns=ns)
        self.configs: list[Any] = []
        self.versions: dict[str, Any] = {}
        self.step = -1

    def put(self, values: dict[str, Any], *, changed: Any = None, config: Any = None, **metadata: Any) -> Any:
        """Store a checkpoint with ``values``; ``changed`` are the channels whose version moves (None: all)."""
        moved = list(values) if changed is None else list(changed)
        version = self.saver.get_next_version(max(self.versions.values(), default=None), None)
        self.versions = {**self.versions, **dict.fromkeys(moved, version)}
        made = checkpoint(values, {c: v for c, v in self.versions.items() if c in values or c in moved})
        kept = {"source": "loop", "step": self.step, "parents": {}, **metadata}
        new = {channel: self.versions[channel] for channel in moved}
        self.config = self.call(self.saver, "put", config or self.config, made, kept, new)
        self.configs.append(self.config)
        self.step += 1
        return self.config

    def values(self, at: Any = None) -> Any:
        """Channel values at a config, the newest by default."""
        return self.call(self.saver, "get_tuple", at or self.config).checkpoint["channel_values"]


def steps(found: Any) -> list[int]:
    """The steps of listed checkpoints."""
    return [item.metadata["step"] for item in found]
