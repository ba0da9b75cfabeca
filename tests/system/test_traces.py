"""Traces over real sockets: spans of API and Celery workers in one trace, and nothing where none is asked for."""

from __future__ import annotations

import gzip
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from service.settings import ConfigurationError, read_settings
from service.telemetry.tracing import CLOSING_SECONDS, Tracing, carrier_of
from tests.conftest import reserved_port
from tests.slow_marker import thorough
from tests.system.jobs import cluster, submit, sweep, wait_for, wait_until_ended
from tests.system.running_server import running_server

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SAMPLED, UNSAMPLED = (f"00-{TRACE}-{PARENT}-{flags}" for flags in ("01", "00"))
BOUNDS = {
    "mechanism": {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
    "questions": [{"type": "epsilon", "delta": 1e-5}],
}


class Receiver(ThreadingHTTPServer):
    """Stub of a receiver of traces (OTLP) on a socket, which keeps what it gets."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[ExportTraceServiceRequest] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def spans(self) -> list[tuple[str, Any]]:
        """Return the name of the service and the span for each received span."""
        found: list[tuple[str, Any]] = []
        for request in list(self.received):
            for each in request.resource_spans:
                names = {one.key: one.value.string_value for one in each.resource.attributes}
                found += [(names["service.name"], span) for scope in each.scope_spans for span in scope.spans]
        return found


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        assert self.path == "/v1/traces"
        cast("Receiver", self.server).received.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Write no line for each request."""


@contextmanager
def receiver() -> Generator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def attributes_of(span: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


def events(directory: Path) -> Iterable[dict[str, Any]]:
    return map(json.loads, (directory / "server.log").read_text().splitlines())


def test_request_and_its_computation_are_in_the_trace_of_the_client(tmp_path: Path) -> None:
    with receiver() as collector:
        with running_server(tmp_path, worker_count="1", traces_endpoint=collector.address) as client:
            answer = client.post("/v1/bounds?secret=1", json=BOUNDS, headers={"traceparent": SAMPLED})
            assert answer.status_code == 200
            assert client.post("/v1/bounds", json=BOUNDS, headers={"traceparent": UNSAMPLED}).status_code == 200
            assert client.post("/v1/bounds", json={}, headers={"traceparent": "no trace"}).status_code == 422
            assert client.get("/readyz").status_code == 200
        spans = {span.name: span for _, span in collector.spans() if span.trace_id.hex() == TRACE}
        assert {name for name, _ in collector.spans()} == {"privacy-bounds-api"}
    request = spans["POST /v1/bounds"]
    assert request.parent_span_id.hex() == PARENT
    found = attributes_of(request)
    assert (found["http.route"], found["http.response.status_code"]) == ("/v1/bounds", 200)
    assert found["privacy_bounds.digest"] == answer.json()["digest"]
    assert found["privacy_bounds.request_id"] == answer.headers["x-request-id"]
    if "compute bounds" in spans:
        assert spans["compute bounds"].parent_span_id == request.span_id
    every = collector.spans()
    assert len([span for _, span in every if span.name == "POST /v1/bounds"]) == 2, "one is not sampled"
    assert "GET /readyz" not in {span.name for _, span in every}
    assert all("secret" not in str(span) and "127.0.0.1" not in str(span) for _, span in every)
    logged = [each["trace_id"] for each in events(tmp_path) if each["event"] == "request" and "trace_id" in each]
    assert TRACE in logged


@pytest.mark.thorough
def test_wait_for_a_worker_is_a_span_below_the_request(tmp_path: Path) -> None:
    body = {**BOUNDS, "method": "discretised"}
    with receiver() as collector:
        with running_server(tmp_path, worker_count="1", traces_endpoint=collector.address) as client:
            assert client.post("/v1/bounds", json=body, headers={"traceparent": SAMPLED}).status_code == 200
        spans = {span.name: span for _, span in collector.spans()}
    assert spans["compute bounds"].parent_span_id == spans["POST /v1/bounds"].span_id
    assert attributes_of(spans["compute bounds"])["privacy_bounds.engine"] == "discretised"


@pytest.mark.parametrize("backend", [thorough("celery"), thorough("embedded")])
def test_pieces_of_a_job_are_in_the_trace_of_its_request(
    tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chunks of a job are in the trace of the request that submitted it.

    The trace passes from the API to workers, which Celery wakes with messages that have no content.
    """
    with receiver() as collector:
        monkeypatch.setenv("PRIVACY_BOUNDS_TRACES_ENDPOINT", collector.address)
        if backend == "celery":
            with (
                cluster(tmp_path, workers=1) as made,
                running_server(tmp_path, worker_count="1", **made.settings) as client,
            ):
                job = submit(client, "sweeps", sweep(50), traceparent=SAMPLED)
                wait_until_ended(client, job)
        else:
            with running_server(tmp_path, worker_count="1") as client:
                job = submit(client, "sweeps", sweep(50), traceparent=SAMPLED)
                wait_until_ended(client, job)
        wait_for(lambda: any(span.name == "compute points of a job" for _, span in collector.spans()))
        spans = collector.spans()
    [request] = [span for _, span in spans if span.name == "POST /v1/jobs"]
    pieces = [(name, span) for name, span in spans if span.name == "compute points of a job"]
    assert {name for name, _ in pieces} == {"privacy-bounds-worker" if backend == "celery" else "privacy-bounds-api"}
    for _, piece in pieces:
        assert (piece.trace_id.hex(), piece.parent_span_id) == (TRACE, request.span_id)
        assert attributes_of(piece)["privacy_bounds.resource"] == "sweeps"
    assert sum(attributes_of(piece)["privacy_bounds.points"] for _, piece in pieces) == 50


@pytest.mark.thorough
def test_service_answers_while_the_receiver_is_away(tmp_path: Path) -> None:
    with reserved_port() as closed:
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with running_server(tmp_path, worker_count="1", traces_endpoint=endpoint) as client:
            for _ in range(20):
                assert client.post("/v1/bounds", json=BOUNDS).status_code == 200


@pytest.mark.thorough
def test_hanging_receiver_does_not_delay_the_end() -> None:
    with socket.socket() as hanging:
        hanging.bind(("127.0.0.1", 0))
        hanging.listen()
        endpoint = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        tracing = Tracing(endpoint, sample_ratio=1.0, service="any", version="1")
        with tracing.span("any", {}):
            pass
        began = time.monotonic()
        tracing.close()
        assert time.monotonic() - began < CLOSING_SECONDS + 1


@pytest.mark.thorough
def test_without_traces_nothing_of_them_is_imported() -> None:
    """A service without traces imports no library of them.

    The Redis client imports metrics of the SDK by itself where the SDK is installed.
    """
    code = (
        "import sys; from service.server.application import create_app; from service.settings import Settings;"
        "import service.jobs.celery.worker, service.server.jobs; create_app(Settings());"
        "print(*[name for name in sys.modules if name.startswith(('opentelemetry.sdk.trace', 'opentelemetry.exporter',"
        " 'google.protobuf', 'requests'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("text", ["collector:4318", "ftp://a", "http://", "http://u:p@a", "http://a?b", "http://a:x"])
def test_wrong_addresses_are_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIVACY_BOUNDS_TRACES_ENDPOINT", text)
    with pytest.raises(ConfigurationError, match="PRIVACY_BOUNDS_TRACES_ENDPOINT is not accepted: must be an"):
        read_settings()


@pytest.mark.parametrize("stored", [None, "", "00-zz", SAMPLED + "\r\nx: y", "00-" + "0" * 32 + f"-{PARENT}-01"])
def test_forged_contexts_begin_a_new_trace(stored: str | None) -> None:
    assert carrier_of(stored) == {}
    assert carrier_of(SAMPLED) == {"traceparent": SAMPLED}
