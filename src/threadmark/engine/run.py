"""The state of one run of one graph: what the loop, and the tasks in it, work on (spec 3.1)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from threadmark import ids
from threadmark.channels import MISSING
from threadmark.checkpoint.base import UNSET, NextStep, Step, TaskWrites
from threadmark.config import RunConfig
from threadmark.engine.chat_models import with_listener
from threadmark.engine.deltas import COUNTERS, Cadence, snapshots
from threadmark.engine.names import NO_WRITES, PREVIOUS, PULL, TASKS, child_ns, pulled_id
from threadmark.engine.plan import Plan, State, Writes
from threadmark.engine.runners import Runner
from threadmark.engine.saving import Saving
from threadmark.engine.stored import name_writers, storable
from threadmark.engine.stream import Sink
from threadmark.engine.task import Task
from threadmark.runtime import DEFAULT_RUNTIME, Runtime
from threadmark.tuples import tuple_of
from threadmark.types import Interrupt

if TYPE_CHECKING:
    from threadmark.engine.replay import Replay
    from threadmark.engine.second import Second

FORMAT = 4
"""Format version of the checkpoints that this engine makes (spec 1.1)."""

_lock = threading.Lock()


def count_up(current: Any, _: None = None) -> int:
    """Versions of a run without a saver: whole numbers."""
    return 1 if current is None else int(current) + 1


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
        self._id: str | None = None
        self._made_up_id: str | None = None
        self._put_config: dict[str, Any] | None = None
        self._put_off: tuple[Any, ...] | None = None
        """What the current checkpoint is made of, if it is made when it is the run's last: its step, versions, versions
        seen, updated channels, and what tells what its tasks wrote."""
        self._about: Any = None
        """Config and metadata of its supersteps, in which their numbers do not count."""

    # -- where it stands -------------------------------------------------------------------------------------------

    @property
    def checkpoint_id(self) -> str:
        """The checkpoint whose tasks run now. Where nothing is stored one is made up when it is asked for."""
        if self._id is not None:
            return self._id
        if self._put_off is not None:
            self._id = self.newest = ids.checkpoint_id(self._put_off[0], self.newest)
            return self._id
        if self._made_up_id is None:
            parent = self.parent
            if parent is None:
                self._made_up_id = ids.checkpoint_id(self.step - 1)
            else:  # the same whenever its parent's task runs again: so its questions keep their ids
                self._made_up_id = ids.task_id(parent.id, (self.ns, str(self.step)))
        return self._made_up_id

    @checkpoint_id.setter
    def checkpoint_id(self, id: str) -> None:
        self._id = id

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

    # -- storing ---------------------------------------------------------------------------------------------------

    def put_config(self, checkpoint_id: str | None) -> Any:
        """The config for the saver: the user's, addressed to ``checkpoint_id`` (spec 9)."""
        if self._put_config is None:
            config = self.config
            self._put_config = {
                "configurable": {
                    **config.configurable,
                    "thread_id": config.require_thread_id,
                    "checkpoint_ns": self.ns,
                },
                "metadata": dict(config.metadata),
            }
        base = self._put_config
        return {
            "configurable": {**base["configurable"], "checkpoint_id": checkpoint_id},
            "metadata": base["metadata"],
        }

    @property
    def _stored_at(self) -> str | None:
        """The checkpoint whose tasks run now, None where there is none."""
        return self._id if self._put_off is None else self.checkpoint_id

    async def store_tasks(self, writes: Sequence[TaskWrites]) -> None:
        """Hand what finished tasks wrote to the saver."""
        if self.saving is not None and writes:
            try:
                await self.saving.tasks(self.put_config(self._stored_at), writes)
            except Exception as error:
                name_writers(error, [*self.tasks, *self.called])
                raise

    def hold(self, writes: Sequence[TaskWrites]) -> None:
        """Keep what tasks wrote as it is now, where a reducer of the user's could change it in place (spec 8.3)."""
        if self.saving is not None and writes and self.plan.reducers_are_foreign:
            try:
                self.saving.hold(self.put_config(self._stored_at), writes)
            except Exception as error:
                name_writers(error, [*self.tasks, *self.called])
                raise

    async def commit(
        self,
        source: str,
        writes: Sequence[TaskWrites],
        *,
        shown: Any = None,
        parent: Any = MISSING,
        applied: Sequence[Any] = (),
    ) -> None:
        """Make a checkpoint of the state as it is now; it supersedes the one whose tasks have run.

        ``writes`` are those of its parent's tasks that are not stored yet, ``shown`` what snapshots show as its
        ``writes`` when they cannot be derived. ``parent``: another parent than the current checkpoint. ``applied``:
        the tasks whose writes made the new state.
        """
        if self.saving is None:
            self.go_on()
            return
        state, self.journal, self._put_off = self.state, None, None
        if source == "loop" and shown is None and parent is MISSING and await self._follow(writes, applied):
            return
        if self.cadence is not None:
            self.cadence.count(state.moved, (write for task in applied for write in task.writes))
            if self.durability == "exit" and (self.addressed or self.replay is not None):
                self.cadence.force(state.moved)  # writes on its base would be read by the base's other branches
        parent_id = self._id if parent is MISSING else parent
        whole = {} if self.cadence is None else self._snapshots()
        after, head = self.newest, self.head
        if head is not UNSET and head != after:
            after = max(filter(None, (after, head)), default=None)
        id = ids.checkpoint_id(self.step, after)
        checkpoint, new_versions = self.checkpoint(id)
        metadata = self._metadata(source)
        if self.cadence is not None and (counts := self.cadence.metadata()):
            metadata[COUNTERS] = counts
        checkpoint["channel_values"].update(whole)
        looked, state.looked = state.looked, set()
        # Other checkpoints than those of the loop may hang on another one than the state was loaded from.
        known = looked if source == "loop" else None
        config = self.put_config(parent_id)
        lengthened, self.lengthened = self.lengthened or {}, None
        step = tuple_of(Step, (config, checkpoint, metadata, new_versions, writes, shown, head, known, lengthened))
        if head is not UNSET:
            self.head = id
        self._id = self.newest = id
        self.parent_id = self.stored_id if self.durability == "exit" else parent_id
        self.metadata_stored = metadata
        try:
            await self.saving.superstep(step)
        except Exception as error:
            name_writers(error, applied)
            raise

    async def _follow(self, writes: Sequence[TaskWrites], applied: Sequence[Any]) -> bool:
        """``commit`` of a superstep that follows the last one, in half as many steps; False where it needs more."""
        state, head, saving = self.state, self.head, self.saving
        if self.cadence is not None or state.unknown or self.plan.untracked or self._id is None or saving is None:
            return False
        if head is not UNSET and head != self.newest:
            return False
        if self._about is None:
            self._about = (self.put_config(None), self._metadata("loop"))
        parent, updated, lengthened = self._id, self.updated, self.lengthened
        values, new_versions = self._moved()
        id = ids.checkpoint_id(self.step, self.newest)
        step = tuple_of(
            NextStep,
            (
                id,
                time.time_ns(),
                self.step,
                writes,
                new_versions,
                dict(state.versions),
                dict(state.seen),
                dict(values),
                None if updated is None else sorted(updated),
                state.looked,
                lengthened or {},
                head,
            ),
        )
        try:
            if not saving.follow(self._about, parent, step):
                return False
            state.looked, self.lengthened = set(), None
            state.moved.clear()
            self._stored(id, parent)
            await saving.followed()
        except Exception as error:
            name_writers(error, applied)
            raise
        return True

    def _stored(self, id: str, parent: str | None) -> None:
        """The state is this checkpoint now."""
        if self.head is not UNSET:
            self.head = id
        self._id = self.newest = id
        self.parent_id = parent
        if "checkpoints" in self.sink.modes:
            self.metadata_stored = self._metadata("loop")

    def put_off(self, tasks: Sequence[Task], shown: Callable[[Run, Sequence[Task]], Any]) -> bool:
        """What ``commit`` comes to in ``exit``, where only the last checkpoint is stored: remember what it is made of.

        ``shown`` tells what they wrote. False where each has to be made: for the first of a run, and for who listens.
        """
        state, saving = self.state, self.saving
        assert saving is not None
        if "checkpoints" in self.sink.modes or not saving.put_off(self._last_step, state.moved):
            return False
        self._moved()
        state.moved.clear()
        self._put_off = (self.step, dict(state.versions), dict(state.seen), self.updated, partial(shown, self, tasks))
        self._id = None
        return True

    def _last_step(self) -> Step:
        """The run's last superstep, which was put off."""
        assert self._put_off is not None
        step, versions, seen, updated, shown = self._put_off
        values = {**(self.state.stored or {}), **self.state.unknown}
        checkpoint = self._checkpoint(self.checkpoint_id, values, versions, seen, updated)
        metadata: Any = {**self._metadata("loop"), "step": step}
        looked = seen.keys() & self.state.looked  # a superstep that failed may have looked at something, too
        return Step(self.put_config(None), checkpoint, metadata, {}, (), shown(), UNSET, looked)

    def note(self, task: Task) -> bool:
        """Note in a journal what a superstep of this one task has made of the state: a third of what ``commit`` costs.

        False where there is none, or it does not take this: then it is to be committed.
        """
        state, head = self.state, self.head
        if len(state.looked) != 1 or self.lengthened or task.path[0] != PULL:
            return False
        if head is not UNSET and head != self._id:
            return False
        journal = self.journal
        if journal is None:
            assert self.saving is not None
            about, naming = (self.put_config(None), self._metadata("loop")), partial(pulled_id, self.ns)
            journal = self.saving.journal(*about, naming, guarded=head is not UNSET)
            if journal is None:
                return False
            self.journal, state.stored = journal, None
        id, updated, channels = ids.checkpoint_id(self.step, self.newest), self.updated, state.channels
        moved, emptied = [], []
        for name in state.moved:
            value = channels[name].checkpoint()
            if value is MISSING:
                emptied.append(name)
            else:
                moved.append((name, value))
        writes = task.writes or [(NO_WRITES, None)]
        path = task.path_str
        if not journal.note(
            id, time.time_ns(), self.step, task.name, path, task.triggers, state.top, updated, writes, moved, emptied
        ):
            self.brief = self.brief and not journal.refused
            return False
        state.moved.clear()
        state.looked.clear()
        self._stored(id, self._id)
        return True

    def go_on(self) -> None:
        """What ``commit`` comes to without a saver: nobody asks what has changed, and ids are made up if need be."""
        self.state.moved.clear()
        self.state.looked.clear()
        self._id = self._made_up_id = None

    def _metadata(self, source: str) -> Any:
        metadata = {"source": source, "step": self.step, "parents": self.parents}
        if self.stored_run_id is not None:
            metadata["run_id"] = self.stored_run_id
        return metadata

    def _snapshots(self) -> dict[str, Any]:
        """The delta channels that this checkpoint holds whole; in ``exit`` only the run's last one may."""
        assert self.cadence is not None
        if self.durability != "exit":
            return snapshots(self, self.cadence)
        saving: Any = self.saving
        saving.note_deltas(self.cadence, self.state, self.next_version)
        return {}

    def checkpoint(self, id: str) -> tuple[Any, dict[str, Any]]:
        """The state as a checkpoint, and the new versions of what has moved since the last one."""
        state = self.state
        stored, new_versions = self._moved()
        state.moved.clear()
        values = dict(stored)
        if state.unknown:
            values.update(state.unknown)
        if self.plan.untracked and TASKS in values:
            values[TASKS] = [storable(packet, self.plan.untracked) for packet in values[TASKS]]
        updated = self.updated
        return self._checkpoint(id, values, dict(state.versions), dict(state.seen), updated), new_versions

    @staticmethod
    def _checkpoint(id: str, values: Any, versions: Any, seen: Any, updated: Any) -> Any:
        return {
            "v": FORMAT,
            "id": id,
            "ts": ids.timestamp(),
            "channel_values": values,
            "channel_versions": versions,
            "versions_seen": seen,
            "updated_channels": None if updated is None else sorted(updated),
        }

    def _moved(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the channels hold now, and the new versions of those that have moved since the last checkpoint."""
        state = self.state
        channels, versions, stored = state.channels, state.versions, state.stored
        if stored is None:
            stored = state.stored = {}
            held = {name: channels[name].checkpoint() for name in versions if name in channels}
            stored.update({name: value for name, value in held.items() if value is not MISSING})
        # Only what moved is asked again: of many channels a superstep moves a few.
        new_versions: dict[str, Any] = {}
        for name in state.moved:
            new_versions[name] = versions[name]
            value = channels[name].checkpoint()
            if value is not MISSING:
                stored[name] = value
            elif name in stored:
                del stored[name]
        return stored, new_versions

    def keep_at_exit(self, *, failed: bool) -> bool:
        """Whether ``exit`` durability stores this run's end: a child that is done is part of its parent's task."""
        return failed or self.parent is None or self.own_thread_state or bool(self.interrupts) or self.paused


__all__ = ["Run"]
