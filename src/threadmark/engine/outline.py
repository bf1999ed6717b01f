"""What a compiled graph is: its plan and name, its channels and breakpoints, copies of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from threadmark.config import RunnableConfig, merge
from threadmark.engine.plan import Plan
from threadmark.engine.port import SaverPort
from threadmark.types import Checkpointer, StreamMode

Config = RunnableConfig | Mapping[str, Any] | None


class Outline:
    """The facts about a compiled graph that its runs read."""

    builder: Any = None

    def __init__(
        self,
        plan: Plan,
        *,
        checkpointer: Checkpointer = None,
        store: Any = None,
        cache: Any = None,
        debug: bool = False,
        name: str = "LangGraph",
    ) -> None:
        self.plan = plan
        self.checkpointer = checkpointer
        self.store = store
        self.cache = cache
        self.debug = debug
        self.name = name
        self.config: RunnableConfig = {}
        self.stream_mode: StreamMode = "updates"
        self.retry_policy: Sequence[Any] = ()
        self._ports: dict[tuple[int, bool], tuple[Any, SaverPort]] = {}

    def get_name(self, suffix: str | None = None, *, name: str | None = None) -> str:
        """The graph's name, with ``suffix`` behind it."""
        return (name or self.name) + (suffix or "")

    @property
    def input_channels(self) -> str | list[str]:
        """The channels that take the input."""
        taking = self.plan.input_channels
        return taking if isinstance(taking, str) else list(taking)

    @property
    def output_channels(self) -> str | list[str]:
        """The channels that ``invoke`` returns."""
        shown = self.plan.output_channels
        return shown if isinstance(shown, str) else list(shown)

    @property
    def stream_channels(self) -> str | list[str]:
        """The channels of the state, as snapshots show them."""
        shown = self.plan.stream_channels
        return shown if isinstance(shown, str) else list(shown)

    @property
    def step_timeout(self) -> float | None:
        """Seconds that one superstep may take; None for any time."""
        return self.plan.step_timeout

    @step_timeout.setter
    def step_timeout(self, seconds: float | None) -> None:
        self.plan.step_timeout = seconds

    @property
    def interrupt_before_nodes(self) -> Any:
        """Static breakpoints before nodes."""
        names = self.plan.interrupt_before
        return names if isinstance(names, str) else sorted(names)

    @property
    def interrupt_after_nodes(self) -> Any:
        """Static breakpoints behind nodes."""
        names = self.plan.interrupt_after
        return names if isinstance(names, str) else sorted(names)

    def copy(self, update: Mapping[str, Any] | None = None) -> Self:
        """A copy with some attributes changed."""
        clone = object.__new__(type(self))
        clone.__dict__.update(self.__dict__, _ports={}, **dict(update or {}))
        return clone

    def with_config(self, config: Config = None, **more: Any) -> Self:
        """A copy whose runs have this config as their default."""
        return self.copy({"config": merge(self.config, config, more)})


__all__ = ["Config", "Outline"]
