"""``migrate``: from LangGraph's tables to ours, between ours, and back, each value compared."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer as PeersEncryption
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer as PeersSerializer
from langgraph.checkpoint.sqlite import SqliteSaver as PeersSaver
from langgraph.types import Command as PeersCommand

from tests.conftest import Call
from tests.house.source import ROOT
from tests.interop import graphs
from tests.interop.play import Play, difference
from threadmark.checkpoint.base import Step
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.serde.encrypted import EncryptedSerializer
from threadmark.checkpoint.serde.jsonplus import JsonPlusSerializer
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.interop.migration import Outcome, migrate
from threadmark.interop.own_store import OwnTarget
from threadmark.interop.stores import open_source, open_target

KEY = b"0123456789abcdef"
ALLOWED = JsonPlusSerializer(allow=["tests.interop.graphs"])
STRICT = JsonPlusSerializer()
pytestmark = pytest.mark.filterwarnings("ignore::Warning")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of LangGraph's in which every scenario has run, each on a thread of its name."""
    path = tmp_path_factory.mktemp("peer") / "peer.db"
    with PeersSaver.from_conn_string(str(path)) as saver, asyncio.Runner() as runner:
        for name, scenario in graphs.SCENARIOS.items():
            scenario(Play(saver, Call("sync", runner), name))
    return path


def copied(source: Any, target: str, serde: Any = ALLOWED, **options: Any) -> list[Outcome]:
    """What became of each thread on the way between two stores by name."""
    with closing(open_source(str(source), serde)) as read, closing(open_target(target, serde)) as written:
        return list(migrate(read, written, read.thread_ids(), **options))


def states(outcomes: list[Outcome]) -> set[str]:
    return {one.state for one in outcomes}


def test_every_graphs_thread_goes_to_ours_and_comes_back_the_same(played: Path, tmp_path: Path) -> None:
    ours, back = str(tmp_path / "ours.db"), f"langgraph+sqlite:///{tmp_path / 'back.db'}"
    first = copied(played, ours)
    assert (len(first), states(first)) == (len(graphs.SCENARIOS), {"copied"})
    assert sum(one.values for one in first) > 500
    assert sum(one.carried for one in first) == 0
    assert states(copied(ours, back)) == {"copied"}
    assert states(copied(played, ours)) == states(copied(ours, back)) == {"there already"}
    with closing(open_source(str(played), ALLOWED)) as one, closing(open_source(back, ALLOWED)) as other:
        assert one.thread_ids() == other.thread_ids()
        assert states(list(migrate(one, _Comparing(other), one.thread_ids()))) == {"there already"}


