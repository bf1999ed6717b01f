"""The superstep loop, in one colour (spec 3.1). Read this first: it is the way of one superstep."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from threadmark.checkpoint.base import TaskWrites
from threadmark.engine.apply import apply
from threadmark.engine.caching import recall_cached, remember
from threadmark.engine.calls import wait_for_called
from threadmark.engine.commits import commit, go_on, hold, note, put_off, store_tasks
from threadmark.engine.entry import Outside, enter
from threadmark.engine.interrupts import forget, keep_early_answer
from threadmark.engine.lengthening import lengthened
from threadmark.engine.names import INTERRUPT
from threadmark.engine.plan import read_all
from threadmark.engine.prepare import handler_task, prepare
from threadmark.engine.run import Run
from threadmark.engine.saving import Later
from threadmark.engine.snapshot import checkpoint_event, shown_writes
from threadmark.engine.stored import stored_form
from threadmark.engine.task import Task
from threadmark.engine.tell import tell_breakpoint, tell_interrupts, tell_values
from threadmark.errors import (
    ErrorCode,
    GraphBubbleUp,
    GraphDrained,
    GraphInterrupt,
    GraphRecursionError,
    InvalidUpdateError,
    create_error_message,
)


async def supersteps(run: Run) -> AsyncGenerator[None, None]:
    """Run to the end, a pause or an error; yields whenever the run's sink has something to deliver."""
    failed = paused = False
    try:
        await enter(run)
        if run.sink.items:
            yield
        while True:
            tasks = _next_tasks(run)
            # A superstep that was found complete is closed before it is told, so that whoever stops there gets on.
            if run.sink.items and not (tasks and all(task.stored for task in tasks)):
                yield
            if not tasks:
                if run.paused and run.parent is not None:
                    raise GraphInterrupt
                break
            held: list[Task] = []
            todo = [task for task in tasks if not (task.stored or task.handled)] if run.pending else tasks
            if run.cache is not None:
                hits = await recall_cached(run, todo)
                held.extend(hits)
                todo = [task for task in todo if not task.stored]
            while todo:
                if len(todo) == 1 and not _listened_to(run) and run.plan.step_timeout is None:
                    await run.runner.one(todo[0])
                    held.append(todo[0])
                else:
                    async with aclosing(_together(run, todo, held)) as events:
                        async for _ in events:
                            yield
                if run.called:
                    await _after_calls(run, todo)
                if not run.plan.handles_errors:
                    break
                todo = await _handlers(run, tasks, todo)
            stops = await _conclude(run, tasks, held)
            if run.sink.items:
                yield
            if stops:
                if run.parent is not None:
                    raise GraphInterrupt(tuple(run.interrupts))
                break
    except GraphInterrupt:
        paused = True
        if run.sink.items:
            yield
        raise
    except Exception:
        failed = True
        if run.sink.items:
            yield  # what ended before the error is told before the error is raised
        raise
    except BaseException:
        failed = True
        await run.runner.shielded(_keep_trace(run))
        raise
    finally:
        left = _leave(run, failed=failed, paused=paused)
        # To be shielded takes a task of the loop: what two of its waits cost.
        await (left if run.saving is None or run.saving.ends_whole else run.runner.shielded(left))


def _listened_to(run: Run) -> bool:
    """Whether something is to be delivered while a single task runs."""
    return run.sink.live or (run.plan.calls_tasks and bool(run.sink.modes))


def _next_tasks(run: Run) -> list[Task]:
    """The tasks of the next superstep; empty when the run has come to its end or to a breakpoint."""
    if run.step > run.stop:
        raise GraphRecursionError(
            create_error_message(
                message=(
                    f"Recursion limit of {run.config.recursion_limit} reached, and there is still something to run. "
                    f'Give more with config={{"recursion_limit": ...}}, or look for a loop that does not end.'
                ),
                error_code=ErrorCode.GRAPH_RECURSION_LIMIT,
            )
        )
    run.tasks = tasks = prepare(run)
    if "checkpoints" in run.sink.modes and run.saving is not None:
        run.sink.add(run, "checkpoints", checkpoint_event(run))
    if not tasks:
        return tasks
    if run.interrupt_before and _breaks(run, run.interrupt_before, tasks):
        run.paused = True
        tell_breakpoint(run)
        return []
    if run.runtime.drain_requested:
        raise GraphDrained(run.runtime.drain_reason)
    if run.sink.modes:
        for task in tasks:
            run.sink.task_started(run, task)
            if task.stored:
                run.sink.task_ended(run, task)
    return tasks


