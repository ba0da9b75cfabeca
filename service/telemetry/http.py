"""Outermost ASGI middleware: request id, requester, metrics, log, Server-Timing, and handling of unknown errors."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, final

from structlog.typing import FilteringBoundLogger

from service.telemetry.audit import AuditStream
from service.telemetry.metrics import Metrics
from service.telemetry.tracing import TRACE_ID_KEY

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})
REQUEST_CONTEXT_KEY = "privacy_bounds.record"
REQUEST_ID_HEADER = b"x-request-id"
AUDITED_PATHS = ("/v1/", "/operate/", "/metrics")
REFUSALS = frozenset({401, 403})
LONGEST_NAME = 128
ACCEPTED_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")


@dataclass(frozen=True, slots=True)
class LoggedCaller:
    """Authenticated caller in logs: id and kind of the credential, name and group, and no secret."""

    id: str
    kind: str
    name: str
    group: str


@dataclass(slots=True)
class RequestContext:
    """Facts about one HTTP request, which the route records and the middleware logs after the response.

    `requester` is the key to which work is accounted, `digest` that of the request, `cache` where the result was found,
    and `problem` the type of a problem. Fields are None if the request has no such fact. `decision` and `read_decision`
    are log fields of policy decisions.
    """

    request_id: str
    requester: str
    """Key that quotas and queues account the request to."""
    caller: LoggedCaller | None = None
    """Caller, or None for an anonymous one."""
    digest: str | None = None
    cache: str | None = None
    compute_seconds: float | None = None
    problem: str | None = None
    decision: dict[str, Any] | None = None
    """Decision of a policy, which is logged as an event of its own."""
    read_decision: dict[str, Any] | None = None
    """Id and verdict of a stored decision in the response, for the audit stream."""
    error: BaseException | None = None
    """Error for the log, if the service and not the client caused the problem."""


def _is_audited(path: str, status: int) -> bool:
    return path.startswith(AUDITED_PATHS) or status in REFUSALS


def _audit_record(scope: Scope, record: RequestContext, method: str, route: str, status: int) -> dict[str, Any]:
    # no body and no secret
    client = scope.get("client")
    decided = record.decision or record.read_decision or {}
    return {
        "event": "request",
        "request_id": record.request_id,
        "caller": record.caller,
        "address": client[0] if client else None,
        "method": method,
        "route": route,
        "resource": {name: str(value)[:LONGEST_NAME] for name, value in scope.get("path_params", {}).items()},
        "status": status,
        "digest": record.digest,
        "decision": decided.get("decision"),
        "verdict": decided.get("verdict"),
        "problem": record.problem,
    }


def request_context(scope: Scope) -> RequestContext:
    """Return the context of the request with this ASGI scope.

    Raise KeyError outside `HttpTelemetry`.
    """
    context: RequestContext = scope[REQUEST_CONTEXT_KEY]
    return context


@final
class HttpTelemetry:
    """ASGI middleware that measures and logs every request.

    `requester_of` returns the requester of a scope, and `audit_of` the audit stream, if any. `unknown_error` responds
    to unhandled exceptions, and `cancelled` to requests that the server cancels.
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
        audit_of: Callable[[Scope], AuditStream | None] = lambda _: None,
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._logger = logger
        self._requester_of = requester_of
        self._unknown_error = unknown_error
        self._cancelled = cancelled
        self._audit_of = audit_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request by the wrapped application, measure its duration, and write its line of the log."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        record = scope[REQUEST_CONTEXT_KEY] = RequestContext(
            _accepted_or_new_request_id(scope), self._requester_of(scope)
        )
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
            if status:  # the response has started: the server closes the connection
                raise
            await self._unknown_error(scope)(scope, receive, send_named)
        finally:
            self._emit(scope, record, status, time.perf_counter() - started)

    def _emit(self, scope: Scope, record: RequestContext, status: int, seconds: float) -> None:
        route: str = getattr(scope.get("route"), "path", "unmatched")
        method = scope["method"] if scope["method"] in METHODS else "other"
        self._metrics.count_request(route, method, status, seconds)
        caller = {} if record.caller is None else {"caller": record.caller.id, "caller_kind": record.caller.kind}
        if record.decision is not None:
            self._logger.info(
                "decision", request_id=record.request_id, requester=record.requester, **caller, **record.decision
            )
        log = self._logger.info if record.error is None else self._logger.error
        log(
            "request",
            request_id=record.request_id,
            requester=record.requester,
            **caller,
            method=method,
            route=route,
            status=status,
            duration_ms=round(seconds * 1e3, 3),
            digest=record.digest,
            cache=record.cache,
            problem=record.problem,
            exc_info=record.error,
            **({"trace_id": scope[TRACE_ID_KEY]} if TRACE_ID_KEY in scope else {}),
        )
        audit = self._audit_of(scope)
        if audit is not None and _is_audited(scope["path"], status):
            audit.write(_audit_record(scope, record, method, route, status))


def _accepted_or_new_request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == REQUEST_ID_HEADER and ACCEPTED_REQUEST_ID.fullmatch(value):
            return value.decode()
    return os.urandom(16).hex()


def _server_timing(started: float, record: RequestContext) -> bytes:
    total = f"total;dur={(time.perf_counter() - started) * 1e3:.3f}"
    if record.compute_seconds is not None:
        total += f", compute;dur={record.compute_seconds * 1e3:.3f}"
    return total.encode()
