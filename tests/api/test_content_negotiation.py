"""Accept headers of a client, on one header line or on several."""

from __future__ import annotations

import random

import pytest
from fastapi import Request
from starlette.testclient import TestClient

from service.api.content_negotiation import accepts_gzip, joined_header
from tests.api.requests import dpsgd

SEED = 20264


def request(name: str, *lines: str) -> Request:
    headers = [(name.encode(), line.encode()) for line in lines]
    return Request({"type": "http", "method": "GET", "headers": [(b"host", b"a"), *headers]})


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], False),
        ([""], False),
        (["gzip"], True),
        (["GZip;Q=0.1"], True),
        (["x-gzip"], True),
        (["*"], True),
        (["br, *;q=0.5"], True),
        (["identity"], False),
        (["gzip;q=0"], False),
        (["gzip;q=0.0"], False),
        (["gzip; q=0.000"], False),
        (["gzip;q=0, *"], False),
        (["*;q=0"], False),
        (["*;q=0, gzip"], True),
        (["identity;q=1, gzip;q=0.5"], False),
        (["identity;q=0.5, gzip;q=0.5"], True),
        (["gzip;q=no"], False),
        (["br", "gzip"], True),
        (["gzip", "br"], True),
        (["gzip;q=0", "br"], False),
        (["deflate", "br"], False),
    ],
)
def test_gzip_is_used_if_client_accepts_it(lines: list[str], expected: bool) -> None:
    assert accepts_gzip(request("accept-encoding", *lines)) == expected


def test_split_of_header_into_lines_does_not_matter() -> None:
    source = random.Random(SEED)
    items = ["gzip", "gzip;q=0", "gzip;q=0.5", "br", "identity", "identity;q=0", "*", "*;q=0", "deflate;q=1"]
    for _ in range(500):
        drawn = source.choices(items, k=source.randint(1, 5))
        cut = source.randint(0, len(drawn))
        lines = [", ".join(part) for part in (drawn[:cut], drawn[cut:]) if part]
        whole, parts = request("accept-encoding", ", ".join(drawn)), request("accept-encoding", *lines)
        assert joined_header(parts, b"accept-encoding") == joined_header(whole, b"accept-encoding")
        assert accepts_gzip(parts) == accepts_gzip(whole)


def test_all_lines_of_accept_are_considered(client: TestClient) -> None:
    body = {"mechanism": dpsgd(), "context": {"delta": 1e-5}}
    for lines in (("text/markdown", "application/pdf"), ("application/pdf", "text/markdown")):
        headers = [("Accept", line) for line in lines]
        answer = client.post("/v1/assessments", json=body, headers=headers)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/markdown; charset=utf-8")
