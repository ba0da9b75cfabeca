"""Workers end with what they work for, whatever ends it: real processes, real signals."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import psutil

from tests.system.servers import served

SLOW: dict[str, Any] = {
    "mechanism": {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
    "questions": [{"type": "delta", "epsilon": 1 + n / 300} for n in range(256)],
    "method": "ground_truth",
    "digits": 50,
}
"""Takes more than ten seconds of a core."""


def workers_of(client: httpx2.Client) -> list[psutil.Process]:
    service = psutil.Process(client.process_id)  # type: ignore[attr-defined]
    return [worker for child in service.children() for worker in child.children()]


def computing(client: httpx2.Client) -> psutil.Process:
    """The worker that computes."""
    deadline = time.monotonic() + 60
    while True:
        for worker in workers_of(client):
            if worker.cpu_percent(0.2) > 1:
                return worker
        assert time.monotonic() < deadline


def send_in_background(client: httpx2.Client, request: dict[str, Any], timeout: float = 120) -> threading.Thread:
    def send() -> None:
        with suppress(httpx2.TransportError):  # the service is killed, or takes longer than this client waits
            httpx2.post(client.base_url.join("/v1/bounds"), json=request, timeout=timeout)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    return thread


def seconds_until_gone(processes: list[psutil.Process], limit: float) -> float:
    """Until they run no more; who reaps them is not our matter."""
    started = time.monotonic()
    while not all(map(is_gone, processes)):
        assert time.monotonic() < started + limit
        time.sleep(0.01)
    return time.monotonic() - started


def is_gone(process: psutil.Process) -> bool:
    try:
        return process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return True


def test_workers_end_with_a_service_that_is_killed(tmp_path: Path) -> None:
    with served(tmp_path, -signal.SIGKILL, max_cost="1000000000", worker_count="2") as client:
        send_in_background(client, SLOW)
        computing(client)
        workers = workers_of(client)
        assert workers
        psutil.Process(client.process_id).kill()  # type: ignore[attr-defined]
        assert seconds_until_gone(workers, 20) < 2


def test_a_worker_ends_itself_where_the_service_stalls(tmp_path: Path) -> None:
    with served(tmp_path, max_cost="1000000000", worker_count="1", time_limit_seconds="1") as client:
        send_in_background(client, SLOW)
        worker = computing(client)
        service = psutil.Process(client.process_id)  # type: ignore[attr-defined]
        service.send_signal(signal.SIGSTOP)
        try:
            assert seconds_until_gone([worker], 30) < 10
        finally:
            service.send_signal(signal.SIGCONT)
        assert client.get("/livez").status_code == 200


def test_a_worker_is_free_when_its_client_has_gone(tmp_path: Path) -> None:
    with served(tmp_path, max_cost="1000000000", worker_count="1") as client:
        thread = send_in_background(client, SLOW, timeout=3.0)
        worker = computing(client)
        thread.join()
        assert seconds_until_gone([worker], 20) < 1
        quick = SLOW | {"method": "auto", "digits": None, "questions": SLOW["questions"][:20]}
        assert client.post("/v1/bounds", json=quick).status_code == 200
        assert "privacy_bounds_abandoned_total 1.0" in client.get("/metrics").text
