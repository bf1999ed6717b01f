"""``threadmark doctor``: every kind of trouble is found, nothing is changed, no code of the database runs."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer as PeersEncryption
from langgraph.checkpoint.sqlite import SqliteSaver as PeersSaver
from langgraph.types import Command

from tests.house.source import ROOT
from tests.interop import graphs
from tests.interop.test_migrate import STRICT, copied
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.interop.migration import migrate
from threadmark.interop.rows import Changed
from threadmark.interop.stores import open_source, open_target

pytestmark = pytest.mark.filterwarnings("ignore::Warning")
KEY = b"0123456789abcdef"
MEASURED = """
import sys
from benchmarks.clock import peak
from threadmark.cli import main
sys.argv = ["threadmark", "doctor", sys.argv[1]]
try:
    main()
except SystemExit:
    pass
print(peak())
"""


def doctor(path: Path, *arguments: str, folder: Path, code: int = 0, **variables: str) -> Any:
    """What the command reports as JSON, once its exit status is as expected and the folder as before."""
    before = _contents(path.parent)
    done = subprocess.run(
        [sys.executable, "-m", "threadmark", "doctor", str(path), "--json", *arguments],
        cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, **variables},
    )  # fmt: skip
    assert done.returncode == code, done.stderr + done.stdout
    assert _contents(path.parent) == before
    return json.loads(done.stdout) if done.stdout else done.stderr


def _contents(folder: Path) -> dict[str, bytes]:
    """The index of a log that is in use holds the marks of its readers, and nothing that lasts."""
    return {one.name: b"" if one.name.endswith("-shm") else one.read_bytes() for one in folder.iterdir()}


def kinds(told: Any) -> dict[str, set[str]]:
    """Threads by the kind of what was found in them."""
    found: dict[str, set[str]] = {}
    for one in told["findings"]:
        found.setdefault(one["kind"], set()).add(one["thread_id"])
    return found


@pytest.fixture
def peer(tmp_path: Path) -> Path:
    (tmp_path / "db").mkdir()
    return tmp_path / "db" / "peer.db"


@pytest.mark.parametrize("release", ["0_2", "0_2_76", "0_4", "0_6", "1_0", "1_2"])
def test_each_release_is_read_whole(release: str, tmp_path: Path) -> None:
    path = tmp_path / "db" / "peer.db"
    path.parent.mkdir()
    path.write_bytes((ROOT / f"tests/wire/peer_{release}.db").read_bytes())
    told = doctor(path, folder=tmp_path)
    assert (told["threads"], told["checkpoints"], told["unreadable"], told["carried"]) == (4, 31, 0, 0)
    assert told["size_now"] == path.stat().st_size
    found = kinds(told)
    assert found["question"] == {"paused"}
    assert found["failed"] == {"failed"}
    texts = {one["what"] for one in told["findings"] if one["kind"] in ("question", "failed")}
    assert texts == {"asks: 'outer?'", "child: 'inner?'", "check: ValueError('down')"}
    assert found.keys() <= {"question", "failed", "late"}
    stands = {one["thread"]: one["stands"] for one in told["by_thread"]}
    assert stands == {"paused": "asks", "failed": "failed", "finished": "finished", "chain": "finished"}
    assert told["channels"]["log"]["now"] > told["channels"]["log"]["here"] > 0
    assert sum(one["size_here"] for one in told["by_thread"]) == sum(each["here"] for each in told["channels"].values())


def _crash_between_put_writes_and_put(saver: Any) -> None:
    """A run that died when its last node had stored its result, and its checkpoint had not been."""
    graph = graphs.chain("a", "b").compile(checkpointer=saver)
    graph.invoke({"log": []}, config("half"))
    newest = saver.get_tuple(config("half")).checkpoint["id"]
    saver.conn.execute("DELETE FROM checkpoints WHERE thread_id = 'half' AND checkpoint_id = ?", (newest,))


def test_every_kind_of_trouble_is_found(peer: Path, tmp_path: Path) -> None:
    bomb = pickle.dumps(_Bomb())
    with PeersSaver.from_conn_string(str(peer)) as saver:
        _crash_between_put_writes_and_put(saver)
        graphs.chain("a", "b").compile(checkpointer=saver, interrupt_before=["b"]).invoke(
            {"log": []}, config("stopped")
        )
        graphs.chain("a", ("asks", graphs.ask("name?"))).compile(checkpointer=saver).invoke(
            {"log": []}, config("asking")
        )
        shop = graphs.chain(("order", lambda state: {"order": graphs.Order(1, [])}), schema=graphs.Shop)
        shop.compile(checkpointer=saver).invoke({"log": []}, config("classes"))
        done = graphs.chain("a").compile(checkpointer=saver)
        done.invoke({"log": []}, config("done"))
        saver.put_writes(config("lost", "nowhere"), [("v", 1)], "task")
        at = saver.put(config("twice"), checkpoint({"v": 1}), {}, {"v": 1})
        saver.put_writes(at, [("v", ["same"]), ("v", ["same"])], "task")
        first = saver.put(config("late"), checkpoint({"v": [1]}), {}, {"v": 1})
        saver.put(first, checkpoint({"v": [1, 2]}, {"v": 1}), {}, {})
        at = saver.put(config("pickle"), checkpoint({"v": 1}), {}, {"v": 1})
        saver.put_writes(at, [("v", 1)], "task")
        saver.conn.execute("UPDATE writes SET type = 'pickle', value = ? WHERE thread_id = 'pickle'", (bomb,))
        saver.put(config("damaged"), checkpoint({"v": 1}), {}, {"v": 1})
        saver.conn.execute("UPDATE checkpoints SET checkpoint = x'c1' WHERE thread_id = 'damaged'")
        saver.conn.commit()
    told = doctor(peer, folder=tmp_path, code=1)
    found = kinds(told)
    assert found.pop("late") >= {"late"}
    assert found == {
        "looks finished": {"half"}, "stuck": {"stopped"}, "question": {"asking"}, "runs code": {"classes"},
        "orphaned": {"lost"}, "duplicated": {"twice"}, "pickled": {"pickle"}, "unreadable": {"damaged"},
    }  # fmt: skip
    texts = {one["kind"]: one["what"] for one in told["findings"]}
    assert texts["runs code"].startswith("tests.interop.graphs.Order in")
    assert "_gone_off" in texts["pickled"]
    assert texts["question"] == "asks: 'name?'"
    assert texts["looks finished"] == "b"
    stands = {one["thread"]: one["stands"] for one in told["by_thread"]}
    assert stands["done"] == "finished"
    assert not (tmp_path / "exploded").exists()
    named = doctor(peer, "--allow", "tests.interop.graphs", folder=tmp_path, code=1, PYTHONPATH=_with(ROOT))
    assert "runs code" not in kinds(named)


def _with(folder: Path) -> str:
    return os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])


def _gone_off() -> None:
    Path("exploded").touch()


class _Bomb:
    def __reduce__(self) -> Any:
        return _gone_off, ()


def test_what_is_in_the_clear_beside_encrypted_values_is_told(peer: Path, tmp_path: Path) -> None:
    with PeersSaver.from_conn_string(str(peer)) as saver:
        at = saver.put(config("open"), checkpoint({"v": "x"}), {}, {"v": 1})
        sealed = PeersSaver(saver.conn, serde=PeersEncryption.from_pycryptodome_aes(key=KEY))
        at = sealed.put(config("mixed"), checkpoint({"v": "x"}), {}, {"v": 1})
        saver.put_writes(at, [("v", "plain")], "task")
        sealed.put(config("closed"), checkpoint({"v": "x"}), {}, {"v": 1})
    told = doctor(peer, folder=tmp_path, LANGGRAPH_AES_KEY=KEY.decode())
    assert kinds(told) == {"plaintext": {"open", "mixed"}}
    locked = doctor(peer, folder=tmp_path, code=1)
    assert kinds(locked)["unreadable"] == {"mixed", "closed"}
    assert kinds(locked)["plaintext"] == {"open", "mixed"}


def test_people_get_tables(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "threadmark", "doctor", str(ROOT / "tests/wire/peer_1_2.db")],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for words in ("4 threads, 31 checkpoints", " now, ", "here: ", "channel", "paused", "question: waits for an answer",
                  "child: 'inner?'", "ValueError('down')"):  # fmt: skip
        assert words in done.stdout
    assert done.stderr == ""


def test_a_store_of_ours_is_examined_too(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    path = tmp_path / "db" / "ours.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.put(config("one"), checkpoint({"v": "word " * 400}), {}, {"v": 1})
        told = doctor(path, folder=tmp_path)
        assert told["size_now"] >= path.stat().st_size
    [thread] = told["by_thread"]
    assert (told["threads"], told["unreadable"], told["channels"]["v"]["now"]) == (1, 0, told["channels"]["v"]["here"])
    assert thread["size_now"] == thread["size_here"] == sum(each["now"] for each in told["channels"].values())
    done = subprocess.run([sys.executable, "-m", "threadmark", "doctor", str(path)],
                          cwd=tmp_path, capture_output=True, text=True, check=True)  # fmt: skip
    assert "(checkpoints themselves)" in done.stdout
    assert " 0 B now" not in done.stdout


@pytest.mark.parametrize("state", ["at rest", "open", "killed", "copied with its log"])
@pytest.mark.parametrize("whose", ["theirs", "ours"])
def test_nothing_is_made_beside_a_file_in_wal_mode(state: str, whose: str, tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "db").mkdir()
    made, path = tmp_path / "made" / "threads.db", tmp_path / "db" / "threads.db"
    kind: Any = PeersSaver if whose == "theirs" else SqliteSaver
    with kind.from_conn_string(str(made)) as saver:
        saver.put(config("one"), checkpoint({"v": 1}), {}, {"v": 1})
        if state == "open":
            path = made
            assert doctor(path, folder=tmp_path)["threads"] == 1
        elif state != "at rest":
            for one in made.parent.iterdir():
                if state == "killed" or not one.name.endswith("-shm"):
                    shutil.copy(one, path.parent)
    if state == "at rest":
        path = made
    assert doctor(path, folder=tmp_path)["threads"] == 1
    assert copied(path, str(tmp_path / f"{state}.db"))[0].state == "copied"


@pytest.mark.parametrize("whose", ["theirs", "ours"])
def test_a_file_that_somebody_begins_to_write_is_read_again(whose: str, peer: Path, tmp_path: Path) -> None:
    kind: Any = PeersSaver if whose == "theirs" else SqliteSaver
    with kind.from_conn_string(str(peer)) as saver:
        saver.put(config("one"), checkpoint({"v": 1}), {}, {"v": 1})
        saver.put(config("two"), checkpoint({"v": 1}), {}, {"v": 1})
    with closing(open_source(str(peer), STRICT)) as source:
        rows = source.thread("one")
        with kind.from_conn_string(str(peer)) as saver:
            at = saver.get_tuple(config("two")).config
            saver.put(at, checkpoint({"v": 2}, {"v": 2}), {}, {"v": 2})
            with pytest.raises(Changed, match="start the command again"):
                list(rows.checkpoints())
            assert len(source.thread("two").heads) == 2
            assert len(list(source.thread("one").checkpoints())) == 1
        outcomes = list(migrate(source, open_target(str(tmp_path / "new.db"), STRICT), source.thread_ids()))
        assert [one.checkpoints for one in outcomes if one.state == "copied"] == [1, 2]


@pytest.mark.parametrize("content", [None, b"no database"])
def test_what_is_no_database_is_said(content: bytes | None, peer: Path, tmp_path: Path) -> None:
    if content is not None:
        peer.write_bytes(content)
    assert "threadmark:" in doctor(peer, folder=tmp_path, code=1)


def test_the_promised_size_is_what_a_migration_takes(peer: Path, tmp_path: Path) -> None:
    with PeersSaver.from_conn_string(str(peer)) as saver:
        graph = graphs.chain("a", ("asks", graphs.ask("more?"))).compile(checkpointer=saver)
        for number in range(40):
            graph.invoke({"log": [f"turn {number} " + "word " * 40]}, config("talk"), durability="sync")
            graph.invoke(Command(resume="yes"), config("talk"), durability="sync")
    promised = doctor(peer, folder=tmp_path)["size_here"]
    subprocess.run([sys.executable, "-m", "threadmark", "migrate", str(peer), "ours.db"], cwd=tmp_path, check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    assert abs(promised / (tmp_path / "ours.db").stat().st_size - 1) < 0.05


@pytest.mark.parametrize("threads", [120, 1])
def test_memory_is_not_a_matter_of_how_much_there_is(threads: int, peer: Path, tmp_path: Path) -> None:
    with PeersSaver.from_conn_string(str(peer)) as saver:
        for number in range(120):
            at = config(f"t{number % threads}", f"{number - 1:03}" if number >= threads else "")
            value = {"v": os.urandom(1 << 20)}
            saver.put(at, checkpoint(value, {"v": number}, id=f"{number:03}"), {}, {"v": number})
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(peer)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert float(done.stdout.splitlines()[-1]) < 300  # the file has 120 MB; the caches of a saver hold up to 96 MB
