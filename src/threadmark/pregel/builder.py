"""One node over channels: what starts it, what it reads, does and writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from threadmark.channels import MISSING
from threadmark.engine.call import Call, call_of
from threadmark.engine.plan import Writes
from threadmark.types import CachePolicy, RetryPolicy, TimeoutPolicy


@dataclass(frozen=True, slots=True)
class ChannelWriteEntry:
    """One write of a node."""

    channel: str
    value: Any = MISSING
    """What to write; by default what the node made."""
    skip_none: bool = False
    """Whether None is not written: the channel stays as it is and starts nothing, so a loop can end."""
    mapper: Callable[[Any], Any] | None = None
    """Makes of the node's result what is written."""

    def writes(self, result: Any) -> Writes:
        """The write that a result makes, or none."""
        value = result if self.value is MISSING else self.value
        if self.mapper is not None:
            value = self.mapper(value)
        return [] if self.skip_none and value is None else [(self.channel, value)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PregelNode:
    """What ``NodeBuilder.build()`` makes."""

    channels: str | tuple[str, ...]
    """The channel that is the node's input; or several, of which it is given a dict of those with a value."""
    triggers: tuple[str, ...]
    """Channels whose change starts it."""
    steps: tuple[Call, ...]
    """What it does in turn, each step with the result of the one before it."""
    entries: tuple[ChannelWriteEntry, ...]
    """What it writes of the last step's result."""
    retry_policy: tuple[RetryPolicy, ...]
    cache_policy: CachePolicy[Any] | None
    timeout: TimeoutPolicy | None
    tags: tuple[str, ...]
    metadata: Mapping[str, Any]


class NodeBuilder:
    """Puts a node together; every method gives back the builder, so that calls can be chained.

    ``NodeBuilder().subscribe_only("question").do(answer).write_to("answer")``
    """

    def __init__(self) -> None:
        self._only: str | None = None
        self._read: list[str] = []
        self._triggers: list[str] = []
        self._steps: list[Call] = []
        self._entries: list[ChannelWriteEntry] = []
        self._retry: list[RetryPolicy] = []
        self._cache: CachePolicy[Any] | None = None
        self._timeout: TimeoutPolicy | None = None
        self._tags: list[str] = []
        self._metadata: dict[str, Any] = {}

    def subscribe_only(self, channel: str) -> Self:
        """Start when ``channel`` changes, and take its value as the input. ``ValueError`` beside other channels."""
        if self._only is not None or self._read or self._triggers:
            raise ValueError("Cannot subscribe to a single channel when other channels are already subscribed to")
        self._only = channel
        self._triggers.append(channel)
        return self

    def subscribe_to(self, *channels: str, read: bool = True) -> Self:
        """Start when one of these changes. ``read``: and take their values, a dict of those that have one.

        Raises ``ValueError`` after ``subscribe_only``.
        """
        self._refuse_only("subscribe to channels")
        self._triggers.extend(channel for channel in channels if channel not in self._triggers)
        return self.read_from(*channels) if read else self

    def read_from(self, *channels: str) -> Self:
        """Take the values of these too, without being started by them. ``ValueError`` after ``subscribe_only``."""
        self._refuse_only("read additional channels")
        self._read.extend(channel for channel in channels if channel not in self._read)
        return self

    def _refuse_only(self, what: str) -> None:
        if self._only is not None:
            raise ValueError(f"Cannot {what} when subscribed to a single channel; use subscribe_to for all of them")

    def do(self, node: Any) -> Self:
        """Do this with the input, or with the result of the step before it.

        ``node`` is a function of either colour, a Runnable or a graph; ``TypeError`` for anything else. It may take
        ``config``, ``runtime``, ``writer`` and ``store`` besides.
        """
        self._steps.append(call_of(node))
        return self

    def write_to(self, *channels: str | ChannelWriteEntry, **more: Any) -> Self:
        """Write the last step's result to these channels.

        Args:
            channels: Names of channels, or whole entries.
            more: ``channel=function`` writes what the function makes of the result, ``channel=value`` that value.
        """
        self._entries.extend(c if isinstance(c, ChannelWriteEntry) else ChannelWriteEntry(c) for c in channels)
        for channel, what in more.items():
            entry = ChannelWriteEntry(channel, mapper=what) if callable(what) else ChannelWriteEntry(channel, what)
            self._entries.append(entry)
        return self

    def meta(self, *tags: str, **metadata: Any) -> Self:
        """Tags and metadata that the node's config, and what it calls, carries."""
        self._tags.extend(tag for tag in tags if tag not in self._tags)
        self._metadata.update(metadata)
        return self

    def add_retry_policies(self, *policies: RetryPolicy) -> Self:
        """How it is tried again; of several policies the first counts that fits the error."""
        self._retry.extend(policies)
        return self

    def add_cache_policy(self, policy: CachePolicy[Any]) -> Self:
        """When a stored output may stand in for a run of it."""
        self._cache = policy
        return self

    def set_timeout(self, timeout: float | timedelta | TimeoutPolicy | None) -> Self:
        """How long it may run: seconds, or a policy. For async steps; ``ValueError`` for a time of zero or less."""
        self._timeout = TimeoutPolicy.coerce(timeout)
        return self

    def build(self) -> PregelNode:
        """The node as it stands; the builder can be used on."""
        return PregelNode(
            channels=self._only if self._only is not None else tuple(self._read),
            triggers=tuple(self._triggers),
            steps=tuple(self._steps),
            entries=tuple(self._entries),
            retry_policy=tuple(self._retry),
            cache_policy=self._cache,
            timeout=self._timeout,
            tags=tuple(self._tags),
            metadata=dict(self._metadata),
        )


__all__ = ["ChannelWriteEntry", "NodeBuilder", "PregelNode"]
