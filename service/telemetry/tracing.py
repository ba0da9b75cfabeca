"""Traces by OpenTelemetry, on request: spans of requests, computations and pieces of jobs, sent by OTLP over HTTP.

Nothing of OpenTelemetry's SDK is imported before a `Tracing` is made, and without one nothing is measured. The context
of a trace is a W3C `traceparent`: of a client in its header, and for a job in the storage of jobs.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, Final, Literal, final

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
ASGIApp = Callable[[Scope, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]
Attributes = Mapping[str, str | int | float | bool]

TRACEPARENT: Final = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
HEADERS: Final = {b"traceparent": "traceparent", b"tracestate": "tracestate"}
TRACE_ID_KEY: Final = "privacy_bounds.trace_id"
"""Key of the id of the trace in the scope of a request, for the log."""
LARGEST_STATE_BYTES: Final = 512
QUIET: Final = frozenset({"/livez", "/readyz", "/metrics"})
"""Paths of probes, which are not traced."""
LEAST_SERVER_ERROR: Final = 500
CLOSING_SECONDS: Final = 2.0


@final
class Tracing:
    """Sender of spans (timed parts of requests) of one process to a receiver of traces.

    The export runs in a thread, and drops spans when the receiver is away.
    """

    def __init__(self, endpoint: str, *, sample_ratio: float, service: str, version: str) -> None:
        """Start the export to an OTLP receiver, for example `http://collector:4318`.

        `service` and `version` name this process in traces. `sample_ratio` is the share of the traces that begin in
        this process which are recorded. A request with a traceparent follows the decision in the traceparent.
        """
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        names = {"service.name": service, "service.version": version, "process.pid": os.getpid()}
        self._provider = TracerProvider(
            resource=Resource.create(names),
            sampler=ParentBased(TraceIdRatioBased(sample_ratio)),
            shutdown_on_exit=False,
        )
        exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces")
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("privacy_bounds", version)
        self._propagator = TraceContextTextMapPropagator()
        self._trace = trace

    def close(self) -> None:
        """Send the spans that have ended, for at most two seconds, and stop the export.

        The exporter itself waits up to 20 seconds for a receiver that is away, longer than a container has to stop.
        """
        stopping = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        stopping.start()
        stopping.join(CLOSING_SECONDS)

    @contextmanager
    def span(
        self,
        name: str,
        attributes: Attributes,
        carrier: Mapping[str, str] | None = None,
        kind: Literal["internal", "server", "consumer"] = "internal",
    ) -> Generator[Any]:
        """Record the block as a span (timed part of a trace) called `name` with these attributes, and yield the span.

        `kind` is that of OpenTelemetry. An exception of the block is recorded with its class. `carrier` has the headers
        of the parent in another process. Without it, the parent is the current span.
        """
        parent = None if carrier is None else self._propagator.extract(carrier)
        chosen = self._trace.SpanKind[kind.upper()]
        started = self._tracer.start_span(name, parent, chosen, attributes)
        # Messages of exceptions may contain what a client sent, so that only their class is recorded.
        with self._trace.use_span(started, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                yield started
            except BaseException as error:
                started.set_attribute("error.type", type(error).__name__)
                started.set_status(self._trace.StatusCode.ERROR)
                raise

    def traceparent(self) -> str | None:
        """Return the traceparent (id of the trace and of the span) of the current span, or None without a span."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        return carrier.get("traceparent")

    def mark_failed(self, span: Any) -> None:
        """Mark a span as failed by this service."""
        span.set_status(self._trace.StatusCode.ERROR)


def carrier_of(traceparent: str | None) -> Mapping[str, str]:
    """Return the headers that continue the trace of a stored `traceparent`.

    The mapping is empty for None and for a text that is no traceparent, so that a new trace begins.
    """
    is_valid = traceparent is not None and TRACEPARENT.fullmatch(traceparent)
    return {"traceparent": traceparent} if is_valid and traceparent else {}


@final
class RequestTracing:
    """Spans of requests, by an outermost ASGI middleware. Attributes have no path, query, address or body.

    `tracing` is set while the application runs, and None while no traces are recorded. `facts` returns attributes of a
    request after its response.
    """

    def __init__(self, facts: Callable[[Scope], Attributes]) -> None:
        self.tracing: Tracing | None = None
        self._facts = facts

    def around(self, app: ASGIApp) -> ASGIApp:
        """Return an application that records a span (timed part of a trace) for each request to `app`.

        Probes (`/livez`, `/readyz`, `/metrics`) have none.
        """

        async def traced(scope: Scope, receive: Any, send: Any) -> None:
            if self.tracing is None or scope["type"] != "http" or scope["path"] in QUIET:
                await app(scope, receive, send)
            else:
                await self._serve(self.tracing, app, scope, receive, send)

        return traced

    async def _serve(self, tracing: Tracing, app: ASGIApp, scope: Scope, receive: Any, send: Any) -> None:
        method: str = scope["method"]
        status = 0

        async def send_seen(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        with tracing.span(
            "request", {"http.request.method": method}, _trace_headers(scope["headers"]), "server"
        ) as span:
            scope[TRACE_ID_KEY] = f"{span.get_span_context().trace_id:032x}"
            try:
                await app(scope, receive, send_seen)
            finally:
                route: str = getattr(scope.get("route"), "path", "unmatched")
                span.update_name(f"{method} {route}")
                span.set_attributes({"http.route": route, "http.response.status_code": status, **self._facts(scope)})
                if status >= LEAST_SERVER_ERROR:
                    tracing.mark_failed(span)


def _trace_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    return {
        HEADERS[name]: value.decode("latin-1")
        for name, value in headers
        if name in HEADERS and len(value) <= LARGEST_STATE_BYTES
    }
