"""``threadmark threads``, ``log`` and ``show``, run as a user runs them."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.metadata import version
from io import StringIO
from operator import add
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict
from unittest.mock import patch

import pytest

from threadmark import cli
from threadmark.checkpoint.base import empty_checkpoint
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.graph import START, StateGraph
from threadmark.types import Command, Send, interrupt

SCRIPT = Path(sys.executable).parent / "threadmark"


@dataclass
class Stone:
    """A class that whoever looks need not have."""

    name: str
    weight: int


class Walk(TypedDict, total=False):
    path: Annotated[list[str], add]
    found: Annotated[list[Stone], add]
    rest: bool


def thread(id: str) -> Any:
    return {"configurable": {"thread_id": id}}


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def run(*arguments: object, **options: Any) -> Done:
    """Run a command: in this process, or in one of its own if that is to have any options."""
    if options:
        command = [sys.executable, "-m", "threadmark", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, **{"env": None, **options})
        return Done(done.returncode, done.stdout, done.stderr)
    with (
        patch.object(sys, "argv", ["threadmark", *map(str, arguments)]),
        redirect_stdout(StringIO()) as out,
        redirect_stderr(StringIO()) as err,
        pytest.raises(SystemExit) as exit,
    ):
        cli.main()
    return Done(int(exit.value.code or 0), out.getvalue(), err.getvalue())


ALONE: dict[str, Any] = {"env": None}
"""Run it in a process of its own."""


def said(*arguments: object, **options: Any) -> str:
    done = run(*arguments, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def told(*arguments: object, **options: Any) -> Any:
    """What a command says as JSON."""
    return json.loads(said(*arguments, "--json", **options))


def refused(*arguments: object, **options: Any) -> str:
    """The complaint of a command that fails."""
    done = run(*arguments, **options)
    assert done.returncode != 0
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


def walking(state: Walk) -> Any:
    return {"path": ["bridge"], "found": [Stone("flint", 3)]}


def resting(state: Walk) -> Any:
    return {"rest": interrupt({"question": "rest here?", "so far": state["path"]})}


def stumbling(stone: str) -> Any:
    if stone == "big":
        raise ValueError("too big")
    return {"found": [Stone(stone, len(stone))]}


def path_builder() -> StateGraph[Any]:
    builder = StateGraph(Walk)
    builder.add_sequence([("gate", lambda state: {"path": ["gate"]}), ("bridge", walking), ("rest", resting)])
    builder.add_edge(START, "gate")
    return builder


def quarry_builder() -> StateGraph[Any]:
    builder = StateGraph(Walk)
    builder.add_node("plan", lambda state: {"path": ["quarry"]})
    builder.add_node("lift", stumbling)
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", lambda state: [Send("lift", s) for s in ("small", "big")], ["lift"])
    return builder


@dataclass(frozen=True)
class World:
    """A database with threads in different states, and the graphs that made them."""

    db: Path
    saver: SqliteSaver
    path: Any
    quarry: Any


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    db = tmp_path_factory.mktemp("world") / "checkpoints.db"
    with SqliteSaver.from_conn_string(str(db)) as saver:
        path = path_builder().compile(checkpointer=saver)
        quarry = quarry_builder().compile(checkpointer=saver)
        path.invoke({"path": []}, thread("asking"))

        path.invoke({"path": []}, thread("done"))
        path.invoke(Command(resume=True), thread("done"))

        path.invoke({"path": []}, thread("a@forked"))
        history = list(path.get_state_history(thread("a@forked")))
        at_bridge = next(state for state in history if state.next == ("bridge",))
        path.invoke(None, at_bridge.config)
        path.update_state(at_bridge.config, {"path": ["ferry"]}, as_node="bridge")

        with pytest.raises(ValueError, match="too big"):
            quarry.invoke({"path": []}, {**thread("failed"), "max_concurrency": 1})

        outer = StateGraph(Walk)
        outer.add_node("inner", path_builder().compile())
        outer.add_edge(START, "inner")
        outer.compile(checkpointer=saver).invoke({"path": []}, thread("nested"))
        yield World(db, saver, path, quarry)


# -- what they say ---------------------------------------------------------------------------------------------------


def test_threads_are_listed_newest_first_with_where_they_stand(world: World) -> None:
    threads = told("threads", world.db)
    assert [t["thread"] for t in threads] == ["nested", "failed", "a@forked", "done", "asking"]
    stand = {t["thread"]: (t["step"], t["next"], t["questions"], t["failed"]) for t in threads}
    assert stand["asking"] == (2, ["rest"], 1, [])
    assert stand["done"] == (3, [], 0, [])
    assert stand["a@forked"] == (2, ["rest"], 0, [])
    assert stand["failed"][3] == ["lift"]
    assert {t["thread"]: t["checkpoints"] for t in threads}["done"] == 5

    lines = {line.split()[0]: line for line in said("threads", world.db).splitlines()}
    assert lines["asking"].endswith("waits for an answer to rest")
    assert lines["done"].endswith("finished")
    assert lines["failed"].endswith("failed in lift")
    assert lines["a@forked"].endswith("next: rest")
    assert lines["nested"].endswith("+1 of sub-graphs")


@pytest.mark.parametrize("id", ["asking", "done", "a@forked", "failed", "nested"])
def test_the_log_says_what_the_history_says(world: World, id: str) -> None:
    log = told("log", id, world.db)
    history = list(world.path.get_state_history(thread(id)))
    assert [entry["checkpoint"] for entry in log["checkpoints"]] == [
        state.config["configurable"]["checkpoint_id"] for state in history
    ]
    for entry, state in zip(log["checkpoints"], history, strict=True):
        parent = state.parent_config and state.parent_config["configurable"]["checkpoint_id"]
        assert (entry["parent"], entry["created_at"]) == (parent, state.created_at)
        assert (entry["step"], entry["source"]) == (state.metadata["step"], state.metadata["source"])
        assert (entry["size"] > 0) == bool(state.values or state.metadata["source"] == "input")


def test_the_log_draws_branches(world: World) -> None:
    log = told("log", "a@forked", world.db)["checkpoints"]
    head, *lines = said("log", "a@forked", world.db).splitlines()
    assert head.split() == ["checkpoint", "step", "source", "made", "(UTC)", "parent", "size", "then"]
    drawn = [re.match(r"[●│├─╯┼┴ ]*", line)[0].rstrip() for line in lines]  # type: ignore[index]
    assert drawn == ["●", "│ ●", "│ ●", "│ │ ●", "├─┴─╯", "●", "●", "●"]
    rows = [line.split()[len(graph.split()) :] for graph, line in zip(drawn, lines, strict=True) if "●" in graph]
    for row, entry in zip(rows, log, strict=True):
        assert entry["checkpoint"].endswith(row[0])
        assert row[1:3] == [str(entry["step"]), entry["source"]]
        assert entry["parent"] is None or entry["parent"].endswith(row[5])
    assert [entry["source"] for entry in log] == ["update", "loop", "fork", "loop", "loop", "loop", "input"]
    assert {entry["parent"] for entry in log[:4:2]} | {log[3]["parent"]} == {log[4]["checkpoint"]}


def test_a_text_that_checkpoints_share_counts_in_each_of_them(tmp_path: Path) -> None:
    class Report(TypedDict):
        text: str
        read: Annotated[list[str], add]

    builder = StateGraph(Report)
    builder.add_sequence([(name, lambda state: {"read": ["again"]}) for name in "abcde"])
    builder.add_edge(START, "a")
    with SqliteSaver.from_conn_string(str(tmp_path / "texts.db")) as saver:
        builder.compile(checkpointer=saver).invoke({"text": "x" * 5000, "read": []}, thread("t"))
    sizes = [each["size"] for each in told("log", "t", tmp_path / "texts.db")["checkpoints"]]
    assert len(sizes) == 7
    assert all(5000 <= size <= 5100 for size in sizes)
    assert sizes[:-1] == sorted(sizes[:-1], reverse=True)  # the last one is the input


def test_the_log_can_be_cut(world: World) -> None:
    whole = told("log", "done", world.db)["checkpoints"]
    assert told("log", "done", world.db, "--limit", "2")["checkpoints"] == whole[:2]
    assert len(said("log", "done", world.db, "-n", "2").splitlines()) == 3


@pytest.mark.parametrize("id", ["asking", "done", "a@forked", "failed"])
def test_show_agrees_with_the_graph_at_every_checkpoint(world: World, id: str) -> None:
    graph = world.quarry if id == "failed" else world.path
    newest, *older = graph.get_state_history(thread(id))
    live = graph.get_state(thread(id))
    assert told("show", id, world.db)["next"] == list(live.next)
    for state in (newest, *older):
        checkpoint = state.config["configurable"]["checkpoint_id"]
        shown = told("show", f"{id}@{checkpoint}", world.db)
        assert shown["checkpoint"] == checkpoint
        assert shown["newest"] == (state is newest)
        # The empty value that a reducer begins with is stored only once something was written to it.
        assert {"path": [], "found": [], **shown["values"]} == {"path": [], "found": [], **seen(state.values)}
        assert shown["writes"] == seen(state.metadata["writes"])
        assert sorted((task["id"], task["node"]) for task in shown["tasks"]) == sorted(
            (t.id, t.name) for t in state.tasks
        )
        if state is not newest:
            assert sorted(shown["next"]) == sorted(state.next)


def seen(value: Any) -> Any:
    """A value as JSON shows it, without reading anything from the commands."""
    if isinstance(value, Stone):
        fields = {"name": value.name, "weight": value.weight}
        return {"$type": f"{Stone.__module__}.Stone", "fields": fields}
    if isinstance(value, list | tuple):
        return [seen(member) for member in value]
    return {key: seen(member) for key, member in value.items()} if isinstance(value, dict) else value


def test_show_has_the_open_question(world: World) -> None:
    (question,) = told("show", "asking", world.db)["interrupts"]
    (expected,) = world.path.get_state(thread("asking")).interrupts
    assert (question["id"], question["node"]) == (expected.id, "rest")
    assert question["value"] == {"question": "rest here?", "so far": ["gate", "bridge"]}
    text = said("show", "asking", world.db)
    assert "Open questions" in text
    assert "rest here?" in text
    assert told("show", "done", world.db)["interrupts"] == []


def test_show_has_errors_and_finished_siblings(world: World) -> None:
    tasks = told("show", "failed", world.db)["tasks"]
    assert {(task["sent"], task["status"], task["error"]) for task in tasks} == {
        ("big", "failed", "ValueError('too big')"),
        ("small", "finished", None),
    }
    assert told("show", "failed", world.db)["next"] == ["lift"]
    text = said("show", "failed", world.db)
    assert "1 failed, 1 finished" in text
    assert "ValueError('too big')" in text
    assert "without the graph" in text


def test_classes_are_shown_by_name_and_fields(world: World) -> None:
    assert "Stone(name='flint', weight=3)" in said("show", "done", world.db)
    (stone,) = told("show", "done", world.db)["values"]["found"]
    assert stone["$type"].endswith(".Stone")
    assert stone["fields"] == {"name": "flint", "weight": 3}


def test_a_checkpoint_goes_by_the_beginning_or_end_of_its_id(world: World) -> None:
    id = told("log", "done", world.db)["checkpoints"][2]["checkpoint"]
    for part in (id, id[:-1], id[-8:]):
        assert told("show", f"done@{part}", world.db)["checkpoint"] == id


def test_sub_graphs_have_a_history_of_their_own(world: World) -> None:
    (inner,) = [ns for ns in told("log", "nested", world.db)["namespaces"] if ns]
    assert f"--ns {inner}" in said("log", "nested", world.db)
    assert [entry["source"] for entry in told("log", "nested", world.db, "--ns", inner)["checkpoints"]][-1] == "input"
    shown = told("show", "nested", world.db, "--ns", inner)
    assert shown["next"] == ["rest"]
    assert shown["values"]["path"] == ["gate", "bridge"]
    outer = told("show", "nested", world.db)
    assert [question["id"] for question in outer["interrupts"]] == [q["id"] for q in shown["interrupts"]]


def test_long_states_are_cut_unless_all_is_asked_for(tmp_path: Path) -> None:
    with SqliteSaver.from_conn_string(str(tmp_path / "long.db")) as saver:
        graph = path_builder().compile(checkpointer=saver)
        graph.invoke({"path": [f"step {n}" for n in range(50)]}, thread("long"))
    assert "'step 49'" not in said("show", "long", tmp_path / "long.db")
    assert "'step 49'" in said("show", "long", tmp_path / "long.db", "--full")


# -- how they are called ---------------------------------------------------------------------------------------------


def test_the_database_is_named_in_any_of_four_ways(world: World) -> None:
    expected = said("log", "done", world.db)
    environment = {**os.environ, "THREADMARK_DB": str(world.db)}
    assert said("log", "done", "--db", world.db) == expected
    assert said("log", world.db, "done") == expected
    assert said("log", "done", env=environment) == expected
    assert said("threads", env=environment) == said("threads", "--db", world.db) == said("threads", world.db)
    assert said("threads", world.db, **ALONE) == said("threads", world.db)


def test_the_console_script_is_the_same_program(world: World) -> None:
    done = subprocess.run([SCRIPT, "threads", str(world.db)], capture_output=True, text=True, check=True)
    assert done.stdout == said("threads", world.db)


def test_every_command_explains_itself() -> None:
    assert all(command in said("--help") for command in ("threads", "log", "show", "demo"))
    for command in ("threads", "log", "show", "demo"):
        assert "Usage" in said(command, "-h")


def test_without_the_extra_it_says_what_to_install() -> None:
    program = "import sys; sys.modules['typer'] = None; from threadmark.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'threadmark[cli]'" in done.stderr
    assert "Traceback" not in done.stderr


# -- what they refuse ------------------------------------------------------------------------------------------------


def test_a_missing_file_is_not_made(tmp_path: Path) -> None:
    assert "does not exist" in refused("threads", tmp_path / "none.db")
    assert "is not a file" in refused("threads", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_files_of_others_are_refused_and_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "text.db"
    text.write_text("not a database, and long enough to be looked at as one" * 20)
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as conn:
        conn.execute("CREATE TABLE checkpoints (thread_id TEXT)")
        conn.execute("CREATE TABLE writes (thread_id TEXT)")
    conn.close()
    empty = tmp_path / "empty.db"
    empty.touch()
    before = state_of(tmp_path)
    assert f"{text} is not a SQLite database" in refused("threads", text)
    assert f"{foreign} was not made by Threadmark" in refused("log", "1", foreign)
    assert f"{empty} is empty" in refused("show", "1", empty)
    assert state_of(tmp_path) == before


def test_what_is_not_there_is_named(world: World) -> None:
    assert "there is no thread 'nobody'" in refused("log", "nobody", world.db)
    assert "there is no thread 'nobody'" in refused("show", "nobody", world.db)
    assert "there is no thread 'nobody'" in refused("show", "nobody@1", world.db)
    assert "'zzz' names no checkpoint" in refused("show", "done@zzz", world.db)
    assert "5 checkpoints" in refused("show", "done@1", world.db)
    assert "namespace 'x'" in refused("log", "done", world.db, "--ns", "x")
    assert "name the database" in refused("threads", env={**os.environ, "THREADMARK_DB": "", "DATABASE_URL": ""})
    assert "there is no thread 'nobody'" in refused("log", "nobody", world.db, **ALONE)


# -- that they only look ---------------------------------------------------------------------------------------------


def state_of(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def look_at_everything(db: Path, **options: Any) -> None:
    assert [t["thread"] for t in told("threads", db, **options)] == ["nested", "failed", "a@forked", "done", "asking"]
    said("log", "a@forked", db, **options)
    said("show", "asking", db, **options)


def backup(world: World, folder: Path) -> Path:
    """The database as it looks when every process has closed it."""
    db = folder / "copy.db"
    with sqlite3.connect(db) as copy:
        world.saver.conn.backup(copy)
    copy.close()
    return db


def test_they_leave_no_trace_in_the_folder(world: World, tmp_path: Path) -> None:
    db = backup(world, tmp_path)
    before = state_of(tmp_path)
    assert list(before) == ["copy.db"]
    look_at_everything(db, **ALONE)
    assert state_of(tmp_path) == before


def test_they_read_what_a_killed_process_left(world: World, tmp_path: Path) -> None:
    for path in world.db.parent.iterdir():
        shutil.copy(path, tmp_path)
    before = state_of(tmp_path)
    assert "checkpoints.db-wal" in before
    look_at_everything(tmp_path / "checkpoints.db")
    assert {name: state_of(tmp_path)[name] for name in before if not name.endswith("-shm")} == {
        name: mark for name, mark in before.items() if not name.endswith("-shm")
    }
    (tmp_path / "checkpoints.db-shm").unlink()
    look_at_everything(tmp_path / "checkpoints.db")
    assert sorted(state_of(tmp_path)) == ["checkpoints.db", "checkpoints.db-wal"]


def bound_by_permissions() -> None:
    """Take from root on Linux what lets it write where nobody may."""
    if os.geteuid() == 0 and sys.platform == "linux":
        drop_from_bounding_set, dac_override = 24, 1
        ctypes.CDLL(None).prctl(drop_from_bounding_set, dac_override)


def test_the_folder_test_means_what_it_says(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        touch = subprocess.run(["touch", tmp_path / "x"], preexec_fn=bound_by_permissions, check=False, stderr=-3)
    finally:
        tmp_path.chmod(0o755)
    assert touch.returncode != 0


def test_they_work_in_a_folder_that_nobody_may_write_to(world: World, tmp_path: Path) -> None:
    db = backup(world, tmp_path)
    db.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        look_at_everything(db, preexec_fn=bound_by_permissions)
        assert list(state_of(tmp_path)) == ["copy.db"]
    finally:
        tmp_path.chmod(0o755)


WRITER = """
import sys
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.graph import START, StateGraph

