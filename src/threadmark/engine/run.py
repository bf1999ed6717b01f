"""The state of one run of one graph: what the loop, and the tasks in it, work on (spec 3.1)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from threadmark import ids
from threadmark.channels import MISSING
from threadmark.checkpoint.base import UNSET
from threadmark.config import RunConfig
from threadmark.engine.chat_models import with_listener
from threadmark.engine.deltas import Cadence
from threadmark.engine.names import PREVIOUS, child_ns
from threadmark.engine.plan import Plan, State, Writes
from threadmark.engine.runners import Runner
from threadmark.engine.saving import Saving
from threadmark.engine.stream import Sink
from threadmark.engine.task import Task
from threadmark.runtime import DEFAULT_RUNTIME, Runtime
from threadmark.types import Interrupt

if TYPE_CHECKING:
    from threadmark.engine.replay import Replay
    from threadmark.engine.second import Second

_lock = threading.Lock()


def count_up(current: Any, _: None = None) -> int:
    """Versions of a run without a saver: whole numbers."""
    return 1 if current is None else int(current) + 1


class Unmade(NamedTuple):
    """What a checkpoint is made of that is only made if it is the run's last."""

    step: int
    versions: dict[str, Any]
    seen: dict[str, Mapping[str, Any]]
    updated: set[str] | None
    shown: Callable[[], Any]
    """Tells what its tasks wrote."""


