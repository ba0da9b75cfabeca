"""One pure ASGI middleware sees every request first: id, requester, metrics, log, Server-Timing, last defence."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, final

from structlog.typing import FilteringBoundLogger

from service.telemetry.metrics import Metrics

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})
RECORD = "privacy_bounds.record"
REQUEST_ID_HEADER = b"x-request-id"
ACCEPTED_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")


@dataclass(slots=True)
class RequestRecord:
    """Facts about a request: filled in by its route, read by the middleware when the response is sent."""

    request_id: str
    requester: str
    """Whose shares the request uses."""
    digest: str | None = None
    cache: str | None = None
    compute_seconds: float | None = None
    problem: str | None = None
    decision: dict[str, Any] | None = None
    """The decision of a policy: a line of its own in the log."""
    error: BaseException | None = None
    """What the operators should see of a problem that is not the client's."""


def record_of(scope: Scope) -> RequestRecord:
    """Return the record of the request under way."""
    record: RequestRecord = scope[RECORD]
    return record


@final
class HttpTelemetry:
    """`requester_of` names who sends a request, `unknown_error` answers for an exception that nobody handled,
    `cancelled` where the server ends a request.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        metrics: Metrics,
        logger: FilteringBoundLogger,
        requester_of: Callable[[Scope], str],
        unknown_error: Callable[[Scope], ASGIApp],
        cancelled: Callable[[Scope], ASGIApp],
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._logger = logger
        self._requester_of = requester_of
        self._unknown_error = unknown_error
        self._cancelled = cancelled

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        record = scope[RECORD] = RequestRecord(_request_id(scope), self._requester_of(scope))
        status = 0

        async def send_named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] += (
                    (REQUEST_ID_HEADER, record.request_id.encode()),
                    (b"server-timing", _server_timing(started, record)),
                )
            await send(message)

        try:
            await self._app(scope, receive, send_named)
        except asyncio.CancelledError:
            if status:
                raise
            await self._cancelled(scope)(scope, receive, send_named)
        except Exception as error:
            record.error = error
            if status:  # too late for an answer of ours: the server closes the connection
                raise
            await self._unknown_error(scope)(scope, receive, send_named)
        finally:
            self._finish(scope, record, status, time.perf_counter() - started)

    def _finish(self, scope: Scope, record: RequestRecord, status: int, seconds: float) -> None:
        route: str = getattr(scope.get("route"), "path", "unmatched")
        method = scope["method"] if scope["method"] in METHODS else "other"
        self._metrics.request(route, method, status, seconds)
        if record.decision is not None:
            self._logger.info("decision", request_id=record.request_id, requester=record.requester, **record.decision)
        log = self._logger.info if record.error is None else self._logger.error
        log(
            "request",
            request_id=record.request_id,
            requester=record.requester,
            method=method,
            route=route,
            status=status,
            duration_ms=round(seconds * 1e3, 3),
            digest=record.digest,
            cache=record.cache,
            problem=record.problem,
            exc_info=record.error,
        )


def _request_id(scope: Scope) -> str:
    """Return the id that the client gave, if it is short and harmless, else a new one."""
    for name, value in scope["headers"]:
        if name == REQUEST_ID_HEADER and ACCEPTED_REQUEST_ID.fullmatch(value):
            return value.decode()
    return os.urandom(16).hex()


def _server_timing(started: float, record: RequestRecord) -> bytes:
    total = f"total;dur={(time.perf_counter() - started) * 1e3:.3f}"
    if record.compute_seconds is not None:
        total += f", compute;dur={record.compute_seconds * 1e3:.3f}"
    return total.encode()
