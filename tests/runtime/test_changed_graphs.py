"""A graph that has changed under its threads (issue: changed graphs; spec 2.1), and the command that finds out."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import add
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel, ValidationError
from typer.testing import CliRunner

from tests.acceptance.kit import Log, chain, fan, say, thread
from tests.acceptance.test_cli import run
from tests.conftest import Call
from tests.runtime.kit import Body, graph_of
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.cli.app import app
from threadmark.errors import MissingChannelError, MissingNodeError
from threadmark.graph import START, StateGraph
from threadmark.types import Command, Send, interrupt

Node = Callable[[Any], Any]


class More(TypedDict):
    log: Annotated[list[str], add]
    extra: str


# -- what is gone ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["invoke", "answer", "resume at an id"])
def test_a_due_node_that_is_gone_is_named(saver: Any, call: Call, node: Node, how: str) -> None:
    old = chain("a", ("gone", node(Body().asking("gone", "?")))).compile(checkpointer=saver)
    call(old, "invoke", {"log": []}, thread())
    before = list(saver.list(None))
    new = chain("a", "other").compile(checkpointer=saver)
    config = call(old, "get_state", thread()).config if how == "resume at an id" else thread()
    with pytest.raises(MissingNodeError, match="'gone'"):
        call(new, "invoke", Command(resume="x") if how == "answer" else None, config)
    assert list(saver.list(None)) == before
    # the thread is not lost: it can be moved on, or given new input
    call(new, "update_state", thread(), {"log": ["by hand"]}, as_node="a")
    assert call(new, "invoke", None, thread())["log"][-1] == "other"


def test_a_due_packet_to_a_node_that_is_gone_is_named(saver: Any, call: Call, node: Node) -> None:
    def build(name: str) -> Any:
        builder: StateGraph[Any] = StateGraph(Log)
        builder.add_node("a", say("a"))
        builder.add_node(name, node(Body().asking(name, "?")))
        builder.add_edge(START, "a")
        builder.add_conditional_edges("a", lambda state: [Send(name, {"log": []})])
        return builder.compile(checkpointer=saver)

    call(build("gone"), "invoke", {"log": []}, thread())
    with pytest.raises(MissingNodeError, match="'gone'"):
        call(build("other"), "invoke", None, thread())


def test_a_stored_result_for_a_channel_that_is_gone_is_named(saver: Any, call: Call, node: Node) -> None:
    def build(schema: Any) -> Any:
        return fan(
            ("writes", node(lambda state: {"extra": "x"} if schema is More else {})),
            ("asks", node(Body().asking("asks", "?"))),
            schema=schema,
        ).compile(checkpointer=saver)

    call(build(More), "invoke", {"log": []}, thread())
    with pytest.raises(MissingChannelError, match="'extra'"):
        call(build(Log), "invoke", Command(resume="A"), thread())
    assert call(build(More), "invoke", Command(resume="A"), thread()) == {"log": ["asks:A"], "extra": "x"}


def test_a_channel_without_a_schema_is_carried_on_and_reported(
    saver: Any, call: Call, node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    old = chain(("a", node(lambda state: {"extra": "kept", "log": ["a"]})), schema=More).compile(checkpointer=saver)
    call(old, "invoke", {"log": []}, thread())
    new = chain("b").compile(checkpointer=saver)
    with caplog.at_level(logging.WARNING, "threadmark"):
        assert call(new, "invoke", {"log": []}, thread()) == {"log": ["a", "b"]}
    assert [record.getMessage() for record in caplog.records if "'extra'" in record.getMessage()]
    assert call(new, "get_state", thread()).values == {"log": ["a", "b"]}
    assert call(old, "get_state", thread()).values == {"log": ["a", "b"], "extra": "kept"}


def test_a_child_s_node_that_is_gone_is_named(saver: Any, call: Call, node: Node) -> None:
    old = graph_of(("n", graph_of(("gone", node(Body().asking("gone", "?"))))), checkpointer=saver)
    call(old, "invoke", {"log": []}, thread())
    new = graph_of(("n", graph_of(("other", node(Body().saying("other"))))), checkpointer=saver)
    with pytest.raises(MissingNodeError, match="'gone'"):
        call(new, "invoke", Command(resume="x"), thread())


def test_a_reducer_may_become_a_plain_key_and_back(saver: Any, call: Call) -> None:
    class Plain(TypedDict):
        log: list[str]

    call(chain("a").compile(checkpointer=saver), "invoke", {"log": ["x"]}, thread())
    plain = chain("b", schema=Plain).compile(checkpointer=saver)
    assert call(plain, "invoke", {}, thread()) == {"log": ["b"]}
    assert call(chain("c").compile(checkpointer=saver), "invoke", {}, thread()) == {"log": ["b", "c"]}


@pytest.mark.parametrize("join", [False, True])
@pytest.mark.parametrize("defers", [False, True])
def test_a_node_that_is_due_may_become_a_deferred_one_and_back(
    saver: Any, call: Call, node: Node, defers: bool, join: bool
) -> None:
    body = Body()

    def build(*, defer: bool) -> Any:
        builder: StateGraph[Any] = StateGraph(Log)
        for name in ("a", "b"):
            builder.add_node(name, node(body.saying(name)))
            builder.add_edge(START, name)
        builder.add_node("last", node(body.saying("last")), defer=defer)
        if join:
            builder.add_edge(["a", "b"], "last")
        else:
            builder.add_edge("a", "last")
        return builder.compile(checkpointer=saver, interrupt_before=["last"])

    old, new = build(defer=defers), build(defer=not defers)
    call(old, "invoke", {"log": []}, thread())
    assert call(new, "get_state", thread()).next == ("last",)
    assert next(item.next for item in call(new, "get_state_history", thread())) == ("last",)
    assert call(new, "invoke", None, thread())["log"] == ["a", "b", "last"]
    assert sorted(body.ran) == ["a", "b", "last"]
    if join:  # halfway: of two that it waits for one has run
        call(old, "update_state", thread("2"), {"log": ["x"]}, as_node="a")
        call(new, "update_state", thread("2"), {"log": ["y"]}, as_node="b")
        assert call(new, "get_state", thread("2")).next == ("last",)


# -- state that fails its schema ---------------------------------------------------------------------------------------


class Form(BaseModel):
    age: int = 0
    note: str = ""


@pytest.mark.parametrize("through", ["node", "command", "packet", "update", "input"])
def test_what_fails_a_pydantic_schema_is_never_committed(saver: Any, call: Call, node: Node, through: str) -> None:
    def write(state: Any) -> Any:
        if through == "command":
            return Command(update={"age": "old", "note": "n"})
        return {"age": "old", "note": "n"} if through in ("node", "packet") else {}

    builder: StateGraph[Any] = StateGraph(Form)
    builder.add_node("a", node(lambda state: {"age": 1}))
    builder.add_node("b", node(write))
    builder.add_edge(START, "a")
    if through == "packet":
        builder.add_conditional_edges("a", lambda state: [Send("b", state)])
    else:
        builder.add_edge("a", "b")
    graph = builder.compile(checkpointer=saver)
    if through == "update":
        call(graph, "invoke", {}, thread())
        with pytest.raises(ValidationError, match="age"):
            call(graph, "update_state", thread(), {"age": "old"}, as_node="a")
    else:
        with pytest.raises(ValidationError, match="age"):
            call(graph, "invoke", {"age": "old"} if through == "input" else {}, thread())
    for row in graph.checkpointer.list(thread()):
        values = [row.checkpoint["channel_values"].get("age"), *(v for _, n, v in row.pending_writes if n == "age")]
        assert "old" not in values
        assert "n" not in [v for _, name, v in row.pending_writes if name == "note"]


def test_the_raw_value_is_kept_and_a_typed_dict_is_not_checked(saver: Any, call: Call, node: Node) -> None:
    builder: StateGraph[Any] = StateGraph(Form)
    builder.add_node("a", node(lambda state: {"age": "7"}))
    builder.add_edge(START, "a")
    assert call(builder.compile(checkpointer=saver), "invoke", {}, thread())["age"] == "7"
    untyped = chain(("a", node(lambda state: {"extra": 7})), schema=More).compile(checkpointer=saver)
    assert call(untyped, "invoke", {"log": []}, thread("2"))["extra"] == 7


# -- check-compat ------------------------------------------------------------------------------------------------------


@dataclass
class Deploy:
    """A file with threads of an old graph, and a module with the new one."""

    path: Path
    module: ModuleType

    def check(self, *options: str, name: str = "graph") -> Any:
        return CliRunner().invoke(app, ["check-compat", f"new_graph_of_test:{name}", str(self.path), *options])


@pytest.fixture
def deploy(tmp_path: Path) -> Iterator[Deploy]:
    module = ModuleType("new_graph_of_test")
    sys.modules["new_graph_of_test"] = module
    yield Deploy(tmp_path / "c.db", module)
    del sys.modules["new_graph_of_test"]


def asks(state: Any) -> Any:
    return {"log": [interrupt("?")]}


def old_threads(path: Path) -> None:
    with SqliteSaver.from_conn_string(str(path)) as saver:
        done = chain("a", "b", schema=More).compile(checkpointer=saver)
        done.invoke({"log": []}, thread("finished"))
        done.invoke({"log": []}, thread("before b"), interrupt_before=["b"])
        chain(("n", graph_of(("inner", asks)))).compile(checkpointer=saver).invoke({"log": []}, thread("in a child"))
        writes = fan(("w", lambda state: {"extra": "x"}), ("n", asks), schema=More).compile(checkpointer=saver)
        writes.invoke({"log": []}, thread("half done"))


def test_a_graph_that_fits_is_told_so(deploy: Deploy) -> None:
    old_threads(deploy.path)
    builder: StateGraph[Any] = StateGraph(More)
    for name in ("a", "b", "w"):
        builder.add_node(name, say(name))
        builder.add_edge(START, name)
    builder.add_node("n", graph_of(("inner", asks)))
    deploy.module.graph = builder  # type: ignore[attr-defined]
    done = deploy.check()
    assert (done.exit_code, "every thread can go on" in done.output) == (0, True), done.output


def test_threads_that_could_not_go_on_are_listed(deploy: Deploy) -> None:
    old_threads(deploy.path)
    new = chain("a", ("n", graph_of(("renamed", asks))), "w").compile()
    deploy.module.graph = lambda: new  # type: ignore[attr-defined]
    before = deploy.path.read_bytes()
    done = deploy.check("--json")
    assert done.exit_code == 4
    told = json.loads(done.output)
    assert told["affected"] == ["before b", "half done", "in a child"]
    kinds = {(one["thread"], one["kind"], one["name"]) for one in told["findings"]}
    assert kinds == {
        ("before b", "node", "b"),
        ("in a child", "node", "inner"),
        ("half done", "write", "extra"),
    } | {(one["thread"], "channel", "extra") for one in told["findings"] if one["kind"] == "channel"}
    assert deploy.path.read_bytes() == before
    table = deploy.check()
    assert "node 'inner' is due" in table.output
    assert "3 threads could not go on" in table.output


def test_what_the_command_says_is_what_a_run_does(deploy: Deploy) -> None:
    old_threads(deploy.path)
    deploy.module.graph = chain("a", ("n", graph_of(("renamed", asks))), "w")  # type: ignore[attr-defined]
    told = set(json.loads(deploy.check("--json").output)["affected"])
    stopped = set()
    with SqliteSaver.from_conn_string(str(deploy.path)) as saver:
        graph = deploy.module.graph.compile(checkpointer=saver)
        for info in saver.list_threads():
            try:
                graph.invoke(None, thread(info.thread_id))
            except (MissingNodeError, MissingChannelError):
                stopped.add(info.thread_id)
    assert stopped == told


@pytest.mark.parametrize("name", ["nothing", "number", ""])
def test_what_is_no_graph_is_refused(deploy: Deploy, name: str) -> None:
    old_threads(deploy.path)
    deploy.module.number = 7  # type: ignore[attr-defined]
    done = deploy.check(name=name)
    assert done.exit_code == 1
    assert type(done.exception).__name__ == "NoGraph"


PROGRAM = """
import json
from threadmark.graph import START, StateGraph

