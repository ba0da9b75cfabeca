"""`python -m benchmarks.capacity.measure [SECONDS]`: measure what this machine can do, for the guide.

Clients and service share the machine, so that the rate that clients see is below what the service can do. The CPU time
of the service for each request does not depend on the clients: its inverse is the rate of one core.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from benchmarks.http.server import free_port

CLIENTS: Final = 8
JOBS: Final = 100
POINTS: Final = 10_000
SETTLE_SECONDS: Final = 2.0
FACTORS: Final = (10, 100, 1_000)
USED: Final = 0.7
"""Planned share of the cores. The rest absorbs bursts."""


@dataclass(frozen=True)
class Kind:
    """Kind of HTTP request in the measured load. `body(n)` returns the body of request number n."""

    name: str
    body: Callable[[int], dict[str, Any]]


def bounds(mechanism: dict[str, Any], question: dict[str, Any], **options: Any) -> dict[str, Any]:
    return {"mechanism": mechanism, "questions": [question], **options}


def sampled(number: int) -> dict[str, Any]:
    return {"type": "dpsgd", "noise_multiplier": 1.0 + number * 1e-6, "sample_rate": 0.01, "steps": 1000}


EPSILON: Final = {"type": "epsilon", "delta": 1e-5}
RATES: Final = {"type": "trade_off", "false_positive_rates": [10 ** (-6 + 5 * n / 63) for n in range(64)]}
KINDS: Final = (
    Kind("a stored answer (memory)", lambda _: bounds(sampled(0), EPSILON)),
    Kind(
        "a closed form",
        lambda number: bounds({"type": "gaussian", "noise_multiplier": 1.0 + number * 1e-6}, {"type": "advantage"}),
    ),
    Kind("DP-SGD, one epsilon", lambda number: bounds(sampled(number), EPSILON)),
    Kind("DP-SGD, power at 64 rates", lambda number: bounds(sampled(number), RATES)),
)


@dataclass
class Seen:
    """Measurements of one kind of request: requests each second, and seconds of each request.

    `cpu` is the CPU seconds of the service for each request.
    """

    rate: float
    seconds: list[float]
    cpu: float

    def quantile(self, share: float) -> float:
        ordered = sorted(self.seconds)
        return ordered[int(share * (len(ordered) - 1))]


@contextmanager
def service(folder: Path) -> Generator[tuple[psutil.Process, int]]:
    """Run a service with two workers whose data are in `folder`, and yield its process and its port."""
    port = free_port()
    settings = {"DATA_FOLDER": str(folder), "LOG_LEVEL": "warning", "WORKER_COUNT": "2", "JOB_WORKERS": "2"}
    settings |= {"MAX_CONNECTIONS_PER_CLIENT": "512", "JOBS_AT_ONCE": "4000"}
    environment = os.environ | {f"PRIVACY_BOUNDS_{name}": value for name, value in settings.items()}
    process = subprocess.Popen([sys.executable, "-m", "service.cli", "serve", "--port", str(port)], env=environment)
    try:
        while not _is_ready(port):
            if process.poll() is not None:
                raise SystemExit("the service ended")
            time.sleep(0.1)
        time.sleep(SETTLE_SECONDS)
        yield psutil.Process(process.pid), port
    finally:
        process.terminate()
        process.wait()


def _is_ready(port: int) -> bool:
    try:
        return _call(http.client.HTTPConnection("127.0.0.1", port, timeout=10), "GET", "/readyz")[0] == 200
    except OSError:
        return False


def _call(connection: http.client.HTTPConnection, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
    sent = None if body is None else json.dumps(body)
    connection.request(method, path, sent, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, answer.read()


class CpuTime:
    """CPU seconds of a process and of its descendants.

    A process that ends keeps its last measured value.
    """

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._seen: dict[int, float] = {}

    def read(self) -> float:
        for each in (self._process, *self._process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                times = each.cpu_times()
                self._seen[each.pid] = times.user + times.system
        return sum(self._seen.values())


def load(process: psutil.Process, port: int, kind: Kind, seconds: float, numbers: Iterator[int]) -> Seen:
    """Send requests of one kind to `port` from CLIENTS connections for some seconds.

    Each connection sends its next request after the answer to the one before. `numbers` makes the requests distinct,
    and `process` is the service, whose CPU time is measured.
    """
    taken: list[float] = []
    stop = threading.Event()

    def ask() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        while not stop.is_set():
            began = time.perf_counter()
            status, _ = _call(connection, "POST", "/v1/bounds", kind.body(next(numbers)))
            if status != 200:
                raise SystemExit(f"{kind.name}: status {status}")
            taken.append(time.perf_counter() - began)

    clients = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    used = CpuTime(process)
    cpu, began = used.read(), time.perf_counter()
    for each in clients:
        each.start()
    time.sleep(seconds)
    stop.set()
    for each in clients:
        each.join()
    wall = time.perf_counter() - began
    return Seen(len(taken) / wall, taken, (used.read() - cpu) / len(taken))


def jobs(port: int) -> tuple[float, float]:
    """Measure small jobs each second, and points each second of one large sweep, at the service on `port`."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    began = time.perf_counter()
    names = [
        _submit(connection, {"resource": "bounds", "request": bounds(sampled(-number), EPSILON)})
        for number in range(1, JOBS + 1)
    ]
    for name in names:
        _wait(connection, name)
    jobs_a_second = JOBS / (time.perf_counter() - began)
    varied = {"/mechanism/noise_multiplier": {"from": 0.5, "to": 50.0, "count": POINTS}}
    sweep = {
        "mechanism": {"type": "gaussian", "noise_multiplier": 1.0},
        "vary": varied,
        "questions": [{"type": "advantage"}],
    }
    began = time.perf_counter()
    _wait(connection, _submit(connection, {"resource": "sweeps", "request": sweep}))
    return jobs_a_second, POINTS / (time.perf_counter() - began)


