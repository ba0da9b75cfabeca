"""Fast path for computations: responses are indistinguishable from those of the full framework stack."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.routing import APIRoute
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from service.api.fast_routes import FastPathApplication, FastRoute
from service.main import create_app
from service.settings import Settings

PREFIX = "/behind/a/proxy"
"""Under a prefix, requests pass through all layers of the framework."""
PER_REQUEST = {"x-request-id", "server-timing", "cache-status"}
JSON = {"Content-Type": "application/json"}
RELEASE = {"mechanism": {"type": "gaussian", "noise_multiplier": 1.5}, "questions": [{"type": "advantage"}]}
METHODS = ("POST", "POST", "POST", "GET", "HEAD", "PUT", "DELETE", "OPTIONS")


@pytest.fixture(scope="module")
def app() -> FastPathApplication:
    app = create_app(Settings(redis_url=None, log_level="critical"))
    assert isinstance(app, FastPathApplication)
    return app


@pytest.fixture(scope="module")
def client(app: FastPathApplication) -> Iterator[TestClient]:
    async def behind(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(PREFIX):
            scope["root_path"] = PREFIX
        await app(scope, receive, send)

    with TestClient(behind, raise_server_exceptions=False) as client:
        yield client


def requests() -> Iterator[dict[str, Any]]:
    """Return valid requests and requests with each kind of error, by every method."""
    drawn = random.Random(20)
    paths = [route.path for route in create_app(Settings(redis_url=None)).router.routes if isinstance(route, APIRoute)]
    computed = [path for path in paths if path.startswith("/v1/") and "{" not in path and path != "/v1/jobs"]
    bodies = [
        json.dumps(RELEASE).encode(),
        json.dumps(RELEASE | {"method": "contour"}).encode(),
        json.dumps(RELEASE | {"wrong": 1}).encode(),
        json.dumps(RELEASE | {"mechanism": {"type": "gaussian", "noise_multiplier": -1}}).encode(),
        b'{"mechanism": 1, "mechanism": 2}',
        b"no JSON",
        b"",
        b"[" + b"1," * 40_000 + b"1]",
        b" " * 2_000_000,
    ]
    headers = [JSON, JSON, JSON, {}, {"Content-Type": "text/plain"}, JSON | {"Accept": "image/png"}]
    for body in bodies:
        yield {"method": "POST", "path": "/v1/bounds", "content": body, "headers": JSON}
    for _ in range(60):
        path = drawn.choice((*computed, "/v1/bounds", "/v1/bounds/", "/v1/none"))
        sent = {"content": drawn.choice(bodies[:-1]), "headers": drawn.choice(headers)}
        yield {"method": drawn.choice(METHODS), "path": path, **sent}


def exchange(client: TestClient, prefix: str, sent: dict[str, Any]) -> tuple[int, dict[str, str], list[str], Any]:
    """Send a request, and return status, headers, the names of headers that differ by request, and the body."""
    answer = client.request(sent["method"], prefix + sent["path"], content=sent["content"], headers=sent["headers"])
    apart = sorted(name for name in answer.headers if name in PER_REQUEST)
    kept = {name: value for name, value in answer.headers.items() if name not in PER_REQUEST | {"content-length"}}
    if answer.headers.get("content-type") != "application/problem+json" or not answer.content:
        return answer.status_code, kept, apart, answer.content
    problem = answer.json()
    assert problem.pop("request_id") == answer.headers["x-request-id"]
    assert problem.pop("instance") == prefix + sent["path"]
    return answer.status_code, kept, apart, problem


def test_fast_path_and_full_stack_give_same_response(client: TestClient) -> None:
    statuses = set[int]()
    for sent in requests():
        found = exchange(client, "", sent)
        assert found == exchange(client, PREFIX, sent), sent
        statuses.add(found[0])
    assert statuses >= {200, 400, 404, 405, 413, 415, 422}


def test_unexpected_error_on_fast_path_returns_problem(
    app: FastPathApplication, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(_: Any) -> Any:
        raise ArithmeticError("secret")

    (route,) = (each for each in app.router.routes if isinstance(each, FastRoute) and each.path == "/v1/bounds")
    monkeypatch.setattr(route, "respond", fails)
    answer = client.post("/v1/bounds", json=RELEASE)
    assert (answer.status_code, answer.json()["type"]) == (500, "/problems/internal-error")
    assert "secret" not in answer.text
