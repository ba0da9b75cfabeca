"""Jobs over real sockets: request bodies, and helpers that wait for results."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psutil

from service.jobs.job import StoredJob, new_id
from tests.conftest import ComposedRedis, redis_executable
from tests.system.running_server import module_of
from tests.system.test_processes import processor_seconds
from tests.timeouts import TEST_TIMEOUT

SEAL_KEY = "the key of these tests and of nothing else"
ADVANTAGE = {"type": "advantage"}


def sweep(points: int) -> dict[str, Any]:
    """Return a sweep of closed forms. Many of them keep a machine under load busy."""
    return {
        "mechanism": {"type": "gaussian", "noise_multiplier": 1.0},
        "vary": {"/mechanism/noise_multiplier": {"from": 0.5, "to": 50.0, "count": points}},
        "questions": [ADVANTAGE],
    }


def new_job(**fields: Any) -> StoredJob:
    """Build a job that a store accepts."""
    now = time.time()
    usual: dict[str, Any] = {
        "resource": "bounds",
        "digest": "sha256:0",
        "engine_version": "1",
        "cost": 1,
        "total": 1,
        "created": now,
        "expires": now + 60,
        "kept_seconds": 60.0,
        "requester": "127.0.0.1",
    }
    return StoredJob(id=new_id(), **{**usual, **fields})


def submit(client: httpx2.Client, resource: str, request: dict[str, Any], **headers: str) -> str:
    """Submit a job, and return its path."""
    answer = client.post("/v1/jobs", json={"resource": resource, "request": request}, headers=headers)
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == f"/v1/jobs/{answer.json()['id']}"
    return str(answer.headers["location"])


def state_of(client: httpx2.Client, job: str) -> dict[str, Any]:
    answer = client.get(job)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def wait_for(happened: Callable[[], bool], patience: float = TEST_TIMEOUT) -> float:
    """Wait until `happened` returns True, and return the seconds."""
    started = time.monotonic()
    while not happened():
        assert time.monotonic() < started + patience, "it did not happen"
        time.sleep(0.05)
    return time.monotonic() - started


def first_that_computes(
    processes: Callable[[], Iterable[psutil.Process]], seconds: float = 0.3, patience: float = TEST_TIMEOUT
) -> psutil.Process:
    """Return the first process that has used `seconds` of CPU since now. Idle warm processes use none.

    `processes` is called repeatedly, because processes come and go.
    """
    before: dict[psutil.Process, float] = {}
    found: list[psutil.Process] = []

    def seen() -> bool:
        with suppress(psutil.NoSuchProcess):
            for process in processes():
                used = processor_seconds(process)
                if used > before.setdefault(process, used) + seconds:
                    found.append(process)
        return bool(found)

    wait_for(seen, patience)
    return found[0]


def wait_until_ended(client: httpx2.Client, job: str, patience: float = 10 * TEST_TIMEOUT) -> dict[str, Any]:
    """Wait until the job has ended, whatever is unavailable in between, and return it."""
    found: dict[str, Any] = {}

    def ended() -> bool:
        try:
            answer = client.get(job)
        except httpx2.TransportError:
            return False
        if answer.status_code != 200:
            assert answer.status_code == 503, answer.text
            return False
        found.update(answer.json())
        return found["state"] in ("succeeded", "failed", "cancelled")

    wait_for(ended, patience)
    return found


def assert_every_point_once(client: httpx2.Client, job: str, points: int) -> None:
    """Check that the stream has one line per point, in order, each with the number of a request of its own."""
    seen: list[int] = []
    with client.stream("GET", f"{job}/results", headers={"accept": "application/x-ndjson"}) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            row = json.loads(line)
            assert row["problem"] is None
            assert row["answers"][0]["lower"] <= row["answers"][0]["upper"]
            seen.append(row["point"])
    assert seen == list(range(points))


def done(client: httpx2.Client, job: str) -> int:
    return int(state_of(client, job)["progress"]["done"])


@dataclass
class Cluster:
    """Redis with an append-only file, and workers. The service is started separately (`running_server`)."""

    directory: Path
    redis: ComposedRedis
    workers: list[subprocess.Popen[bytes]]
    worker_settings: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def settings(self) -> dict[str, str]:
        return {"redis_url": self.redis.url, "seal_key": SEAL_KEY, "jobs_backend": "celery", "worker_niceness": "0"}

    def start_worker(self) -> subprocess.Popen[bytes]:
        """Start `privacy-bounds worker` with one process for chunks."""
        settings = {**self.settings, "job_workers": "1", **self.worker_settings}
        environment = os.environ | {f"PRIVACY_BOUNDS_{name.upper()}": value for name, value in settings.items()}
        with (self.directory / f"worker{len(self.workers)}.log").open("w") as log:
            command = [sys.executable, "-m", module_of(environment), "worker"]
            self.workers.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
        return self.workers[-1]

    def processes(self, worker: subprocess.Popen[bytes]) -> list[psutil.Process]:
        """List the child processes of a worker, including those that compute chunks."""
        return psutil.Process(worker.pid).children(recursive=True)

    def all_processes(self) -> list[psutil.Process]:
        """List the child processes of all workers."""
        return [process for worker in self.workers for process in self.processes(worker)]


def kill_worker_processes(made: Cluster) -> None:
    """Kill the child processes of the first worker."""
    for process in made.processes(made.workers[0]):
        with suppress(psutil.NoSuchProcess):  # It exists only while it is needed.
            process.kill()


@contextmanager
def cluster(directory: Path, workers: int = 2, server: str | None = None, **worker_settings: str) -> Generator[Cluster]:
    """Yield a cluster without the service. `server` is the executable of its Redis."""
    redis = ComposedRedis(directory, executable=server or redis_executable())
    made = Cluster(directory, redis, [], worker_settings)
    made.redis.start()
    try:
        for _ in range(workers):
            made.start_worker()
        yield made
    finally:
        for worker in made.workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGTERM)
        for worker in made.workers:
            try:
                worker.wait(timeout=TEST_TIMEOUT)
            except subprocess.TimeoutExpired:
                worker.kill()
        made.redis.stop()
