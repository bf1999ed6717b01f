"""Which store a name means, and that a store of the other engine, or no store at all, is never written."""

from __future__ import annotations

import os
import pwd
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver as PeersPostgres
from langgraph.checkpoint.sqlite import SqliteSaver as PeersSaver

from tests.interop.test_migrate import STRICT, copied, states
from tests.services.postgres import Postgres
from tests.services.process import folder, free_port
from threadmark.checkpoint.conformance.kit import checkpoint, config
from threadmark.checkpoint.memory import InMemorySaver
from threadmark.checkpoint.postgres import PostgresSaver
from threadmark.checkpoint.sqlite import SqliteSaver
from threadmark.errors import ForeignDatabase, SaverError
from threadmark.interop.langgraph import as_langgraph_saver
from threadmark.interop.listed import check_listed
from threadmark.interop.stores import check_pair, named, open_source, open_target

pytestmark = pytest.mark.filterwarnings("ignore::Warning")


def put(saver: Any, thread: str) -> None:
    saver.put(config(thread), checkpoint({"v": thread}), {}, {"v": 1})


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    with PeersSaver.from_conn_string(str(tmp_path / "theirs.db")) as saver:
        put(saver, "theirs")
    return tmp_path / "theirs.db"


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    with SqliteSaver.from_conn_string(str(tmp_path / "ours.db")) as saver:
        put(saver, "ours")
    return tmp_path / "ours.db"


@pytest.fixture
def both_url(postgres_server: Postgres) -> Iterator[str]:
    """A database with a thread of each engine."""
    name = postgres_server.database()
    url = postgres_server.url(name)
    with PeersPostgres.from_conn_string(url) as saver:
        saver.setup()
        put(saver, "theirs")
    with PostgresSaver.from_conn_string(url) as own:
        put(own, "ours")
    yield url
    postgres_server.drop(name)


