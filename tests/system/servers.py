"""A service in a process of its own, for tests that talk to the real thing."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from tests.conftest import free_port

PATIENCE = 60.0
"""Seconds after which a test is given up."""
POST = b"POST /v1/bounds HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@contextmanager
def served(directory: Path, *killed: int, command: str = "", **settings: str) -> Generator[httpx2.Client]:
    """`privacy-bounds serve` in a process of its own, with a client that talks to it.

    `killed`: exit codes that are meant, beside those of SIGTERM. `command`: further arguments.
    """
    port = free_port()
    settings = {"data_folder": str(directory / "data"), **settings}
    environment = os.environ | {f"PRIVACY_BOUNDS_{name.upper()}": value for name, value in settings.items()}
    with (directory / "server.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "service.cli", "serve", "--port", str(port), *command.split()],
            env=environment,
            stdout=log,
            stderr=log,
        )
        client = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=240)
        client.process_id = process.pid  # type: ignore[attr-defined]
        try:
            wait_until_live(client, process)
            yield client
        finally:
            client.close()
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=30) in (0, -signal.SIGTERM, *killed)


def wait_until_live(client: httpx2.Client, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            if client.get("/livez").status_code == 200:
                return
        except httpx2.TransportError:
            assert process.poll() is None, "the server ended"
            assert time.monotonic() < deadline
            time.sleep(0.05)


def connect(client: httpx2.Client, address: str = "127.0.0.1", buffer: int | None = None) -> socket.socket:
    """A connection from an address of the loopback network, which are many clients."""
    connection = socket.socket()
    if buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.bind((address, 0))
    connection.settimeout(PATIENCE)
    connection.connect((client.base_url.host, client.base_url.port))
    return connection