class _Comparing:
    """A target that only compares."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def has(self, thread_id: str) -> bool:
        return thread_id in self._source.thread_ids()

    def thread(self, thread_id: str) -> Any:
        return self._source.thread(thread_id)


def test_langgraph_reads_an_exported_thread_as_its_own(played: Path, tmp_path: Path) -> None:
    ours, back = str(tmp_path / "ours.db"), tmp_path / "back.db"
    copied(played, ours)
    copied(ours, f"langgraph+sqlite:///{back}")
    shown = []
    for path in (played, back):
        with PeersSaver.from_conn_string(str(path)) as saver, asyncio.Runner() as runner:
            play = Play(saver, Call("sync", runner), "travel")
            play.compile(graphs.chain("a", "b", "c"))
            play.state()
            play.history()
            shown.append(play.told)
    assert difference(*shown) == ""


def test_a_thread_that_paused_here_is_answered_in_langgraph(tmp_path: Path) -> None:
    ours, back = str(tmp_path / "ours.db"), tmp_path / "back.db"
    copied(ROOT / "tests/wire/peer_1_2.db", ours)
    copied(ours, f"langgraph+sqlite:///{back}")
    from tests.wire import peer_databases

    with PeersSaver.from_conn_string(str(back)) as saver:
        graph = peer_databases.graph([]).compile(checkpointer=saver)
        at: Any = {"configurable": {"thread_id": "paused"}}
        asked = graph.get_state(at).interrupts
        answers = {one.id: one.value.rstrip("?") for one in asked}
        assert graph.invoke(PeersCommand(resume=answers), at)["log"][-4:] == [
            "inner inner",
            "did p",
            "did q",
            "checked",
        ]


def test_classes_that_are_not_known_here_go_along_as_bytes(played: Path, tmp_path: Path) -> None:
    ours = str(tmp_path / "ours.db")
    outcome = next(one for one in copied(played, ours, STRICT) if one.thread_id == "own_classes")
    assert (outcome.state, outcome.carried) == ("copied", 7)
    assert outcome.classes == ("tests.interop.graphs:Customer", "tests.interop.graphs:Order")
    with SqliteSaver.from_conn_string(ours, serde=ALLOWED) as saver:
        found = saver.get({"configurable": {"thread_id": "own_classes"}})
        assert found is not None
        assert found["channel_values"]["order"] == graphs.Order(2, ["tea", "milk"])
        assert found["channel_values"]["customer"] == graphs.Customer(name="Ada", orders=[1])


def test_pickles_go_along_and_are_never_loaded(tmp_path: Path) -> None:
    peer, ours = tmp_path / "peer.db", str(tmp_path / "ours.db")
    with PeersSaver.from_conn_string(str(peer)) as saver:
        at = saver.put(config(), checkpoint({"a": 1}), {}, {"a": 1})
        saver.put_writes(at, [("b", 2)], "task")
        bomb = pickle.dumps(_Bomb())
        saver.conn.execute("UPDATE writes SET type = 'pickle', value = ?", (bomb,))
        saver.conn.commit()
    [outcome] = copied(peer, ours)
    assert (outcome.state, outcome.carried) == ("copied", 1)
    with closing(open_source(ours, STRICT)) as source:
        assert source.thread("t").writes[0].value.typed == ("pickle", bomb)
    with PeersSaver.from_conn_string(str(peer)) as saver:
        saver.conn.execute("UPDATE checkpoints SET type = 'pickle', checkpoint = ?", (bomb,))
        saver.conn.commit()
    [outcome] = copied(peer, str(tmp_path / "other.db"))
    assert outcome.state == "failed"
    assert "_gone_off" in outcome.problems[0]
    assert not _exploded


_exploded: list[int] = []


def _gone_off() -> None:
    _exploded.append(1)


class _Bomb:
    def __reduce__(self) -> Any:
        return _gone_off, ()


def test_encrypted_threads_stay_encrypted(tmp_path: Path) -> None:
    peer, ours = tmp_path / "peer.db", tmp_path / "ours.db"
    serde = PeersEncryption.from_pycryptodome_aes(key=KEY)
    with sqlite3.connect(peer, check_same_thread=False) as conn:
        at = PeersSaver(conn, serde=serde).put(config(), checkpoint({"a": "hidden in plain sight"}), {}, {"a": 1})
        PeersSaver(conn, serde=serde).put_writes(at, [("a", "hidden in plain sight")], "task")
    [without] = copied(peer, str(tmp_path / "none.db"), STRICT)
    assert without.state == "failed"
    assert "LANGGRAPH_AES_KEY" in without.problems[0]
    ours_serde = EncryptedSerializer.from_pycryptodome_aes(key=KEY, serde=STRICT)
    assert states(copied(peer, str(ours), ours_serde)) == {"copied"}
    assert b"hidden in plain sight" not in ours.read_bytes()
    with SqliteSaver.from_conn_string(str(ours), serde=ours_serde) as saver:
        assert saver.get_tuple(at).pending_writes == [("task", "a", "hidden in plain sight")]  # type: ignore[union-attr]
    [wrong] = copied(peer, str(tmp_path / "no.db"), EncryptedSerializer.from_pycryptodome_aes(key=b"f" * 16))
    assert wrong.state == "failed"


def test_a_thread_that_cannot_be_read_is_left_out_and_the_others_are_not(tmp_path: Path) -> None:
    peer, ours = tmp_path / "peer.db", str(tmp_path / "ours.db")
    with PeersSaver.from_conn_string(str(peer)) as saver:
        for thread in "abcd":
            saver.put(config(thread), checkpoint({"v": thread}), {}, {"v": 1})
        saver.conn.execute("UPDATE checkpoints SET checkpoint = x'81a1' WHERE thread_id = 'b'")
        saver.conn.execute("UPDATE checkpoints SET checkpoint_id = 'moved' WHERE thread_id = 'd'")
        saver.conn.commit()
    outcomes = {one.thread_id: one for one in copied(peer, ours)}
    found = {name: one.state for name, one in outcomes.items()}
    assert found == {"a": "copied", "b": "failed", "c": "copied", "d": "failed"}
    assert "damaged" in outcomes["b"].problems[0]
    assert "another place" in outcomes["d"].problems[0]
    with SqliteSaver.from_conn_string(ours) as saver:
        assert sorted(saver.thread_ids()) == ["a", "c"]


def test_another_thread_of_the_same_name_is_not_touched(tmp_path: Path) -> None:
    peer, ours = tmp_path / "peer.db", str(tmp_path / "ours.db")
    with PeersSaver.from_conn_string(str(peer)) as saver:
        saver.put(config(), checkpoint({"v": "theirs"}), {}, {"v": 1})
    with SqliteSaver.from_conn_string(ours) as own:
        at = own.put(config(), checkpoint({"v": "ours"}), {}, {"v": 1})
        [outcome] = copied(peer, ours)
        assert outcome.state == "failed"
        assert "--replace" in outcome.problems[0]
        assert own.get_tuple(at) is not None
    [outcome] = copied(peer, ours, replace=True)
    assert outcome.state == "copied"
    with SqliteSaver.from_conn_string(ours) as own:
        assert [one.checkpoint["channel_values"] for one in own.list(config())] == [{"v": "theirs"}]


def test_what_an_interrupted_migration_left_is_made_anew(played: Path, tmp_path: Path) -> None:
    ours = str(tmp_path / "ours.db")
    copied(played, ours)
    with SqliteSaver.from_conn_string(ours) as saver:
        [newest, *_] = saver.list({"configurable": {"thread_id": "a_chain"}})
        run = {**newest.checkpoint}
        saver.delete_thread("a_chain")
        saver.put(newest.parent_config, run, newest.metadata, run["channel_versions"])
    outcomes = {one.thread_id: one.state for one in copied(played, ours)}
    assert outcomes.pop("a_chain") in ("copied", "failed")
    assert set(outcomes.values()) == {"there already"}


def test_writes_of_checkpoints_that_are_not_there_stay_behind(tmp_path: Path) -> None:
    peer, ours = tmp_path / "peer.db", str(tmp_path / "ours.db")
    with PeersSaver.from_conn_string(str(peer)) as saver:
        saver.put(config(), checkpoint({"v": 1}), {}, {"v": 1})
        saver.put_writes(config("t", "nowhere"), [("v", 1)], "task")
    [outcome] = copied(peer, ours)
    assert (outcome.state, outcome.orphans) == ("copied", 1)
    assert states(copied(peer, ours)) == {"there already"}


def test_a_value_that_changed_under_an_old_version_is_copied_as_it_stands(tmp_path: Path) -> None:
    source, target = InMemorySaver(), InMemorySaver()
    first = source.put(config(), checkpoint({"a": 1, "b": "x" * 999}), {}, {"a": 1, "b": 1})
    source.put(first, checkpoint({"a": 2, "b": "y" * 999}, {"a": 1, "b": 1}), {}, {"a": 1, "b": 1})
    reader, writer = OwnTarget("source", source), OwnTarget("target", target)
    assert states(list(migrate(reader, writer, ["t"]))) == {"copied"}
    assert [one.checkpoint["channel_values"]["a"] for one in target.list(config())] == [2, 1]


def test_what_only_our_savers_keep_comes_along(tmp_path: Path) -> None:
    source, target = InMemorySaver(), InMemorySaver()
    first = source.put(config(), checkpoint({"a": (1, {2})}), {"note": ("x",)}, {"a": 1})
    made = checkpoint({"a": 2}, {"a": 2})
    source.put_step(first, made, {}, {"a": 2}, [("t1", "~p", [("a", 2)]), ("t0", "~q", [])], shown_writes={"n": 1})
    writer = source.open_writer(config())
    writer.add(Step(config("t", made["id"]), writes=[("t9", "~a", [("a", 3)]), ("t1", "~b", [("a", 4)])]))
    writer.flush()
    assert states(list(migrate(OwnTarget("s", source), OwnTarget("t", target), ["t"]))) == {"copied"}
    one, other = source.get_tuple(config()), target.get_tuple(config())
    assert one == other
    assert one is not None
    assert other is not None
    assert one.shown_writes == other.shown_writes == {"n": 1}
    target.put_writes(config("t", made["id"]), [("a", 5)], "t5", "~aa")
    found = target.get_tuple(config())
    assert found is not None
    assert [write[2] for write in found.pending_writes or ()] == [3, 5, 4]


# -- the command -------------------------------------------------------------------------------------------------


def command(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "threadmark", "migrate", *arguments],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_threads_are_chosen_by_pattern_and_a_dry_run_makes_no_file(tmp_path: Path) -> None:
    peer = str(ROOT / "tests/wire/peer_0_2.db")
    before = Path(peer).read_bytes()
    done = command(peer, "ours.db", "--thread", "f*", "--dry-run", "--json", folder=tmp_path)
    told = json.loads(done.stdout)
    assert {one["thread_id"]: one["state"] for one in told["threads"]} == {
        "failed": "would be copied", "finished": "would be copied",
    }  # fmt: skip
    assert list(tmp_path.iterdir()) == []
    done = command(peer, "ours.db", "--thread", "f*", "--thread", "chain", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "3 threads: 3 copied" in done.stdout
    assert "all equal" in done.stdout
    assert Path(peer).read_bytes() == before
    assert sorted(path.name for path in Path(peer).parent.glob("peer_0_2.db*")) == ["peer_0_2.db"]


def test_a_pattern_that_no_thread_matches_is_named(tmp_path: Path) -> None:
    peer = str(ROOT / "tests/wire/peer_0_2.db")
    done = command(peer, "ours.db", "--thread", "Finished", "--json", folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "matches 'Finished'; `threadmark doctor` lists what there is" in done.stderr
    assert list(tmp_path.iterdir()) == []
    done = command(peer, "ours.db", "--thread", "Finished", "--thread", "chain", folder=tmp_path)
    assert done.returncode == 1
    assert "1 thread: 1 copied" in done.stdout
    assert "matches 'Finished'; `threadmark doctor` lists what there is" in done.stderr


@pytest.mark.parametrize("store", ["missing.db", "nowhere://u:secret@h/x"])
def test_a_store_that_cannot_be_opened_is_named_without_its_password(store: str, tmp_path: Path) -> None:
    done = command(store, "ours.db", folder=tmp_path)
    assert done.returncode == 1
    assert "threadmark:" in done.stderr
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_killed_migration_goes_on_where_it_was(tmp_path: Path) -> None:
    peer, ours = tmp_path / "peer.db", tmp_path / "ours.db"
    threads = 150
    with PeersSaver.from_conn_string(str(peer)) as saver:
        blobs = [PeersSerializer().dumps_typed(checkpoint({"v": ["word"] * 50}, id=f"{m:04}")) for m in range(8)]
        rows = [(f"{n:04}", f"{m:04}", f"{m - 1:04}" if m else None) for n in range(threads) for m in range(8)]
        saver.setup()
        saver.conn.executemany(
            "INSERT INTO checkpoints VALUES (?, '', ?, ?, ?, ?, '{}')", [(*row, *blobs[int(row[1])]) for row in rows]
        )
        saver.conn.commit()
    kills = 0
    for _ in range(5):
        process = subprocess.Popen([sys.executable, "-m", "threadmark", "migrate", str(peer), str(ours), "--json"],
                                   stdout=subprocess.DEVNULL)  # fmt: skip
        before = _there(ours)
        deadline = time.monotonic() + 60
        while _there(ours) <= before and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(random.random() * 0.2)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
        if _there(ours) == threads:
            break
        for thread, count in _counts(ours):
            assert count == 8, f"thread {thread} is there by half"
    assert kills > 0
    assert states(copied(peer, str(ours))) <= {"copied", "there already"}
    assert states(copied(peer, str(ours))) == {"there already"}
    assert _there(ours) == threads


def _counts(path: Path) -> Iterator[tuple[str, int]]:
    with SqliteSaver.from_conn_string(str(path)) as saver:
        for info in saver.list_threads():
            yield info.thread_id, info.checkpoints


def _there(path: Path) -> int:
    return sum(1 for _ in _counts(path)) if path.exists() else 0


def test_the_source_may_be_a_copy_that_nobody_can_write(tmp_path: Path) -> None:
    peer = tmp_path / "sealed" / "peer.db"
    peer.parent.mkdir()
    shutil.copy(ROOT / "tests/wire/peer_1_0.db", peer)
    peer.chmod(0o444)
    assert states(copied(peer, str(tmp_path / "ours.db"))) == {"copied"}
    assert [path.name for path in peer.parent.iterdir()] == ["peer.db"]
