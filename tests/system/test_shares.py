"""A greedy client and a polite client with one request at a time: the polite client is never rejected.

The clients are two addresses of the loopback network. `make system` also limits how much longer the polite client
waits.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import select
import socket
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from multiprocessing.synchronize import Event

import httpx2
import psutil
import pytest

from tests.conftest import stopped
from tests.slow_marker import sample_of, thorough
from tests.slow_requests import DPSGD, MORE_THAN_ITS_PRICE
from tests.system.jobs import first_that_computes, submit, sweep
from tests.system.running_server import connect, running_server
from tests.timeouts import TEST_TIMEOUT

HOSTILE, POLITE = "127.0.0.2", "127.0.0.1"
LARGEST_FACTOR = float(os.environ.get("LARGEST_P99_FACTOR", "inf"))
ROUNDS = 50
JSON, ARCHIVE, HTML, EVENTS = "application/json", "application/x-npz", "text/html", "text/event-stream"
BODY_BYTES, UPLOAD_BYTES = 2**20, 2**22
JOBS_AT_ONCE = 40
PAUSE_SECONDS = 0.002
"""Seconds between two requests of the attack, which targets fair shares and not the CPU."""

numbers = itertools.count(1)
"""No request repeats another, so that nothing comes from a cache."""


def post(path: str, body: bytes, media_type: str = JSON, accept: str = "*/*", *, close: bool = True) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: {media_type}\r\nAccept: {accept}\r\n"
    end = "Connection: close\r\n" if close else ""
    return f"{head}Content-Length: {len(body)}\r\n{end}\r\n".encode() + body


def bounds(number: int) -> bytes:
    """Return a request that a worker computes in a few milliseconds."""
    mechanism = {"type": "approximate_dp", "epsilon": 1.0, "delta": 1e-6 / number}
    return json.dumps({"mechanism": mechanism, "questions": [{"type": "epsilon", "delta": 1e-5}]}).encode()


def expensive(number: int) -> bytes:
    """Return a request that takes tenths of a second of a worker."""
    asked = [{"type": "delta", "epsilon": 1 + n / 300 + number / 1e6} for n in range(18)]
    return json.dumps({"mechanism": DPSGD, "questions": asked, "method": "ground_truth", "digits": 50}).encode()


def assessment(number: int) -> bytes:
    mechanism = {"type": "approximate_dp", "epsilon": 1.0, "delta": 1e-6}
    return json.dumps({"mechanism": mechanism, "context": {"delta": 1e-5 + number / 1e9}}).encode()


def job(number: int) -> bytes:
    request = sweep(1_000_000)
    request["questions"] = [{"type": "delta", "epsilon": 1.0 + number / 1e6}]
    return json.dumps({"resource": "sweeps", "request": request}).encode()


@dataclass
class Case:
    """Requests of the hostile client on each of its connections, and the request of the polite client."""

    connections: int
    hostile: Callable[[int], bytes]
    polite: Callable[[int], bytes]
    status: int = 200
    rounds: int = ROUNDS
    follows: bool = False
    """Whether the hostile client never reads its responses."""
    polite_ends: bytes = b""
    """Marker that ends an endless response."""


CASES = {
    "connections": Case(400, lambda _: b"POST /v1/bounds HTTP/1.1\r\nHo", lambda n: post("/v1/bounds", bounds(n))),
    "bodies": Case(
        40,
        lambda _: post("/v1/bounds", b" " * BODY_BYTES)[:-1],
        lambda n: post("/v1/bounds", bounds(n).ljust(BODY_BYTES)),
    ),
    "archives": Case(
        6,
        lambda _: post("/v1/audits/glir", b"PK".ljust(UPLOAD_BYTES), ARCHIVE)[:-1],
        lambda _: post("/v1/audits/glir", b"PK".ljust(UPLOAD_BYTES // 4), ARCHIVE),
        status=422,
    ),
    "queue": Case(
        80,
        lambda n: post("/v1/bounds", expensive(n), close=False),
        lambda n: post("/v1/bounds", bounds(n)),
    ),
    "reports": Case(
        30,
        lambda n: post("/v1/assessments", assessment(n), accept=HTML, close=False),
        lambda n: post("/v1/assessments", assessment(n), accept=HTML),
        rounds=3,
    ),
    "followers": Case(
        128,
        lambda _: f"GET {{job}}/events HTTP/1.1\r\nHost: a\r\nAccept: {EVENTS}\r\n\r\n".encode(),
        lambda _: f"GET {{job}}/events HTTP/1.1\r\nHost: a\r\nAccept: {EVENTS}\r\n\r\n".encode(),
        follows=True,
        polite_ends=b"retry:",
    ),
    "jobs": Case(4, lambda n: post("/v1/jobs", job(n), close=False), lambda n: post("/v1/jobs", job(n)), status=202),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with running_server(
        tmp_path_factory.mktemp("server"),
        max_cost=MORE_THAN_ITS_PRICE,
        queue_wait_limit_seconds="100000",
        max_upload_bytes=str(UPLOAD_BYTES),
        jobs_at_once=str(JOBS_AT_ONCE),
        job_workers="1",
        log_level="error",
    ) as client:
        yield client


@contextmanager
def unending(client: httpx2.Client) -> Generator[str]:
    """Submit a job that runs as long as the block without CPU: its worker is stopped."""
    place = submit(client, "sweeps", sweep(1_000_000))
    process = psutil.Process(client.process_id)  # type: ignore[attr-defined]
    with stopped(first_that_computes(lambda: process.children(recursive=True)).pid):
        yield place
    client.delete(place)


def attack(host: str, port: int, name: str, job: str, ready: Event) -> None:
    """Keep the connections of the hostile client busy. Open answered or closed connections again."""
    case, held = CASES[name], list[socket.socket]()
    while True:
        while len(held) < case.connections:
            connection = socket.socket()
            if case.follows:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            connection.bind((HOSTILE, 0))
            connection.settimeout(1)
            with suppress(OSError):
                connection.connect((host, port))
                connection.sendall(case.hostile(next(numbers)).replace(b"{job}", job.encode()))
            held.append(connection)
            time.sleep(PAUSE_SECONDS)
        ready.set()
        time.sleep(0.1)
        for connection in [] if case.follows else select.select(held, [], [], 0)[0]:
            held.remove(connection)
            connection.close()


@contextmanager
def hostile(client: httpx2.Client, name: str, job: str) -> Generator[None]:
    """Run a process of the hostile client (`attack`) during the block."""
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    arguments = (client.base_url.host, client.base_url.port, name, job, ready)
    process = context.Process(target=attack, args=arguments, daemon=True)
    process.start()
    try:
        assert ready.wait(TEST_TIMEOUT)
        yield
    finally:
        process.kill()
        process.join()


LONG = ("jobs", "reports", "followers")


def waits(client: httpx2.Client, case: Case, job: str) -> list[float]:
    """Return the seconds of each answer to the polite client, none of which is a rejection."""
    found: list[float] = []
    for _ in range(case.rounds):
        request = case.polite(next(numbers)).replace(b"{job}", job.encode())
        started = time.perf_counter()
        with connect(client, POLITE) as connection:
            connection.sendall(request)
            answer = b""
            while not (case.polite_ends and case.polite_ends in answer) and (piece := connection.recv(65_536)):
                answer += piece
        found.append(time.perf_counter() - started)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert int(head.split()[1]) == case.status, answer[:600]
        if case.status == 202:
            assert client.delete(f"/v1/jobs/{json.loads(body)['id']}").status_code == 200
    return sorted(found)


@sample_of(2)
@pytest.mark.parametrize(
    "name", [thorough(name) if name in ("jobs", "reports", "followers") else name for name in CASES]
)
def test_polite_client_is_never_rejected(server: httpx2.Client, name: str) -> None:
    case = CASES[name]
    rank = int(0.99 * case.rounds)
    with unending(server) if name in ("followers", "jobs") else nullcontext("") as job:
        waits(server, case, job)
        alone = waits(server, case, job)[rank]
        with hostile(server, name, job):
            beside = waits(server, case, job)[rank]
    print(f"{name}: p99 alone {1e3 * alone:.1f} ms, beside {1e3 * beside:.1f} ms: {beside / alone:.1f} times")  # noqa: T201
    assert beside <= LARGEST_FACTOR * alone
