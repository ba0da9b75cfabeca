"""Who answers: a service over HTTP, or the same computations in this process."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from http.client import HTTPException, HTTPResponse
from typing import Any, Concatenate, ParamSpec, TypeVar, final
from urllib.parse import quote, urlsplit

from pydantic import ValidationError
from typing_extensions import override

from api_schemas.jobs import MOST_LISTED, EstimatesResponse, JobResponse, JobsPage
from api_schemas.problems import Problem
from privacy_bounds.asking import JSON, Asking, encoded
from privacy_bounds.errors import Refused, Unreachable
from privacy_bounds.jobs import Job

P = ParamSpec("P")
T = TypeVar("T")


@final
class Client(Asking):
    """A service at an address. `headers` go with every request, `timeout` is in seconds."""

    def __init__(self, url: str, *, headers: Mapping[str, str] | None = None, timeout: float = 60.0) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise ValueError("The address of a service starts with http:// or https://.")
        self._url = url.rstrip("/")
        self._headers = dict(headers or {})
        self._timeout = timeout

    @override
    def send(self, path: str, body: bytes, media_type: str = JSON) -> bytes:
        with self.opened("POST", path, body, {"Content-Type": JSON, "Accept": media_type}) as answer:
            return answer.read()

    def submit(self, resource: str, request: Mapping[str, Any], *, key: str | None = None) -> Job:
        """A request of any resource, by its path below /v1/, as a job: a sweep of up to a million points, or what takes
        longer than a service lets a client wait. With the same `key` it is the same job, however often it is sent.
        """
        headers = {"Content-Type": JSON} | ({} if key is None else {"Idempotency-Key": key})
        body = encoded({"resource": resource, "request": request})
        with self.opened("POST", "/v1/jobs", body, headers) as answer:
            return Job(self, JobResponse.model_validate_json(answer.read()).id)

    def job(self, name: str) -> Job:
        """A job by its id."""
        return Job(self, name)

    def jobs(self) -> Iterator[JobResponse]:
        """Yield one's own jobs, newest first: those that were sent from this address. They are read page by page."""
        cursor = None
        while True:
            path = f"/v1/jobs?limit={MOST_LISTED}" + (f"&cursor={quote(cursor, safe='')}" if cursor else "")
            with self.opened("GET", path) as answer:
                page = JobsPage.model_validate_json(answer.read())
            yield from page.jobs
            cursor = page.next
            if cursor is None:
                return

    def estimate(self, resource: str, request: Mapping[str, Any]) -> EstimatesResponse:
        """What a request would cost, and where it would be computed."""
        return self.ask("/v1/estimates", {"resource": resource, "request": request}, EstimatesResponse)

    @contextmanager
    def opened(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Generator[HTTPResponse]:
        """The response to a request, to be read. Raises PrivacyBoundsError."""
        sent = {**self._headers, **(headers or {})}
        request = urllib.request.Request(self._url + path, body, sent, method=method)  # noqa: S310 - see above
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as answer:  # noqa: S310
                yield answer
        except urllib.error.HTTPError as error:
            with error:
                raise _refused(error.read(), error.code, self._url) from None
        except (OSError, HTTPException) as error:
            raise Unreachable(f"Nobody answers at {self._url}: {getattr(error, 'reason', error)}.") from error


@final
class Local(Asking):
    """This process, with the same requests, digests and answers as a service of this version; what it costs is not
    limited.
    """

    @override
    def send(self, path: str, body: bytes, media_type: str = JSON) -> bytes:
        from service.command.in_process import (  # with the numeric core, which a client of a service does without
            evaluate,
            render,
            resource_by_path,
        )

        computation = resource_by_path(path)
        found = evaluate(computation, body, instance=path)
        if isinstance(found, Problem):
            raise Refused(found)
        return found if media_type == JSON else render(computation, found, media_type)


def _in_a_thread(
    method: Callable[Concatenate[Asking, P], T],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    @wraps(method)
    async def asked(self: AsyncClient, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(method, self.blocking, *args, **kwargs)

    return asked


@final
class AsyncClient:
    """The same methods, to be awaited: each waits in a thread. `AsyncClient(Local())` computes in this process."""

    def __init__(self, url: str | Asking, **settings: Any) -> None:
        self.blocking: Asking = url if isinstance(url, Asking) else Client(url, **settings)

    epsilon = _in_a_thread(Asking.epsilon)
    delta = _in_a_thread(Asking.delta)
    advantage = _in_a_thread(Asking.advantage)
    gdp_mu = _in_a_thread(Asking.gdp_mu)
    reconstruction = _in_a_thread(Asking.reconstruction)
    power = _in_a_thread(Asking.power)
    bounds = _in_a_thread(Asking.bounds)
    calibrate = _in_a_thread(Asking.calibrate)
    compare = _in_a_thread(Asking.compare)
    sweep = _in_a_thread(Asking.sweep)
    assess = _in_a_thread(Asking.assess)
    report = _in_a_thread(Asking.report)
    check = _in_a_thread(Asking.check)
    read = _in_a_thread(Asking.read)
    ask = _in_a_thread(Asking.ask)


def _refused(body: bytes, status: int, url: str) -> Refused | Unreachable:
    try:
        return Refused(Problem.model_validate_json(body))
    except ValidationError:
        return Unreachable(f"What answers at {url} is not this service: it says {status}, and no problem.")
