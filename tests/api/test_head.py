"""HEAD works on every route with GET: every route of the published document, found and not found."""

from __future__ import annotations

from starlette.testclient import TestClient

from tests.api.requests import bounds, post

OWN_TO_EACH = {"x-request-id", "server-timing", "date"}
UNLISTED = ("/openapi.json", "/docs", "/nowhere")


def test_head_returns_headers_of_get_without_body(client: TestClient) -> None:
    found = post(client, bounds({"type": "gaussian", "noise_multiplier": 3.25})).headers["content-location"]
    document = client.get("/openapi.json").json()
    paths = [path for path, operations in document["paths"].items() if "get" in operations]
    assert len(paths) > 5
    for path in (*paths, *UNLISTED, found):
        got, head = client.get(path), client.head(path)
        assert (head.status_code, head.content) == (got.status_code, b"")
        assert head.headers.keys() == got.headers.keys()
        for name in got.headers.keys() - OWN_TO_EACH - ({"content-length"} if path == "/metrics" else set()):
            assert head.headers[name] == got.headers[name], (path, name)


def test_metrics_count_head_as_its_own_method(client: TestClient) -> None:
    client.head("/livez")
    assert (
        'privacy_bounds_http_requests_total{method="HEAD",route="/livez",status="200"}' in client.get("/metrics").text
    )
