"""A service in a process of its own, for end-to-end tests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TextIO

import httpx2
import psutil

from service.server.serve import UNABLE_TO_LISTEN_EXIT_CODE
from tests.conftest import port_of, reserved_port
from tests.timeouts import TEST_TIMEOUT

POST = b"POST /v1/bounds HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


@contextmanager
def running_server(directory: Path, *killed: int, command: str = "", **settings: str) -> Generator[httpx2.Client]:
    """Run `privacy-bounds serve` in a process of its own, and yield a client.

    `killed` lists the expected exit codes besides those of SIGTERM. `command` holds further arguments.
    """
    settings = {"data_folder": str(directory / "data"), **settings}
    environment = os.environ | {f"PRIVACY_BOUNDS_{name.upper()}": value for name, value in settings.items()}
    with (directory / "server.log").open("w") as log:
        process, client = started(command.split(), environment, log)
        client.process_id = process.pid  # type: ignore[attr-defined]
        try:
            yield client
        finally:
            client.close()
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=TEST_TIMEOUT) in (0, -signal.SIGTERM, *killed)


def started(
    arguments: list[str], environment: dict[str, str], log: TextIO
) -> tuple[subprocess.Popen[bytes], httpx2.Client]:
    """Start a service and wait until it is live. If another process took the port first, another port is used."""
    while True:
        with closing(reserved_port()) as place:
            port = port_of(place)
            process = subprocess.Popen(
                [sys.executable, "-m", module_of(environment), "serve", "--port", str(port), *arguments],
                env=environment,
                stdout=log,
                stderr=log,
            )
            client = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=TEST_TIMEOUT)
            try:
                if is_live(client, process):
                    return process, client
            except BaseException:
                process.kill()
                process.wait()
                raise
        client.close()
        assert process.wait() == UNABLE_TO_LISTEN_EXIT_CODE, "the server ended"
        log.seek(0)
        log.truncate()


def module_of(environment: Mapping[str, str]) -> str:
    """Return the module of the program: with TESTED_VERSION, that of another version of it (`versioned.py`)."""
    return "tests.system.versioned" if "TESTED_VERSION" in environment else "service.cli"


def is_live(client: httpx2.Client, process: subprocess.Popen[bytes]) -> bool:
    """Wait until the service answers, and return True, or False if it ended."""
    deadline = time.monotonic() + TEST_TIMEOUT
    while process.poll() is None:
        assert time.monotonic() < deadline
        if is_listening(process.pid, int(client.base_url.port or 0)):
            try:
                if client.get("/livez").status_code == 200:
                    return True
            except httpx2.TransportError:
                pass
        time.sleep(0.05)
    return False


def is_listening(process: int, port: int) -> bool:
    """Return whether this process listens on the port, and not another one that was given the same port."""
    try:
        found = psutil.Process(process).net_connections("tcp")
    except psutil.Error:
        return False
    return any(each.status == psutil.CONN_LISTEN and each.laddr.port == port for each in found)


def connect(client: httpx2.Client, address: str = "127.0.0.1", buffer: int | None = None) -> socket.socket:
    """Open a connection from an address of the loopback network. Different addresses are different clients."""
    connection = socket.socket()
    if buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.bind((address, 0))
    connection.settimeout(TEST_TIMEOUT)
    connection.connect((client.base_url.host, client.base_url.port))
    return connection
