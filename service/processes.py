"""`privacy-bounds serve --workers N`: several processes that accept from one socket, and one that looks after them.

Each is a service of its own, with its own worker processes; results, leases and jobs are shared as by any instances:
through Redis, and the data folder. Without them, each finds results in the memory of the others (`siblings.py`), and
keeps jobs in a temporary folder of all. Their metrics are added up (the multi-process mode of prometheus_client), so
that each of them tells the same.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, final

from service.execution.siblings import FOLDER_VARIABLE

METRICS_FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
LOOKED_AFTER_SECONDS: Final = 0.2
SHORTEST_LIFE_SECONDS: Final = 5.0
"""Who ends sooner did not start; when one does so in spite of all attempts, all end."""
ATTEMPTS: Final = 3
PATIENCE_SECONDS: Final = 10.0
"""After the time that requests under way have when the service ends."""


@final
class Processes:
    """So many processes on one socket."""

    def __init__(self, count: int, listening: socket.socket, shutdown_seconds: float, metrics_folder: Path) -> None:
        self._count = count
        self._listening = listening
        self._shutdown_seconds = shutdown_seconds
        self._environment = os.environ | {METRICS_FOLDER: str(metrics_folder)}
        self._running: dict[subprocess.Popen[bytes], float] = {}
        self._failed = 0
        self._ending = False

    def run(self) -> int:
        """Until a signal comes; the exit code of who cannot start, else 0."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        code = 0
        while not self._ending:
            while len(self._running) < self._count:
                self._start()
            time.sleep(LOOKED_AFTER_SECONDS)
            code = self._bury()
            if self._failed >= ATTEMPTS:
                self._end()
        self._wait()
        return code if self._failed >= ATTEMPTS else 0

    def _end(self, *_: object) -> None:
        self._ending = True

    def _start(self) -> None:
        descriptor = self._listening.fileno()
        command = [sys.executable, "-m", "service.cli", "serve", "--socket", str(descriptor)]
        process = subprocess.Popen(command, env=self._environment, pass_fds=(descriptor,))  # noqa: S603 - ourselves
        self._running[process] = time.monotonic()

    def _bury(self) -> int:
        """Forget who has ended; the last exit code."""
        code = 0
        for process in [each for each in self._running if each.poll() is not None]:
            code = process.returncode
            early = time.monotonic() - self._running.pop(process) < SHORTEST_LIFE_SECONDS and code > 0
            self._failed = self._failed + 1 if early else 0
        return code

    def _wait(self) -> None:
        for process in self._running:
            process.send_signal(signal.SIGTERM)
        until = time.monotonic() + self._shutdown_seconds + PATIENCE_SECONDS
        for process in self._running:
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def serve_with(count: int, host: str, port: int, shutdown_seconds: float) -> int:
    """Serve with so many processes until a signal comes. Raises OSError where nobody can listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    folder = Path(tempfile.mkdtemp(prefix="privacy-bounds-metrics-"))
    os.environ[METRICS_FOLDER] = str(folder)
    together = folder / "processes"
    together.mkdir(mode=0o700)
    os.environ[FOLDER_VARIABLE] = str(together)
    try:
        with socket.create_server((host, port), family=family, backlog=2048) as listening:
            listening.set_inheritable(True)
            return Processes(count, listening, shutdown_seconds, folder).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