async def _together(run: Run, todo: Sequence[Task], held: list[Task]) -> AsyncGenerator[None, None]:
    """Run several tasks at once. Those that ended last go to ``held``: they are stored with the checkpoint."""
    left = len(todo)
    sink = run.sink if _listened_to(run) and run.sink.root is run else None
    async with aclosing(run.runner.many(todo, sink, run.plan.step_timeout)) as batches:
        async for batch in batches:
            ended = [task for task in batch if task.ran]
            left -= len(batch)
            if left:
                await store(run, ended)
                _tell_ended(run, ended)
            else:
                held.extend(ended)
            if run.sink.items:
                yield
            if run.runner.cancels and any(task.is_fatal for task in batch):
                break


async def _after_calls(run: Run, todo: Sequence[Task]) -> None:
    """Called tasks end with the superstep; an error that nobody asked for is its caller's."""
    await wait_for_called(run.called)
    failed = next((task for task in run.called if task.error is not None and not _is_its_caller_s(task)), None)
    if failed is not None and all(task.error is None and not task.interrupts for task in todo):
        todo[0].error = failed.error


def _is_its_caller_s(task: Task) -> bool:
    """Whether its caller has heard of a called task's error, or made it by cancelling."""
    return bool(getattr(task.future, "asked_for", True)) or (task.error is not None and _cancelled(task.error))


async def _handlers(run: Run, tasks: list[Task], todo: Sequence[Task]) -> list[Task]:
    """Tasks of error handlers that take over from nodes that have failed for good (spec 4.3)."""
    taken = [task for task in todo if isinstance(task.error, Exception) and not task.is_fatal]
    if not taken:
        return []
    await store(run, [task for task in taken if not task.handed_over])
    handlers = [handler_task(task, task.error) for task in taken]
    tasks.extend(handlers)
    if run.sink.modes:
        for task in handlers:
            run.sink.task_started(run, task)
    return handlers


async def store(run: Run, ended: Iterable[Task]) -> None:
    """Hand the writes of ended tasks to the saver; those of a signal to the outside are none."""
    if run.saving is None:
        return
    writes: list[TaskWrites] = [stored_form(task) for task in ended if not _leaves_no_trace(task)]
    for task in ended:
        task.handed_over = True
    await store_tasks(run, writes)


def _leaves_no_trace(task: Task) -> bool:
    return task.halted or isinstance(task.error, GraphBubbleUp)


async def _conclude(run: Run, tasks: Sequence[Task], held: list[Task]) -> bool:
    """The superstep's tasks have ended: raise, pause, or apply and store. Whether the run ends here."""
    for task in tasks:
        if not task.is_finished:
            return await _unfinished(run, tasks, held)
    plan, state, saving = run.plan, run.state, run.saving
    # What is noted in a journal, and most of what ``exit`` is given, need not say yet what its tasks have written.
    brief = run.brief and len(tasks) == 1 and bool(held) and not (run.pending or run.called or held[0].handed_over)
    takes = saving is not None and saving.takes_writes and not brief
    with_checkpoint = [stored_form(task) for task in held if not task.handed_over] if takes else []
    if with_checkpoint:  # here and below: not to call what has nothing to do is 30 of 1,300 steps without a saver
        hold(run, with_checkpoint)
    try:
        run.updated = apply(plan, state, [*tasks, *run.called] if run.called else tasks, run.next_version)
    except BaseException:
        await store_tasks(run, with_checkpoint or [stored_form(task) for task in held if not task.handed_over])
        raise
    for task in tasks:
        task.handed_over = True  # from here on they belong to the checkpoint that was, whatever happens to the run
    if run.long_lists is not None:
        run.lengthened = lengthened(run, tasks)
    if saving is None:
        go_on(run)
    elif (brief and note(run, held[0])) or (run.ends_in_one and put_off(run, tasks, shown_writes)):
        pass  # it is known how to make the checkpoint, if somebody wants it
    else:
        if brief:
            with_checkpoint = [stored_form(held[0])]
        shown = Later(partial(shown_writes, run, tasks)) if run.durability == "exit" else None
        await commit(run, "loop", with_checkpoint, shown=shown, applied=tasks)
    if run.cache is not None:
        await remember(run, tasks)
    if run.sink.modes:
        _tell_ended(run, held)
    run.pending.clear()
    run.called.clear()
    run.step += 1
    run.resuming = False
    tell_values(run, run.updated)
    if run.interrupt_after and _breaks(run, run.interrupt_after, tasks):
        run.paused = True
        if "checkpoints" in run.sink.modes and run.saving is not None:
            run.tasks = prepare(run)
            run.sink.add(run, "checkpoints", checkpoint_event(run))
        tell_breakpoint(run)
        return True
    return False


