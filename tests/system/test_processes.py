"""Workers end with their client or their service, for any reason: real processes and real signals.

Tests wait for events, on a machine of any speed. Only `make system` limits how soon workers end.
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGKILL

import httpx2
import psutil
import pytest

from tests.slow_requests import DPSGD, LONG, MORE_THAN_ITS_PRICE
from tests.system.running_server import POST, connect, running_server
from tests.timeouts import TEST_TIMEOUT

BODY = json.dumps(LONG).encode()
REQUEST = POST % len(BODY) + BODY
FREE_WITHIN = float(os.environ.get("WORKER_FREE_SECONDS", "inf"))
DEAD_WITHIN = float(os.environ.get("WORKER_DEAD_SECONDS", "inf"))


def wait_until(happened: Callable[[], bool]) -> float:
    """Wait until `happened` returns True, and return the seconds."""
    started = time.monotonic()
    while not happened():
        assert time.monotonic() < started + TEST_TIMEOUT
        time.sleep(0.01)
    return time.monotonic() - started


def workers_of(client: httpx2.Client) -> list[psutil.Process]:
    """List the worker processes without the reserve."""
    processes = processes_below(client)
    return [process for process in processes if process.nice() == max(each.nice() for each in processes)]


def processes_below(client: httpx2.Client) -> list[psutil.Process]:
    service = psutil.Process(client.process_id)  # type: ignore[attr-defined]
    return [worker for child in service.children() for worker in child.children()]


def processor_seconds(worker: psutil.Process) -> float:
    used = worker.cpu_times()
    return used.user + used.system


def wait_until_one_computes(client: httpx2.Client, workers: list[psutil.Process], sent: bytes) -> socket.socket:
    """Send on a new connection, and wait until a worker uses CPU. Among warm workers, only busy ones do."""
    before = [processor_seconds(worker) for worker in workers]
    connection = connect(client)
    connection.sendall(sent)
    wait_until(
        lambda: any(processor_seconds(worker) > used + 0.1 for worker, used in zip(workers, before, strict=True))
    )
    return connection


def is_gone(process: psutil.Process) -> bool:
    """Return whether the process has ended, reaped or not."""
    try:
        return process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return True


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """Yield a service with one worker."""
    settings = {"max_cost": MORE_THAN_ITS_PRICE, "worker_count": "1"}
    with running_server(tmp_path_factory.mktemp("server"), **settings) as client:
        yield client


@pytest.mark.parametrize(
    "behind", [b"", REQUEST, REQUEST[:-1]], ids=["alone", "request behind", "half a request behind"]
)
def test_worker_is_free_after_its_client_disconnects(client: httpx2.Client, behind: bytes) -> None:
    """A worker is free after its client disconnects.

    That holds also if the client sent more than the service reads before it answers.
    """
    abandoned = abandoned_by(client)
    short = {
        "mechanism": DPSGD,
        "questions": [{"type": "delta", "epsilon": 1 + abandoned / 100}],
        "method": "ground_truth",
        "digits": 20,
    }
    assert client.post("/v1/estimates", json={"resource": "bounds", "request": short}).json()["place"] == "worker"
    assert client.post("/v1/bounds", json=short).status_code == 200, "the worker is warm, or warm again"
    [worker] = workers = workers_of(client)
    wait_until_one_computes(client, workers, REQUEST + behind).close()
    seconds = wait_until(lambda: is_gone(worker))
    print(f"the worker was gone {seconds:.2f} s after its client")  # noqa: T201
    wait_until(lambda: abandoned_by(client) == abandoned + 1)
    assert seconds < FREE_WITHIN


def abandoned_by(client: httpx2.Client) -> float:
    counted = re.search(r"privacy_bounds_abandoned_total (\d+)", client.get("/metrics").text)
    assert counted
    return float(counted[1])


def test_workers_end_with_killed_service(tmp_path: Path) -> None:
    with running_server(tmp_path, -SIGKILL, max_cost=MORE_THAN_ITS_PRICE, worker_count="2") as client:
        wait_until(lambda: "2 of 2 worker processes are warm" in client.get("/readyz?verbose").text)
        workers = workers_of(client)
        assert len(workers) == 2
        every = processes_below(client)
        with wait_until_one_computes(client, workers, REQUEST):
            psutil.Process(client.process_id).kill()  # type: ignore[attr-defined]
            seconds = wait_until(lambda: all(map(is_gone, every)))
    print(f"workers were gone {seconds:.2f} s after their service")  # noqa: T201
    assert seconds < DEAD_WITHIN
