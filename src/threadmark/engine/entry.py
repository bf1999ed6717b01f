"""How a run begins: go on, take input, or travel to an old checkpoint (spec 3.3, 5.4, 6.5, 6.6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from threadmark import ids
from threadmark.channels import MISSING
from threadmark.checkpoint.base import TaskWrites
from threadmark.constants import START
from threadmark.engine.apply import apply, log
from threadmark.engine.commits import commit, hold, store_tasks
from threadmark.engine.deltas import prepared
from threadmark.engine.interrupts import (
    addressed,
    open_questions,
    stored_answers,
    stored_bare_answer,
)
from threadmark.engine.lengthening import watch
from threadmark.engine.loading import address_of, load, restore
from threadmark.engine.names import INPUT, INTERRUPT, PULL, PUSH, RESUME, SPECIAL, TASKS
from threadmark.engine.plan import PUSH_TRIGGERS, Plan, Writes, due
from threadmark.engine.prepare import prepare, refuse_missing_nodes
from threadmark.engine.replay import named_before, replay_of
from threadmark.engine.run import Run
from threadmark.engine.second import ask_again, fork_and_ask, second_answer
from threadmark.engine.task import Task
from threadmark.engine.tell import tell_values
from threadmark.errors import EmptyInputError, InvalidUpdateError
from threadmark.ids import NULL_TASK_ID
from threadmark.types import Command, Send


@dataclass(slots=True)
class Outside:
    """Writes that no task made, in the form that ``apply`` takes."""

    writes: Writes
    name: str = INPUT
    triggers: tuple[str, ...] = ()
    path_str: str = ""


@dataclass(slots=True)
class Consumed:
    """A task that was due and is dropped: its triggers count as seen, and it wrote nothing."""

    name: str
    triggers: tuple[str, ...]
    path_str: str
    writes: Writes = field(default_factory=list)


async def enter(run: Run) -> None:
    """Load the thread, decide what this call means, and store what it begins with."""
    saved = await load(run)
    restore(run, saved)
    if run.state.unknown:
        _report_unknown(run)
    command = run.input if isinstance(run.input, Command) else None
    if command is not None:
        _check_command(run, command)
    if run.asks_again is not None:
        await ask_again(run, run.asks_again)
        _going_on(run)
    elif bool(run.state.versions) and _goes_on(run, saved, command):
        await _resume(run, saved, command)
    else:
        await _begin(run, command, saved)


def _report_unknown(run: Run) -> None:
    """Tell once of each stored channel that the graph does not have; its value is carried on untouched."""
    plan = run.plan
    for name in run.state.unknown.keys() - plan.reported:
        plan.reported.add(name)
        if not name.startswith(("__", "join:")):
            log.warning("channel %r is stored, and %s has no schema for it; kept as it is", name, plan.name)


def _check_command(run: Run, command: Command[Any]) -> None:
    if command.graph is not None:
        raise InvalidUpdateError("there is no parent graph; a Command given as input must have graph=None")
    for target in _targets(command):
        if not isinstance(target, (str, Send)):
            raise TypeError(f"In Command.goto, expected Send or str, got {type(target).__name__}")


def _goes_on(run: Run, saved: Any, command: Command[Any] | None) -> bool:
    if run.parent is not None:
        return run.resuming
    if run.input is None or command is not None:
        return True
    asked = run.config.metadata.get("run_id")
    return asked is not None and asked == run.metadata_stored.get("run_id")


def due_tasks(run: Run) -> list[Task]:
    """The due tasks without their inputs: looking must not fail on a state that no longer fits a schema."""
    pull, packets = due(run.plan, run.state, None)
    tasks = list[Task]()
    if packets:
        nodes = run.plan.nodes
        tasks += [
            Task(run, nodes[packet.node], (PUSH, number, False), PUSH_TRIGGERS, packet.arg)
            for number, packet in packets
            if packet.node in nodes
        ]
    for node, triggers in pull:
        task = Task(run, node, (PULL, node.name), triggers, None)
        task._path_str = node.pull_path
        tasks.append(task)
    return tasks


# -- going on ----------------------------------------------------------------------------------------------------------


async def _resume(run: Run, saved: Any, command: Command[Any] | None) -> None:
    if saved is not None:
        refuse_missing_nodes(
            run.plan, run.state, saved.checkpoint["channel_values"], saved.checkpoint["channel_versions"]
        )
    answering = command is not None and command.resume is not None
    run.travelling = run.addressed and not answering and (run.parent is None or run.parent.run.travelling)
    superseded = run.addressed and await _is_superseded(run)
    if run.addressed:
        run.replay = replay_of(run, saved, due_tasks(run))
    if run.addressed and (run.travelling or superseded):
        if run.cadence is not None:
            run.cadence.force_stored(run.pending)
        answered_here = run.pending
        run.pending = _replayed(run.pending, answering=answering)
    else:
        answered_here = run.pending
    apply_null_writes(run)
    if command is not None and answering:
        await _answer(run, command, answered_here)
    elif command is not None:
        if not command_writes(command):
            raise EmptyInputError("an empty Command gives nothing to do; set update, goto or resume")
    else:
        run.answers.update(stored_answers(run.pending))
        run.null_answer = stored_bare_answer(run.pending)
    if command is not None:
        await _take_command(run, command)
    if run.travelling and _needs_fork(run, superseded=superseded, command=command):
        # In the namespace of a new task nothing is there yet that could be the fork's parent.
        await commit(run, "fork", [], parent=MISSING if run.moved_from is None else None)
        run.step += 1
        run.pending = {}
    _going_on(run)


def _replayed(pending: Mapping[str, Writes], *, answering: bool) -> dict[str, Writes]:
    """Stored writes that count when a checkpoint is run again: what Commands wrote to it, and answers to it."""
    kept = {id: [write for write in writes if write[0] in SPECIAL] for id, writes in pending.items() if answering}
    of_commands = [write for write in pending.get(NULL_TASK_ID, ()) if answering or write[0] not in SPECIAL]
    return {**kept, NULL_TASK_ID: of_commands} if of_commands else kept


def _going_on(run: Run) -> None:
    run.state.seen[INTERRUPT] = dict(run.state.versions)
    run.state.looked.add(INTERRUPT)
    run.resuming = True
    run.updated = None
    tell_values(run, None)


def _needs_fork(run: Run, *, superseded: bool, command: Command[Any] | None) -> bool:
    if superseded or command is not None or run.moved_from is not None:
        return True
    return run.metadata_stored.get("source") not in ("update", "fork")


async def _is_superseded(run: Run) -> bool:
    """Whether the addressed checkpoint is not the newest of its thread; the new ids must exceed that one."""
    if run.saving is None:
        return False
    if run.parent is None:
        newest = run.head
    else:
        head = await run.saving.port.get_tuple(address_of(run, None))
        newest = head.checkpoint["id"] if head is not None else run.newest
    superseded: bool = newest != run.stored_id
    run.newest = max(filter(None, (newest, run.newest)), default=None)
    return superseded


def apply_null_writes(run: Run) -> None:
    """Apply what Commands wrote to the loaded checkpoint; it is stored beside it and not in it (spec 5.4)."""
    writes = [write for write in run.pending.get(NULL_TASK_ID, ()) if write[0] not in SPECIAL]
    if writes:
        apply(run.plan, run.state, [Outside(writes)], run.next_version)


async def _answer(run: Run, command: Command[Any], stored: Mapping[str, Writes]) -> None:
    """Find the question that an answer is for; raises before anything is stored."""
    run.updated = None
    tasks = prepare(run)
    open_ = open_questions(tasks, stored)
    if run.addressed and (second := await second_answer(run, command.resume, tasks, stored, open_)):
        await fork_and_ask(run, named_before(run, tasks), stored, second, run.parent_id)
        return
    answers, bare = addressed(command.resume, open_, pending_tasks=any(not task.stored for task in tasks))
    run.answers.update({**stored_answers(run.pending), **answers})
    run.null_answer = bare


async def _take_command(run: Run, command: Command[Any]) -> None:
    """Store a command's writes on the loaded checkpoint and apply them, or only apply them to a fork."""
    writes = known_writes(run, command_writes(command))
    if run.cadence is not None:
        writes = prepared(run.plan, writes)
        run.cadence.force(name for name, _ in writes if run.travelling or run.durability == "exit")
    if run.travelling:
        apply(run.plan, run.state, [Outside(writes)], run.next_version)
        return
    resume: Writes = []
    if run.null_answer is not MISSING:
        resume = [(RESUME, run.null_answer)]
    elif run.answers:
        resume = [(RESUME, dict(run.answers))]
    before = [write for write in run.pending.get(NULL_TASK_ID, ()) if write[0] not in SPECIAL]
    stored = [*before, *writes, *resume]
    if stored:
        run.pending[NULL_TASK_ID] = stored
        await store_tasks(run, [(NULL_TASK_ID, "", stored)])
    if writes:
        apply(run.plan, run.state, [Outside(writes)], run.next_version)


