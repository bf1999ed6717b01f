"""Opening the savers of Cosmos DB: who is let in, which containers are taken, loops, threads and forks."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from azure.core.credentials import AccessToken
from azure.cosmos import CosmosClient, PartitionKey

from tests.conftest import Call
from tests.services.cosmos_fake import TOKEN
from tests.services.cosmosdb import ROOT, Account, account
from threadmark.checkpoint.conformance.kit import Grown, checkpoint, config, filled
from threadmark.checkpoint.cosmosdb import CosmosDBSaver, CosmosDBSaverSync
from threadmark.checkpoint.open import open_saver
from threadmark.errors import ColourError, ForeignDatabase, SaverError


def call(saver: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    found = getattr(saver, name)(*args, **kwargs)
    return list(found) if name == "list" else found


def works(saver: Any) -> None:
    """A saver that can be written and read."""
    grown = Grown(saver, call, f"t{uuid4().hex}")
    grown.put({"a": 1})
    assert grown.values() == {"a": 1}


unchecked = pytest.mark.filterwarnings("ignore:Unverified HTTPS request")


class Identity:
    """A token credential of the fake's directory, of either colour."""

    def __init__(self, token: str = TOKEN) -> None:
        self.token = token

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        return AccessToken(self.token, int(time.time()) + 3600)


class AwaitedIdentity(Identity):
    async def get_token(self, *scopes: str, **options: Any) -> AccessToken:  # type: ignore[override]
        return super().get_token(*scopes, **options)

    async def close(self) -> None: ...

    async def __aenter__(self) -> AwaitedIdentity:
        return self

    async def __aexit__(self, *exc: object) -> None: ...


# -- who is let in ---------------------------------------------------------------------------------------------------


def test_names_endpoint_and_key(cosmos: Account) -> None:
    with CosmosDBSaverSync(**cosmos.names()) as saver:
        works(saver)


def test_the_environment_says_what_is_left_out(cosmos: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="COSMOSDB_ENDPOINT"):
        CosmosDBSaverSync("d", "c")
    names = cosmos.names()
    monkeypatch.setenv("COSMOSDB_ENDPOINT", names["endpoint"])
    monkeypatch.setenv("COSMOSDB_KEY", names["key"])
    with CosmosDBSaverSync(database_name=names["database_name"], container_name=names["container_name"]) as saver:
        works(saver)


def url_of(cosmos: Account, container: str) -> str:
    """The URL of a container."""
    host = cosmos.endpoint.partition("://")[2].strip("/")
    scheme = "cosmosdb" if cosmos.endpoint.startswith("https") else "cosmosdb+http"
    return f"{scheme}://{host}/{cosmos.database}/{container}?key={cosmos.key.replace('=', '%3D')}"


def test_conn_info_and_conn_string(cosmos: Account) -> None:
    with CosmosDBSaverSync.from_conn_info(**cosmos.names()) as saver:
        works(saver)
    with CosmosDBSaverSync.from_conn_string(cosmos.conn_string()) as saver:
        works(saver)
    with open_saver(url_of(cosmos, "by-url")) as saver:
        assert isinstance(saver, CosmosDBSaverSync)
        works(saver)


def test_a_saver_that_only_reads(cosmos: Account, call: Call) -> None:
    url = url_of(cosmos, f"read-{call.colour}")
    kind = CosmosDBSaverSync if call.colour == "sync" else CosmosDBSaver
    reader = kind.open_read_only(url)
    for name in ("get_tuple", "list"):
        with pytest.raises(ForeignDatabase, match="no thread was ever saved in container"):
            call(reader, name, config())
    with open_saver(url) as saver:
        at = saver.put(config(), checkpoint({"a": 1}), {}, {"a": 1})
    assert call(reader, "get_tuple", config()).config == at
    made = checkpoint({"a": 2})
    for write in (("put", at, made, {}, {"a": 2}), ("put_writes", at, [("a", 2)], "t"), ("delete_thread", "t")):
        with pytest.raises(SaverError, match="read only"):
            call(reader, *write)
    call(reader, "close")
    with open_saver(url, read_only=True) as other:
        assert [item.config for item in other.list(config())] == [at]


@pytest.fixture(scope="module")
def over_tls() -> Iterator[Account]:
    """The SDK sends a token over TLS only."""
    with account(tls=True, real=False) as found:
        yield found


