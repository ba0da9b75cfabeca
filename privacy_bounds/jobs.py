"""A job of a service: how far it is, when it ends, and what is there of it."""

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
PIECE_BYTES: Final = 65_536


class Opens(Protocol):
    """Who sends requests to a service."""

    def opened(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> AbstractContextManager[HTTPResponse]:
        """The response to a request, to be read. Raises PrivacyBoundsError."""
        ...


@final
class Job:
    """A job by its id. Every method raises PrivacyBoundsError."""

    def __init__(self, client: Opens, name: str) -> None:
        self._client = client
        self.id = name

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    def state(self) -> JobResponse:
        """The job as it is now."""
        return self._told("GET")

    def cancel(self) -> JobResponse:
        """End it; what was computed stays there."""
        return self._told("DELETE")

    def events(self) -> Iterator[JobResponse]:
        """The job as it changes, and once in a while, until it has ended; a connection that breaks is made anew."""
        last = 0
        while True:
            try:
                with self._client.opened("GET", self._path("/events"), None, self._following(last)) as answer:
                    for number, told in _read_events(answer):
                        last = number
                        yield told
                        if told.state in ENDED:
                            return
            except Unreachable:
                time.sleep(PAUSE_SECONDS)
                self.state()  # who is away for longer is told of

    def wait(self, seconds: float | None = None) -> JobResponse:
        """The job when it has ended, or after so many seconds. A service that is away meanwhile may come back."""
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            try:
                told = self.state()
            except (Unreachable, Refused) as error:
                if isinstance(error, Refused) and error.problem.status != UNAVAILABLE:
                    raise
                told = None
            if told is not None and told.state in ENDED:
                return told
            if until is not None and time.monotonic() > until:
                return told or self.state()
            time.sleep(PAUSE_SECONDS)

    def rows(self, start: int = 0) -> Generator[dict[str, Any]]:
        """The results of all points from `start` on, as they come: each an object with its `point`, and `numbers` and
        `answers` of a sweep, or `response`, or `problem`. A connection that breaks is made anew.
        """
        while True:
            try:
                with self._client.opened(
                    "GET", self._path(f"/results?start={start}"), None, {"Accept": LINES}
                ) as answer:
                    for line in _read_lines(answer):
                        row: dict[str, Any] = json.loads(line)
                        start = row["point"] + 1
                        yield row
                return
            except Unreachable:
                time.sleep(PAUSE_SECONDS)
                if start >= self.state().progress.total:  # who is away for longer is told of
                    return

    def response(self) -> dict[str, Any]:
        """What a job of one request answers, when it has ended."""
        self.wait()
        row = next(self.rows())
        found: dict[str, Any] = row["response"]
        return found

    def _told(self, method: str) -> JobResponse:
        with self._client.opened(method, self._path()) as answer:
            return JobResponse.model_validate_json(answer.read())

    def _path(self, below: str = "") -> str:
        return f"/v1/jobs/{self.id}{below}"

    @staticmethod
    def _following(last: int) -> dict[str, str]:
        return {"Accept": EVENTS} | ({"Last-Event-ID": str(last - 1)} if last else {})


def _read_events(answer: HTTPResponse) -> Iterator[tuple[int, JobResponse]]:
    told: JobResponse | None = None
    for line in answer:
        name, _, value = line.decode().strip().partition(": ")
        if name == "data":
            told = JobResponse.model_validate_json(value)
        elif name == "id" and told is not None:
            yield int(value), told


def _read_lines(answer: HTTPResponse) -> Iterator[bytes]:
    """Yield whole lines. Iterating over the response itself would hide that its end is missing."""
    begin = b""
    while piece := answer.read1(PIECE_BYTES):
        *lines, begin = (begin + piece).split(b"\n")
        yield from lines
