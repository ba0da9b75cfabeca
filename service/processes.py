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
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from structlog.typing import FilteringBoundLogger

from service.execution.sibling_processes import FOLDER_VARIABLE

if TYPE_CHECKING:
    import socket

    from service.settings import Settings


METRICS_FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
LOOKED_AFTER_SECONDS: Final = 0.2
SHORTEST_LIFE_SECONDS: Final = 5.0
"""A process that ends sooner did not start, whatever its exit code or signal."""
ATTEMPTS: Final = 3
"""When so many processes in a row did not start and none ever did, the service ends."""
FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 30.0
PATIENCE_SECONDS: Final = 10.0
"""After the time that requests under way have when the service ends."""
SIGNAL_EXIT_CODE: Final = 128
"""A shell adds the number of the signal that ended a process."""


@final
class Processes:
    """Supervisor of `count` processes of one command. `stop_seconds`: how long they may take to end."""

    def __init__(
        self,
        count: int,
        command: Sequence[str],
        *,
        descriptors: Sequence[int] = (),
        environment: dict[str, str] | None = None,
        stop_seconds: float,
        logger: FilteringBoundLogger,
    ) -> None:
        self._count = count
        self._command = command
        self._descriptors = descriptors
        self._environment = environment
        self._stop_seconds = stop_seconds
        self._logger = logger
        self._running: dict[subprocess.Popen[bytes], float] = {}
        self._early = 0
        """Processes in a row that did not start."""
        self._has_any_started = False
        self._resting_until = 0.0
        self._ending = False

    def run(self) -> int:
        """Run until a signal comes. Return the exit code of the last process if none can start, else 0."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        code = 0
        while not self._ending:
            while len(self._running) < self._count and time.monotonic() >= self._resting_until:
                self._start()
            time.sleep(LOOKED_AFTER_SECONDS)
            code = self._bury() or code
            if self._cannot_start:
                self._end()
        self._wait()
        return code if self._cannot_start else 0

    @property
    def _cannot_start(self) -> bool:
        return self._early >= ATTEMPTS and not self._has_any_started

    def _end(self, *_: object) -> None:
        self._ending = True

    def _start(self) -> None:
        process = subprocess.Popen(self._command, env=self._environment, pass_fds=self._descriptors)  # noqa: S603 - ours
        self._running[process] = time.monotonic()

    def _bury(self) -> int:
        """Forget the processes that have ended, and put off the next start after an early end. The last exit code."""
        code = 0
        now = time.monotonic()
        self._has_any_started |= any(now - since >= SHORTEST_LIFE_SECONDS for since in self._running.values())
        for process in [each for each in self._running if each.poll() is not None]:
            lived = now - self._running.pop(process)
            self._early = self._early + 1 if lived < SHORTEST_LIFE_SECONDS else 0
            pause = self._pause()
            self._resting_until = max(self._resting_until, now + pause)
            code = process.returncode if process.returncode >= 0 else SIGNAL_EXIT_CODE - process.returncode
            self._log(process, lived, pause)
        return code

    def _pause(self) -> float:
        if not self._early:
            return 0.0
        return min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(self._early - 1, 16))

    def _log(self, process: subprocess.Popen[bytes], lived: float, pause: float) -> None:
        number = -process.returncode
        self._logger.warning(
            "process ended",
            process=process.pid,
            exit_code=process.returncode if number <= 0 else None,
            signal=_name_of(number) if number > 0 else None,
            lived_seconds=round(lived, 1),
            next_start_seconds=pause,
        )

    def _wait(self) -> None:
        for process in self._running:
            process.send_signal(signal.SIGTERM)
        until = time.monotonic() + self._stop_seconds
        for process in self._running:
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def serve_with(count: int, listening: socket.socket, operators: socket.socket | None, settings: Settings) -> int:
    """Serve with so many processes, on sockets that all of them inherit, until a signal comes."""
    from service.telemetry.logs import make_logger

    command = [sys.executable, "-m", "service.cli", "serve", "--socket", str(listening.fileno())]
    if operators is not None:
        command += ["--operator-socket", str(operators.fileno())]
    folder = Path(tempfile.mkdtemp(prefix="privacy-bounds-metrics-"))
    together = folder / "processes"
    together.mkdir(mode=0o700)
    try:
        return Processes(
            count,
            command,
            descriptors=[each.fileno() for each in (listening, operators) if each is not None],
            environment=os.environ | {METRICS_FOLDER: str(folder), FOLDER_VARIABLE: str(together)},
            stop_seconds=settings.drain_seconds + settings.shutdown_timeout_seconds + PATIENCE_SECONDS,
            logger=make_logger(settings.log_level),
        ).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