def known_writes(run: Run, writes: Writes) -> Writes:
    """Those to channels that exist; the others are told of and not kept (a bogus write would warn for ever)."""
    for name, _ in writes:
        if name not in run.plan.channels:
            log.warning("a Command wrote to %r, which is no channel of %s; ignored", name, run.plan.name)
    return [write for write in writes if write[0] in run.plan.channels]


def _targets(command: Command[Any]) -> list[Any]:
    return list(command.goto) if isinstance(command.goto, (list, tuple)) else [command.goto]


def command_writes(command: Command[Any]) -> Writes:
    """What a Command given as input writes, its answer apart (spec 5.4)."""
    writes: Writes = []
    for target in _targets(command):
        writes.append((TASKS, target) if isinstance(target, Send) else (f"branch:to:{target}", START))
    if command.update is not None:
        writes.extend(command._update_as_tuples())
    return writes


# -- beginning ---------------------------------------------------------------------------------------------------------


async def _begin(run: Run, command: Command[Any] | None, saved: Any) -> None:
    if run.input is None or (command is not None and not command_writes(command)):
        if command is not None and command.resume is not None:
            addressed(command.resume, [], pending_tasks=False)  # raises: there is no question here
        if command is not None:
            raise EmptyInputError("an empty Command gives nothing to do; set update, goto or resume")
        if run.config.checkpoint_id is not None:
            raise EmptyInputError(
                f"thread {run.config.thread_id!r} has no checkpoint {run.config.checkpoint_id!r}; look at its history, "
                f"or leave checkpoint_id out to go on from the newest"
            )
        raise EmptyInputError(
            "there is no input and nothing to go on with on this thread; give input, or check thread_id"
        )
    run.plan.validate_input(run.input)
    if run.cadence is not None:
        run.cadence.force_stored(run.pending)
    watch(run, saved)
    dropped = _consume_pending(run) if run.state.versions else []
    written = Outside(input_writes(run, run.input))
    carried = [] if run.cadence is None else _carried(run, written.writes)
    hold(run, carried)
    run.updated = apply(run.plan, run.state, [*dropped, written], run.next_version)
    run.state.seen.setdefault(INPUT, {})
    run.pending = {}
    run.resuming = False
    await commit(run, "input", carried, shown=shown_input(run.plan, run.input), applied=[written])
    run.step += 1


