"""The tests' own proxy does to a connection what it says."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.services.proxy import Proxy, proxy


def _echo(listening: socket.socket) -> None:
    while True:
        try:
            conn, _ = listening.accept()
        except OSError:
            return
        threading.Thread(target=_answer, args=(conn,), daemon=True).start()


def _answer(conn: socket.socket) -> None:
    with conn:
        try:
            while data := conn.recv(1 << 16):
                conn.sendall(data)
        except OSError:
            return


@pytest.fixture
def fault() -> Iterator[Proxy]:
    """A proxy in front of a server that says everything back."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_echo, args=(listening,), daemon=True).start()
        with proxy(listening.getsockname()[1]) as made:
            yield made
        listening.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def client(fault: Proxy) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", fault.port), timeout=60) as conn:
        conn.sendall(b"hello")
        assert _all(conn, 5) == b"hello"
        yield conn


def _all(conn: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        data = conn.recv(size - len(found))
        if not data:
            break
        found += data
    return found


def test_everything_passes(client: socket.socket, fault: Proxy) -> None:
    client.sendall(b"x" * 300_000)
    assert _all(client, 300_000) == b"x" * 300_000
    assert fault.opened == 1
    assert fault.asked > 1


def test_latency(client: socket.socket, fault: Proxy) -> None:
    fault.latency = 0.05
    began = time.monotonic()
    client.sendall(b"a")
    assert _all(client, 1) == b"a"
    assert time.monotonic() - began >= 0.1


def test_a_reset_cuts_what_is_open(client: socket.socket, fault: Proxy) -> None:
    fault.reset()
    with pytest.raises(ConnectionError):
        client.recv(1)


def test_a_reset_in_the_middle_of_an_answer(client: socket.socket, fault: Proxy) -> None:
    fault.answer_limit = 3
    client.sendall(b"answer")
    found, cut = b"", False
    while not cut and len(found) < 6:
        try:
            found += client.recv(1)
        except ConnectionError:
            cut = True
    assert cut
    assert found in (b"", b"ans")


def test_silence(client: socket.socket, fault: Proxy) -> None:
    fault.silent = True
    client.settimeout(0.2)
    client.sendall(b"a")
    with pytest.raises(TimeoutError):
        client.recv(1)


def test_refusing(client: socket.socket, fault: Proxy) -> None:
    fault.refusing = True
    found = b""
    try:
        with socket.create_connection(("127.0.0.1", fault.port), timeout=60) as other:
            found = other.recv(1)
    except ConnectionError:
        pass
    assert (found, fault.opened) == (b"", 1)
    client.sendall(b"a")
    assert _all(client, 1) == b"a"