builder = StateGraph(dict)
builder.add_node("turn", lambda state: {"n": state["n"] + 1})
builder.add_edge(START, "turn")
with SqliteSaver.from_conn_string(sys.argv[1]) as saver:
    graph = builder.compile(checkpointer=saver)
    number = 0
    while True:
        number += 1
        graph.invoke({"n": number}, {"configurable": {"thread_id": "busy"}})
        print(number, flush=True)
"""


def test_they_work_while_another_process_writes(tmp_path: Path) -> None:
    db = tmp_path / "busy.db"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(db)], stdout=subprocess.PIPE, text=True)
    try:
        assert writer.stdout is not None
        writer.stdout.readline()
        seen = []
        for _ in range(4):
            (thread,) = told("threads", db, **ALONE)
            assert len(told("log", "busy", db, "--limit", "3")["checkpoints"]) == 3
            said("show", "busy", db)
            seen.append(thread["checkpoints"])
        assert writer.poll() is None
    finally:
        writer.kill()
        writer.communicate()
    assert seen == sorted(set(seen))


def test_nothing_is_imported_and_nothing_is_unpickled(tmp_path: Path) -> None:
    """The class's module, and the pickle, would each leave a file behind if they were brought to life."""
    marker = tmp_path / "it-ran"
    (tmp_path / "trap.py").write_text(
        "from dataclasses import dataclass\n"
        "import os, pathlib\n"
        "if os.environ.get('ARMED'):\n    pathlib.Path(os.environ['ARMED']).touch()\n"
        "@dataclass\nclass Trap:\n    bait: str\n"
        "class Pickled:\n    def __reduce__(self):\n"
        f"        return (pathlib.Path.touch, (pathlib.Path({str(marker)!r}),))\n"
    )
    store = (
        "import trap\n"
        "from threadmark.checkpoint.base import empty_checkpoint\n"
        "from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer\n"
        "from threadmark.checkpoint.sqlite import SqliteSaver\n"
        "serde = JsonPlusSerializer(pickle_fallback=True, allow=[trap.Trap])\n"
        "with SqliteSaver.from_conn_string('traps.db', serde=serde) as saver:\n"
        "    checkpoint = {**empty_checkpoint(), 'channel_values': {'a': trap.Trap('cheese'), 'b': trap.Pickled()},\n"
        "                  'channel_versions': {'a': '1', 'b': '1'}}\n"
        "    config = {'configurable': {'thread_id': 'traps', 'checkpoint_ns': ''}}\n"
        "    saver.put(config, checkpoint, {'source': 'loop', 'step': 1}, {'a': '1', 'b': '1'})\n"
    )
    subprocess.run([sys.executable, "-c", store], cwd=tmp_path, check=True)
    assert not marker.exists()
    armed = {**os.environ, "ARMED": str(marker), "PYTHONPATH": str(tmp_path)}
    values = told("show", "traps", tmp_path / "traps.db", env=armed)["values"]
    text = said("show", "traps", tmp_path / "traps.db", env=armed)
    said("log", "traps", tmp_path / "traps.db", env=armed)
    assert values["a"] == {"$type": "trap.Trap", "fields": {"bait": "cheese"}}
    assert values["b"]["$type"] == "pickle"
    assert "Trap(bait='cheese')" in text
    assert not marker.exists()


