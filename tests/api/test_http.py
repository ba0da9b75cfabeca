"""HTTP semantics of responses: headers, caching and discovery."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from api_schemas.bounds import BoundsResponse
from api_schemas.signatures import ENVELOPE_MEDIA_TYPE
from service.engine_version import ENGINE_VERSION
from service.execution import runner
from service.execution.errors import ComputeBudgetExceeded, OutOfMemory, OutOfTime, QueueFull, WorkerDied
from service.main import create_app
from service.privacy.errors import NumericalFailure, OutOfDomain, UnsupportedCombination
from service.resources.bounds import BOUNDS
from service.resources.catalogue import resources
from service.resources.digest import digest
from service.settings import Settings
from tests.api.requests import ROUTE, bounds, post
from tests.contract.published_document import PATH

DOCUMENT: dict[str, Any] = json.loads(PATH.read_text("utf-8"))


@pytest.fixture(scope="module")
def first(client: TestClient) -> Any:
    return post(client, bounds({"type": "gaussian", "noise_multiplier": 3.25}))


def test_response_has_digest_in_headers(first: Any) -> None:
    assert first.status_code == 200
    assert first.headers["content-type"] == "application/json"
    name = BoundsResponse.model_validate_json(first.content).digest
    assert first.headers["etag"] == f'"{name}"'
    assert first.headers["content-location"] == f"/v1/results/{name}"
    assert first.headers["cache-status"] == "privacy-bounds; fwd=miss; stored"
    assert re.fullmatch(r"total;dur=\d+\.\d{3}, compute;dur=\d+\.\d{3}", first.headers["server-timing"])


def test_digest_is_that_of_canonical_request(first: Any) -> None:
    request = BOUNDS.request_type.model_validate_json(
        b'{"questions": [{"type": "advantage"}], "mechanism": {"sigma": 3.25, "type": "gaussian"}, "method": "auto"}'
    )
    assert first.json()["digest"] == digest(BOUNDS.name, ENGINE_VERSION, request)


def test_repeated_request_returns_cached_bytes(client: TestClient, first: Any) -> None:
    again = post(client, bounds({"type": "gaussian", "noise_multiplier": 3.25}))
    spelled = post(client, b'{"questions":[{"type":"advantage"}],"mechanism":{"sigma":3.25,"type":"gaussian"}}')
    for answer in (again, spelled):
        assert answer.content == first.content
        assert answer.headers["etag"] == first.headers["etag"]
        assert answer.headers["cache-status"] == "privacy-bounds; hit; detail=memory"
        assert answer.headers["server-timing"].startswith("total;dur=")
        assert "compute" not in answer.headers["server-timing"]


def test_result_is_fetched_by_its_digest(client: TestClient, first: Any) -> None:
    answer = client.get(first.headers["content-location"])
    assert (answer.status_code, answer.content) == (200, first.content)
    assert answer.headers["cache-control"] == "private, max-age=31536000, immutable"
    assert answer.headers["etag"] == first.headers["etag"]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("template", "status"),
    [("{}", 304), ("W/{}", 304), ('"x", {}', 304), ("*", 304), ('"x"', 200), ("", 200), ("sha256", 200)],
)
def test_matching_etag_returns_304(client: TestClient, first: Any, method: str, template: str, status: int) -> None:
    headers = {"If-None-Match": template.format(first.headers["etag"])}
    if method == "GET":
        answer = client.get(first.headers["content-location"], headers=headers)
    else:
        answer = post(client, bounds({"type": "gaussian", "noise_multiplier": 3.25}), **headers)
    is_read = method == "GET" and status == 304  # A POST is computed whatever the client has cached.
    assert answer.status_code == (304 if is_read else 200)
    assert answer.headers["etag"] == first.headers["etag"]
    assert answer.content == (b"" if is_read else first.content)


def test_request_id_is_echoed_or_generated(client: TestClient) -> None:
    assert client.get("/livez", headers={"X-Request-ID": "trace:4711/a"}).headers["x-request-id"] == "trace:4711/a"
    made = {client.get("/livez").headers["x-request-id"] for _ in range(3)}
    assert len(made) == 3
    for bad in ("a b", "x" * 129, "<script>"):
        assert client.get("/livez", headers={"X-Request-ID": bad}).headers["x-request-id"] != bad


def test_discovery_lists_mechanisms_and_resources(client: TestClient) -> None:
    catalogue = client.get("/v1/catalogue").json()
    assert {"gaussian", "laplace", "gdp", "pure_dp", "approximate_dp", "poisson_sampled", "repeated", "composed"} < {
        entry["type"] for entry in catalogue["mechanisms"]
    }
    for resource in catalogue["resources"]:
        content = DOCUMENT["paths"][resource["path"]]["post"]
        assert content["operationId"] == resource["operation"]
        assert resource["takes"] == list(content["requestBody"]["content"])
        # The document serves deployments with and without signing keys.
        assert set(resource["answers_in"]) == set(content["responses"]["200"]["content"]) - {ENVELOPE_MEDIA_TYPE}
        if len(resource["answers_in"]) > 1:
            refused = client.post(resource["path"], content=b"", headers={"Accept": "application/pdf"})
            assert refused.json()["supported"] == resource["answers_in"]
    assert len(catalogue["resources"]) == len(resources())
    settings = Settings()
    limits = client.get("/v1/limits").json()
    assert limits["request"]["questions"] == 256
    assert (limits["body_bytes"], limits["cost"]) == (settings.max_body_bytes, settings.max_cost)
    version = client.get("/v1/version").json()
    assert (version["service"], version["engine_version"]) == ("privacy-bounds", ENGINE_VERSION)


def test_health_endpoints_report_ready(client: TestClient) -> None:
    assert client.get("/livez").json() == {"status": "live"}
    assert client.get("/readyz").json() == {"status": "ready", "checks": []}
    verbose = client.get("/readyz?verbose")
    assert verbose.status_code == 200
    checks = {check["name"]: check["status"] for check in verbose.json()["checks"]}
    assert checks == {"known_answer": "ok", "worker_pool": "ok", "redis": "ok", "jobs": "ok"}


def test_metrics_are_labelled_by_route_template(client: TestClient, first: Any) -> None:
    client.get("/v1/results/sha256:" + "0" * 64)
    client.get("/somewhere/else")
    text = client.get("/metrics").text
    assert re.search(r'privacy_bounds_http_requests_total\{method="POST",route="/v1/bounds",status="200"\} \d', text)
    assert 'route="/v1/results/{digest}",status="404"' in text
    assert 'route="unmatched",status="404"' in text
    assert "sha256" not in text
    assert "somewhere" not in text
    assert re.search(
        r'computation_duration_seconds_count\{computation="bounds",mechanism="gaussian",place="inline"', text
    )
    assert "process_resident_memory_bytes" in text


def test_two_applications_in_one_process_share_nothing(client: TestClient, first: Any) -> None:
    with TestClient(create_app(Settings(log_level="error"))) as other:
        assert 'route="/v1/bounds"' not in other.get("/metrics").text
        assert other.get(first.headers["content-location"]).status_code == 404


def test_unexpected_error_returns_fixed_text_and_logs_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    app = create_app(Settings(log_level="error"))

    @app.get("/defect")
    async def defect() -> None:
        raise ValueError("an inner secret")

    with TestClient(app) as client:
        answer = client.get("/defect", headers={"X-Request-ID": "id-1"})
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert answer.json()["type"] == "/problems/internal-error"
    assert answer.json()["request_id"] == answer.headers["x-request-id"] == "id-1"
    assert "secret" not in answer.text
    [event] = map(json.loads, capfd.readouterr().err.splitlines())
    assert (event["request_id"], event["level"], event["problem"]) == ("id-1", "error", "/problems/internal-error")
    assert "an inner secret" in event["exception"]


def test_failure_in_event_loop_is_logged_with_traceback(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A failure in the event loop is logged with its traceback; errors of the client are not logged."""

    def deep_in_the_core(*_: object) -> None:
        raise NumericalFailure("lower end above upper end")

    monkeypatch.setattr(runner, "compute_body", deep_in_the_core)
    with TestClient(create_app(Settings(log_level="error"))) as client:
        for _ in range(2):
            assert post(client, bounds({"type": "gaussian", "noise_multiplier": 3.5})).status_code == 500
        assert post(client, bounds({"type": "gaussian", "noise_multiplier": -3.5})).status_code == 422
    events = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [event["problem"] for event in events] == ["/problems/numerical-failure"] * 2
    assert all("deep_in_the_core" in event["exception"] for event in events)


