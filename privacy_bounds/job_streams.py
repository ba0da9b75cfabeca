"""Streams of jobs, without input and output: rows of results, events, and the absence of a service."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, final
from urllib.parse import quote

from privacy_bounds.calls import read_response
from privacy_bounds.errors import InvalidAnswer, PrivacyBoundsError, Refused, Unreachable

if TYPE_CHECKING:
    from api_schemas.jobs import JobResponse

LINES: Final = "application/x-ndjson"
EVENTS: Final = "text/event-stream"
PAUSE_SECONDS: Final = 0.5
LONGEST_LINE: Final = 64 * 2**20
AWAY: Final = (429, 502, 503, 504)
"""Statuses of a service that is overloaded, or of a proxy in front of a service that restarts."""


@final
class Absence:
    """Time for which a service does not answer. Methods of jobs wait during this time, up to a limit."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: float | None = None

    @property
    def has_begun(self) -> bool:
        """Whether the last attempt to reach the service failed."""
        return self._since is not None

    def end(self) -> None:
        """Record that the service answers again."""
        self._since = None

    def pause_after(self, error: PrivacyBoundsError) -> float:
        """Return the seconds to wait before the next attempt after the error `error`.

        The error is raised if it is permanent, or if the service has been absent for the limit of seconds. An error is
        not permanent if the service did not answer, or answered with the status 429, 502, 503 or 504.
        """
        status = error.problem.status if isinstance(error, Refused) else getattr(error, "status", None)
        lasting = isinstance(error, InvalidAnswer) or not (isinstance(error, Unreachable) or status in AWAY)
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if lasting or now - self._since >= self._seconds:
            raise error
        return PAUSE_SECONDS


@final
class LineReader:
    """Reader of complete lines from the pieces of a stream. A line that is cut off does not count."""

    def __init__(self) -> None:
        self._begin = b""

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the lines that a piece of the stream completes. Raise InvalidAnswer for a line of more than 64 MB."""
        *lines, self._begin = (self._begin + piece).split(b"\n")
        if len(self._begin) > LONGEST_LINE:
            raise InvalidAnswer("The answer is not from this service: one of its lines does not end.")
        return lines


@final
class RowReader:
    """Reader of the results of a job, which may be reopened behind the last complete row.

    `start` is the point of the next row.
    """

    def __init__(self, start: int) -> None:
        self.start = start
        self._lines = LineReader()

    def path(self, name: str) -> str:
        """Return the path for the results of the job with the id `name` that are still missing."""
        self._lines = LineReader()
        return job_path(name, f"/results?start={self.start}")

    def rows(self, piece: bytes) -> Iterator[dict[str, Any]]:
        """Yield the rows of results that a piece of the response completes. Raise InvalidAnswer for another line."""
        for line in self._lines.feed(piece):
            try:
                row: dict[str, Any] = json.loads(line)
                self.start = int(row["point"]) + 1
            except (ValueError, TypeError, KeyError, RecursionError):
                raise InvalidAnswer("The answer is not from this service: a row of results has no point.") from None
            yield row


@final
class EventReader:
    """Reader of server-sent events of a job, which may be reopened after the last event."""

    def __init__(self) -> None:
        self._last = 0
        self._job: JobResponse | None = None
        self._lines = LineReader()

    def headers(self) -> dict[str, str]:
        """Return the HTTP headers with which the stream continues after the last received event; none before it."""
        self._lines = LineReader()
        return {"Last-Event-ID": str(self._last - 1)} if self._last else {}

    def jobs(self, piece: bytes) -> Iterator[JobResponse]:
        """Yield the states of the job in the events that a piece of the stream completes. Raise InvalidAnswer."""
        for line in self._lines.feed(piece):
            name, _, value = line.strip().partition(b": ")
            if name == b"data":
                self._job = read_job(value)
            elif name == b"id" and value.isdigit() and self._job is not None:
                self._last = int(value[:18])
                yield self._job


def job_path(name: str, below: str = "") -> str:
    """Return the path of the job with the id `name`, followed by the text `below`, such as "/results"."""
    return f"/v1/jobs/{quote(name, safe='')}{below}"


def read_job(body: bytes) -> JobResponse:
    """Return the state of a job from a response body. Raise InvalidAnswer."""
    from api_schemas.jobs import JobResponse

    return read_response(JobResponse, body)


def has_ended(job: JobResponse) -> bool:
    """Return whether the job has succeeded or failed, or was cancelled."""
    from api_schemas.jobs import ENDED

    return job.state in ENDED


def single_response(job: JobResponse, row: dict[str, Any] | None) -> dict[str, Any]:
    """Return the response of a job of a single request from its only row. Raise Refused with the problem of the job.

    `row` is None for a job without results. Raise another PrivacyBoundsError for a job that was cancelled or has
    several points.
    """
    from api_schemas.problems import Problem

    problem: object = (row or {}).get("problem")
    if isinstance(problem, dict):
        raise Refused(read_response(Problem, json.dumps(problem).encode()))
    if row is None or "response" not in row:
        if job.problem is not None:
            raise Refused(job.problem)
        raise PrivacyBoundsError(f"The job is {job.state}, and has no response.")
    found: dict[str, Any] = row["response"]
    return found