def test_an_encrypted_file_is_read_with_its_key_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = tmp_path / "secret.db"
    serde = EncryptedSerializer.from_pycryptodome_aes(key=b"k" * 32)
    with SqliteSaver.from_conn_string(str(db), serde=serde) as saver:
        path_builder().compile(checkpointer=saver).invoke({"path": []}, thread("secret"))
    assert "put its key into THREADMARK_AES_KEY" in refused("show", "secret", db)
    monkeypatch.setenv("THREADMARK_AES_KEY", "short")
    assert "THREADMARK_AES_KEY has 5 bytes" in refused("show", "secret", db)
    monkeypatch.setenv("THREADMARK_AES_KEY", "x" * 32)
    refused("show", "secret", db)
    monkeypatch.setenv("THREADMARK_AES_KEY", "k" * 32)
    assert told("show", "secret", db)["values"]["path"] == ["gate", "bridge"]
    assert told("threads", db)[0]["next"] == ["rest"]
    assert len(told("log", "secret", db)["checkpoints"]) == 4


def test_stored_text_does_not_steer_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b[2J[red]\u202e"
    with SqliteSaver.from_conn_string(str(tmp_path / "evil.db"), serde=JsonPlusSerializer()) as saver:
        checkpoint: Any = {**empty_checkpoint(), "channel_values": {evil: evil}, "channel_versions": {evil: "1"}}
        config: Any = {"configurable": {"thread_id": evil, "checkpoint_ns": ""}}
        saver.put(config, checkpoint, {"source": "loop", "step": 1, evil: evil}, {evil: "1"})  # type: ignore[typeddict-unknown-key]
    for command in (("threads",), ("log", evil), ("show", evil)):
        text = said(*command, tmp_path / "evil.db")
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert told("show", evil, tmp_path / "evil.db")["values"] == {evil: evil}


def test_the_version_is_told() -> None:
    assert run("--version").stdout == f"threadmark {version('threadmark')}\n"
