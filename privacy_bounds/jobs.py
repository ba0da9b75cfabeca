"""Job of a service: its progress, its end and its results."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager
from http.client import HTTPResponse
from typing import Any, Final, Protocol, final

from api_schemas.jobs import ENDED, JobResponse
from privacy_bounds.errors import Refused, Unreachable

LINES: Final = "application/x-ndjson"
EVENTS: Final = "text/event-stream"
PAUSE_SECONDS: Final = 0.5
UNAVAILABLE: Final = 503
CHUNK_BYTES: Final = 65_536


class HttpClient(Protocol):
    """Client that sends HTTP requests to a service."""

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> AbstractContextManager[HTTPResponse]:
        """Send a request and yield the open response. Raise PrivacyBoundsError."""
        ...


@final
class Job:
    """Job of a service, by its id. Every method raises PrivacyBoundsError."""

    def __init__(self, client: HttpClient, name: str) -> None:
        self._client = client
        self.id = name

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    def state(self) -> JobResponse:
        """Return the current state of the job."""
        return self._request("GET")

    def cancel(self) -> JobResponse:
        """Cancel the job. Results that were already computed stay available."""
        return self._request("DELETE")

    def events(self) -> Iterator[JobResponse]:
        """Yield the job when it changes and at intervals, until it ends. Lost connections are reopened."""
        last = 0
        while True:
            try:
                with self._client.request("GET", self._path("/events"), None, self._event_headers(last)) as answer:
                    for number, job in _read_events(answer):
                        last = number
                        yield job
                        if job.state in ENDED:
                            return
            except Unreachable:
                time.sleep(PAUSE_SECONDS)
                self.state()  # raises if the service stays away

    def wait(self, seconds: float | None = None) -> JobResponse:
        """Return the job when it has ended, or after `seconds`. The service may be unavailable in the meantime."""
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            try:
                job = self.state()
            except (Unreachable, Refused) as error:
                if isinstance(error, Refused) and error.problem.status != UNAVAILABLE:
                    raise
                job = None
            if job is not None and job.state in ENDED:
                return job
            if until is not None and time.monotonic() > until:
                return job or self.state()
            time.sleep(PAUSE_SECONDS)

    def rows(self, start: int = 0) -> Generator[dict[str, Any]]:
        """Yield the results of all points from `start` on, as they arrive. Lost connections are reopened.

        A result is an object with its `point`, and with `numbers` and `answers` of a sweep, a `response`, or a
        `problem`.
        """
        while True:
            try:
                with self._client.request(
                    "GET", self._path(f"/results?start={start}"), None, {"Accept": LINES}
                ) as answer:
                    for line in _read_lines(answer):
                        row: dict[str, Any] = json.loads(line)
                        start = row["point"] + 1
                        yield row
                return
            except Unreachable:
                time.sleep(PAUSE_SECONDS)
                if start >= self.state().progress.total:  # raises if the service stays away
                    return

    def response(self) -> dict[str, Any]:
        """Wait for a job of a single request, and return its response."""
        self.wait()
        row = next(self.rows())
        found: dict[str, Any] = row["response"]
        return found

    def _request(self, method: str) -> JobResponse:
        with self._client.request(method, self._path()) as answer:
            return JobResponse.model_validate_json(answer.read())

    def _path(self, below: str = "") -> str:
        return f"/v1/jobs/{self.id}{below}"

    @staticmethod
    def _event_headers(last: int) -> dict[str, str]:
        return {"Accept": EVENTS} | ({"Last-Event-ID": str(last - 1)} if last else {})


def _read_events(answer: HTTPResponse) -> Iterator[tuple[int, JobResponse]]:
    job: JobResponse | None = None
    for line in answer:
        name, _, value = line.decode().strip().partition(": ")
        if name == "data":
            job = JobResponse.model_validate_json(value)
        elif name == "id" and job is not None:
            yield int(value), job


def _read_lines(answer: HTTPResponse) -> Iterator[bytes]:
    """Yield complete lines. Iteration over the response itself would not detect a truncated response."""
    begin = b""
    while piece := answer.read1(CHUNK_BYTES):
        *lines, begin = (begin + piece).split(b"\n")
        yield from lines
