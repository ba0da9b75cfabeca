"""Supervisor of `privacy-bounds serve --workers N`: several processes that accept connections from one socket.

Each process is a complete service with its own worker processes. The processes share results, leases and jobs as any
instances do: through Redis and the data folder. Without these, each process looks up results in the memory of the
others, and all processes keep jobs in one temporary folder. Their metrics are added up (multi-process mode of
prometheus_client), so that every process reports the same totals.
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
SUPERVISION_INTERVAL_SECONDS: Final = 0.2
SHORTEST_LIFE_SECONDS: Final = 5.0
"""Lifetime below which a process counts as a failed start, whatever its exit code or signal."""
LARGEST_FAILED_STARTS: Final = 3
"""Number of consecutive failed starts after which the service exits, if no process ever started."""
FIRST_BACKOFF_SECONDS: Final = 0.5
LONGEST_BACKOFF_SECONDS: Final = 30.0
GRACE_SECONDS: Final = 10.0
"""Extra time for processes to exit, beyond the time limit for running requests."""
SIGNAL_EXIT_CODE: Final = 128
"""Offset of exit codes for signals, as in shells."""


@final
class Supervisor:
    """Supervisor of `count` processes of one command. After `stop_seconds` it kills processes that did not exit.

    A process that ends is started again, with a longer pause (0.5 to 30 s) after each of several failed starts.
    """

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
        self._failed_starts = 0
        """Consecutive starts that failed."""
        self._has_any_started = False
        self._next_start_at = 0.0
        self._is_stopping = False

    def run(self) -> int:
        """Run the processes until a signal arrives.

        Return the exit code of the last process if none can start (three consecutive processes ended within five
        seconds, and no process lived longer), else 0.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._request_stop)
        code = 0
        while not self._is_stopping:
            while len(self._running) < self._count and time.monotonic() >= self._next_start_at:
                self._start()
            time.sleep(SUPERVISION_INTERVAL_SECONDS)
            code = self._remove_exited() or code
            if self._cannot_start:
                self._request_stop()
        self._wait()
        return code if self._cannot_start else 0

    @property
    def _cannot_start(self) -> bool:
        return self._failed_starts >= LARGEST_FAILED_STARTS and not self._has_any_started

    def _request_stop(self, *_: object) -> None:
        self._is_stopping = True

    def _start(self) -> None:
        process = subprocess.Popen(self._command, env=self._environment, pass_fds=self._descriptors)  # noqa: S603 - ours
        self._running[process] = time.monotonic()

    def _remove_exited(self) -> int:
        # A process that a signal ended has the code 128 plus its number. A failed start delays the next start.
        code = 0
        now = time.monotonic()
        self._has_any_started |= any(now - since >= SHORTEST_LIFE_SECONDS for since in self._running.values())
        for process in [each for each in self._running if each.poll() is not None]:
            lifetime = now - self._running.pop(process)
            self._failed_starts = self._failed_starts + 1 if lifetime < SHORTEST_LIFE_SECONDS else 0
            backoff = self._backoff_seconds()
            self._next_start_at = max(self._next_start_at, now + backoff)
            code = process.returncode if process.returncode >= 0 else SIGNAL_EXIT_CODE - process.returncode
            self._log(process, lifetime, backoff)
        return code

    def _backoff_seconds(self) -> float:
        if not self._failed_starts:
            return 0.0
        return min(LONGEST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** min(self._failed_starts - 1, 16))

    def _log(self, process: subprocess.Popen[bytes], lifetime: float, backoff: float) -> None:
        number = -process.returncode
        self._logger.warning(
            "process ended",
            process=process.pid,
            exit_code=process.returncode if number <= 0 else None,
            signal=_signal_name(number) if number > 0 else None,
            lived_seconds=round(lifetime, 1),
            next_start_seconds=backoff,
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


def run_supervised(count: int, listening: socket.socket, operators: socket.socket | None, settings: Settings) -> int:
    """Serve with `count` processes on open sockets until a signal arrives. Return the exit code.

    `listening` is the socket of the public port, and `operators` that of the operator port, or None.
    """
    from service.telemetry.logs import make_logger

    command = [sys.executable, "-m", "service.cli", "serve", "--socket", str(listening.fileno())]
    if operators is not None:
        command += ["--operator-socket", str(operators.fileno())]
    folder = Path(tempfile.mkdtemp(prefix="privacy-bounds-metrics-"))
    together = folder / "processes"
    together.mkdir(mode=0o700)
    try:
        return Supervisor(
            count,
            command,
            descriptors=[each.fileno() for each in (listening, operators) if each is not None],
            environment=os.environ | {METRICS_FOLDER: str(folder), FOLDER_VARIABLE: str(together)},
            stop_seconds=settings.drain_seconds + settings.shutdown_timeout_seconds + GRACE_SECONDS,
            logger=make_logger(settings.log_level),
        ).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