def input_writes(run: Run, value: Any) -> Writes:
    """Input as writes: to the one channel that takes it, or each key of a dict to the channel of its name."""
    plan = run.plan
    channels = plan.input_channels
    if channels == START:
        return [(START, value)]
    if isinstance(value, Command):  # there is no node here that takes one apart
        writes = known_writes(run, command_writes(value))
    else:
        pairs = [(channels, value)] if isinstance(channels, str) else value.items()
        writes = [(name, item) for name, item in pairs if name in channels]
    return prepared(plan, writes) if plan.deltas else writes


def shown_input(plan: Plan, value: Any) -> Any:
    """The closing record of input that its checkpoint does not hold as it was given (house 1.4)."""
    return None if plan.holds_input else {"writes": value}


def _carried(run: Run, writes: Writes) -> list[TaskWrites]:
    """Input to delta channels as writes of the checkpoint that it comes upon: what rebuilds them later (spec 8.5).

    Where that checkpoint may have other branches, or there is none, the next one holds those channels whole.
    """
    kept = [(name, value) for name, value in writes if name in run.plan.deltas]
    if not kept:
        return []
    base, alone = run.stored_id, run.parent is None and not run.addressed
    if not alone or (base is None and run.durability != "exit"):
        assert run.cadence is not None
        run.cadence.force(name for name, _ in kept)
        return []
    return [(ids.made_up_id(base or run.checkpoint_id, INPUT), "", kept)]


def _consume_pending(run: Run) -> list[Consumed]:
    """New input drops what was due: those tasks' triggers count as seen."""
    apply_null_writes(run)
    pull, packets = due(run.plan, run.state, None)
    return [
        *(Consumed(packet.node, PUSH_TRIGGERS, f"~{PUSH}, {number:010d}") for number, packet in packets),
        *(Consumed(node.name, triggers, node.name) for node, triggers in pull),
    ]


__all__ = ["command_writes", "due_tasks", "enter", "input_writes", "shown_input"]