def command(name: str, *arguments: str, cwd: Path) -> str:
    """What a command that fails complains of."""
    done = subprocess.run([sys.executable, "-m", "threadmark", name, *arguments],
                          cwd=cwd, capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode > 0
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr + done.stdout
    return " ".join(done.stderr.split())


def threads_of(name: str) -> list[str]:
    with closing(open_source(name, STRICT)) as source:
        found: list[str] = source.thread_ids()
    return found


# -- files -----------------------------------------------------------------------------------------------------------


def test_a_target_without_a_prefix_is_ours_and_a_file_of_langgraphs_is_refused(theirs: Path, ours: Path) -> None:
    before = theirs.read_bytes()
    for name in (str(theirs), f"sqlite:///{theirs}", f"threadmark+sqlite:///{theirs}", f"file:{theirs}?mode=rwc"):
        with pytest.raises(ForeignDatabase, match=r"a file of LangGraph's.*name another file, or langgraph\+sqlite"):
            copied(ours, name)
    assert theirs.read_bytes() == before
    assert states(copied(ours, f"langgraph+sqlite:///{theirs}")) == {"copied"}
    assert threads_of(str(theirs)) == ["ours", "theirs"]


def test_a_file_of_ours_is_not_written_or_read_as_langgraphs(theirs: Path, ours: Path) -> None:
    before = ours.read_bytes()
    name = f"langgraph+sqlite:///{ours}"
    with pytest.raises(ForeignDatabase, match=r"is a file of Threadmark's.*Name another file"):
        copied(theirs, name)
    with pytest.raises(ForeignDatabase, match=r"is a file of Threadmark's.*without langgraph\+"):
        open_source(name, STRICT)
    with pytest.raises(ForeignDatabase, match=r"is a file of LangGraph's.*without threadmark\+"):
        open_source(f"threadmark+{theirs}", STRICT)
    assert "is a file of Threadmark's" in command("doctor", name, cwd=ours.parent)
    assert ours.read_bytes() == before
    assert threads_of(f"threadmark+sqlite:///{ours}") == threads_of(f"threadmark+{ours}") == ["ours"]


def test_a_store_is_not_copied_onto_itself(theirs: Path, ours: Path, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(ours)
    os.link(ours, tmp_path / "hard.db")
    for other in ("ours.db", "./link.db", "hard.db", f"sqlite:///{ours}", f"threadmark+{ours}", f"langgraph+{ours}"):
        assert "are the same store" in command("migrate", str(ours), other, cwd=tmp_path)
    assert "are the same store" in command("migrate", str(theirs), f"langgraph+{theirs}", "--dry-run", cwd=tmp_path)
    with pytest.raises(SaverError, match="the same store, redis://H:6379/0;"):
        check_pair("threadmark+redis://me:secret@h:6379/0", "redis://H:6379/0")
    check_pair("redis://h:6379/0", "redis://h:6379/1")
    check_pair(str(theirs), str(ours))


@pytest.mark.parametrize(
    "name", ["langgraph+", "langgraph+foo://u:secret@h/x", "langgraph+redis://:secret@h", "langgraph+:memory:",
             "threadmark+", "threadmark+foo://u:secret@h/x", "host=h password=secret", "postgresql:/u:secret@h/x"],
)  # fmt: skip
def test_a_name_that_means_no_store_is_refused_without_its_password(name: str, ours: Path) -> None:
    for call in (open_source, open_target):
        with pytest.raises((SaverError, ValueError)) as caught:
            call(name, STRICT)
        assert "secret" not in str(caught.value)
    command("migrate", str(ours), name, cwd=ours.parent)
    command("doctor", name, cwd=ours.parent)
    assert {one.name.removesuffix("-wal").removesuffix("-shm") for one in ours.parent.iterdir()} == {ours.name}


def test_langgraphs_files_that_cannot_be_used_are_told_in_our_words(ours: Path, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database " * 99)
    with closing(sqlite3.connect(tmp_path / "other.db")) as conn:
        conn.execute("CREATE TABLE mine (x)")
    for name, target, source in (
        ("text.db", "is not a SQLite database", "is not a SQLite database"),
        ("missing/theirs.db", "Look at its path", "is no file"),
        ("other.db", "", "holds no tables of LangGraph's"),
    ):
        told = f"langgraph+sqlite:///{tmp_path / name}"
        assert source in command("doctor", told, cwd=tmp_path)
        if target:
            assert target in command("migrate", str(ours), told, cwd=tmp_path)
    assert not (tmp_path / "missing").exists()


def test_a_file_of_langgraphs_that_nobody_may_write_is_told(theirs: Path, ours: Path) -> None:
    with folder("sealed") as sealed, closing(open_source(str(ours), STRICT)) as source:
        target = sealed / "theirs.db"
        with closing(sqlite3.connect(theirs)) as conn:
            conn.execute("PRAGMA journal_mode = DELETE")
        target.write_bytes(theirs.read_bytes())
        target.chmod(0o444)
        sealed.chmod(0o555)
        with _as_nobody(), pytest.raises(SaverError, match=r"theirs\.db cannot be written"):
            open_target(f"langgraph+sqlite:///{target}", STRICT)
        assert source.thread_ids() == ["ours"]
        sealed.chmod(0o755)


@contextmanager
def _as_nobody() -> Iterator[None]:
    """Rights of files hold for root, too."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)


# -- Postgres ----------------------------------------------------------------------------------------------------------


def test_a_database_with_both_stores_wants_to_know_which(both_url: str, tmp_path: Path) -> None:
    with pytest.raises(SaverError, match=r"langgraph\+postgresql://.*threadmark\+postgresql://"):
        open_source(both_url, STRICT)
    assert "holds both" in command("migrate", both_url, "new.db", cwd=tmp_path)
    assert "holds both" in command("doctor", both_url, cwd=tmp_path)
    assert threads_of(f"langgraph+{both_url}") == ["theirs"]
    assert threads_of(f"threadmark+{both_url}") == ["ours"]
    assert list(tmp_path.iterdir()) == []


def test_a_postgres_target_without_a_prefix_is_our_schema(postgres_server: Postgres, ours: Path) -> None:
    name = postgres_server.database()
    url = postgres_server.url(name)
    with PeersPostgres.from_conn_string(url) as saver:
        saver.setup()
        put(saver, "theirs")
    assert threads_of(url) == ["theirs"]
    assert states(copied(ours, url)) == {"copied"}
    assert threads_of(f"langgraph+{url}") == ["theirs"]
    assert threads_of(f"threadmark+{url}") == ["ours"]
    assert states(copied(f"langgraph+{url}", url)) == {"copied"}
    assert threads_of(f"threadmark+{url}") == ["ours", "theirs"]
    postgres_server.drop(name)


def test_the_same_database_is_known_however_it_is_spelt(both_url: str, postgres_server: Postgres) -> None:
    other = both_url.replace("postgresql://", "postgres://") + "?connect_timeout=9"
    for source, target in (
        (f"threadmark+{both_url}", other),
        (f"threadmark+{both_url}", f"threadmark+{other}"),
        (f"langgraph+{both_url}", f"langgraph+{other}"),
    ):
        with pytest.raises(SaverError, match="are the same store"):
            check_pair(source, target)
    check_pair(f"langgraph+{both_url}", other)
    check_pair(f"threadmark+{both_url}", f"langgraph+{other}")
    check_pair(f"threadmark+{both_url}", postgres_server.url())
    with PostgresSaver.from_conn_string(both_url) as saver, psycopg.connect(both_url, autocommit=True) as conn:
        assert saver.thread_ids()
        conn.execute("DROP SCHEMA threadmark CASCADE")
    with pytest.raises(SaverError, match=r"which is which: langgraph\+postgresql://"):
        check_pair(both_url, other)


def test_servers_that_do_not_let_us_in_are_told_without_the_password(
    both_url: str, postgres_server: Postgres, ours: Path
) -> None:
    with psycopg.connect(both_url, autocommit=True) as conn:
        conn.execute("CREATE ROLE guest LOGIN")
    place = both_url.partition("@")[2]
    server = place.partition("/")[0]
    for url, told in (
        (f"postgresql://u:secret@127.0.0.1:{free_port()}/x", "no server listens there"),
        (f"postgresql://postgres:secret@{server}/nowhere", "no such database"),
        (f"postgresql://nobody:se@secret@{server}/x", "write %40 for the @"),
        ("postgresql://u:secret@h:port/x", "cannot be used"),
    ):
        for name, call in ((f"langgraph+{url}", open_source), (f"langgraph+{url}", open_target), (url, open_source)):
            with pytest.raises(SaverError, match=told) as caught:
                call(name, STRICT)
            assert "secret" not in str(caught.value)
            assert caught.value.__cause__ is None
        assert told in command("migrate", str(ours), f"langgraph+{url}", cwd=ours.parent)
    with pytest.raises(SaverError, match="refused it: permission denied"):
        open_source(f"langgraph+postgresql://guest:secret@{place}", STRICT).thread("theirs")
    with psycopg.connect(both_url, autocommit=True) as conn:
        conn.execute("DROP ROLE guest")


def test_a_dry_run_makes_no_tables(postgres_server: Postgres, ours: Path, tmp_path: Path) -> None:
    name = postgres_server.database()
    url = postgres_server.url(name)
    (tmp_path / "empty.db").touch()
    with closing(sqlite3.connect(tmp_path / "other.db")) as conn:
        conn.execute("CREATE TABLE mine (x)")
    before = (tmp_path / "other.db").read_bytes()
    for target in (url, f"langgraph+{url}", "empty.db", "langgraph+empty.db", "langgraph+other.db"):
        done = subprocess.run([sys.executable, "-m", "threadmark", "migrate", str(ours), target, "--dry-run"],
                              cwd=tmp_path, capture_output=True, text=True, check=True)  # fmt: skip
        assert "1 would be copied" in done.stdout
    tables = "SELECT 1 FROM pg_class JOIN pg_namespace ON relnamespace = pg_namespace.oid WHERE nspname IN ('public', "
    assert postgres_server.run(f"{tables}'threadmark')", name) == []
    assert (tmp_path / "empty.db").stat().st_size == 0
    assert (tmp_path / "other.db").read_bytes() == before
    postgres_server.drop(name)


def test_a_database_without_langgraphs_tables_is_no_source(postgres_server: Postgres) -> None:
    with pytest.raises(ForeignDatabase, match="holds no tables of LangGraph's"):
        open_source(f"langgraph+{postgres_server.url()}", STRICT)


def test_names_are_taken_apart() -> None:
    found = named("langgraph+sqlite:///a.db")
    assert (found.whose, found.bare, found.path) == ("langgraph", "sqlite:///a.db", "a.db")
    assert named("file:a%20b.db?mode=ro").path == "a b.db"
    assert named("threadmark+mongodb://h/x").path is None


# -- lists of classes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "entry", ["nosuch.mod", "nosuch.mod:Name", "os:nope", "os:", ":Name", "", "os.nope", "json:JSONDecoder",
              ("os", "nope"), "tests.interop.graphs:Ordr", "tests.interop:graphs"],
)  # fmt: skip
def test_a_name_that_is_not_there_is_refused(entry: Any) -> None:
    with pytest.raises(ValueError, match="allow: ") as caught:
        as_langgraph_saver(InMemorySaver(), allow=[entry])
    assert repr(entry) in str(caught.value)


def test_a_mistyped_name_is_refused_by_the_commands(theirs: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'nosuch\.mod'"):
        as_langgraph_saver(as_langgraph_saver(InMemorySaver()), allow="nosuch.mod")
    assert "os:nope" in command("migrate", str(theirs), "new.db", "--allow", "os:nope", cwd=tmp_path)
    assert "nosuch.mod" in command("doctor", str(theirs), "--allow", "nosuch.mod", cwd=tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == [theirs.name]


def test_names_that_are_there_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_listed(["tests.interop.graphs", "tests.interop.graphs:Order", "tests.interop.graphs.Order", dict])
    check_listed([("tests.interop", "graphs", "Order"), ("tests.interop.graphs", "Order")])
    check_listed(True)
    check_listed("tests.interop.graphs")
    (tmp_path / "listing_itself.py").write_text(
        "from threadmark.interop.listed import check_listed\n"
        "check_listed(['listing_itself:Outer'])\n"
        "class Outer:\n    class Inner: pass\n"
    )
    (tmp_path / "broken_inside.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    check_listed(["listing_itself:Outer.Inner", "listing_itself:Inner"])
    with pytest.raises(ValueError, match="importing broken_inside failed: ZeroDivisionError"):
        check_listed(["broken_inside:Order"])
