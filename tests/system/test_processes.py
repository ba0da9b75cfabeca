"""Workers end with what they work for, whatever ends it: real processes, real signals.

Each test waits for facts, on a machine of any speed; how soon workers end is looked at by `make system` only.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from signal import SIGKILL
from typing import Any

import httpx2
import psutil

from tests.system.servers import PATIENCE, POST, connect, served

SLOW: dict[str, Any] = {
    "mechanism": {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
    "questions": [{"type": "delta", "epsilon": 1 + n / 300} for n in range(256)],
    "method": "ground_truth",
    "digits": 50,
}
"""Takes more than ten seconds of a core."""
BODY = json.dumps(SLOW).encode()
FREE_WITHIN = float(os.environ.get("WORKER_FREE_SECONDS", "inf"))
DEAD_WITHIN = float(os.environ.get("WORKER_DEAD_SECONDS", "inf"))


def wait_until(happened: Callable[[], bool]) -> float:
    """Seconds until it happened."""
    started = time.monotonic()
    while not happened():
        assert time.monotonic() < started + PATIENCE
        time.sleep(0.01)
    return time.monotonic() - started


def warm_workers(client: httpx2.Client, count: int) -> list[psutil.Process]:
    """All workers, when each has computed what it computes before it is given work."""
    wait_until(lambda: f"{count} of {count} worker processes are warm" in client.get("/readyz?verbose").text)
    service = psutil.Process(client.process_id)  # type: ignore[attr-defined]
    return [worker for child in service.children() for worker in child.children()]


def processor_seconds(worker: psutil.Process) -> float:
    used = worker.cpu_times()
    return used.user + used.system


def wait_until_one_computes(client: httpx2.Client, workers: list[psutil.Process]) -> socket.socket:
    """Sends work on a connection of its own: of warm workers, only one that has it uses time of a processor."""
    before = [processor_seconds(worker) for worker in workers]
    connection = connect(client)
    connection.sendall(POST % len(BODY) + BODY)
    wait_until(
        lambda: any(processor_seconds(worker) > used + 0.1 for worker, used in zip(workers, before, strict=True))
    )
    return connection


def is_gone(process: psutil.Process) -> bool:
    """Whether it runs no more; who reaps it is not our matter."""
    try:
        return process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return True


def test_workers_end_with_a_service_that_is_killed(tmp_path: Path) -> None:
    with served(tmp_path, -SIGKILL, max_cost="1000000000", worker_count="2") as client:
        workers = warm_workers(client, 2)
        assert len(workers) == 2
        with wait_until_one_computes(client, workers):
            psutil.Process(client.process_id).kill()  # type: ignore[attr-defined]
            seconds = wait_until(lambda: all(map(is_gone, workers)))
    print(f"workers were gone {seconds:.2f} s after their service")  # noqa: T201
    assert seconds < DEAD_WITHIN


def test_a_worker_is_free_when_its_client_has_gone(tmp_path: Path) -> None:
    with served(tmp_path, max_cost="1000000000", worker_count="1") as client:
        [worker] = workers = warm_workers(client, 1)
        wait_until_one_computes(client, workers).close()
        seconds = wait_until(lambda: is_gone(worker))
        print(f"the worker was gone {seconds:.2f} s after its client")  # noqa: T201
        assert "privacy_bounds_abandoned_total 1.0" in client.get("/metrics").text
        quick = SLOW | {"method": "auto", "digits": None, "questions": SLOW["questions"][:20]}
        assert client.post("/v1/bounds", json=quick).status_code == 200
        assert seconds < FREE_WITHIN