async def _unfinished(run: Run, tasks: Sequence[Task], held: Sequence[Task]) -> bool:
    """Some task failed or asked: keep what the others wrote, then raise or pause."""
    todo = [task for task in tasks if not task.stored and not task.handled]
    error = next((task.error for task in todo if task.error is not None and not _cancelled(task.error)), None)
    error = error or next((task.error for task in todo if task.error is not None), None)
    alone = len(tasks) == 1
    if error is None or isinstance(error, Exception) or not alone:
        await store(run, [task for task in todo if task.ran and not task.handed_over and not task.halted])
    await keep_early_answer(run)
    _tell_ended(run, [task for task in todo if task.ran])
    if error is not None:
        await _forget_invalid_answers(run, todo)
        raise error
    asked = {question.id: question for task in tasks for question in task.interrupts}  # a called task's is its caller's
    run.interrupts = list(asked.values())
    if run.parent is None:
        _show_finished(run, tasks)
        tell_breakpoint(run)
    if run.interrupts:
        tell_interrupts(run)
    return True


def _show_finished(run: Run, tasks: Sequence[Task]) -> None:
    """What the caller of a paused run is given holds what finished siblings wrote; storage keeps it apart."""
    finished = [Outside(task.writes, task.name, (), task.path_str) for task in tasks if task.is_finished]
    if not finished:
        return
    try:
        updated = apply(run.plan, run.state, finished, run.next_version)
    except InvalidUpdateError:  # told when the superstep is complete
        return
    tell_values(run, updated)


def _tell_ended(run: Run, tasks: Iterable[Task]) -> None:
    """Tell what ended, once."""
    if not run.sink.modes:
        return
    for task in tasks:
        if not task.told:
            task.told = True
            run.sink.task_ended(run, task)


async def _keep_trace(run: Run) -> None:
    """The run is stopped from outside: store what has ended, and that the others were cancelled (spec 4.1)."""
    await keep_early_answer(run)
    await store(run, [task for task in run.tasks if task.ran and not task.handed_over and _has_ended(task)])


def _has_ended(task: Task) -> bool:
    return bool(task.interrupts) or (bool(task.writes) if task.error is None else _cancelled(task.error))


async def _forget_invalid_answers(run: Run, todo: Sequence[Task]) -> None:
    """An answer that did not fit its question is no answer: the question stays open (spec 5.3)."""
    invalid = [getattr(task.error, "threadmark_invalid_resume", None) for task in todo]
    await forget(run, [id for id in invalid if id is not None])


def _cancelled(error: BaseException) -> bool:
    return type(error).__name__ == "CancelledError"


def _breaks(run: Run, names: frozenset[str] | str, tasks: Sequence[Task]) -> bool:
    """Whether a static breakpoint stops here: something is new since the last stop, and a name is on the list."""
    seen = run.state.seen.get(INTERRUPT, {})
    if not any(version != seen.get(name) for name, version in run.state.versions.items()):
        return False
    if names == "*":
        return any(not task.node.hidden for task in tasks)
    return any(task.name in names for task in tasks)


async def _leave(run: Run, *, failed: bool, paused: bool) -> None:
    """Put away what was put off, and give back threads. An error of the run comes before one of the saver."""
    try:
        if run.saving is not None:
            await run.saving.close(keep=run.keep_at_exit(failed=failed or paused))
    except BaseException as error:
        if not failed or _cancelled(error):
            raise
    finally:
        await run.runner.close()
        # These hold their run; without this every run would wait for the garbage collector.
        run.tasks, run.called, run.unmade = [], [], None
        if run.sink.root is run:
            run.sink.root = None


def output(run: Run) -> Any:
    """What ``invoke`` returns: the output channels, and the open questions."""
    value = read_all(run.state.channels, run.output_keys) if run.told_values else None
    if run.interrupts:
        asked = {INTERRUPT: run.interrupts}
        return {**value, **asked} if isinstance(value, dict) else asked
    return value


__all__ = ["output", "supersteps"]
