"""Mixed load: closed forms, contours, sweeps, pictures, reports, imports, jobs, invalid requests and lost clients."""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2

from tests.system.running_server import POST, connect

DPSGD: Final = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}
SEVERAL: Final = [{"type": "epsilon", "delta": 1e-6}, {"type": "reconstruction", "baseline_success": 0.01}]
CONTEXT: Final = {"dataset_size": 48000, "batch_size": 480, "delta": 1e-6}
GRID: Final = {"count": 100, "smallest": 1e-9, "largest": 0.5, "spacing": "log"}
JOB_POINTS: Final = 200
EXPECTED: Final = frozenset({200, 202, 204, 304, 400, 404, 405, 406, 413, 415, 422, 429, 503})
"""Statuses that the mixed load may receive. An internal error is none of them."""

Step = Callable[[httpx2.Client, int], int]


def _run(number: int) -> dict[str, Any]:
    return DPSGD | {"noise_multiplier": 0.8 + number % 10_007 / 10_007, "steps": 100 + number % 997}


def _closed_form(client: httpx2.Client, number: int) -> int:
    release = {"type": "gaussian", "noise_multiplier": 1 + number / 1e6}
    return client.post("/v1/bounds", json={"mechanism": release, "questions": [{"type": "advantage"}]}).status_code


def _contour(client: httpx2.Client, number: int) -> int:
    return client.post("/v1/bounds", json={"mechanism": _run(number), "questions": SEVERAL}).status_code


def _repeated_contour(client: httpx2.Client, number: int) -> int:
    return client.post("/v1/bounds", json={"mechanism": _run(number % 50), "questions": SEVERAL}).status_code


def _sweep(client: httpx2.Client, number: int) -> int:
    values = {"from": 0.8, "to": 2.0 + number / 1e6, "count": 20}
    body = {"mechanism": DPSGD, "vary": {"/mechanism/noise_multiplier": values}, "questions": SEVERAL[:1]}
    return client.post("/v1/sweeps", json=body, headers={"accept": "application/x-ndjson"}).status_code


def _picture(client: httpx2.Client, number: int) -> int:
    forms = ("application/json", "image/svg+xml", "image/png", "text/csv")
    body = {"mechanism": {"type": "gdp", "mu": 1 + number / 1e6}, "grid": GRID}
    return client.post("/v1/curves", json=body, headers={"accept": forms[number % len(forms)]}).status_code


def _report(client: httpx2.Client, number: int) -> int:
    forms = ("text/html", "text/markdown", "application/json")
    body = {"mechanism": _run(number), "context": CONTEXT}
    return client.post("/v1/assessments", json=body, headers={"accept": forms[number % len(forms)]}).status_code


def _import(client: httpx2.Client, number: int) -> int:
    content = {"history": [[1.1 + number / 1e6, 0.004, 3000], [0.9, 0.004, 1000]], "mechanism": "prv"}
    return client.post("/v1/imports", json={"format": "opacus", "content": content}).status_code


def _job(client: httpx2.Client, number: int) -> int:
    """Send a job, read all its results, and delete it.

    Every third job, by its `number`, is cancelled early in place of reading.
    """
    values = {"from": 0.5, "to": 50.0 + number / 1e6, "count": JOB_POINTS}
    body = {
        "mechanism": {"type": "gaussian", "noise_multiplier": 1.0},
        "vary": {"/mechanism/noise_multiplier": values},
        "questions": [{"type": "advantage"}],
    }
    accepted = client.post("/v1/jobs", json={"resource": "sweeps", "request": body})
    if accepted.status_code != 202:
        return accepted.status_code
    job = accepted.headers["location"]
    if number % 3:
        with client.stream("GET", f"{job}/results", headers={"accept": "application/x-ndjson"}) as answer:
            rows = sum(1 for _ in answer.iter_lines())
        assert rows == JOB_POINTS, f"a job of {JOB_POINTS} points streamed {rows}"
    return client.delete(job).status_code


