"""One pure ASGI middleware sees every request: metrics, one log event, Server-Timing, the last line of defence."""

from __future__ import annotations

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


@dataclass(slots=True)
class RequestRecord:
    """What a route tells about its request: filled in by routes, read by the middleware when the response is sent."""

    request_id: str
    digest: str | None = None
    cache: str | None = None
    compute_seconds: float | None = None


@final
class HttpTelemetry:
    """`request_id` names the request under way; `unknown_error` answers for an exception that nobody handled."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        metrics: Metrics,
        logger: FilteringBoundLogger,
        request_id: Callable[[], str],
        unknown_error: Callable[[Scope], ASGIApp],
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._logger = logger
        self._request_id = request_id
        self._unknown_error = unknown_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        record = scope[RECORD] = RequestRecord(self._request_id())
        status = 0

        async def send_timed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"].append((b"server-timing", _server_timing(started, record)))
            await send(message)

        try:
            await self._app(scope, receive, send_timed)
        except Exception:
            self._logger.exception("unhandled", request_id=record.request_id)
            if status:  # too late for an answer of ours: the server closes the connection
                raise
            await self._unknown_error(scope)(scope, receive, send_timed)
        finally:
            self._finish(scope, record, status, time.perf_counter() - started)

    def _finish(self, scope: Scope, record: RequestRecord, status: int, seconds: float) -> None:
        route: str = getattr(scope.get("route"), "path", "unmatched")
        method = scope["method"] if scope["method"] in METHODS else "other"
        self._metrics.request(route, method, status, seconds)
        self._logger.info(
            "request",
            request_id=record.request_id,
            method=method,
            route=route,
            status=status,
            duration_ms=round(seconds * 1e3, 3),
            digest=record.digest,
            cache=record.cache,
        )


def _server_timing(started: float, record: RequestRecord) -> bytes:
    total = f"total;dur={(time.perf_counter() - started) * 1e3:.3f}"
    if record.compute_seconds is not None:
        total += f", compute;dur={record.compute_seconds * 1e3:.3f}"
    return total.encode()
