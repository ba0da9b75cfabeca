"""A server on a real socket that sends exactly the bytes of a script, right or wrong."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field

from typing_extensions import override

Script = Callable[["FaultyServer", int], Iterable[bytes]]
"""Pieces of the answer to the request with this number, from 0. The connection is closed after the last piece if the
script raises `Closed`, and otherwise kept.
"""


class Closed(Exception):
    """Raised by a script that ends the connection."""


@dataclass
class FaultyServer:
    """Scripted server: what it received, and how many connections were opened."""

    script: Script
    requests: list[bytes] = field(default_factory=list[bytes])
    connections: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    stopped: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def serve(self, listener: socket.socket) -> None:
        while not self.stopped.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with self.lock:
                self.connections += 1
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(30)
        with connection:
            try:
                while request := read_request(connection):
                    with self.lock:
                        number = len(self.requests)
                        self.requests.append(request)
                    for piece in self.script(self, number):
                        connection.sendall(piece)
            except (Closed, OSError):
                pass

    @override
    def __repr__(self) -> str:
        return f"FaultyServer({self.url}, {len(self.requests)} requests)"


def read_request(connection: socket.socket) -> bytes:
    """Read one request, headers and body. Return nothing if the client has closed the connection."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = connection.recv(65_536)
        if not piece:
            return b""
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    length = next(
        (int(line.partition(b":")[2]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
    )
    while len(body) < length:
        body += connection.recv(65_536)
    return head + b"\r\n\r\n" + body


@contextmanager
def faulty_server(script: Script) -> Generator[FaultyServer]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = FaultyServer(script, port=listener.getsockname()[1])
        thread = threading.Thread(target=server.serve, args=(listener,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.stopped.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def answer(status: int, body: bytes = b"", media_type: str = "application/json", **headers: str) -> bytes:
    """Return a complete response. Underscores in names of headers stand for hyphens."""
    lines = [f"HTTP/1.1 {status} X", f"Content-Type: {media_type}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def always(*pieces: bytes, close: bool = False) -> Script:
    """Return a script that sends these pieces for every request."""

    def script(_: FaultyServer, __: int) -> Iterable[bytes]:
        yield from pieces
        if close:
            raise Closed

    return script


def in_turn(*answers: bytes) -> Script:
    """Return a script with one response for each request, and the last one for all later requests."""

    def script(_: FaultyServer, number: int) -> Iterable[bytes]:
        yield answers[min(number, len(answers) - 1)]

    return script