@unchecked
def test_an_identity_in_the_place_of_a_key(over_tls: Account) -> None:
    names = over_tls.names() | {"key": None}
    with CosmosDBSaverSync(**names, credential=Identity()) as saver:
        works(saver)
    with (
        CosmosDBSaverSync(**names, credential=Identity("stolen")) as saver,
        pytest.raises(SaverError, match="role") as caught,
    ):
        works(saver)
    assert "stolen" not in str(caught.value)


@unchecked
def test_an_identity_on_a_loop(over_tls: Account) -> None:
    async def main() -> None:
        async with CosmosDBSaver(**over_tls.names() | {"key": None}, credential=AwaitedIdentity()) as saver:
            at = await saver.aput(config(), checkpoint({"a": 1}), {}, {"a": 1})
            assert await saver.aget_tuple(at) is not None

    asyncio.run(main())


@unchecked
def test_without_either_it_is_the_default_identity(over_tls: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    import azure.identity
    import azure.identity.aio

    monkeypatch.setattr(azure.identity, "DefaultAzureCredential", Identity)
    monkeypatch.setattr(azure.identity.aio, "DefaultAzureCredential", AwaitedIdentity)
    names = over_tls.names() | {"key": None}
    with CosmosDBSaverSync(**names) as saver:
        works(saver)

    async def main() -> None:
        async with CosmosDBSaver.from_conn_info(**names) as saver:
            await saver.setup()

    asyncio.run(main())


def test_identities_are_imported_when_they_are_needed() -> None:
    code = "import sys, threadmark.checkpoint.cosmosdb; print('azure.identity' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_without_the_sdk_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['azure.cosmos'] = None; import threadmark.checkpoint.cosmosdb"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'threadmark[cosmosdb]'" in done.stderr


def test_a_wrong_key_is_refused_and_not_told(cosmos: Account) -> None:
    names = cosmos.names() | {"key": "aHVzaCBodXNo"}
    with CosmosDBSaverSync(**names) as saver, pytest.raises(SaverError, match="look at the key") as caught:
        saver.get_tuple(config())
    told = repr(saver) + repr(vars(saver._items)) + str(caught.value) + repr(caught.value.__cause__)
    assert "aHVzaCBodXNo" not in told


# -- which containers are taken --------------------------------------------------------------------------------------


@pytest.fixture
def client(cosmos: Account) -> Any:
    with CosmosClient(cosmos.endpoint, cosmos.key) as client:
        yield client


def made(client: Any, cosmos: Account, path: str = "/thread", **more: Any) -> Any:
    database = client.create_database_if_not_exists(cosmos.database)
    return database.create_container(f"made-{uuid4().hex[:8]}", PartitionKey(path), **more)


def on(cosmos: Account, container: Any) -> CosmosDBSaverSync:
    return CosmosDBSaverSync(**cosmos.names() | {"container_name": container.id})


def test_a_container_that_was_made_by_hand(cosmos: Account, client: Any) -> None:
    with on(cosmos, made(client, cosmos)) as saver:
        works(saver)


def test_a_container_that_is_partitioned_otherwise(cosmos: Account, client: Any) -> None:
    with on(cosmos, made(client, cosmos, "/partition_key")) as saver:
        with pytest.raises(ForeignDatabase, match="/partition_key, not by /thread"):
            saver.setup()
        with pytest.raises(ForeignDatabase):
            saver.put(config(), checkpoint({}), {}, {})


def test_a_container_with_a_hierarchical_key(cosmos: Account, client: Any) -> None:
    database = client.create_database_if_not_exists(cosmos.database)
    key = PartitionKey(["/tenant", "/thread"], kind="MultiHash")
    with (
        on(cosmos, database.create_container(f"made-{uuid4().hex[:8]}", key)) as saver,
        pytest.raises(ForeignDatabase, match="/tenant, /thread, not by /thread"),
    ):
        saver.setup()


def test_a_container_in_which_items_expire(cosmos: Account, client: Any) -> None:
    with on(cosmos, made(client, cosmos, default_ttl=60)) as saver, pytest.raises(SaverError, match="after 60 s"):
        saver.setup()
    with on(cosmos, made(client, cosmos, default_ttl=-1)) as saver:
        works(saver)


def test_an_item_that_is_not_ours(cosmos: Account, client: Any) -> None:
    container = made(client, cosmos)
    container.create_item({"id": "thread", "thread": "t", "kind": "head", "format": 99})
    with on(cosmos, container) as saver:
        for operation in (
            lambda: saver.put(config(), checkpoint({"a": 1}), {}, {"a": 1}),
            lambda: saver.get_tuple(config()),
            lambda: saver.delete_thread("t"),
        ):
            with pytest.raises(ForeignDatabase, match="99"):
                operation()
    assert container.read_item("thread", "t")["format"] == 99


def test_setup_by_several_at_once(cosmos: Account) -> None:
    names = cosmos.names() | {"database_name": f"db-{uuid4().hex[:8]}"}
    savers = [CosmosDBSaverSync(**names) for _ in range(4)]
    threads = [threading.Thread(target=saver.setup) for saver in savers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for saver in savers:
        works(saver)
        saver.close()
    with CosmosClient(cosmos.endpoint, cosmos.key) as client:
        client.delete_database(names["database_name"])


def test_a_container_that_somebody_removes(cosmos: Account, client: Any) -> None:
    container = made(client, cosmos)
    with on(cosmos, container) as saver:
        works(saver)
        client.get_database_client(cosmos.database).delete_container(container.id)
        with pytest.raises(SaverError, match="setup"):
            saver.get_tuple(config())


@pytest.mark.parametrize(
    ("regions", "level", "why"),
    [
        (["west", "east"], "Session", "2 regions"),
        (["here"], "Eventual", "Eventual"),
        (["here"], "ConsistentPrefix", "Con"),
    ],
)
def test_an_account_in_which_two_may_win(fake: Account, regions: list[str], level: str, why: str) -> None:
    fake.arrange(regions=regions, level=level)
    try:
        with CosmosDBSaverSync(**fake.names()) as saver, pytest.raises(SaverError, match=why):
            saver.get_tuple(config())

        async def main() -> None:
            async with CosmosDBSaver(**fake.names()) as saver:
                with pytest.raises(SaverError, match=why):
                    await saver.setup()

        asyncio.run(main())
    finally:
        fake.arrange(regions=["here"], level="Session")


def test_a_container_that_was_handed_in(cosmos: Account, client: Any) -> None:
    container = made(client, cosmos)
    with CosmosDBSaverSync(container=container) as saver:
        works(saver)
    assert container.read()["id"] == container.id  # its client is still open


# -- closing, loops, threads, forks ----------------------------------------------------------------------------------


def test_a_closed_saver_says_so(cosmos: Account) -> None:
    saver = CosmosDBSaverSync(**cosmos.names())
    works(saver)
    for _ in range(2):
        saver.close()
    with pytest.raises(SaverError, match="closed"):
        saver.get_tuple(config())


def test_a_container_of_the_asynchronous_client(cosmos: Account) -> None:
    from azure.cosmos.aio import CosmosClient as AsyncClient

    names = cosmos.names()
    kept = []

    async def main() -> None:
        async with AsyncClient(cosmos.endpoint, cosmos.key) as client:
            database = await client.create_database_if_not_exists(cosmos.database)
            container = await database.create_container(names["container_name"], PartitionKey("/thread"))
            saver = CosmosDBSaver(container)
            at = await saver.aput(config(), checkpoint({"a": 1}), {}, {"a": 1})
            assert await saver.aget_tuple(at) is not None
            await saver.aclose()
            assert (await container.read())["id"] == container.id
            kept.append(CosmosDBSaver(container))
            assert await kept[0].aget_tuple(at) is not None

    asyncio.run(main())
    with pytest.raises(ColourError, match="from_conn_info"):
        asyncio.run(kept[0].aget_tuple(config()))


# The sockets of a loop that has ended can be closed by nobody.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_one_loop_after_the_other(cosmos: Account) -> None:
    saver = CosmosDBSaver(**cosmos.names())

    async def put(number: int) -> Any:
        return await saver.aput(config(), checkpoint({"a": number}), {"step": number}, {"a": 1})

    for number in range(3):
        asyncio.run(put(number))

    async def steps() -> list[Any]:
        found = [item.metadata["step"] async for item in saver.alist(config())]
        await saver.aclose()
        return found

    assert asyncio.run(steps()) == [2, 1, 0]
    gc.collect()


def test_blocking_methods_of_a_saver_on_a_loop(cosmos: Account) -> None:
    async def main() -> None:
        async with CosmosDBSaver(**cosmos.names()) as saver:
            with pytest.raises(ColourError, match="await"):
                saver.get_tuple(config())
            at = await saver.aput(config(), checkpoint({"a": 1}), {}, {"a": 1})
            found = await asyncio.to_thread(saver.get_tuple, at)
            assert found is not None
            assert await asyncio.to_thread(lambda: len(list(saver.list(config())))) == 1

    asyncio.run(main())


def test_a_cancelled_call_is_finished_first(cosmos: Account) -> None:
    async def main() -> None:
        async with CosmosDBSaver(**cosmos.names()) as saver:
            await saver.setup()
            task = asyncio.ensure_future(saver.aput(config(), checkpoint({"a": 1}), {}, {"a": 1}))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await saver.aget_tuple(config()) is not None
            assert saver._items._turns._locks == {}

    asyncio.run(main())


FORK = """
    import os, sys
    sys.path.insert(0, {root!r})
    from threadmark.checkpoint.conformance.kit import checkpoint, config
    from threadmark.checkpoint.cosmosdb import CosmosDBSaverSync

    saver = CosmosDBSaverSync.from_conn_string(sys.argv[1])
    saver.put(config("parent"), checkpoint(dict(a=1)), {{}}, dict(a=1))
    child = os.fork()
    for number in range(5):
        saver.put(config("parent" if child else "child"), checkpoint(dict(a=number)), {{}}, dict(a=1))
    if child:
        assert os.waitpid(child, 0)[1] == 0
        print(len(list(saver.list(config("parent")))), len(list(saver.list(config("child")))))
    """


def test_a_forked_child_goes_on(cosmos: Account) -> None:
    import textwrap

    code = textwrap.dedent(FORK).format(root=str(ROOT))
    done = subprocess.run(
        [sys.executable, "-c", code, cosmos.conn_string()], capture_output=True, text=True, check=False, env=os.environ
    )
    assert (done.stdout, done.returncode) == ("6 5\n", 0), done.stderr


# -- odd names -------------------------------------------------------------------------------------------------------

NAMES = [
    "a/b",
    "a\\b",
    "a?b=1",
    "a#b",
    " ends with a blank ",
    "ü€😀",
    "\0\n\t",
    "'quoted\"",
    "x" * 255,
    "x" * 256,
    "x" * 9999,
]


def test_threads_and_namespaces_of_any_name(cosmos: Account) -> None:
    with CosmosDBSaverSync(**cosmos.names()) as saver:
        names = [*NAMES, "x" * 255 + "y", "é" * 400, "é" * 400 + "!"]
        for number, name in enumerate(names):
            at = config(name, ns=name)
            at = call(saver, "put", at, checkpoint({"n": number}, id=f"{number:03}"), {"run_id": name}, {"n": 1})
            call(saver, "put_writes", at, [(name, number)], name, name)
        for number, name in enumerate(names):
            found = call(saver, "get_tuple", config(name, ns=name))
            assert found.checkpoint["channel_values"] == {"n": number}
            assert found.pending_writes == [(name, name, number)]
            assert len(call(saver, "list", config(name, ns=None))) == 1
        assert sorted(saver.thread_ids()) == sorted(names)
        assert {line.thread_id: line.namespaces for line in saver.list_threads()} == {name: (name,) for name in names}
        saver.delete_for_runs([names[3], names[-1]])
        assert len(call(saver, "list", None)) == len(names) - 2
        for name in names:
            saver.delete_thread(name)
        assert saver.thread_ids() == []


def test_many_namespaces(cosmos: Account) -> None:
    with CosmosDBSaverSync(**cosmos.names()) as saver:
        heads = {f"child:{n}": filled(saver, call, ns=f"child:{n}", count=2).config for n in range(20)}
        heads[""] = filled(saver, call, count=2).config
        with CosmosDBSaverSync(**cosmos.names() | {"container_name": saver._items._address.container}) as other:  # type: ignore[union-attr]
            for ns, at in heads.items():
                assert call(other, "get_tuple", config(ns=ns)).config == at
            assert call(other, "get_tuple", config(ns="never")) is None
            older = checkpoint({"rows": []}, id="0")
            call(other, "put", config(ns="child:3"), older, {}, {})
            assert call(saver, "get_tuple", config(ns="child:3")).config == heads["child:3"]
            call(saver, "prune", ["t"])
            for ns, at in heads.items():
                assert call(other, "get_tuple", config(ns=ns)).config == at
