"""LangGraph's Redis and MongoDB layouts: examined, copied, and its threads go on here as if they had begun here."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.interop.exchanged import PEER_DATABASES
from tests.interop.test_migrate import STRICT, copied
from tests.interop.test_peer_releases import END, config
from tests.services.postgres import postgres
from tests.services.redis import redis_binary, running
from tests.wire.peer_copies import HALF_ANSWERED, MONGODB, REDIS, UNANSWERED, onto_mongodb, onto_redis
from threadmark.checkpoint.serde.types import _DeltaSnapshot
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.cli.app import app
from threadmark.cli.doctor import doctor
from threadmark.errors import ForeignDatabase, SaverError
from threadmark.interop.peer_values import PeerValues
from threadmark.interop.redis_values import blob, standard, write_value
from threadmark.interop.stores import check_pair, open_source, open_target
from threadmark.interop.survey import survey
from threadmark.types import Command, Interrupt, Send

COPIES = [f"redis_{release}" for release in REDIS] + [f"mongodb_{release}" for release in MONGODB]


@pytest.fixture
def store(request: pytest.FixtureRequest, name: str) -> Iterator[str]:
    """The URL of a server with what a release stored."""
    kind, _, release = name.partition("_")
    if kind == "redis":
        server = request.getfixturevalue("redis_with_json")
        server.flush()
        with server.client() as client:
            onto_redis(client, release)
        yield server.url
        return
    mongo = request.getfixturevalue("mongodb")
    with mongo.database() as database:
        onto_mongodb(mongo.client[database], release)
        yield mongo.uri.replace("/?", f"/{database}?")


@pytest.fixture
def threads(name: str) -> set[str]:
    return {"paused", "chain"} if name in UNANSWERED else {"paused", "chain", "failed", "finished"}


@pytest.mark.parametrize("name", COPIES)
def test_threads_go_on_here(name: str, store: str, threads: set[str], tmp_path: Path) -> None:
    target = str(tmp_path / "threads.db")
    outcomes = copied(store, target, STRICT)
    assert {one.thread_id: one.state for one in outcomes} == dict.fromkeys(threads, "copied")
    assert sum(one.carried for one in outcomes) == 0
    assert {one.state for one in copied(f"langgraph+{store}", target, STRICT)} == {"there already"}
    with SqliteSaver.from_conn_string(target) as saver:
        _answered(saver)
        if "failed" in threads:
            _finished(saver, name)
        if "shallow" not in name:
            _replayed(saver, name)


def _answered(saver: Any) -> None:
    graph = PEER_DATABASES.graph([]).compile(checkpointer=saver)
    saved = graph.get_state(config("paused"))
    assert saved.next == ("asks", "child")
    assert saved.values["log"] == ["start", "split", "did p", "did q"]
    assert [message.id for message in saved.values["messages"]] == ["m1", "m2"]
    assert sorted(one.value for one in saved.interrupts) == ["inner?", "outer?"]
    answers = {one.id: one.value.rstrip("?") for one in saved.interrupts}
    ran = []
    for event in graph.stream(Command(resume=answers), config("paused"), stream_mode="tasks", subgraphs=True):
        ran += [event[1]["name"]] if "input" in event[1] else []
    assert sorted(set(ran) - {"work"}) == ["asks", "check", "child"]  # neither "before" nor "split" again
    assert graph.get_state(config("paused")).values["log"] == END


def _finished(saver: Any, name: str) -> None:
    graph = PEER_DATABASES.graph([]).compile(checkpointer=saver)
    saved = graph.get_state(config("finished"))
    note = {"set": {1}, "pair": [1, 2], "bytes": b"\x00\xff", "deep": [None, 1.5]}
    if name == "redis_0_3_9":
        del note["bytes"]
    assert saved.values["note"] == note
    if name in HALF_ANSWERED:
        (question,) = saved.interrupts
        assert (saved.next, question.value) == (("child",), "inner?")
        assert graph.invoke(Command(resume="inner"), config("finished"))["log"] == END
        saved = graph.get_state(config("finished"))
    assert (saved.next, saved.values["log"][-1]) == ((), "checked")
    failed = graph.get_state(config("failed"))
    if name == "redis_0_3_9":
        assert (failed.next, [one.value for one in failed.interrupts]) == (("child",), ["inner?"])
        return
    assert failed.next == ("check",)
    assert str(failed.tasks[0].error).startswith("ValueError(")
    assert graph.invoke(None, config("failed"))["log"] == [*failed.values["log"], "checked"]


def _replayed(saver: Any, name: str) -> None:
    chain = PEER_DATABASES.chain().compile(checkpointer=saver)
    history = list(chain.get_state_history(config("chain")))
    assert [one.next for one in history] == [(), ("b",), ("a",), ("__start__",)] * 2
    # The first release forgot the state when new input came; that is how its threads stand.
    assert history[0].values["log"] == (["y", "a", "b"] if name == "redis_0_0_1" else ["x", "a", "b", "y", "a", "b"])
    assert chain.invoke(None, history[1].config)["log"] == history[0].values["log"]


@pytest.mark.parametrize("name", ["redis_0_5_2", "mongodb_0_5_1"])
def test_the_doctor_examines_them(name: str, store: str, threads: set[str], tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "threadmark", "doctor", store, "--json"],
                          cwd=tmp_path, capture_output=True, text=True, check=True)  # fmt: skip
    told = json.loads(done.stdout)
    assert (told["threads"], told["unreadable"], told["carried"]) == (4, 0, 0)
    stands = {one["thread"]: one["stands"] for one in told["by_thread"]}
    assert stands.pop("finished") == ("asks" if name in HALF_ANSWERED else "finished")
    assert stands == {"paused": "asks", "failed": "failed", "chain": "finished"}
    assert all(one["size_now"] > one["size_here"] > 0 for one in told["by_thread"])
    assert told["channels"]["log"]["now"] > 0


# -- what their serializers make of values -----------------------------------------------------------------------------


def _read(value: Any) -> Any:
    lost: set[str] = set()
    return PeerValues(STRICT).value("json", json.dumps(standard(value, lost)).encode())[0], lost


def call_of(*id: str, **parts: Any) -> dict[str, Any]:
    return {"lc": 2, "type": "constructor", "id": list(id), **parts}


@pytest.mark.parametrize(
    ("stored", "value"),
    [
        ({"__send__": True, "node": "n", "arg": {"a": [1]}}, Send("n", {"a": [1]})),
        ({"__interrupt__": True, "value": "q", "id": "i"}, Interrupt(value="q", id="i")),
        ({"__delta_snapshot__": True, "value": ["x"]}, _DeltaSnapshot(["x"])),
        ({"a": [{"__bytes__": "AP8="}]}, {"a": [b"\x00\xff"]}),
        ({"__bytes__": "AP8=", "more": 1}, {"__bytes__": "AP8=", "more": 1}),
        (call_of("builtins", "set", kwargs={"__set_items__": [1]}), {1}),
        (call_of("builtins", "set", args=[[{"__send__": True, "node": "n", "arg": 1}]]), {Send("n", 1)}),
        (call_of("builtins", "bytes", method="fromhex", args=["00ff"]), b"\x00\xff"),
        (call_of("builtins", "bytearray", method="fromhex", args=["78"]), bytearray(b"x")),
        (call_of("datetime", "timedelta", args=[1, 0, 0]), timedelta(1)),
        (call_of("langgraph", "types", "Command", kwargs={"resume": 1}), Command(resume=1)),
        ([None, True, 1.5, "text"], [None, True, 1.5, "text"]),
    ],
)
def test_every_mark_of_theirs_is_understood(stored: Any, value: Any) -> None:
    found, lost = _read(stored)
    assert found == value
    assert type(found) is type(value)
    assert lost == set()


def test_values_that_were_stored_without_content_are_told() -> None:
    found, lost = _read([call_of("datetime", "timedelta", kwargs={}), call_of("collections", "deque", kwargs={})])
    assert found == [timedelta(0), deque()]
    assert lost == {"datetime.timedelta", "collections.deque"}
    assert _read(call_of("builtins", "set", args=[[]])) == (set(), set())
    assert _read(call_of("myapp", "Order", kwargs={}))[1] == set()  # may have no fields


def test_questions_and_errors_that_some_releases_stored_barely() -> None:
    lost: set[str] = set()
    assert write_value("__error__", call_of("builtins", "ValueError", kwargs={}), lost) == "ValueError()"
    (question,) = write_value("__interrupt__", [{"value": "q", "id": "i"}], lost)
    assert _read(question)[0] == Interrupt(value="q", id="i")
    assert write_value("log", [{"value": "q", "id": "i"}], lost) == [{"value": "q", "id": "i"}]


@pytest.mark.parametrize(
    ("tag", "text", "value"),
    [("json", '["x"]', ["x"]), ("json", "WyJ4Il0=", ["x"]), ("json", "MQ==", 1), ("json", "1234", 1234),
     ("json", "null", None), ("json", "bnVsbA==", None), ("json", "true", True)],
)  # fmt: skip
def test_json_is_stored_as_it_is_or_in_base64(tag: str, text: str, value: Any) -> None:
    assert blob(tag, text) == (tag, value)
    assert blob("bytes", "AP8=") == ("bytes", b"\x00\xff") == blob("base64", "AP8=")
    assert blob("empty", None) == blob("null", "") == ("null", b"")


@pytest.mark.parametrize("name", ["redis_0_5_2"])
def test_values_without_content_and_documents_that_expired_are_told(
    name: str, store: str, redis_with_json: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    emptied = json.dumps(call_of("datetime", "timedelta", kwargs={}))
    with redis_with_json.client() as client, closing(open_source(store, STRICT)) as source:
        chain, finished = source.thread("chain"), source.thread("finished")
        client.execute_command("JSON.SET", chain.heads[-1].row, "$.checkpoint.channel_values.log", emptied)
        client.delete(finished.heads[0].row)
        assert survey(finished).problems == [
            f"checkpoint {finished.heads[0].id} in namespace '': it is gone: it has expired, or was deleted"
        ]
        doctor(store, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert [one["what"] for one in told["findings"] if one["kind"] == "emptied"] == ["datetime.timedelta"]
    assert [one["checkpoints"] for one in told["by_thread"] if one["thread"] == "finished"] == [len(finished.heads) - 1]


@pytest.mark.parametrize("name", ["mongodb_0_5_1"])
def test_documents_that_are_damaged_or_gone_leave_their_thread_out(
    name: str, store: str, mongodb: Any, tmp_path: Path
) -> None:
    database = mongodb.client[store.rpartition("/")[2].partition("?")[0]]
    database["checkpoints"].update_one({"thread_id": "chain"}, {"$set": {"checkpoint": b"\xc1"}})
    database["checkpoint_writes"].update_one({"thread_id": "failed"}, {"$set": {"type": "msgpack+aes"}})
    with closing(open_source(store, STRICT)) as source:
        rows = source.thread("paused")
        database["checkpoints"].delete_one({"_id": rows.heads[0].row})
        assert "it is gone" in survey(rows).problems[0]
    states = {one.thread_id: one.state for one in copied(store, str(tmp_path / "new.db"), STRICT)}
    assert states == {"chain": "failed", "failed": "failed", "finished": "copied", "paused": "copied"}


# -- passwords ---------------------------------------------------------------------------------------------------------


def test_a_wrong_password_is_told_without_it(tmp_path: Path) -> None:
    with running(redis_binary, "--requirepass", "right") as server:
        place = f"127.0.0.1:{server.port}/0"
        for url, told in (
            (f"redis://:wrong-secret@{place}", "wants another user or password"),
            (f"redis://{place}", "put them into the URL, redis://USER:PASSWORD@HOST"),
            ("redis://:wrong-secret@127.0.0.1:1/0", "could not be reached"),
        ):
            for name in (url, f"langgraph+{url}"):
                _refused(name, told, tmp_path)


def test_a_wrong_password_of_postgres_is_told_without_it(tmp_path: Path) -> None:
    with postgres() as server:
        server.run("ALTER USER postgres PASSWORD 'right'")
        rules = Path(str(server.run("SHOW hba_file")[0][0]))
        rules.write_text("host all all 127.0.0.1/32 scram-sha-256\n")
        server.run("SELECT pg_reload_conf()")
        place = f"127.0.0.1:{server.port}"
        for url, told in (
            (
                f"postgresql://postgres:wrong-secret@{place}/postgres",
                "does not (take this user and password|let us in)",
            ),
            (f"postgresql://postgres@{place}/postgres", "wants a password|no password supplied"),
            (f"postgresql://postgres:right@{place}/nowhere", 'no such database|"nowhere" does not exist'),
        ):
            for name in (url, f"langgraph+{url}", f"threadmark+{url}"):
                _refused(name, told, tmp_path)


def test_a_server_of_mongodb_that_cannot_be_used_is_told_without_its_password(tmp_path: Path) -> None:
    for url, told in (
        ("mongodb://u:wrong-secret@127.0.0.1:1/x?serverSelectionTimeoutMS=100", "could not be reached"),
        ("mongodb://u:wrong-secret@127.0.0.1:port/x", "no URI that MongoDB's driver takes"),
    ):
        _refused(f"langgraph+{url}", told, tmp_path)


def _refused(name: str, told: str, folder: Path) -> None:
    """A source that cannot be read: what both commands say, and that neither makes anything."""
    runner = CliRunner()
    for arguments in (["doctor", name], ["migrate", name, str(folder / "new.db")]):
        done = runner.invoke(app, arguments)
        assert isinstance(done.exception, SaverError), done.exception
        assert re.search(told, str(done.exception))
        assert "secret" not in str(done.exception) + done.output
        causes = [done.exception.__cause__, done.exception.__context__]
        assert not any("secret" in str(cause) for cause in causes)
    assert list(folder.iterdir()) == []


# -- stores that are not what they are called --------------------------------------------------------------------------


def test_a_server_without_their_documents_is_told(redis_with_json: Any, redis_server: Any, mongodb: Any) -> None:
    redis_with_json.flush()
    redis_server.flush()
    with mongodb.database() as database:
        empty = mongodb.uri.replace("/?", f"/{database}?")
        for url, told in (
            (redis_with_json.url, "holds no documents of LangGraph's"),
            (redis_server.url, "holds no documents of LangGraph's"),
            (empty, "holds no collections of LangGraph's"),
        ):
            with pytest.raises(ForeignDatabase, match=told):
                open_source(f"langgraph+{url}", STRICT)
            with closing(open_source(url, STRICT)) as ours:
                assert ours.thread_ids() == []
            with pytest.raises(SaverError, match="are only read"):
                open_target(f"langgraph+{url}", STRICT)
    with redis_server.client() as client:
        client.set("checkpoint:of:others", "text")
    with pytest.raises(ForeignDatabase, match="RedisJSON"):
        open_source(f"langgraph+{redis_server.url}", STRICT)


@pytest.mark.parametrize("name", ["redis_0_5_2", "mongodb_0_5_1"])
def test_threads_go_into_the_server_that_they_are_on(name: str, store: str) -> None:
    if name.startswith("mongodb"):
        with pytest.raises(ForeignDatabase, match="LangGraph's collections"):
            copied(store, store, STRICT)
        return
    check_pair(store, store)
    assert {one.state for one in copied(store, store, STRICT)} == {"copied"}
    with pytest.raises(SaverError, match=r"holds both.*langgraph\+redis://.*threadmark\+redis://"):
        open_source(store, STRICT)
    for whose in ("langgraph+", "threadmark+"):
        with closing(open_source(f"{whose}{store}", STRICT)) as source:
            assert source.thread_ids() == ["chain", "failed", "finished", "paused"]