def read():
    return json.loads("{")

def make():
    return read()

def wanting(size):
    pass

def compiled():
    builder = StateGraph(dict)
    builder.add_edge(START, "nowhere")
    return builder.compile()

builder = StateGraph(dict)
builder.add_edge(START, "nowhere")

def leave():
    raise SystemExit("no settings")
"""


@pytest.mark.parametrize(
    ("name", "said", "line"),
    [
        ("shop:make", "JSONDecodeError: Expecting property name", 'in read: return json.loads("{")'),
        ("shop:compiled", "ValueError: Found edge ending at unknown node", "in compiled: return builder.compile()"),
        ("shop:leave", "SystemExit: no settings", 'in leave: raise SystemExit("no settings")'),
        ("shop:builder", "ValueError: Found edge ending at unknown node", ""),
        ("shop:wanting", "TypeError: wanting() missing 1 required", ""),
        ("broken:graph", "ZeroDivisionError: division by zero", "in <module>: 1 / 0"),
        ("needy:graph", "ModuleNotFoundError: No module named 'nobody_has_it'", "in <module>: import nobody_has_it"),
        ("odd:graph", "SyntaxError: '(' was never closed", ""),
        ("absent:graph", "No module named 'absent'; run this where your program can be imported", ""),
        ("shop:json", "'shop:json' is of type module, not a graph", ""),
    ],
)
def test_what_the_users_program_raises_is_told_without_our_frames(
    tmp_path: Path, name: str, said: str, line: str
) -> None:
    programs = {"shop": PROGRAM, "broken": "1 / 0", "needy": "import nobody_has_it", "odd": "x = ("}
    for module, text in programs.items():
        (tmp_path / f"{module}.py").write_text(text)
    done = run("check-compat", name, "c.db", cwd=tmp_path)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    first, *rest = done.stderr.splitlines()
    assert first.startswith("threadmark: ")
    assert len(rest) == bool(line)
    assert not line or (rest[0].endswith(line) and str(tmp_path) in rest[0])
