"""The functional API: workflows, tasks, what is remembered (spec 15)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.kit import say, thread
from tests.conftest import Call
from tests.runtime.kit import graph_of
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.func import entrypoint, task
from threadmark.types import CachePolicy, Command, RetryPolicy, interrupt

Ran = list[Any]


class Workflow:
    """A workflow in both colours: its body gets ``run(task, *args)``, which waits for a task's result."""

    def __init__(self, call: Call) -> None:
        self.colour = call.colour
        self.ran: Ran = []

    def task(self, function: Callable[..., Any], **options: Any) -> Any:
        """A task in the colour of the test that notes when it runs."""
        name = function.__name__

        def plain(*args: Any, **kwargs: Any) -> Any:
            self.ran.append((name, *args))
            return function(*args, **kwargs)

        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            return plain(*args, **kwargs)

        return task(name=name, **options)(coroutine if self.colour == "async" else plain)


async def results(*futures: Any) -> list[Any]:
    return [await future for future in futures]


def double(x: int) -> int:
    return 2 * x


# -- results are remembered --------------------------------------------------------------------------------------------


def build(call: Call, saver: Any, *, numbers: tuple[int, ...] = (1, 2, 3)) -> tuple[Any, Ran]:
    """Doubles each number in a task, asks, and adds up."""
    flow = Workflow(call)
    doubled = flow.task(double)

    def plain(x: str) -> Any:
        found = [one.result() for one in [doubled(n) for n in numbers]]
        return f"{x}{sum(found)}{interrupt('sure?')}"

    async def coroutine(x: str) -> Any:
        found = await results(*[doubled(n) for n in numbers])
        return f"{x}{sum(found)}{interrupt('sure?')}"

    return entrypoint(checkpointer=saver)(coroutine if call.colour == "async" else plain), flow.ran


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_tasks_do_not_run_again_after_a_question(saver: Any, call: Call, durability: str) -> None:
    flow, ran = build(call, saver)
    shown = call(flow, "invoke", "x", thread(), durability=durability)
    assert [question.value for question in shown["__interrupt__"]] == ["sure?"]
    assert sorted(ran) == [("double", 1), ("double", 2), ("double", 3)]
    assert call(flow, "invoke", Command(resume="!"), thread(), durability=durability) == "x12!"
    assert len(ran) == 3
    state = call(flow, "get_state", thread())
    assert (state.values, state.next) == ("x12!", ())


def test_a_replay_runs_the_tasks_again(saver: Any, call: Call) -> None:
    flow, ran = build(call, saver)
    call(flow, "invoke", "x", thread())
    pause = call(flow, "get_state", thread())
    call(flow, "invoke", Command(resume="!"), thread())
    ran.clear()
    call(flow, "invoke", None, pause.config)
    assert len(ran) == 3
    assert call(flow, "invoke", Command(resume="?"), thread()) == "x12?"


def test_a_second_answer_to_a_workflow(saver: Any, call: Call) -> None:
    flow, _ = build(call, saver)
    call(flow, "invoke", "x", thread())
    pause = call(flow, "get_state", thread())
    assert call(flow, "invoke", Command(resume="1"), pause.config) == "x121"
    assert call(flow, "invoke", Command(resume="2"), pause.config) == "x122"


def test_only_the_task_that_failed_runs_again(saver: Any, call: Call) -> None:
    flow = Workflow(call)
    mended: list[int] = []

    def bad() -> str:
        if not mended:
            raise ValueError("bad is down")
        return "mended"

    good_task, bad_task = flow.task(double), flow.task(bad)

    def plain(x: int) -> Any:
        first = good_task(x)
        second = bad_task()
        return [first.result(), second.result()]

    async def coroutine(x: int) -> Any:
        return await results(good_task(x), bad_task())

    made = entrypoint(checkpointer=saver)(coroutine if call.colour == "async" else plain)
    with pytest.raises(ValueError, match="bad is down"):
        call(made, "invoke", 4, thread())
    mended.append(1)
    assert call(made, "invoke", None, thread()) == [8, "mended"]
    assert sorted(flow.ran, key=str) == [("bad",), ("bad",), ("double", 4)]