def _invalid(client: httpx2.Client, number: int) -> int:
    json_type = {"content-type": "application/json"}
    choices: tuple[Callable[[], httpx2.Response], ...] = (
        lambda: client.post("/v1/bounds", content=b'{"mechanism": ' + b"[" * (number % 500), headers=json_type),
        lambda: client.post("/v1/bounds", json={"mechanism": {"type": "gdp", "mu": -number}, "questions": []}),
        lambda: client.post("/v1/bounds", content=b"\xff" * (number % 5000), headers=json_type),
        lambda: client.post("/v1/bounds", content=b"{}", headers={"content-type": f"text/x-{number}"}),
        lambda: client.get(f"/v1/results/sha256:{number:064x}"),
        lambda: client.get(f"/{number}"),
        lambda: client.request("PATCH", "/v1/bounds"),
        lambda: client.post("/v1/imports", json={"format": "detect", "content": {f"member {number}": number}}),
        lambda: client.get("/v1/catalogue", headers={"x-number": str(number) * 100}),
        lambda: client.post("/v1/audits/glir", content=b"PK" * number, headers={"content-type": "application/x-npz"}),
    )
    return choices[number % len(choices)]().status_code


def _lost_client(client: httpx2.Client, number: int) -> int:
    """Send a request and close the connection without reading the answer."""
    body = json.dumps({"mechanism": _run(number), "questions": SEVERAL}).encode()
    with connect(client, f"127.0.1.{1 + number % 250}") as connection:
        connection.sendall((POST % len(body) + body)[: len(body) if number % 2 else None])
    return 200


def _overview(client: httpx2.Client, number: int) -> int:
    paths = ("/metrics", "/readyz?verbose", "/v1/jobs", "/v1/limits", "/openapi.json", "/", "/v1/sources")
    return client.get(paths[number % len(paths)]).status_code


STEPS: Final[tuple[Step, ...]] = (
    *(_closed_form,) * 6,
    *(_contour,) * 4,
    *(_repeated_contour,) * 3,
    *(_invalid,) * 4,
    *(_picture,) * 2,
    *(_import,) * 2,
    *(_lost_client,) * 2,
    _sweep,
    _report,
    _job,
    _overview,
)

INEXPENSIVE: Final[dict[str, Step]] = {
    "closed forms": _closed_form,
    "invalid requests": _invalid,
    "imports": _import,
    "lost clients": _lost_client,
    "repeated contours": _repeated_contour,
}
"""Steps of which thousands take seconds."""
CACHED: Final = 1_200
"""Number of distinct requests after which every bounded cache of the service is full. The largest has 1024 entries."""


@dataclass(frozen=True)
class Received:
    """Statuses and exceptions that the clients of a load received."""

    statuses: Counter[int] = field(default_factory=Counter[int])
    errors: list[Exception] = field(default_factory=list[Exception])

    def failures(self) -> list[str]:
        """Return a phrase for each unexpected status, and for the first exceptions."""
        found = [
            f"{count} responses with status {status}"
            for status, count in sorted(self.statuses.items())
            if status not in EXPECTED
        ]
        return found + [f"{type(error).__name__}: {error}" for error in self.errors[:3]]


def fill_caches(client: httpx2.Client, numbers: Iterator[int]) -> None:
    """Send CACHED requests of each inexpensive kind and of contours. `numbers` makes them distinct."""
    for step in (*INEXPENSIVE.values(), _contour):
        for number in itertools.islice(numbers, CACHED):
            step(client, number)


@contextmanager
def mixed_load(client: httpx2.Client, clients: int, numbers: Iterator[int]) -> Generator[Received]:
    """Run the load of several clients in threads, and yield what they receive.

    `numbers` makes the requests distinct.
    """
    stopped = threading.Event()
    received = Received()

    def run(place: int) -> None:
        transport = httpx2.HTTPTransport(local_address=f"127.0.0.{2 + place}")
        with httpx2.Client(base_url=client.base_url, timeout=client.timeout, transport=transport) as own:
            for step in itertools.islice(itertools.cycle(STEPS), place * 7, None):
                if stopped.is_set():
                    return
                try:
                    received.statuses[step(own, next(numbers))] += 1
                except Exception as error:  # noqa: BLE001
                    received.errors.append(error)

    threads = [threading.Thread(target=run, args=(place,)) for place in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield received
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