class Run:
    """One run. The loop advances it; tasks read from it while they run."""

    state: State
    saving: Saving | None = None
    cache: Any = None
    """Where outputs of nodes with a cache policy are kept."""
    saver: Any = None
    """The saver object, for graphs called in this run."""
    on_loop = False
    """Whether this run's own tasks run on an event loop."""
    loop: Any = None
    """The event loop that this run, or one around it, runs on."""
    step = -1
    """Number of the superstep that is next to be stored."""
    stop = 0
    stored_id: str | None = None
    """The checkpoint that this run builds on, as it was found in storage."""
    newest: str | None = None
    """The greatest checkpoint id known of this thread and namespace."""
    head: Any = UNSET
    """For a run that nobody else should write beside: the newest checkpoint that its thread must have."""
    updated: set[str] | None = None
    """Channels that the last superstep changed; None right after loading."""
    resuming = False
    """Whether the coming superstep goes on with tasks that were found in storage."""
    addressed = False
    """Whether the caller named a checkpoint."""
    cadence: Cadence | None = None
    """When delta channels are stored whole, if there are any."""
    replay: Replay | None = None
    """How children find their state of an earlier time, while this run travels."""
    second: Second | None = None
    """What children are to ask again, when a question that has been answered gets a second answer."""
    asks_again: Second | None = None
    """For a child: old questions of its own, or of its children, with their second answers."""
    known_newest: str | None = None
    named: Mapping[str, Any] = {}
    """``checkpoint_id`` and ``checkpoint_ns`` as the caller of the root run gave them."""
    inside: tuple[str, str] | None = None
    """Namespace and id of a child's checkpoint that the caller named without those of the graphs around it."""
    moved_from: str | None = None
    """The namespace that a replayed child's checkpoint was stored in, before its parent's fork."""
    travelling = False
    """Whether this run was addressed to a checkpoint and does not answer a question there."""
    tasks: list[Task]
    interrupts: list[Interrupt]
    called: list[Task]
    """Tasks that the nodes of this superstep have called."""
    null_answer: Any = MISSING
    """An answer that was given before any question was asked."""
    early_answer_taken = False
    """Whether a question has taken it, and storage does not know yet."""
    paused = False
    """Whether it stopped at a static breakpoint."""
    own_thread_state = False
    """Whether this is a child that keeps its state on the thread (``checkpointer=True``)."""
    long_lists: Mapping[str, Any] | None = None
    """Lists of the loaded state that nobody has had in hands yet, as bytes (``lengthening.py``)."""
    lengthened: Mapping[str, Any] | None = None
    """Those of them that the superstep that is about to be stored has only added to."""
    ends_in_one = False
    """Whether only its last checkpoint is made, if nobody wants another."""
    brief = False
    """Whether what its supersteps do may be noted in a journal instead of being stored."""
    journal: Any = None
    """That journal, if the last superstep is in it."""
    told_values = False
    """Whether ``values`` has anything to show."""
    parent_id: str | None = None
    at_head = True
    """For updates: whether the loaded checkpoint is the newest of its thread."""
    metadata_stored: Mapping[str, Any]

    def __init__(
        self,
        plan: Plan,
        config: RunConfig,
        input: Any,
        runner: Runner,
        sink: Sink,
        *,
        parent: Task | None = None,
        runtime: Runtime[Any] = DEFAULT_RUNTIME,
        durability: str = "async",
        next_version: Callable[[Any, None], Any] = count_up,
        interrupt_before: frozenset[str] | str = frozenset(),
        interrupt_after: frozenset[str] | str = frozenset(),
        output_keys: Any = None,
    ) -> None:
        self.plan = plan
        self.output_keys = plan.output_channels if output_keys is None else output_keys
        """The channels that ``values``, ``updates`` and ``invoke`` show."""
        self.config = config
        self.ns = config.ns
        self.levels = tuple(config.ns.split("|")) if config.ns else ()
        self.input = input
        self.runner = runner
        self.sink = sink
        self.parent = parent
        self.runtime = runtime
        self.durability = durability
        self.next_version = next_version
        self.interrupt_before = interrupt_before
        self.interrupt_after = interrupt_after
        self.parents: dict[str, str] = {}
        if parent is not None:
            self.replay = parent.run.replay
            self.parents = {**parent.run.parents, parent.run.ns: parent.run.checkpoint_id}
        run_id = config.metadata.get("run_id") or config.configurable.get("run_id")
        self.stored_run_id = None if run_id is None else str(run_id)
        """What the metadata of its checkpoints name it."""
        self.pending: dict[str, Writes] = {}
        self.former_ids: Mapping[str, str] = {}
        """Ids that tasks of a checkpoint of an old format have, by those that they would have today."""
        self.answers: dict[str, Any] = {}
        self.tasks = []
        self.called = []
        self.interrupts = []
        self.metadata_stored = {}
        self.known_id: str | None = None
        """The current checkpoint's id, if it has one already."""
        self._made_up_id: str | None = None
        self.saver_config: dict[str, Any] | None = None
        """What the saver's configs are made of."""
        self.unmade: Unmade | None = None
        """The current checkpoint, if it has yet to be made."""
        self.about: Any = None
        """Config and metadata of its supersteps, in which their numbers do not count."""

    # -- where it stands -------------------------------------------------------------------------------------------

    @property
    def checkpoint_id(self) -> str:
        """The checkpoint whose tasks run now. Where nothing is stored one is made up when it is asked for."""
        if self.known_id is not None:
            return self.known_id
        if self.unmade is not None:
            self.known_id = self.newest = ids.checkpoint_id(self.unmade.step, self.newest)
            return self.known_id
        if self._made_up_id is None:
            parent = self.parent
            if parent is None:
                self._made_up_id = ids.checkpoint_id(self.step - 1)
            else:  # the same whenever its parent's task runs again: so its questions keep their ids
                self._made_up_id = ids.task_id(parent.id, (self.ns, str(self.step)))
        return self._made_up_id

    @checkpoint_id.setter
    def checkpoint_id(self, id: str) -> None:
        self.known_id = id

    def forget_id(self) -> None:
        """The current checkpoint is another one, whose id is made up if somebody asks."""
        self.known_id = self._made_up_id = None

    def child_ns(self, name: str) -> str:
        """The namespace of a node, without its task's id."""
        return child_ns(self.ns, name)

    @property
    def run_id(self) -> str | None:
        """What the run is called in stored metadata."""
        chosen = self.config.metadata.get("run_id") or self.config.configurable.get("run_id") or self.config.run_id
        return None if chosen is None else str(chosen)

    @property
    def metadata_seen(self) -> dict[str, Any]:
        """The run's metadata as its nodes see it: with what is not stored with it, but helps to find a run."""
        config, seen = self.config, dict(self.config.metadata)
        if config.thread_id is not None:
            seen.setdefault("thread_id", config.thread_id)
        for key in ("task_id", "run_id", "assistant_id", "graph_id"):
            if config.configurable.get(key) is not None:
                seen.setdefault(key, config.configurable[key])
        for key, value in self.named.items():
            seen.setdefault(key, value)
        return seen

    @property
    def previous(self) -> Any:
        """What an entrypoint saved the last time."""
        channel = self.state.channels.get(PREVIOUS)
        value = channel.peek() if channel is not None else MISSING
        return None if value is MISSING else value

    def callbacks_for(self, task: Task) -> Any:
        """The callbacks that a node's config carries: the run's, and what hears the tokens of chat models."""
        given = self.config.callbacks
        if given is None and "messages" not in self.sink.modes and task.timeout is None:
            return None
        return with_listener(task, given)

    def answer(self, id: str) -> Any:
        """The answer to a question, taken from this run or from those around it; ``MISSING`` if there is none."""
        with _lock:
            if id in self.answers:
                return self.answers[id]
            if self.null_answer is not MISSING:
                taken, self.null_answer = self.null_answer, MISSING
                self.answers[id], self.early_answer_taken = taken, True
                return taken
        return self.parent.run.answer(id) if self.parent is not None else MISSING

    def keep_at_exit(self, *, failed: bool) -> bool:
        """Whether ``exit`` durability stores this run's end: a child that is done is part of its parent's task."""
        return failed or self.parent is None or self.own_thread_state or bool(self.interrupts) or self.paused


__all__ = ["Run"]
