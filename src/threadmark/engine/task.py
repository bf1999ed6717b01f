"""One task: a node with its input, and what the node can reach while it runs (spec 2.3, 3.4, 5.3)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from threadmark.channels import MISSING
from threadmark.config import TASK_KEY, RunnableConfig
from threadmark.engine.names import PULL, RESUME, pulled_id
from threadmark.engine.plan import Node, Writes
from threadmark.errors import GraphBubbleUp, GraphInterrupt
from threadmark.ids import interrupt_id, path_str, task_id
from threadmark.runtime import ExecutionInfo, Runtime
from threadmark.types import Interrupt, TimeoutPolicy

if TYPE_CHECKING:
    from threadmark.engine.run import Run

_lock = threading.Lock()


class Task:
    """A due node. It is the context variable's value while the node runs.

    What most tasks never need (ids, config, runtime) is made when it is asked for: a graph that does not use a
    feature does not pay for it.
    """

    error: BaseException | None = None
    """What ended the task, when it was not a result."""
    interrupts: tuple[Interrupt, ...] = ()
    """Questions it asked in this run."""
    halted = False
    """Whether a graph that it called stopped at a static breakpoint."""
    handled_error: Any = None
    """For the task of an error handler: what it handles."""
    writes: Writes
    answers: Sequence[Any] = ()
    """Answers it was given before, in the order of its questions."""
    asked = 0
    calls = 0
    """Graphs it has called so far; their namespaces are numbered by it."""
    tasks_called = 0
    future_call = False
    """Whether another task called it: its input are a call's arguments."""
    future: Any = None
    """For a task called by another: where its result is waited for."""
    attempt = 1
    started: float | None = None
    last_sign = 0.0
    """When the node last gave a sign of life (monotonic seconds)."""
    timeout: TimeoutPolicy | None = None
    ran = False
    """Whether its node was started in this run."""
    told = False
    """Whether its end was streamed."""
    handed_over = False
    """Whether the saver has been given what it left."""
    handled = False
    """Whether an error handler has taken over: the task counts as run, without writes."""
    stored = False
    """Whether its writes came from storage or a cache: it does not run."""
    failed_before = False
    body: Writes | None = None
    """The node's own writes while its routers run: what need not be made again when one of them fails."""
    routed = False
    """Whether ``body`` came from storage: only the routers run."""
    result: Any = None
    _id: str | None = None
    _path_str: str | None = None
    _runtime: Runtime[Any] | None = None
    _gates: Mapping[Any, Any] = {}

    def __init__(self, run: Run, node: Node, path: tuple[Any, ...], triggers: Sequence[str], input: Any) -> None:
        self.run = run
        self.node = node
        self.name = node.name
        self.path = path
        self.triggers = triggers
        self.input = input
        self.writes = []
        if node.timeout is not None:
            self.timeout = node.timeout

    @property
    def is_fatal(self) -> bool:
        """Whether its error ends the run: there is one, and no handler takes it."""
        return self.error is not None and (self.node.handler is None or isinstance(self.error, GraphBubbleUp))

    @property
    def is_finished(self) -> bool:
        """Whether it has a result, of this run or from storage, or its handler has."""
        if self.stored or self.handled:
            return True
        return self.ran and self.error is None and not self.interrupts and not self.halted

    @property
    def path_str(self) -> str:
        """The path as text: the order in which writes count."""
        if self._path_str is None:
            self._path_str = path_str(self.path)
        return self._path_str

    @property
    def id(self) -> str:
        """The same on every resume of the same checkpoint."""
        if self._id is None:
            run = self.run
            if self.path[0] == PULL:
                made = pulled_id(run.ns, run.checkpoint_id, run.step, self.name, self.triggers)
            else:
                made = task_id(run.checkpoint_id, self._id_parts())
            self._id = run.former_ids.get(made, made) if run.former_ids else made
        return self._id

    def _id_parts(self) -> tuple[str, ...]:
        """What makes the id of a task that was pushed, besides its checkpoint (spec 3.4)."""
        head = (self.run.child_ns(self.name), str(self.run.step), self.name)
        if len(self.path) == 4 and self.path[3] is True:
            return (*head, self.path[0], path_str(self.path[1]), str(self.path[2]))
        if len(self.path) > 3:
            return (*head, self.path[0], "node_error_handler", self.handled_error_id)
        return (*head, self.path[0], str(self.path[1]))

    handled_error_id = ""

    @property
    def ns(self) -> str:
        """The namespace of the task itself, and so of the graphs that it calls."""
        return f"{self.run.child_ns(self.name)}:{self.id}"

    def next_child_ns(self) -> str:
        """The namespace of the next graph that this task calls: numbered from the second one on (spec 7.2)."""
        with _lock:
            number, self.calls = self.calls, self.calls + 1
        return f"{self.ns}|{number}" if number else self.ns

    def count_task(self) -> int:
        """The number of the next task that this one calls."""
        with _lock:
            number, self.tasks_called = self.tasks_called, self.tasks_called + 1
        return number

    def gate(self, kind: Callable[[int], Any]) -> Any:
        """What lets only ``max_concurrency`` of the tasks that this one calls run at once; None without a limit.

        Each caller has a gate of its own: tasks that wait for tasks then never wait for themselves.
        """
        limit = self.run.config.max_concurrency
        if limit is None:
            return None
        with _lock:
            if kind not in self._gates:
                self._gates = {**self._gates, kind: kind(limit)}
            return self._gates[kind]

    # -- what interrupt() and the getters of threadmark.config use ---------------------------------------------

    def ask(self, value: Any, response_schema: Any = None) -> Any:
        """The answer to this task's next question; raises ``GraphInterrupt`` when there is none yet."""
        with _lock:  # number and answer in one go: threads of one node may ask at once
            number, self.asked = self.asked, self.asked + 1
            id = interrupt_id(self.ns, number)
            answer = self.answers[number] if number < len(self.answers) else self.run.answer(id)
            if answer is not MISSING and number >= len(self.answers):
                # Kept as it was given: its form may be a class that the serializer does not know.
                self.answers = [*self.answers[:number], answer]
        if answer is MISSING:
            question = Interrupt(value=value, id=id, response_schema=_schema(response_schema))
            raise GraphInterrupt((question,))
        given = _validated(answer, response_schema, id)
        self.writes.append((RESUME, list(self.answers[: number + 1])))
        return given

    def config(self) -> RunnableConfig:
        """The config that the node sees: the run's, with what is special about this task (spec 1.5)."""
        run, config = self.run, self.run.config
        metadata = {
            **run.metadata_seen,
            "langgraph_step": run.step,
            "langgraph_node": self.name,
            "langgraph_triggers": self.triggers,
            "langgraph_path": self.path,
            "langgraph_checkpoint_ns": self.ns,
            **self.node.metadata,
        }
        configurable = {
            **config.configurable,
            "checkpoint_ns": run.ns,
            "checkpoint_id": None,
            "checkpoint_map": {**run.parents, run.ns: run.checkpoint_id},
            "__pregel_task_id": self.id,
            TASK_KEY: self,
        }
        if config.thread_id is not None:
            configurable["thread_id"] = config.thread_id
        out: RunnableConfig = {
            "tags": [*config.tags, *self.node.tags],
            "metadata": metadata,
            "configurable": configurable,
            "recursion_limit": config.recursion_limit,
            "callbacks": run.callbacks_for(self),
        }
        if config.max_concurrency is not None:
            out["max_concurrency"] = config.max_concurrency
        if config.run_id is not None:
            out["run_id"] = config.run_id
        return out

    @property
    def runtime(self) -> Runtime[Any]:
        """What the node's ``runtime`` parameter is given."""
        if self._runtime is None:
            run = self.run
            if self.started is None:
                self.started = time.time()
            info = ExecutionInfo(
                checkpoint_id=run.checkpoint_id,
                checkpoint_ns=self.ns,
                task_id=self.id,
                thread_id=run.config.thread_id,
                run_id=run.run_id,
                node_attempt=self.attempt,
                node_first_attempt_time=self.started,
            )
            self._runtime = run.runtime.override(
                stream_writer=partial(run.sink.custom, run, self),
                execution_info=info,
                previous=run.previous,
                **({"heartbeat": self.sign_of_life} if self.timeout is not None else {}),
            )
        return self._runtime

    def sign_of_life(self) -> None:
        """The node is still at work: its idle timeout starts anew."""
        self.last_sign = time.monotonic()

    def begin_attempt(self, number: int) -> None:
        """Forget what a failed attempt wrote; answers that were given stay."""
        self.attempt = number
        self.writes = []
        self.body = None
        self.routed = False
        self.asked = 0
        self.calls = 0
        self.tasks_called = 0
        self._runtime = None
        if self.started is None:
            self.started = time.time()


def _schema(response_schema: Any) -> Any:
    """A question's schema as it is shown: a JSON schema."""
    if response_schema is None or isinstance(response_schema, dict):
        return response_schema
    from pydantic import TypeAdapter

    return TypeAdapter(response_schema).json_schema()


def _validated(answer: Any, response_schema: Any, id: str) -> Any:
    """The answer in the form of its schema; a misfit is marked, so that the question stays open."""
    if response_schema is None or isinstance(response_schema, dict):
        return answer
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(response_schema).validate_python(answer)
    except ValidationError as error:
        error.threadmark_invalid_resume = id  # type: ignore[attr-defined]
        raise


__all__ = ["Task"]
