"""Jobs of a service: their progress, their end and their results, waiting or with coroutines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, aclosing
from typing import TYPE_CHECKING, Any, Protocol, final

from privacy_bounds.calls import JSON
from privacy_bounds.errors import PrivacyBoundsError, Unreachable
from privacy_bounds.job_streams import (
    EVENTS,
    LINES,
    PAUSE_SECONDS,
    Absence,
    EventReader,
    RowReader,
    has_ended,
    job_path,
    read_job,
    single_response,
)

if TYPE_CHECKING:
    import httpx2

    from api_schemas.jobs import JobResponse


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
        """Send a request and return the whole body of the answer. Raise PrivacyBoundsError.

        `method` and `path` are those of HTTP, and `media_type` is the accepted form of the answer.
        """
        ...

    def stream(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        media_type: str = JSON,
    ) -> AbstractContextManager[httpx2.Response]:
        """Send a request once and yield the open response. Raise PrivacyBoundsError.

        The arguments are those of `fetch`. The body of an unsuccessful response is read, and its error raised.
        """
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
        """Send a request and return the whole body of the answer. Raise PrivacyBoundsError.

        `method` and `path` are those of HTTP, and `media_type` is the accepted form of the answer.
        """
        ...

    def stream(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        media_type: str = JSON,
    ) -> AbstractAsyncContextManager[httpx2.Response]:
        """Send a request once and yield the open response. Raise PrivacyBoundsError.

        The arguments are those of `fetch`. The body of an unsuccessful response is read, and its error raised.
        """
        ...


@final
class Job:
    """Job of a service, by its id. Every method raises PrivacyBoundsError, for an unknown id Refused.

    Methods that wait for the job endure a service that is absent for `retry_seconds` of the client.
    """

    def __init__(self, client: HttpClient, name: str) -> None:
        self._client = client
        self.id = name

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    def state(self) -> JobResponse:
        """Return the current state of the job."""
        return read_job(self._client.fetch("GET", job_path(self.id)))

    def cancel(self) -> JobResponse:
        """Cancel the job. A job that has ended does not change. Results that were already computed stay available."""
        return read_job(self._client.fetch("DELETE", job_path(self.id)))

    def events(self) -> Iterator[JobResponse]:
        """Yield the job when it changes and at intervals, until it ends. Lost connections are reopened."""
        reading, absence = EventReader(), Absence(self._client.retry_seconds)
        while True:
            try:
                with self._client.stream(
                    "GET", job_path(self.id, "/events"), None, reading.headers(), EVENTS
                ) as response:
                    for piece in response.iter_bytes():
                        for job in reading.jobs(piece):
                            absence.end()
                            yield job
                            if has_ended(job):
                                return
                raise Unreachable("The events of the job break off.")
            except PrivacyBoundsError as error:
                time.sleep(absence.pause_after(error))

    def wait(self, seconds: float | None = None) -> JobResponse:
        """Return the state of the job when it has ended, or after `seconds` (None: no limit).

        After `seconds` the job may still be active. The service may be absent in the meantime.
        """
        until = None if seconds is None else time.monotonic() + seconds
        absence = Absence(self._client.retry_seconds)
        while True:
            try:
                job = self.state()
                absence.end()
                if has_ended(job) or (until is not None and time.monotonic() > until):
                    return job
                pause = PAUSE_SECONDS
            except PrivacyBoundsError as error:
                pause = absence.pause_after(error)
            time.sleep(pause)

    def rows(self, start: int = 0) -> Generator[dict[str, Any]]:
        """Yield the results of all points from `start` on, as they arrive. Lost connections are reopened.

        Points that a cancelled job has not computed are missing. A result is an object with its `point`, and with
        `numbers` and `answers` of a sweep, a `response`, or a `problem`.
        """
        reading, absence = RowReader(start), Absence(self._client.retry_seconds)
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
        return single_response(job, next(self.rows(), None))


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
        return read_job(await self._client.fetch("GET", job_path(self.id)))

    async def cancel(self) -> JobResponse:
        """Cancel the job. A job that has ended does not change. Results that were already computed stay available."""
        return read_job(await self._client.fetch("DELETE", job_path(self.id)))

    async def events(self) -> AsyncIterator[JobResponse]:
        """Yield the job when it changes and at intervals, until it ends. Lost connections are reopened."""
        reading, absence = EventReader(), Absence(self._client.retry_seconds)
        while True:
            try:
                async with self._client.stream(
                    "GET", job_path(self.id, "/events"), None, reading.headers(), EVENTS
                ) as response:
                    async for piece in response.aiter_bytes():
                        for job in reading.jobs(piece):
                            absence.end()
                            yield job
                            if has_ended(job):
                                return
                raise Unreachable("The events of the job break off.")
            except PrivacyBoundsError as error:
                await asyncio.sleep(absence.pause_after(error))

    async def wait(self, seconds: float | None = None) -> JobResponse:
        """Return the state of the job when it has ended, or after `seconds` (None: no limit).

        After `seconds` the job may still be active. The service may be absent in the meantime.
        """
        until = None if seconds is None else time.monotonic() + seconds
        absence = Absence(self._client.retry_seconds)
        while True:
            try:
                job = await self.state()
                absence.end()
                if has_ended(job) or (until is not None and time.monotonic() > until):
                    return job
                pause = PAUSE_SECONDS
            except PrivacyBoundsError as error:
                pause = absence.pause_after(error)
            await asyncio.sleep(pause)

    async def rows(self, start: int = 0) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the results of all points from `start` on, as they arrive. Lost connections are reopened.

        A result is an object with its `point`, and with `numbers` and `answers` of a sweep, a `response`, or a
        `problem`.
        """
        reading, absence = RowReader(start), Absence(self._client.retry_seconds)
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
            return single_response(job, await anext(rows, None))
