"""TLS in front of a server that has none: ends it, and hands plain bytes on."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.services.certificates import certificate
from tests.services.process import folder

_SSL_REQUEST = struct.pack("!2i", 8, 80877103)


class Front(NamedTuple):
    """Where TLS is spoken, and the file of the authority that a client has to trust."""

    port: int
    authority: Path


@contextmanager
def tls(port: int, *, postgres: bool = False) -> Iterator[Front]:
    """TLS for a local port; ``postgres`` begins as PostgreSQL does, with a question and an ``S``."""
    with folder("tls") as place, socket.create_server(("127.0.0.1", 0)) as listener:
        key, made = certificate()
        (place / "certificate.pem").write_bytes(made)
        (place / "both.pem").write_bytes(key + made)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(place / "both.pem")

        def serve(client: socket.socket) -> None:
            try:
                if postgres:
                    if client.recv(8, socket.MSG_WAITALL) != _SSL_REQUEST:
                        return  # whoever does not ask for TLS is not served
                    client.sendall(b"S")
                with (
                    context.wrap_socket(client, server_side=True) as secret,
                    socket.create_connection(("127.0.0.1", port)) as server,
                ):
                    _pass_both(secret, server)
            except OSError:  # a client that does not trust us says so
                pass
            finally:
                client.close()

        def accept() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(client,), daemon=True).start()

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        yield Front(listener.getsockname()[1], place / "certificate.pem")
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join()


def _pass_both(secret: ssl.SSLSocket, server: socket.socket) -> None:
    """Hand on until one side is through. One thread writes to the secret side, the other reads from it."""

    def answers() -> None:
        try:
            while data := server.recv(1 << 16):
                secret.sendall(data)
        except OSError:
            pass

    answering = threading.Thread(target=answers, daemon=True)
    answering.start()
    while data := secret.recv(1 << 16):
        server.sendall(data)
    server.shutdown(socket.SHUT_RDWR)
    answering.join()
