"""The supervisor of `serve --workers N`: processes that end early are restarted with growing delays."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.server import supervisor
from service.server.supervisor import Supervisor
from service.telemetry.logs import make_logger
from tests.timeouts import TEST_TIMEOUT

KILLED = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
REFUSED = "raise SystemExit(7)"


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def run(script: str, count: int = 1) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit code of a supervisor of processes that run a script, and its log events."""
    log = io.BytesIO()
    command = [sys.executable, "-S", "-c", script]
    code = Supervisor(count, command, stop_seconds=TEST_TIMEOUT, logger=make_logger("warning", log)).run()
    return code, [json.loads(line) for line in log.getvalue().splitlines()]


@pytest.mark.parametrize(("script", "code", "named"), [(KILLED, 137, "SIGKILL"), (REFUSED, 7, None)])
def test_process_that_never_starts_ends_the_service(script: str, code: int, named: str | None) -> None:
    stop = threading.Timer(TEST_TIMEOUT, os.kill, (os.getpid(), signal.SIGTERM))
    stop.start()
    ended, events = run(script)
    stop.cancel()
    assert ended == code
    assert len(events) == supervisor.LARGEST_FAILED_STARTS
    assert [event["signal"] for event in events] == [named] * len(events)
    assert [event["exit_code"] for event in events] == [None if named else code] * len(events)
    assert [event["next_start_seconds"] for event in events] == [0.5, 1.0, 2.0]


def test_restart_delay_grows_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The delay before a restart grows with each early end, up to a limit.

    The first process lives long enough to count as started. All others are killed at once.
    """
    monkeypatch.setattr(supervisor, "SHORTEST_LIFE_SECONDS", 1.5)
    monkeypatch.setattr(supervisor, "FIRST_BACKOFF_SECONDS", 0.05)
    monkeypatch.setattr(supervisor, "LONGEST_BACKOFF_SECONDS", 0.2)
    monkeypatch.setattr(supervisor, "SUPERVISION_INTERVAL_SECONDS", 0.02)
    marks = tmp_path / "starts"
    script = (
        f"import os, pathlib, signal, time; place = pathlib.Path({str(marks)!r})\n"
        "is_first = not place.exists()\n"
        "with place.open('a') as file: file.write('x')\n"
        "if is_first: time.sleep(2)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )

    def stop() -> None:
        deadline = time.monotonic() + TEST_TIMEOUT
        while time.monotonic() < deadline and (not marks.exists() or marks.stat().st_size < 8):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop).start()
    code, events = run(script)
    assert code == 0, "a service that has served goes on"
    assert [event["next_start_seconds"] for event in events[:7]] == [0.0, 0.05, 0.1, 0.2, 0.2, 0.2, 0.2]