def test_an_error_reaches_who_asks_for_the_result(saver: Any, call: Call) -> None:
    flow = Workflow(call)

    def bad() -> None:
        raise ValueError("caught")

    bad_task = flow.task(bad)

    def plain(x: int) -> str:
        try:
            bad_task().result()
        except ValueError as error:
            return str(error)
        return "no error"

    async def coroutine(x: int) -> str:
        try:
            await bad_task()
        except ValueError as error:
            return str(error)
        return "no error"

    made = entrypoint(checkpointer=saver)(coroutine if call.colour == "async" else plain)
    assert call(made, "invoke", 1, thread()) == "caught"


def test_an_error_that_nobody_asks_for_fails_the_workflow(saver: Any, call: Call) -> None:
    flow = Workflow(call)

    def bad() -> None:
        raise ValueError("unheard")

    bad_task = flow.task(bad)

    def plain(x: int) -> str:
        bad_task()
        return "done"

    async def coroutine(x: int) -> str:
        bad_task()
        return "done"

    made = entrypoint(checkpointer=saver)(coroutine if call.colour == "async" else plain)
    with pytest.raises(ValueError, match="unheard"):
        call(made, "invoke", 1, thread())


def test_questions_in_tasks(saver: Any, call: Call) -> None:
    flow = Workflow(call)

    def ask(name: str) -> str:
        return f"{name}:{interrupt(name)}"

    ask_task = flow.task(ask)

    def plain(x: int) -> Any:
        both = [ask_task("a"), ask_task("b")]
        return [one.result() for one in both]

    async def coroutine(x: int) -> Any:
        return await results(ask_task("a"), ask_task("b"))

    made = entrypoint(checkpointer=saver)(coroutine if call.colour == "async" else plain)
    call(made, "invoke", 1, thread())
    asked = 0
    while (state := call(made, "get_state", thread())).interrupts:
        answers = {question.id: question.value.upper() for question in state.interrupts}
        done = call(made, "invoke", Command(resume=answers), thread())
        asked += 1
        assert asked < 5
    assert done == ["a:A", "b:B"]


def test_tasks_in_tasks_in_nodes(saver: Any, call: Call) -> None:
    flow = Workflow(call)
    doubled = flow.task(double)

    if call.colour == "async":

        @task
        async def twice(x: int) -> int:
            return int(await doubled(await doubled(x)))

        async def node(state: Any) -> Any:
            return {"log": [str(await twice(3))]}

    else:

        @task
        def twice(x: int) -> int:
            return int(doubled(doubled(x).result()).result())

        def node(state: Any) -> Any:  # type: ignore[misc]
            return {"log": [str(twice(3).result())]}

    graph = graph_of(("n", node), ("end", say("end")), checkpointer=saver)
    assert call(graph, "invoke", {"log": []}, {**thread(), "max_concurrency": 1}) == {"log": ["12", "end"]}
    assert flow.ran == [("double", 3), ("double", 6)]


@pytest.mark.parametrize("limit", [1, 2])
def test_no_more_tasks_at_once_than_are_allowed(call: Call, limit: int) -> None:
    running, most = [0], [0]
    lock = threading.Lock()

    def enter() -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])

    def leave() -> None:
        with lock:
            running[0] -= 1

    if call.colour == "async":

        @task
        async def work(n: int) -> int:
            enter()
            for _ in range(5):
                await asyncio.sleep(0)
            leave()
            return n

        @entrypoint()
        async def flow(x: int) -> Any:
            return await results(*[work(n) for n in range(6)])
    else:
        pause = threading.Event()

        @task
        def work(n: int) -> int:
            enter()
            pause.wait(0.01)
            leave()
            return n

        @entrypoint()
        def flow(x: int) -> Any:
            return [one.result() for one in [work(n) for n in range(6)]]

    assert call(flow, "invoke", 0, {"max_concurrency": limit}) == list(range(6))
    assert most[0] <= limit


# -- from call to call -------------------------------------------------------------------------------------------------


def test_what_was_saved_the_last_time(saver: Any, call: Call) -> None:
    def plain(x: int, *, previous: Any) -> Any:
        total = (previous or 0) + x
        return entrypoint.final(value=f"total {total}", save=total)

    async def coroutine(x: int, *, previous: Any) -> Any:
        return plain(x, previous=previous)

    flow = entrypoint(checkpointer=saver)(coroutine if call.colour == "async" else plain)
    assert [call(flow, "invoke", x, thread()) for x in (1, 2, 3)] == ["total 1", "total 3", "total 6"]
    assert call(flow, "invoke", 5, thread("other")) == "total 5"
    first = next(one for one in call(flow, "get_state_history", thread()) if one.values == "total 1")
    assert call(flow, "invoke", 10, first.config) == "total 11"
    steps = [one.metadata["step"] for one in call(flow, "get_state_history", thread())][-6:]
    assert steps == [4, 3, 2, 1, 0, -1]


