"""Servers started on a free loopback port and stopped by their process id. CPU and memory come from Linux."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.error import URLError

from benchmarks import THREAD_VARIABLES

START_SECONDS: Final = 90.0
ANSWER_SECONDS: Final = 150.0
SEAL: Final = {"PRIVACY_BOUNDS_SEAL_KEY": "one key for all that share a Redis"}
SERVICE: Final = (str(Path(sys.executable).with_name("privacy-bounds")), "serve", "--port")
SAMPLED_SERVICE: Final = (sys.executable, "-m", "benchmarks.http.sampled_service")
BASELINE: Final = (sys.executable, "-m", "benchmarks.http.baseline")


@dataclass(frozen=True)
class Server:
    """Running server of a benchmark: its port and its process id."""

    port: int
    pid: int

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of the server process, without its workers."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_megabytes(self) -> float:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def post(self, body: bytes) -> bytes:
        asked = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v1/bounds", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(asked, timeout=ANSWER_SECONDS) as answer:
            read: bytes = answer.read()
            return read


@contextmanager
def running(command: Sequence[str], *arguments: str, settings: dict[str, str] | None = None) -> Generator[Server]:
    """Run the command of a server with a free port and the arguments, and yield the server.

    `settings` are environment variables of the service.
    """
    port = free_port()
    # As deployed: the thread settings for numbers measured in this process are not passed on.
    environment = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
    process = subprocess.Popen(
        [*command, str(port), *arguments],
        env=environment | SEAL | (settings or {}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_until_it_answers(process, port)
        yield Server(port, process.pid)
    finally:
        process.terminate()
        process.wait(timeout=START_SECONDS)


def free_port() -> int:
    """Return a loopback port without a listener."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_it_answers(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=5):
                return
        except (URLError, ConnectionError):
            time.sleep(0.05)
    raise RuntimeError(f"no server on port {port}")
