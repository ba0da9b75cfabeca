"""Headers with any bytes, over real sockets: an answer or a problem, never an internal error, and the service lives."""

from __future__ import annotations

import json

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.system.running_server import connect
from tests.system.test_mixed_load import status_of

BODY = json.dumps(
    {"mechanism": {"type": "gaussian", "noise_multiplier": 2.0}, "questions": [{"type": "advantage"}]}
).encode()
NAMES = st.sampled_from(
    [
        b"Accept",
        b"Accept-Encoding",
        b"Accept-Language",
        b"Access-Control-Request-Headers",
        b"Authorization",
        b"Cache-Control",
        b"Content-Encoding",
        b"Content-Type",
        b"Cookie",
        b"Forwarded",
        b"Idempotency-Key",
        b"If-Match",
        b"If-Modified-Since",
        b"If-None-Match",
        b"Last-Event-ID",
        b"Origin",
        b"Prefer",
        b"Range",
        b"Traceparent",
        b"Tracestate",
        b"X-Forwarded-For",
        b"X-Request-ID",
    ]
)
WORDS = st.sampled_from(
    [
        *(b"application/json", b"text/html", b"*/*", b";q=", b"0.5", b",", b'"', b"W/", b"wait=", b"respond-async"),
        *(b"bytes=", b"sha256:", b"gzip", b"Bearer ", b"pbk_", b"1e999", b"-1", b"=", b" ", b"\t", b"*", b"%00"),
        *(b"9" * 40, b"\xff"),
    ]
)
VALUES = st.lists(WORDS, max_size=8).map(b"".join) | st.binary(max_size=60).map(
    lambda value: value.translate(None, b"\r\n\0")
)
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=6)
TARGETS = st.sampled_from([(b"POST", b"/v1/bounds"), (b"POST", b"/v1/jobs"), (b"GET", b"/v1/limits")])
EXAMPLES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def status(client: httpx2.Client, target: tuple[bytes, bytes], fields: list[tuple[bytes, bytes]]) -> int:
    """Send one request with these header fields, and return the status of its response."""
    body = BODY if target[0] == b"POST" else b""
    head = [b"%b %b HTTP/1.1" % target, b"Host: a", b"Connection: close", b"Content-Length: %d" % len(body)]
    if not any(name == b"Content-Type" for name, _ in fields):
        head.append(b"Content-Type: application/json")
    head += [b"%b: %b" % field for field in fields]
    with connect(client) as connection:
        connection.sendall(b"\r\n".join(head) + b"\r\n\r\n" + body)
        return status_of(connection)


@pytest.mark.parametrize("examples", [60, pytest.param(2_000, marks=pytest.mark.thorough)])
def test_any_header_gets_an_answer_or_a_problem(server: httpx2.Client, examples: int) -> None:
    found: set[int] = set()

    @given(target=TARGETS, fields=FIELDS)
    @settings(EXAMPLES, max_examples=examples)
    def check(target: tuple[bytes, bytes], fields: list[tuple[bytes, bytes]]) -> None:
        got = status(server, target, fields)
        assert 200 <= got < 500, (got, target, fields)
        found.add(got)

    check()
    assert found > {200, 400}
    assert server.get("/livez").status_code == 200