@pytest.mark.parametrize(
    ("error", "status", "kind", "logged"),
    [
        (NumericalFailure("lower end above upper end"), 500, "numerical-failure", True),
        (WorkerDied(), 500, "worker-died", True),
        (OutOfMemory(1), 422, "out-of-memory", False),
        (OutOfTime(30.0), 504, "out-of-time", False),
        (QueueFull(7), 503, "overloaded", False),
        (ComputeBudgetExceeded(9, 8), 422, "compute-budget-exceeded", False),
        (OutOfDomain("delta", 0.123454321, "in [0, 1]", "Send less."), 422, "out-of-domain", False),
        (UnsupportedCombination("method", "clt", "not yet.", ("contour",)), 422, "unsupported-combination", False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_every_error_has_its_status_and_problem(
    error: Exception, status: int, kind: str, logged: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    app = create_app(Settings(log_level="error"))

    @app.get("/failing")
    async def failing() -> None:
        raise error

    with TestClient(app) as client:
        answer = client.get("/failing")
    problem = answer.json()
    assert (answer.status_code, problem["status"], problem["type"]) == (status, status, f"/problems/{kind}")
    assert "0.12345" not in answer.text
    assert "above upper" not in answer.text
    assert answer.headers.get("retry-after") == ("7" if status == 503 else None)
    if isinstance(error, ComputeBudgetExceeded):
        assert (problem["estimated_cost"], problem["limit"]) == (9, 8)
    if isinstance(error, UnsupportedCombination):
        assert problem["supported"] == ["contour"]
    assert bool(capfd.readouterr().err) is logged


def test_log_has_one_event_per_request_and_no_bodies(capfd: pytest.CaptureFixture[str]) -> None:
    with TestClient(create_app(Settings())) as client:
        answer = client.post(
            ROUTE,
            content=b'{"mechanism":{"type":"gdp","mu":0.123454321},"questions":[{"type":"advantage"}]}',
            headers={"Content-Type": "application/json", "X-Request-ID": "logged"},
        )
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    [event] = [line for line in lines if line["event"] == "request"]
    assert event["request_id"] == "logged"
    assert event["digest"] == answer.json()["digest"]
    assert (event["route"], event["method"], event["status"], event["cache"]) == (ROUTE, "POST", 200, "computed")
    assert event["duration_ms"] > 0
    assert "0.12345" not in str(lines)
