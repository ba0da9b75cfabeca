"""Client with coroutines, over HTTP or over another client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, cast, final

from typing_extensions import deprecated

from privacy_bounds.api import Asking
from privacy_bounds.calls import ENVELOPE, JSON, Call, encode, read_response
from privacy_bounds.clients import Client, jobs_path, resource_name
from privacy_bounds.errors import InvalidArgument, PrivacyBoundsError, Refused
from privacy_bounds.jobs import AsyncJob
from privacy_bounds.pictures import Origin

if TYPE_CHECKING:
    import httpx2

    from api_schemas.jobs import EstimatesResponse, JobResponse

P = ParamSpec("P")
T = TypeVar("T")


def _as_coroutine(
    method: Callable[Concatenate[Asking, P], T],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    waiting = cast("Any", method)
    build = cast("Callable[Concatenate[Asking, P], Call[T]]", waiting.build)

    async def ask(self: AsyncClient, *args: P.args, **kwargs: P.kwargs) -> T:
        asking = self.blocking
        call = build(asking, *args, **kwargs)
        body = call.body()
        try:
            received = await self.send(call.path, body, call.media_type)
        except Refused as error:
            raise call.name_argument(error) from None
        return call.read(received, Origin(asking, call.path, body, call.notes))

    shown = cast("Any", ask)
    for name in ("__name__", "__doc__", "__annotations__", "__signature__"):
        setattr(shown, name, getattr(waiting, name))
    shown.__qualname__ = f"AsyncClient.{waiting.__name__}"
    return ask


@final
class AsyncClient:
    """Client with coroutines (asyncio). The arguments are those of `Client`.

    Connections are kept and reused; `aclose` or an `async with` block closes them. The method `plot` of answers waits,
    since it sends its request by a `Client`. `AsyncClient(Local())` computes in threads of this process, and has no
    jobs: their methods raise InvalidArgument.
    """

    def __init__(self, url: str | Asking, **settings: Any) -> None:
        self.blocking: Asking = url if isinstance(url, Asking) else Client(url, **settings)
        self._opened: httpx2.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"AsyncClient({self.blocking!r})"

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_opened": None, "_loop": None}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections. A later request opens new ones.

        Connections of an event loop that has ended are dropped.
        """
        opened, self._opened = self._opened, None
        if opened is not None and self._loop is asyncio.get_running_loop():
            await opened.aclose()
        if isinstance(self.blocking, Client):
            self.blocking.close()

    epsilon = _as_coroutine(Asking.epsilon)
    delta = _as_coroutine(Asking.delta)
    advantage = _as_coroutine(Asking.advantage)
    accuracy = _as_coroutine(Asking.accuracy)
    gdp_mu = _as_coroutine(Asking.gdp_mu)
    reconstruction = _as_coroutine(Asking.reconstruction)
    power = _as_coroutine(Asking.power)
    bounds = _as_coroutine(Asking.bounds)
    curves = _as_coroutine(Asking.curves)
    calibrate = _as_coroutine(Asking.calibrate)
    compare = _as_coroutine(Asking.compare)
    sweep = _as_coroutine(Asking.sweep)
    assess = _as_coroutine(Asking.assess)
    report = _as_coroutine(Asking.report)
    check = _as_coroutine(Asking.check)
    certify = _as_coroutine(Asking.certify)
    read = _as_coroutine(Asking.read)
    post = _as_coroutine(Asking.post)
    ask = deprecated("Use `post`: `ask` is its former name.")(post)

    async def send(self, path: str, body: bytes, media_type: str = JSON) -> bytes:
        """Send a JSON body to `path` and return the response body in a media type. Raise PrivacyBoundsError."""
        if isinstance(self.blocking, Client):
            return await self.fetch("POST", path, body, {"Content-Type": JSON}, media_type)
        return await asyncio.to_thread(self.blocking.send, path, body, media_type)

    async def submit(self, resource: str, request: Mapping[str, Any], *, key: str | None = None) -> AsyncJob:
        """Submit a request as a job. `resource` is the path of the resource below /v1/, for example "sweeps".

        Jobs suit sweeps of up to a million points, and requests that exceed the time limit of the service. A repeated
        `key` returns the existing job, and is refused with another request.
        """
        from api_schemas.jobs import JobResponse

        headers = {"Content-Type": JSON} | ({} if key is None else {"Idempotency-Key": key})
        body = encode({"resource": resource_name(resource), "request": request})
        return AsyncJob(self, read_response(JobResponse, await self.fetch("POST", "/v1/jobs", body, headers)).id)

    def job(self, name: str) -> AsyncJob:
        """Return the job with the id `name`, without a request to the service.

        An unknown id raises Refused when the job is used.
        """
        return AsyncJob(self, name)

    async def jobs(self) -> AsyncIterator[JobResponse]:
        """Yield the jobs of your group, or without credentials of your address, newest first, page by page."""
        from api_schemas.jobs import JobsPage

        path: str | None = jobs_path(None)
        while path is not None:
            page = read_response(JobsPage, await self.fetch("GET", path))
            for job in page.jobs:
                yield job
            path = None if page.next is None else jobs_path(page.next)

    async def estimate(self, resource: str, request: Mapping[str, Any]) -> EstimatesResponse:
        """Return the estimated cost of a request in units of about 1 us of CPU time, and where it would be computed.

        `resource` is the path of the resource below /v1/.
        """
        from api_schemas.jobs import EstimatesResponse

        return await self.post(
            "/v1/estimates", {"resource": resource_name(resource), "request": request}, EstimatesResponse
        )

    async def sign(self, resource: str, request: Mapping[str, Any]) -> bytes:
        """Return the signed statement about the answer to a request, as `privacy-bounds verify` reads it from a file.

        `resource` is the path of the resource below /v1/. A service without a signing key refuses this.
        """
        path, sent = f"/v1/{resource_name(resource)}", {"Content-Type": JSON}
        return await self.fetch("POST", path, encode(request), sent, ENVELOPE)

    async def fetch(
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

        repetition = Repetition(self._service.address.retry_seconds)
        try:
            return await self._fetch_once(method, path, body, headers, media_type)
        except PrivacyBoundsError as error:
            if not is_busy(error):
                raise
            refusals = [error]
        import stamina  # takes longer to import and to enter than most requests take

        async for attempt in stamina.retry_context(repetition.wait_of, attempts=None, timeout=None):
            with attempt:
                if refusals:  # the attempt above
                    raise refusals.pop()
                return await self._fetch_once(method, path, body, headers, media_type)
        raise AssertionError("the last attempt returns or raises")

    async def _fetch_once(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str] | None, media_type: str
    ) -> bytes:
        async with self.stream(method, path, body, headers, media_type) as response:
            return await self._receive(response)

    async def _receive(self, response: httpx2.Response) -> bytes:
        from privacy_bounds.http import Body

        received = Body(self._service.address, response)
        async for piece in response.aiter_bytes():
            received.add(piece)
        return received.complete()

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        media_type: str = JSON,
    ) -> AsyncGenerator[httpx2.Response]:
        """Send a request once and yield the open response. Raise PrivacyBoundsError.

        The arguments are those of `fetch`. The body of an unsuccessful response is read, and its error raised.
        """
        from privacy_bounds.http import check_head, translated_errors

        address = self._service.address
        url = address.url_of(path)
        sent = {"Accept": media_type, **(headers or {})}
        with translated_errors(address):
            async with self._connections().stream(method, url, content=body, headers=sent) as response:
                check_head(response, address, media_type)
                if response.is_error:
                    await self._receive(response)
                yield response

    @property
    def retry_seconds(self) -> float:
        """Seconds for which refused requests are repeated, and for which a job waits for an absent service."""
        return self._service.retry_seconds

    @property
    def _service(self) -> Client:
        if not isinstance(self.blocking, Client):
            raise InvalidArgument("Jobs and estimates need a service: AsyncClient with an address.")
        return self.blocking

    def _connections(self) -> httpx2.AsyncClient:
        # connections of an earlier event loop cannot be used any more
        loop = asyncio.get_running_loop()
        if self._opened is None or self._loop is not loop:
            import httpx2

            self._opened, self._loop = httpx2.AsyncClient(**self._service.address.client_settings()), loop
        return self._opened
