"""How LangChain's chat models find the node they are called in, and how it hears their tokens (spec 10.2).

Nothing here imports LangChain. It calls the methods of whatever object a config lists under ``callbacks``, and it
keeps the config for calls that are given none in a context variable, which is looked up where it was loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from threadmark.constants import TAG_NOSTREAM
from threadmark.engine.messages import MODE, tell

if TYPE_CHECKING:
    from threadmark.engine.task import Task

CONFIG_MODULE = "langchain_core.runnables.config"
"""Where LangChain keeps its context variable."""


class TaskConfig(Mapping[str, Any]):
    """A task's config that is made when it is read: most nodes call no model."""

    __slots__ = ("_made", "_task")

    def __init__(self, task: Task) -> None:
        self._task = task
        self._made: Mapping[str, Any] | None = None

    def _config(self) -> Mapping[str, Any]:
        if self._made is None:
            self._made = self._task.config()
        return self._made

    def __getitem__(self, key: str) -> Any:
        return self._config()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._config())

    def __len__(self) -> int:
        return len(self._config())

    def __bool__(self) -> bool:
        return True


def lend_config(task: Task) -> None:
    """Make the task's config the one for models and chains that are called in this context without any."""
    variable = getattr(sys.modules[CONFIG_MODULE], "var_child_runnable_config", None)
    if variable is not None:
        variable.set(TaskConfig(task))


class TokenListener:
    """A callback handler for the models that one task calls: tells their tokens, or their message when it comes whole.

    A model tagged ``nostream`` is not listened to. Whatever comes from a model is a sign that the node is at work.
    """

    raise_error = False
    run_inline = True
    """In the caller's thread, so that tokens keep their order."""
    ignore_llm = False
    ignore_chat_model = False
    ignore_agent = ignore_chain = ignore_custom_event = ignore_retriever = ignore_retry = True

    def __init__(self, task: Task) -> None:
        self._task = task
        self._calls: dict[Any, dict[str, Any]] = {}

    def on_chat_model_start(
        self,
        serialized: Any,
        messages: Any,
        *,
        run_id: Any,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **_: Any,
    ) -> None:
        # A model with tags or metadata of its own is given those alone, unless it was called with the node's config.
        config = self._task.config()
        known = [*config["tags"], *(tag for tag in tags or () if tag not in config["tags"])]
        if TAG_NOSTREAM in known:
            return
        told = [tag for tag in known if not tag.startswith("seq:step")]  # LangChain's own, one a link of a chain
        where = {**config["metadata"], **(metadata or {}), "checkpoint_ns": self._task.ns}
        self._calls[run_id] = {**where, "tags": told} if told else where

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: Any, **_: Any) -> None:
        self._signal()
        metadata = self._calls.get(run_id)
        message = getattr(chunk, "message", None)
        if metadata is not None and message is not None:
            tell(self._task, message, metadata)

    def on_llm_end(self, response: Any, *, run_id: Any, **_: Any) -> None:
        self._signal()
        metadata = self._calls.pop(run_id, None)
        if metadata is None or not response.generations or not response.generations[0]:
            return
        message = getattr(response.generations[0][0], "message", None)
        if message is not None and message.id not in self._task.run.sink.heard:
            tell(self._task, message, metadata)

    def on_llm_error(self, error: BaseException, *, run_id: Any, **_: Any) -> None:
        self._calls.pop(run_id, None)

    def on_llm_start(self, *_: Any, **__: Any) -> None:
        """Models that are not chat models make no messages."""

    def _signal(self) -> None:
        if _watched(self._task):
            self._task.sign_of_life()

    def tap_output_iter(self, run_id: Any, output: Any) -> Any:
        """A handler with this method and the next makes ``invoke`` stream inside, so that there are tokens."""
        return output

    def tap_output_aiter(self, run_id: Any, output: Any) -> Any:
        return output


def _watched(task: Task) -> bool:
    """Whether the node may only stay silent for so long."""
    timeout = task.timeout
    return timeout is not None and timeout.idle_timeout is not None and timeout.refresh_on == "auto"


def with_listener(task: Task, callbacks: Any) -> Any:
    """The callbacks of a task's config: those given, and a listener for who streams this run or times its node.

    ``callbacks`` is None, a list, or a manager of LangChain. Listeners of enclosing tasks are left out: a run is
    heard where it is, and by whoever listens to sub-graphs.
    """
    added = [TokenListener(task)] if MODE in task.run.sink.modes or _watched(task) else []
    if callbacks is None:
        return added or None
    if isinstance(callbacks, (list, tuple)):
        return [*(one for one in callbacks if not isinstance(one, TokenListener)), *added]
    inherited = [one for one in callbacks.handlers if isinstance(one, TokenListener)]
    if not inherited and not added:
        return callbacks
    manager = callbacks.copy()
    for one in inherited:
        manager.remove_handler(one)
    for one in added:
        manager.add_handler(one, inherit=True)
    return manager


__all__ = ["CONFIG_MODULE", "TaskConfig", "TokenListener", "lend_config", "with_listener"]
