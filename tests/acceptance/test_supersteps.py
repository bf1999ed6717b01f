"""Supersteps from the outside: limits, the order of writes, ids, versions, what runs at once (spec 3)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest
from xxhash import xxh3_128_hexdigest

from tests.acceptance.kit import Log, chain, fan, id_of, lines, say, thread
from tests.conftest import Call
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.errors import EmptyInputError, GraphRecursionError, InvalidUpdateError, MissingThreadId
from threadmark.graph import START, StateGraph
from threadmark.types import Command, Send

Node = Callable[[Any], Any]
var: ContextVar[str] = ContextVar("var", default="outside")


# -- how many


def limited(limit: int, id: str = "1") -> dict[str, Any]:
    return {**thread(id), "recursion_limit": limit}


def test_a_limit_stops_a_run_and_keeps_what_was_done(saver: Any, call: Call) -> None:
    graph = chain("a", "b", "c").compile(checkpointer=saver)
    assert call(graph, "invoke", {"log": []}, limited(4, "enough")) == {"log": ["a", "b", "c"]}
    with pytest.raises(GraphRecursionError, match="GRAPH_RECURSION_LIMIT"):
        call(graph, "invoke", {"log": []}, limited(3))
    assert call(graph, "get_state", thread()).values == {"log": ["a", "b", "c"]}
    with pytest.raises(RecursionError):
        call(graph, "invoke", {"log": []}, limited(1, "2"))
    assert call(graph, "get_state", thread("2")).values == {"log": ["a"]}
    assert call(graph, "get_state", thread("2")).next == ("b",)


def test_a_resumed_run_may_go_two_further(saver: Any, call: Call) -> None:
    names = [str(number) for number in range(9)]
    graph = chain(*names).compile(checkpointer=saver)
    with pytest.raises(GraphRecursionError):
        call(graph, "invoke", {"log": []}, limited(2))
    with pytest.raises(GraphRecursionError):
        call(graph, "invoke", None, limited(2))
    assert call(graph, "get_state", thread()).values["log"] == names[:6]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_makes_no_sense(call: Call, limit: int) -> None:
    with pytest.raises(ValueError, match="recursion_limit"):
        call(chain("a").compile(), "invoke", {"log": []}, {"recursion_limit": limit})


def test_an_endless_loop_ends_at_the_limit(call: Call) -> None:
    graph = chain("a", "b").add_edge("b", "a").compile()
    with pytest.raises(GraphRecursionError):
        call(graph, "invoke", {"log": []}, {"recursion_limit": 50})


# -- what is refused before anything runs


def counted() -> tuple[Any, list[int]]:
    runs: list[int] = []
    return chain(("a", lambda state: runs.append(1))), runs


@pytest.mark.parametrize("config", [None, {}, {"configurable": {}}, {"configurable": {"checkpoint_id": "x"}}])
def test_a_saver_needs_a_thread_id(saver: Any, call: Call, config: Any) -> None:
    builder, runs = counted()
    graph = builder.compile(checkpointer=saver)
    for method, args in (
        ("invoke", ({}, config)),
        ("stream", ({}, config)),
        ("invoke", (None, config)),
        ("get_state", (config,)),
        ("get_state_history", (config,)),
        ("update_state", (config, {})),
    ):
        with pytest.raises(MissingThreadId, match="thread_id"):
            call(graph, method, *args)
    with pytest.raises(ValueError, match="thread_id"):
        call(graph, "invoke", {}, config)
    with pytest.raises(KeyError, match="thread_id"):
        call(graph, "invoke", {}, config)
    assert runs == []
    assert list(saver.list(None)) == []


@pytest.mark.parametrize("value", ["text", 3, [1], object()])
def test_an_input_of_another_form_is_refused(saver: Any, call: Call, value: Any) -> None:
    builder, runs = counted()
    with pytest.raises(InvalidUpdateError, match="Expected dict"):
        call(builder.compile(checkpointer=saver), "invoke", value, thread())
    assert runs == []


@pytest.mark.parametrize("empty", [None, Command(), Command(resume=None)])
def test_nothing_to_do_is_an_error(saver: Any, call: Call, empty: Any) -> None:
    builder, runs = counted()
    with pytest.raises(EmptyInputError):
        call(builder.compile(checkpointer=saver), "invoke", empty, thread())
    with pytest.raises(EmptyInputError):
        call(builder.compile(), "invoke", empty)
    assert runs == []
    assert list(saver.list(None)) == []


@pytest.mark.parametrize("value", [{}, {"unknown": 1}])
def test_an_empty_input_is_an_input(saver: Any, call: Call, value: Any) -> None:
    assert call(chain("a").compile(checkpointer=saver), "invoke", value, thread()) == {"log": ["a"]}


def test_going_on_with_a_finished_thread_does_nothing(saver: Any, call: Call) -> None:
    graph = chain("a").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    assert call(graph, "invoke", None, thread()) == {"log": ["a"]}
    assert len(call(graph, "get_state_history", thread())) == 3


def test_state_methods_need_a_saver(call: Call) -> None:
    graph = chain("a").compile()
    for method, args in (("get_state", ()), ("get_state_history", ()), ("update_state", ({"log": []},))):
        with pytest.raises(ValueError, match="checkpointer"):
            call(graph, method, thread(), *args)


def test_unknown_arguments_values_are_refused(call: Call) -> None:
    graph = chain("a").compile()
    with pytest.raises(ValueError, match="stream mode"):
        call(graph, "stream", {"log": []}, stream_mode="everything")
    with pytest.raises(ValueError, match="output_keys"):
        call(graph, "invoke", {"log": []}, output_keys=["nothing"])


def test_a_run_id_that_is_stored_already_goes_on_with_that_run(saver: Any, call: Call) -> None:
    graph = chain("a", "b").compile(checkpointer=saver, interrupt_before=["b"])
    config = {**thread(), "metadata": {"run_id": "r1"}}
    call(graph, "invoke", {"log": []}, config)
    assert call(graph, "invoke", {"log": ["ignored"]}, config) == {"log": ["a", "b"]}
    assert {one.metadata["run_id"] for one in saver.list(thread())} == {"r1"}


def test_what_of_a_config_is_stored(saver: Any, call: Call) -> None:
    graph = chain("a").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, {**thread(api_key="secret", graph_id="g"), "metadata": {"user": "ada"}})
    for one in saver.list(thread()):
        assert one.metadata.keys() == {"source", "step", "parents", "user", "graph_id"}
        assert "secret" not in repr(one)


def test_a_root_run_starts_in_the_root_namespace(saver: Any, call: Call) -> None:
    graph = chain("a").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread(checkpoint_ns="a:1"))
    assert {one.config["configurable"]["checkpoint_ns"] for one in saver.list(None)} == {""}


def test_a_node_s_context_is_a_copy_of_the_caller_s(call: Call, node: Node) -> None:
    seen = []

    def look(state: Log) -> None:
        seen.append(var.get())
        var.set("changed in a node")

    for builder in (chain(("a", node(look)), ("b", node(look))), fan(("a", node(look)), ("b", node(look)))):
        call(builder.compile(), "invoke", {"log": []})
    assert seen == ["outside"] * 4
    assert var.get() == "outside"


def test_a_command_may_be_the_first_input(saver: Any, call: Call) -> None:
    graph = chain("a").compile(checkpointer=saver)
    assert call(graph, "invoke", Command(update={"log": ["u"]}), thread()) == {"log": ["u", "a"]}


# -- in which order writes count


def test_writes_count_by_task_path_not_by_arrival(saver: Any, call: Call, node: Node) -> None:
    gates = {name: threading.Event() for name in "abc"}

    def in_reverse(name: str) -> Any:
        behind = {"c": None, "b": "c", "a": "b"}[name]

        def run(state: Log) -> dict[str, list[str]]:
            if behind is not None:
                gates[behind].wait(10)
            gates[name].set()
            return {"log": [name]}

        return run

    graph = fan(*((name, in_reverse(name)) for name in "bca")).compile(checkpointer=saver)
    assert call(graph, "invoke", {"log": []}, thread()) == {"log": ["a", "b", "c"]}


def test_pending_writes_are_read_in_that_order_too(saver: Any, call: Call) -> None:
    builder = fan("z", "b")
    builder.add_node("w", lambda state: {"log": [state]})
    builder.add_conditional_edges(START, lambda state: [Send("w", f"w{n}") for n in range(11)])
    graph = builder.compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    before = saver.get_tuple(saver.get_tuple(thread()).parent_config)
    words = [value[0] for _, channel, value in before.pending_writes if channel == "log"]
    assert words == ["b", "z", *(f"w{n}" for n in range(11))]


# -- ids and versions


def test_task_ids_follow_the_recipe(saver: Any, call: Call) -> None:
    builder = chain("a")
    builder.add_node("w", lambda state: None)
    builder.add_conditional_edges("a", lambda state: [Send("w", 0), Send("w", 1)])
    builder.add_node("j", say("j")).add_edge("a", "j")
    graph = builder.compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())

    def recipe(snapshot: Any, *parts: str) -> str:
        head = bytes.fromhex(id_of(snapshot).replace("-", ""))
        digest = xxh3_128_hexdigest(head + "".join(parts).encode())
        return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:]))

    by_step = {one.metadata["step"]: one for one in call(graph, "get_state_history", thread())}
    assert [task.id for task in by_step[-1].tasks] == [
        recipe(by_step[-1], "__start__", "0", "__start__", "__pregel_pull", "__start__")
    ]
    assert [task.id for task in by_step[0].tasks] == [recipe(by_step[0], "a", "1", "a", "__pregel_pull", "branch:to:a")]
    assert [task.id for task in by_step[1].tasks] == [
        recipe(by_step[1], "w", "2", "w", "__pregel_push", "0"),
        recipe(by_step[1], "w", "2", "w", "__pregel_push", "1"),
        recipe(by_step[1], "j", "2", "j", "__pregel_pull", "branch:to:j"),
    ]
    stored = {id for id, _, _ in saver.get_tuple(by_step[1].config).pending_writes}
    assert stored == {task.id for task in by_step[1].tasks}


def test_checkpoint_ids_are_time_ordered_and_hold_the_step(saver: Any, call: Call) -> None:
    graph = chain("a", "b").compile(checkpointer=saver)
    for _ in range(3):
        call(graph, "invoke", {"log": []}, thread())
    history = call(graph, "get_state_history", thread())[::-1]
    ids = [id_of(one) for one in history]
    assert sorted(ids) == ids
    assert all(id[14] == "6" for id in ids)
    assert [int(id[19:23], 16) & 0x3FFF for id in ids] == [one.metadata["step"] & 0x3FFF for one in history]


def test_ids_rise_when_the_clock_goes_back(saver: Any, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = chain("a").compile(checkpointer=saver)
    call(graph, "invoke", {"log": []}, thread())
    from threadmark import ids as module

    monkeypatch.setattr(module, "_last_ticks", 0)
    monkeypatch.setattr(module.checkpoint_id, "__kwdefaults__", {"now": lambda: 1_000})
    call(graph, "invoke", {"log": []}, thread())
    history = call(graph, "get_state_history", thread())
    assert [one.metadata["step"] for one in history] == [4, 3, 2, 1, 0, -1]


def test_one_version_is_drawn_for_a_superstep(saver: Any, call: Call) -> None:
    call(fan("a", "b").compile(checkpointer=saver), "invoke", {"log": []}, thread())
    versions = saver.get_tuple(thread()).checkpoint["channel_versions"]
    assert len(set(versions.values())) == 2
    assert versions["log"] == versions["branch:to:a"] == versions["branch:to:b"]


# -- what runs at once


def test_tasks_of_one_superstep_overlap(saver: Any, call: Call) -> None:
    together = threading.Barrier(3, timeout=10)

    def meet(state: Log) -> dict[str, list[str]]:
        together.wait()
        return {"log": ["met"]}

    graph = fan(*((name, meet) for name in "abc")).compile(checkpointer=saver)
    assert call(graph, "invoke", {"log": []}, thread()) == {"log": ["met"] * 3}


async def test_async_tasks_of_one_superstep_overlap_on_the_loop() -> None:
    together = asyncio.Barrier(3)
    loops = set()

    async def meet(state: Log) -> dict[str, list[str]]:
        loops.add((asyncio.get_running_loop(), threading.get_ident()))
        async with asyncio.timeout(10):
            await together.wait()
        return {"log": ["met"]}

    graph = fan(*((name, meet) for name in "abc")).compile()
    assert await graph.ainvoke({"log": []}) == {"log": ["met"] * 3}
    assert loops == {(asyncio.get_running_loop(), threading.get_ident())}


@pytest.mark.parametrize("limit", [1, 2])
def test_no_more_tasks_at_once_than_asked_for(call: Call, node: Node, limit: int) -> None:
    lock, now, most = threading.Lock(), [0], [0]

    def work(state: Log) -> dict[str, list[str]]:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        for _ in range(1000):
            pass
        with lock:
            now[0] -= 1
        return {"log": ["x"]}

    graph = fan(*((f"n{number}", node(work)) for number in range(8))).compile()
    found = call(graph, "invoke", {"log": []}, {"max_concurrency": limit})
    assert len(found["log"]) == 8
    assert most[0] <= limit


def test_a_wide_fan_out_is_one_checkpoint(saver: Any, call: Call) -> None:
    builder = StateGraph(Log)
    builder.add_node("w", lambda state: {"log": [state]})
    builder.add_conditional_edges(START, lambda state: [Send("w", str(n)) for n in range(100)])
    graph = builder.compile(checkpointer=saver)
    assert call(graph, "invoke", {"log": []}, thread())["log"] == [str(n) for n in range(100)]
    assert len(call(graph, "get_state_history", thread())) == 3


def test_a_single_blocking_task_runs_on_the_caller_s_thread() -> None:
    threads = []
    graph = chain(("a", lambda state: threads.append(threading.get_ident()))).compile()
    graph.invoke({"log": []})
    assert threads == [threading.get_ident()]


def test_one_graph_serves_many_threads_of_the_program_at_once(saver: Any) -> None:
    graph = chain("a", "b").compile(checkpointer=saver)
    errors: list[BaseException] = []

    def use(id: str) -> None:
        try:
            for turn in range(3):
                found = graph.invoke({"log": [id]}, thread(id))
                assert found["log"] == [id, "a", "b"] * (turn + 1)
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=use, args=(str(number),)) for number in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert errors == []
    assert lines(list(graph.get_state_history(thread("3"))))[-1] == "#11 p=10 loop/10 [3 a b 3 a b 3 a b] ()"


async def test_one_graph_serves_many_tasks_of_a_loop_at_once(saver: Any) -> None:
    graph = fan("a", "b").compile(checkpointer=saver)

    async def use(id: str) -> list[str]:
        for _ in range(3):
            found = await graph.ainvoke({"log": [id]}, thread(id))
        return found["log"]

    results = await asyncio.gather(*(use(str(number)) for number in range(8)))
    assert results == [[str(number), "a", "b"] * 3 for number in range(8)]


# -- batch


def test_batch_keeps_the_order_of_its_inputs(saver: Any, call: Call) -> None:
    graph = chain("a").compile(checkpointer=saver)
    inputs = [{"log": [str(number)]} for number in range(5)]
    configs = [thread(str(number)) for number in range(5)]
    found = call(graph, "batch", inputs, configs)
    assert found == [{"log": [str(number), "a"]} for number in range(5)]
    assert call(graph, "get_state", thread("3")).values == {"log": ["3", "a"]}
    assert call(graph, "batch", []) == []


def test_batch_runs_at_once_within_the_limit(call: Call) -> None:
    together = threading.Barrier(2, timeout=10)
    graph = chain(("a", lambda state: {"log": [together.wait()]})).compile()
    assert len(call(graph, "batch", [{"log": []}] * 4, {"max_concurrency": 2})) == 4


def test_batch_can_give_back_errors(call: Call, node: Node) -> None:
    def maybe(state: Log) -> dict[str, list[str]]:
        if state["log"] == ["bad"]:
            raise ValueError("bad")
        return {"log": ["ok"]}

    graph = chain(("a", node(maybe))).compile()
    inputs = [{"log": ["1"]}, {"log": ["bad"]}, {"log": ["2"]}]
    found = call(graph, "batch", inputs, return_exceptions=True)
    assert found[0] == {"log": ["1", "ok"]}
    assert isinstance(found[1], ValueError)
    assert found[2] == {"log": ["2", "ok"]}
    with pytest.raises(ValueError, match="bad"):
        call(graph, "batch", inputs)
    with pytest.raises(ValueError, match="configs"):
        call(graph, "batch", inputs, [None])


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_batch_takes_a_durability(call: Call, durability: str) -> None:
    saver = InMemorySaver()
    graph = chain("a").compile(checkpointer=saver)
    call(graph, "batch", [{"log": []}], [thread()], durability=durability)
    assert len(list(saver.list(thread()))) == (1 if durability == "exit" else 3)
