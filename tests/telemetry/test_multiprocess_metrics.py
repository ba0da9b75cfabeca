"""Counters of several processes in one folder: kept when a process ends, in a bounded number of files."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from service.telemetry.metrics import MULTIPROCESS_FOLDER_VARIABLE
from service.telemetry.multiprocess_metrics import aggregated_exposition

COUNT = """
import sys
from prometheus_client import CollectorRegistry
from service.telemetry.metrics import Metrics
metrics = Metrics(CollectorRegistry(), "1")
for _ in range({requests}):
    metrics.count_request("/v1/bounds", "POST", 200, 0.004)
metrics.queue_depth.set(5)
metrics.jobs_active.set(3)
print(flush=True)
sys.stdin.read()
"""


def processes(folder: Path, *requests: int) -> list[subprocess.Popen[bytes]]:
    """Start processes that have counted the given numbers of requests, and wait."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", COUNT.format(requests=count)],
            env=os.environ | {MULTIPROCESS_FOLDER_VARIABLE: str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for count in requests
    ]
    for each in started:
        assert each.stdout is not None
        assert each.stdout.readline() == b"\n"
    return started


def end(ended: Sequence[subprocess.Popen[bytes]]) -> None:
    for each in ended:
        each.communicate()


def number(text: str, name: str) -> float:
    [found] = re.findall(rf"(?m)^privacy_bounds_{re.escape(name)} (\S+)$", text)
    return float(found)


def assert_counts(folder: Path, requests: int) -> str:
    text = aggregated_exposition(folder).decode()
    assert number(text, 'http_requests_total{method="POST",route="/v1/bounds",status="200"}') == requests
    assert number(text, 'http_request_duration_seconds_count{route="/v1/bounds"}') == requests
    assert number(text, 'http_request_duration_seconds_bucket{le="0.005",route="/v1/bounds"}') == requests
    assert number(text, 'http_request_duration_seconds_bucket{le="0.0025",route="/v1/bounds"}') == 0
    return text


def test_counts_outlive_their_process_and_files_are_removed(tmp_path: Path) -> None:
    first = processes(tmp_path, 1, 2)
    assert number(assert_counts(tmp_path, 3), "queue_depth") == 10
    end(first[:1])
    assert number(assert_counts(tmp_path, 3), "queue_depth") == 5
    end(first[1:])
    sizes: set[int] = set()
    for round_ in range(1, 4):
        end(processes(tmp_path, 4))
        text = assert_counts(tmp_path, 3 + 4 * round_)
        assert "queue_depth" not in text, "nobody is there whose queue it is"
        assert "build_info" not in text
        sizes.add(sum(1 for _ in tmp_path.iterdir()))
    assert len(sizes) == 1


def test_stopped_process_with_lock_blocks_no_other(tmp_path: Path) -> None:
    end(processes(tmp_path, 1))
    with (tmp_path / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        began = time.monotonic()
        assert_counts(tmp_path, 1)
        assert time.monotonic() - began < 5
    assert_counts(tmp_path, 1)
