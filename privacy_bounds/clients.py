"""Client of a service over HTTP. Methods wait for their answers."""

from __future__ import annotations

import os
import weakref
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, final
from urllib.parse import quote

from typing_extensions import override

from privacy_bounds.api import Asking
from privacy_bounds.calls import ENVELOPE, JSON, encode, read_response
from privacy_bounds.errors import PrivacyBoundsError
from privacy_bounds.jobs import Job
from privacy_bounds.local import Local

if TYPE_CHECKING:
    import httpx2

    from api_schemas.jobs import EstimatesResponse, JobResponse

__all__ = ["Client", "Local"]


@final
class Client(Asking):
    """Client of a service at an address. Connections are kept and reused; `close` or a `with` block closes them.

    `api_key` is an API key or a token, which is sent as `Authorization: Bearer`. The key and `headers` are sent with
    every request, to this address only. Redirects are not followed. `timeout` is the limit in
    seconds for one answer. Requests that the service refuses for lack of capacity (429 and 503) are repeated at the
    times that `Retry-After` names, for at most `retry_seconds`. Answers longer than `max_bytes` raise InvalidAnswer.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
        retry_seconds: float = 60.0,
        max_bytes: int = 64 * 2**20,
    ) -> None:
        from privacy_bounds.http import Address, check_address, with_credentials

        sent = with_credentials(headers, api_key)
        check_address(url, sent, timeout, retry_seconds)
        self.address = Address(url.rstrip("/"), sent, timeout, retry_seconds, max_bytes)
        self._opened: httpx2.Client | None = None
        self._process = 0

    def __repr__(self) -> str:
        return f"Client({self.address.name!r})"

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_opened": None}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. A later request opens new ones."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @override
    def send(self, path: str, body: bytes, media_type: str = JSON) -> bytes:
        return self.fetch("POST", path, body, {"Content-Type": JSON}, media_type)

    def submit(self, resource: str, request: Mapping[str, Any], *, key: str | None = None) -> Job:
        """Submit a request as a job. `resource` is the path of the resource below /v1/, for example "sweeps".

        Jobs suit sweeps of up to a million points, and requests that exceed the time limit of the service. A repeated
        `key` returns the existing job, and is refused with another request.
        """
        from api_schemas.jobs import JobResponse

        headers = {"Content-Type": JSON} | ({} if key is None else {"Idempotency-Key": key})
        body = encode({"resource": resource_name(resource), "request": request})
        return Job(self, read_response(JobResponse, self.fetch("POST", "/v1/jobs", body, headers)).id)

    def job(self, name: str) -> Job:
        """Return the job with the id `name`, without a request to the service.

        An unknown id raises Refused when the job is used.
        """
        return Job(self, name)

    def jobs(self) -> Iterator[JobResponse]:
        """Yield the jobs of your group, or without credentials of your address, newest first, page by page."""
        from api_schemas.jobs import JobsPage

        path: str | None = jobs_path(None)
        while path is not None:
            page = read_response(JobsPage, self.fetch("GET", path))
            yield from page.jobs
            path = None if page.next is None else jobs_path(page.next)

    def estimate(self, resource: str, request: Mapping[str, Any]) -> EstimatesResponse:
        """Estimate the cost of a request (units of about 1 us of CPU time), and where the service would compute it.

        `resource` is the path of the resource below /v1/.
        """
        from api_schemas.jobs import EstimatesResponse

        return self.post("/v1/estimates", {"resource": resource_name(resource), "request": request}, EstimatesResponse)

    def sign(self, resource: str, request: Mapping[str, Any]) -> bytes:
        """Return the signed statement about the answer to a request, as `privacy-bounds verify` reads it from a file.

        `resource` is the path of the resource below /v1/. A service without a signing key refuses this.
        """
        return self.send(f"/v1/{resource_name(resource)}", encode(request), ENVELOPE)

    def fetch(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        media_type: str = JSON,
    ) -> bytes:
        """Send a request and return the whole body of the answer. Raise PrivacyBoundsError.

        `method` and `path` are those of HTTP, `headers` are sent beside those of the client, and `media_type` is the
        accepted form of the answer. Requests that the service refuses for lack of capacity are repeated for at most
        `retry_seconds`.
        """
        from privacy_bounds.http import Repetition, is_busy

        repetition = Repetition(self.address.retry_seconds)
        try:
            return self._fetch_once(method, path, body, headers, media_type)
        except PrivacyBoundsError as error:
            if not is_busy(error):
                raise
            refusals = [error]
        import stamina  # takes longer to import and to enter than most requests take

        for attempt in stamina.retry_context(repetition.wait_of, attempts=None, timeout=None):
            with attempt:
                if refusals:  # the attempt above
                    raise refusals.pop()
                return self._fetch_once(method, path, body, headers, media_type)
        raise AssertionError("the last attempt returns or raises")

    def _fetch_once(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str] | None, media_type: str
    ) -> bytes:
        with self.stream(method, path, body, headers, media_type) as response:
            return self._receive(response)

    def _receive(self, response: httpx2.Response) -> bytes:
        from privacy_bounds.http import Body

        received = Body(self.address, response)
        for piece in response.iter_bytes():
            received.add(piece)
        return received.complete()

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        media_type: str = JSON,
    ) -> Generator[httpx2.Response]:
        """Send a request once and yield the open response. Raise PrivacyBoundsError.

        The arguments are those of `fetch`. The body of an unsuccessful response is read, and its error raised.
        """
        from privacy_bounds.http import check_head, translated_errors

        address = self.address
        url = address.url_of(path)
        sent = {"Accept": media_type, **(headers or {})}
        with (
            translated_errors(address),
            self._connections().stream(method, url, content=body, headers=sent) as response,
        ):
            check_head(response, address, media_type)
            if response.is_error:
                self._receive(response)
            yield response

    @property
    def retry_seconds(self) -> float:
        """Seconds for which refused requests are repeated, and for which a job waits for an absent service."""
        return self.address.retry_seconds

    def _connections(self) -> httpx2.Client:
        # a forked process must not use the connections of its parent
        if self._opened is None or self._process != os.getpid():
            import httpx2

            self._opened, self._process = httpx2.Client(**self.address.client_settings()), os.getpid()
            weakref.finalize(self, self._opened.close)
        return self._opened


def resource_name(resource: str) -> str:
    """Return the name of a resource from its name or its path: "sweeps" from "/v1/sweeps"."""
    return resource.removeprefix("/v1/")


def jobs_path(cursor: str | None) -> str:
    """Return the path of a page of the list of jobs. `cursor` is None for the first page."""
    from api_schemas.jobs import MOST_LISTED

    return f"/v1/jobs?limit={MOST_LISTED}" + (f"&cursor={quote(cursor, safe='')}" if cursor else "")
