"""Clients: a service over HTTP, the same computations in this process, and coroutines for either of them."""

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
from privacy_bounds.api import JSON, Asking, encode
from privacy_bounds.errors import Refused, Unreachable
from privacy_bounds.jobs import Job

P = ParamSpec("P")
T = TypeVar("T")


@final
class Client(Asking):
    """Client of a service at an address. `headers` are sent with every request; `timeout` is in seconds."""

    def __init__(self, url: str, *, headers: Mapping[str, str] | None = None, timeout: float = 60.0) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise ValueError("The address of a service starts with http:// or https://.")
        self._url = url.rstrip("/")
        self._headers = dict(headers or {})
        self._timeout = timeout

    @override
    def send(self, path: str, body: bytes, media_type: str = JSON) -> bytes:
        with self.request("POST", path, body, {"Content-Type": JSON, "Accept": media_type}) as answer:
            return answer.read()

    def submit(self, resource: str, request: Mapping[str, Any], *, key: str | None = None) -> Job:
        """Submit a request as a job. `resource` is the path of the resource below /v1/, for example "sweeps".

        Jobs suit sweeps of up to a million points, and requests that exceed the time limit of the service. A repeated
        `key` returns the existing job.
        """
        headers = {"Content-Type": JSON} | ({} if key is None else {"Idempotency-Key": key})
        body = encode({"resource": resource, "request": request})
        with self.request("POST", "/v1/jobs", body, headers) as answer:
            return Job(self, JobResponse.model_validate_json(answer.read()).id)

    def job(self, name: str) -> Job:
        """Return a job by its id."""
        return Job(self, name)

    def jobs(self) -> Iterator[JobResponse]:
        """Yield the jobs that were submitted from this address, newest first. Pages are requested as needed."""
        cursor = None
        while True:
            path = f"/v1/jobs?limit={MOST_LISTED}" + (f"&cursor={quote(cursor, safe='')}" if cursor else "")
            with self.request("GET", path) as answer:
                page = JobsPage.model_validate_json(answer.read())
            yield from page.jobs
            cursor = page.next
            if cursor is None:
                return

    def estimate(self, resource: str, request: Mapping[str, Any]) -> EstimatesResponse:
        """Estimate the cost of a request (units of about 1 us of CPU time), and where the service would compute it."""
        return self.post("/v1/estimates", {"resource": resource, "request": request}, EstimatesResponse)

    @contextmanager
    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Generator[HTTPResponse]:
        """Send an HTTP request and yield the open response. Raise PrivacyBoundsError."""
        sent = {**self._headers, **(headers or {})}
        request = urllib.request.Request(self._url + path, body, sent, method=method)  # noqa: S310 - see above
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as answer:  # noqa: S310
                yield answer
        except urllib.error.HTTPError as error:
            with error:
                raise _error_of(error.read(), error.code, self._url) from None
        except (OSError, HTTPException) as error:
            raise Unreachable(f"Nobody answers at {self._url}: {getattr(error, 'reason', error)}.") from error


@final
class Local(Asking):
    """Client that computes in this process, with the same response bytes as a service. Costs are not limited."""

    @override
    def send(self, path: str, body: bytes, media_type: str = JSON) -> bytes:
        from service.command.in_process import (  # loads the numeric core, which HTTP clients do not need
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
    """Client with coroutines, each of which waits in a thread. `AsyncClient(Local())` computes in this process."""

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
    post = _in_a_thread(Asking.post)
    ask = post


def _error_of(body: bytes, status: int, url: str) -> Refused | Unreachable:
    try:
        return Refused(Problem.model_validate_json(body))
    except ValidationError:
        return Unreachable(f"What answers at {url} is not this service: it says {status}, and no problem.")