def _submit(connection: http.client.HTTPConnection, body: dict[str, Any]) -> str:
    status, answer = _call(connection, "POST", "/v1/jobs", body)
    if status != 202:
        raise SystemExit(f"a job is refused: {status} {answer[:200]!r}")
    return str(json.loads(answer)["id"])


def _wait(connection: http.client.HTTPConnection, name: str) -> None:
    while json.loads(_call(connection, "GET", f"/v1/jobs/{name}")[1])["state"] not in ("succeeded", "failed"):
        time.sleep(0.05)


def memory(process: psutil.Process) -> list[tuple[str, float]]:
    """Return the resident and the unshared memory in MiB of a process and its descendants, each with a name."""
    found: list[tuple[str, float]] = []
    for number, each in enumerate((process, *process.children(recursive=True))):
        with suppress(psutil.NoSuchProcess):
            if number == 0 or each.memory_info().rss > 60 * 2**20:
                unshared = each.memory_full_info().uss / 2**20
                found.append(("server" if number == 0 else "worker or fork server", unshared))
    return found


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    cores = psutil.cpu_count() or 1
    print(f"{cores} cores, load {os.getloadavg()[0]:.1f} before the start, {CLIENTS} clients, {seconds:g} s a kind\n")
    with tempfile.TemporaryDirectory() as folder, service(Path(folder)) as (process, port):
        before = memory(process)
        print(
            "| kind of request | requests/s seen | p50 ms | p99 ms | CPU ms of the service | requests/s of one core |"
        )
        print("|---|---|---|---|---|---|")
        numbers = itertools.count()
        seen: dict[str, Seen] = {}
        for kind in KINDS:
            found = seen[kind.name] = load(process, port, kind, seconds, numbers)
            cells = f"{found.rate:.0f} | {found.quantile(0.5) * 1e3:.2g} | {found.quantile(0.99) * 1e3:.3g}"
            print(f"| {kind.name} | {cells} | {found.cpu * 1e3:.2g} | {1 / found.cpu:.0f} |")
        small, points = jobs(port)
        print(f"\njobs: {small:.0f} small jobs/s, {points:.0f} points/s of a sweep of closed forms, 2 job workers")
        print("\n| process | MiB of its own at the start | after the load |\n|---|---|---|")
        after = memory(process)
        for (name, first), (_, last) in itertools.zip_longest(before, after, fillvalue=("started later", float("nan"))):
            print(f"| {name} | {first:.0f} | {last:.0f} |")
    print_factors(seen)


def print_factors(seen: dict[str, Seen]) -> None:
    """Print how many cores the service needs at multiples of one request of each kind a second."""
    each = [found.cpu for found in seen.values()]
    print(f"\n| times one request of each kind a second | cores at {USED:.0%} use |\n|---|---|")
    for factor in FACTORS:
        print(f"| {factor} | {factor * sum(each) / USED:.2g} |")


if __name__ == "__main__":
    main()