def test_what_a_workflow_tells(saver: Any, call: Call) -> None:
    flow, _ = build(call, saver, numbers=(5,))
    told = call(flow, "stream", "x", thread(), stream_mode="updates")
    assert told[0] == {"double": 10}
    assert set(told[1]) == {"__interrupt__"}
    told = call(flow, "stream", Command(resume="!"), thread(), stream_mode=["updates", "values"])
    updates = [payload for mode, payload in told if mode == "updates"]
    assert updates[-1] in ({"plain": "x10!"}, {"coroutine": "x10!"})
    assert told[-1] == ("values", "x10!")


def test_a_workflow_in_a_node_is_its_child(saver: Any, call: Call) -> None:
    flow, ran = build(call, None)

    if call.colour == "async":

        async def node(state: Any) -> Any:
            return {"log": [await flow.ainvoke("w")]}
    else:

        def node(state: Any) -> Any:  # type: ignore[misc]
            return {"log": [flow.invoke("w")]}

    graph = graph_of(("n", node), ("end", say("end")), checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    assert call(graph, "invoke", Command(resume="!"), thread()) == {"log": ["w12!", "end"]}
    assert len(ran) == 3


def test_a_task_outside_of_a_workflow_is_refused() -> None:
    @task
    def alone() -> int:
        return 1

    with pytest.raises(RuntimeError, match="alone"):
        alone()


def test_an_async_task_in_a_plain_workflow_is_refused() -> None:
    @task
    async def work() -> int:
        return 1

    @entrypoint()
    def flow(x: int) -> Any:
        return work().result()

    with pytest.raises(RuntimeError, match="ainvoke"):
        flow.invoke(1)


@pytest.mark.parametrize("body", ["generator", "no parameter"])
def test_what_is_no_workflow_is_refused(body: str) -> None:
    def generator(x: int) -> Any:
        yield x

    def bare() -> None:
        return None

    wanted = NotImplementedError if body == "generator" else ValueError
    with pytest.raises(wanted):
        entrypoint()(generator if body == "generator" else bare)


def test_a_task_is_tried_again(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = Workflow(call)
    fails = [1, 1]

    def shaky() -> str:
        if fails:
            fails.pop()
            raise ConnectionError("down")
        return "up"

    shaky_task = flow.task(shaky, retry_policy=RetryPolicy(initial_interval=0, jitter=False))

    def plain(x: int) -> Any:
        return shaky_task().result()

    async def coroutine(x: int) -> Any:
        return await shaky_task()

    assert call(entrypoint()(coroutine if call.colour == "async" else plain), "invoke", 1) == "up"
    assert len(flow.ran) == 3


async def test_a_plain_task_in_a_workflow_on_a_loop() -> None:
    threads: set[int] = set()

    @task
    def plain(x: int) -> int:
        threads.add(threading.get_ident())
        return x + 1

    @entrypoint(checkpointer=InMemorySaver())
    async def flow(x: int) -> Any:
        return [await plain(x), await plain(x + 1)]

    assert await flow.ainvoke(1, thread()) == [2, 3]
    assert threading.get_ident() not in threads


def test_cached_tasks_do_not_run(call: Call) -> None:
    from threadmark.cache.memory import InMemoryCache

    flow = Workflow(call)
    doubled = flow.task(double, cache_policy=CachePolicy())
    cache: InMemoryCache[Any] = InMemoryCache()

    def plain(x: int) -> Any:
        return doubled(x).result()

    async def coroutine(x: int) -> Any:
        return await doubled(x)

    made = entrypoint(cache=cache)(coroutine if call.colour == "async" else plain)
    assert [call(made, "invoke", x) for x in (2, 2, 3)] == [4, 4, 6]
    assert flow.ran == [("double", 2), ("double", 3)]
    call(doubled, "clear_cache", cache)
    call(made, "invoke", 2)
    assert flow.ran[2:] == [("double", 2)]


async def test_a_task_that_its_caller_cancels_is_no_failure(saver: Any) -> None:
    @task
    async def endless() -> None:
        await asyncio.Event().wait()

    @entrypoint(checkpointer=saver)
    async def flow(x: int) -> str:
        job = endless()
        await asyncio.sleep(0)
        job.cancel()
        return "done without it"

    assert await flow.ainvoke(1, thread()) == "done without it"
