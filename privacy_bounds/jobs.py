"""Jobs of a service: their progress, their end and their results, waiting or with coroutines."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, aclosing
from typing import TYPE_CHECKING, Any, Final, Protocol, final
from urllib.parse import quote

from privacy_bounds.calls import JSON, read_response
from privacy_bounds.errors import InvalidAnswer, PrivacyBoundsError, Refused, Unreachable

if TYPE_CHECKING:
    import httpx2

    from api_schemas.jobs import JobResponse

LINES: Final = "application/x-ndjson"
EVENTS: Final = "text/event-stream"
PAUSE_SECONDS: Final = 0.5
LONGEST_LINE: Final = 64 * 2**20
AWAY: Final = (429, 502, 503, 504)
"""Statuses of a service that is overloaded, or of a proxy in front of a service that restarts."""


class HttpClient(Protocol):
    """Client that sends HTTP requests to a service and waits for the answers."""

    @property
    def retry_seconds(self) -> float:
        """Seconds for which a job waits for an absent service."""
        ...

    def fetch(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        media_type: str = JSON,
    ) -> bytes:
        """Send a request and return the whole body of the answer. Raise PrivacyBoundsError."""
        ...

    def stream(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        media_type: str = JSON,
    ) -> AbstractContextManager[httpx2.Response]:
        """Send a request once and yield the open response. Raise PrivacyBoundsError."""
        ...


class AsyncHttpClient(Protocol):
    """Client that sends HTTP requests to a service and awaits the answers."""

    @property
    def retry_seconds(self) -> float:
        """Seconds for which a job waits for an absent service."""
        ...

    async def fetch(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        media_type: str = JSON,
    ) -> bytes:
        """Send a request and return the whole body of the answer. Raise PrivacyBoundsError."""
        ...

    def stream(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        media_type: str = JSON,
    ) -> AbstractAsyncContextManager[httpx2.Response]:
        """Send a request once and yield the open response. Raise PrivacyBoundsError."""
        ...


@final
class Job:
    """Job of a service, by its id. Every method raises PrivacyBoundsError.

    Methods that wait for the job endure a service that is absent for `retry_seconds` of the client.
    """

    def __init__(self, client: HttpClient, name: str) -> None:
        self._client = client
        self.id = name

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    def state(self) -> JobResponse:
        """Return the current state of the job."""
        return _read_job(self._client.fetch("GET", _path(self.id)))

    def cancel(self) -> JobResponse:
        """Cancel the job. Results that were already computed stay available."""
        return _read_job(self._client.fetch("DELETE", _path(self.id)))

    def events(self) -> Iterator[JobResponse]:
        """Yield the job when it changes and at intervals, until it ends. Lost connections are reopened."""
        reading, absence = _EventReader(), Absence(self._client.retry_seconds)
        while True:
            try:
                with self._client.stream("GET", _path(self.id, "/events"), None, reading.headers(), EVENTS) as response:
                    for piece in response.iter_bytes():
                        for job in reading.jobs(piece):
                            absence.end()
                            yield job
                            if _has_ended(job):
                                return
                raise Unreachable("The events of the job break off.")
            except PrivacyBoundsError as error:
                time.sleep(absence.pause_after(error))

    def wait(self, seconds: float | None = None) -> JobResponse:
        """Return the job when it has ended, or after `seconds`. The service may be absent in the meantime."""
        until = None if seconds is None else time.monotonic() + seconds
        absence = Absence(self._client.retry_seconds)
        while True:
            try:
                job = self.state()
                absence.end()
                if _has_ended(job) or (until is not None and time.monotonic() > until):
                    return job
                pause = PAUSE_SECONDS
            except PrivacyBoundsError as error:
                pause = absence.pause_after(error)
            time.sleep(pause)

    def rows(self, start: int = 0) -> Generator[dict[str, Any]]:
        """Yield the results of all points from `start` on, as they arrive. Lost connections are reopened.

        A result is an object with its `point`, and with `numbers` and `answers` of a sweep, a `response`, or a
        `problem`.
        """
        reading, absence = _RowReader(start), Absence(self._client.retry_seconds)
        while True:
            try:
                if absence.has_begun and reading.start >= self.state().progress.total:
                    return
                with self._client.stream("GET", reading.path(self.id), None, None, LINES) as response:
                    for piece in response.iter_bytes():
                        for row in reading.rows(piece):
                            absence.end()
                            yield row
                return
            except PrivacyBoundsError as error:
                time.sleep(absence.pause_after(error))

    def response(self) -> dict[str, Any]:
        """Wait for a job of a single request, and return its response. Raise Refused with the problem of the job."""
        job = self.wait()
        return _single_response(job, next(self.rows(), None))


@final
class AsyncJob:
    """Job of a service, by its id, for `AsyncClient`.

    The methods are those of `Job`, to be awaited or iterated by `async for`.
    """

    def __init__(self, client: AsyncHttpClient, name: str) -> None:
        self._client = client
        self.id = name

    def __repr__(self) -> str:
        return f"AsyncJob({self.id!r})"

    async def state(self) -> JobResponse:
        """Return the current state of the job."""
        return _read_job(await self._client.fetch("GET", _path(self.id)))

    async def cancel(self) -> JobResponse:
        """Cancel the job. Results that were already computed stay available."""
        return _read_job(await self._client.fetch("DELETE", _path(self.id)))

    async def events(self) -> AsyncIterator[JobResponse]:
        """Yield the job when it changes and at intervals, until it ends. Lost connections are reopened."""
        reading, absence = _EventReader(), Absence(self._client.retry_seconds)
        while True:
            try:
                async with self._client.stream(
                    "GET", _path(self.id, "/events"), None, reading.headers(), EVENTS
                ) as response:
                    async for piece in response.aiter_bytes():
                        for job in reading.jobs(piece):
                            absence.end()
                            yield job
                            if _has_ended(job):
                                return
                raise Unreachable("The events of the job break off.")
            except PrivacyBoundsError as error:
                await asyncio.sleep(absence.pause_after(error))

    async def wait(self, seconds: float | None = None) -> JobResponse:
        """Return the job when it has ended, or after `seconds`. The service may be absent in the meantime."""
        until = None if seconds is None else time.monotonic() + seconds
        absence = Absence(self._client.retry_seconds)
        while True:
            try:
                job = await self.state()
                absence.end()
                if _has_ended(job) or (until is not None and time.monotonic() > until):
                    return job
                pause = PAUSE_SECONDS
            except PrivacyBoundsError as error:
                pause = absence.pause_after(error)
            await asyncio.sleep(pause)

    async def rows(self, start: int = 0) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the results of all points from `start` on, as they arrive. Lost connections are reopened."""
        reading, absence = _RowReader(start), Absence(self._client.retry_seconds)
        while True:
            try:
                if absence.has_begun and reading.start >= (await self.state()).progress.total:
                    return
                async with self._client.stream("GET", reading.path(self.id), None, None, LINES) as response:
                    async for piece in response.aiter_bytes():
                        for row in reading.rows(piece):
                            absence.end()
                            yield row
                return
            except PrivacyBoundsError as error:
                await asyncio.sleep(absence.pause_after(error))

    async def response(self) -> dict[str, Any]:
        """Wait for a job of a single request, and return its response. Raise Refused with the problem of the job."""
        job = await self.wait()
        async with aclosing(self.rows()) as rows:
            return _single_response(job, await anext(rows, None))


