"""Jobs of one instance while its workers, the service itself and its disk fail: real processes, signals and a full
disk.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL
from typing import Any

import httpx2
import psutil
import pytest

from tests.slow_marker import thorough
from tests.slow_requests import LONG
from tests.system.jobs import (
    ADVANTAGE,
    assert_every_point_once,
    done,
    first_that_computes,
    state_of,
    submit,
    sweep,
    wait_for,
    wait_until_ended,
)
from tests.system.running_server import connect, running_server
from tests.system.test_mixed_load import LARGEST_FACTOR, SAMPLES, waits
from tests.system.test_processes import is_gone

FREE_WITHIN = float(os.environ.get("JOB_FREE_SECONDS", "inf"))
SETTINGS = {"worker_niceness": "0", "worker_count": "1", "job_workers": "1", "log_level": "warning"}
POINTS = 6_000
MORE_POINTS = 60_000
"""The work takes seconds: a job that ends before the kill would show nothing."""
QUICK = {"mechanism": {"type": "gaussian", "noise_multiplier": 3.0}, "questions": [ADVANTAGE]}


def job_worker(client: httpx2.Client) -> psutil.Process:
    """Return the process that computes chunks."""
    service = psutil.Process(client.process_id)  # type: ignore[attr-defined]
    return first_that_computes(lambda: [worker for child in service.children() for worker in child.children()])


@pytest.mark.parametrize("points", [20_000, thorough(60_000)])
def test_killed_service_resumes_its_jobs(tmp_path: Path, points: int) -> None:
    """A killed service resumes its jobs when it starts again.

    Whatever was being computed or written at that moment, every point has one result in the end.
    """
    with running_server(tmp_path, -SIGKILL, **SETTINGS) as client:
        job = submit(client, "sweeps", sweep(points))
        wait_for(lambda: done(client, job) > 0)
        psutil.Process(client.process_id).kill()  # type: ignore[attr-defined]
    with running_server(tmp_path, **SETTINGS) as client:
        assert done(client, job) > 0
        found = wait_until_ended(client, job)
        assert found["progress"] == {"done": points, "failed": 0, "total": points}
        assert_every_point_once(client, job, points)


@pytest.mark.thorough
def test_killed_workers_are_replaced_and_lose_nothing(tmp_path: Path) -> None:
    with running_server(tmp_path, **SETTINGS) as client:
        job = submit(client, "sweeps", sweep(MORE_POINTS))
        for _ in range(2):
            worker = job_worker(client)
            before = done(client, job)
            worker.kill()
            wait_for(lambda before=before: done(client, job) > before)
        assert wait_until_ended(client, job)["progress"]["failed"] == 0
        assert_every_point_once(client, job, MORE_POINTS)


@pytest.mark.thorough
def test_cancelled_job_frees_its_worker(tmp_path: Path) -> None:
    with running_server(tmp_path, **SETTINGS) as client:
        job = submit(client, "bounds", LONG)
        wait_for(lambda: state_of(client, job)["state"] == "running")
        worker = job_worker(client)
        assert client.delete(job).json()["state"] == "cancelled"
        seconds = wait_for(lambda: is_gone(worker))
        print(f"the worker was free {seconds:.2f} s after its job was cancelled")  # noqa: T201
        following = submit(client, "bounds", QUICK)
        assert wait_until_ended(client, following)["state"] == "succeeded"
        assert state_of(client, job)["progress"]["done"] == 0
    assert seconds < FREE_WITHIN


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a file system of four megabytes."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("only root mounts file systems")
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.mark.thorough
def test_full_disk_rejects_only_jobs(tmp_path: Path, small_disk: Path) -> None:
    """A full disk rejects new jobs only. Accepted jobs wait, and are complete once there is space."""
    with running_server(tmp_path, **SETTINGS, data_folder=str(small_disk)) as client:
        job = submit(client, "sweeps", sweep(POINTS))
        wait_for(lambda: done(client, job) > 0)
        filling = small_disk / "filling"
        with filling.open("wb", buffering=0) as file:
            for size in (2**16, 2**10, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    pass
        answers = [client.post("/v1/jobs", json={"resource": "bounds", "request": QUICK}) for _ in range(3)]
        refused = answers[-1]
        assert (refused.status_code, refused.json()["type"]) == (503, "/problems/jobs-unavailable")
        assert refused.headers["retry-after"]
        assert client.post("/v1/bounds", json=QUICK).status_code == 200
        assert client.get("/readyz").status_code == 200
        assert state_of(client, job)["state"] == "running"
        filling.unlink()
        found = wait_until_ended(client, job)
        assert (found["state"], found["progress"]["failed"]) == ("succeeded", 0)
        assert_every_point_once(client, job, POINTS)


def test_unwritable_folder_disables_jobs_until_repaired(tmp_path: Path, small_disk: Path) -> None:
    """A folder that cannot be written disables jobs until it is repaired.

    The service starts without it, reports the fault, and accepts jobs as soon as it can.
    """

    def check_of_jobs(client: httpx2.Client) -> dict[str, str]:
        [check] = [each for each in client.get("/readyz?verbose").json()["checks"] if each["name"] == "jobs"]
        return dict(check)

    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with running_server(tmp_path, **SETTINGS, data_folder=str(small_disk / "data")) as client:
        wait_for(lambda: "Read-only file system" in check_of_jobs(client)["detail"])
        assert check_of_jobs(client)["status"] == "degraded"
        refused = client.post("/v1/jobs", json={"resource": "bounds", "request": QUICK})
        assert (refused.status_code, refused.json()["type"]) == (503, "/problems/jobs-unavailable")
        assert client.post("/v1/bounds", json=QUICK).status_code == 200
        subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
        wait_for(lambda: check_of_jobs(client)["status"] == "ok")
        assert wait_until_ended(client, submit(client, "bounds", QUICK))["state"] == "succeeded"


@pytest.mark.thorough
def test_follower_that_does_not_read_is_disconnected(tmp_path: Path) -> None:
    """A client that follows a job but does not read is disconnected.

    The connections are closed, their slots are free, and the service has not grown.
    """
    settings = {**SETTINGS, "send_timeout_seconds": "1"}
    points = 30_000
    with running_server(tmp_path, **settings) as client:
        job = submit(client, "sweeps", sweep(points))
        wait_until_ended(client, job)
        process = psutil.Process(client.process_id)  # type: ignore[attr-defined]
        open_before = len(process.net_connections())
        before = process.memory_info().rss
        stalled: list[socket.socket] = []
        for number in range(40):
            path, accept = (("results", "application/x-ndjson"), ("events", "text/event-stream"))[number % 4 == 3]
            connection = connect(client, f"127.0.2.{1 + number % 8}", buffer=4_096)
            connection.sendall(f"GET {job}/{path} HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n".encode())
            stalled.append(connection)
        wait_for(lambda: len(process.net_connections()) > open_before + 30)
        wait_for(lambda: len(process.net_connections()) <= open_before + 10)
        grown = process.memory_info().rss - before
        print(f"memory {grown / 2**20:+.1f} MiB")  # noqa: T201
        assert grown < 50 * 2**20
        for connection in stalled:
            connection.close()
        assert_every_point_once(client, job, points)
        text = client.get("/metrics").text
        assert 'privacy_bounds_server_refusals_total{reason="response-not-taken"}' in text


@pytest.mark.thorough
def test_events_come_at_least_every_two_seconds(tmp_path: Path) -> None:
    with running_server(tmp_path, **SETTINGS) as client:
        job = submit(client, "sweeps", sweep(POINTS))
        times, revisions = [time.monotonic()], [0]
        last: dict[str, Any] = {}
        with client.stream("GET", f"{job}/events", headers={"accept": "text/event-stream"}) as answer:
            for line in answer.iter_lines():
                if line.startswith("id: "):
                    times.append(time.monotonic())
                    revisions.append(int(line.removeprefix("id: ")))
                if line.startswith("data: "):
                    last = json.loads(line.removeprefix("data: "))
        assert last["state"] == "succeeded"
        assert revisions == sorted(revisions)
        gaps = [after - before for before, after in itertools.pairwise(times)]
        print(f"{len(gaps)} events, at most {max(gaps):.2f} s apart")  # noqa: T201
        assert max(gaps) < float(os.environ.get("LONGEST_EVENT_SECONDS", "inf"))


@pytest.mark.thorough
def test_closed_forms_stay_fast_beside_a_large_job(tmp_path: Path) -> None:
    """Requests of closed forms stay fast beside a job of a million points.

    Interactive requests do not wait for chunks, at default settings.
    """
    samples = SAMPLES if SAMPLES < 400 else 5_000
    rank = int(0.99 * samples)
    with running_server(tmp_path) as client, connect(client) as mine:
        waits(mine, 0)
        alone = waits(mine, 10_000, samples)[rank]
        job = submit(client, "sweeps", sweep(1_000_000))
        wait_for(lambda: done(client, job) > 0)
        beside = waits(mine, 20_000, samples)[rank]
        assert client.delete(job).json()["state"] == "cancelled"
    print(f"p99 alone {1e3 * alone:.2f} ms, beside a million points {1e3 * beside:.2f} ms")  # noqa: T201
    assert beside <= LARGEST_FACTOR * alone