@final
class Absence:
    """Time for which a service does not answer. Methods of jobs endure it up to a limit."""

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
        """Return the seconds before the next attempt. Raise the error if it is lasting, or has lasted too long."""
        status = error.problem.status if isinstance(error, Refused) else getattr(error, "status", None)
        lasting = isinstance(error, InvalidAnswer) or not (isinstance(error, Unreachable) or status in AWAY)
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if lasting or now - self._since >= self._seconds:
            raise error
        return PAUSE_SECONDS


class _Lines:
    """Complete lines of a stream. A line that is cut off does not count."""

    def __init__(self) -> None:
        self._begin = b""

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the lines that a piece completes. Raise InvalidAnswer for an endless line."""
        *lines, self._begin = (self._begin + piece).split(b"\n")
        if len(self._begin) > LONGEST_LINE:
            raise InvalidAnswer("The answer is not from this service: one of its lines does not end.")
        return lines


@final
class _RowReader:
    """Reader of results, which may be reopened behind the last complete row."""

    def __init__(self, start: int) -> None:
        self.start = start
        self._lines = _Lines()

    def path(self, name: str) -> str:
        """Return the path of the results that are still missing."""
        self._lines = _Lines()
        return _path(name, f"/results?start={self.start}")

    def rows(self, piece: bytes) -> Iterator[dict[str, Any]]:
        """Yield the rows of results that a piece of the response completes. Raise InvalidAnswer."""
        for line in self._lines.feed(piece):
            try:
                row: dict[str, Any] = json.loads(line)
                self.start = int(row["point"]) + 1
            except (ValueError, TypeError, KeyError, RecursionError):
                raise InvalidAnswer("The answer is not from this service: a row of results has no point.") from None
            yield row


@final
class _EventReader:
    """Reader of server-sent events of a job, which may be reopened after the last event."""

    def __init__(self) -> None:
        self._last = 0
        self._job: JobResponse | None = None
        self._lines = _Lines()

    def headers(self) -> dict[str, str]:
        """Return the HTTP headers that continue after the last event."""
        self._lines = _Lines()
        return {"Last-Event-ID": str(self._last - 1)} if self._last else {}

    def jobs(self, piece: bytes) -> Iterator[JobResponse]:
        """Yield the states of the job that a piece completes. Raise InvalidAnswer."""
        for line in self._lines.feed(piece):
            name, _, value = line.strip().partition(b": ")
            if name == b"data":
                self._job = _read_job(value)
            elif name == b"id" and value.isdigit() and self._job is not None:
                self._last = int(value[:18])
                yield self._job


def _path(name: str, below: str = "") -> str:
    return f"/v1/jobs/{quote(name, safe='')}{below}"


def _read_job(body: bytes) -> JobResponse:
    from api_schemas.jobs import JobResponse

    return read_response(JobResponse, body)


def _has_ended(job: JobResponse) -> bool:
    from api_schemas.jobs import ENDED

    return job.state in ENDED


def _single_response(job: JobResponse, row: dict[str, Any] | None) -> dict[str, Any]:
    """Return the response of a job of one request. Raise PrivacyBoundsError."""
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
