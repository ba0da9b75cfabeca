"""POST /v1/curves over HTTP and on the command line, with the conventions of all resources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from api_schemas.curves import CurvesResponse
from service.command import main as cli
from service.engine_version import ENGINE_VERSION
from service.resources.curves import CURVES
from service.resources.digest import digest
from tests.api.requests import GAUSSIAN, JSON, dpsgd, encoded

ROUTE = "/v1/curves"
BODY: dict[str, Any] = {"mechanism": GAUSSIAN, "grid": {"count": 5}, "directions": ["add", "both"]}


def post(client: TestClient, body: dict[str, Any], **headers: str) -> Any:
    return client.post(ROUTE, content=encoded(body), headers=JSON | headers)


@pytest.fixture(scope="module")
def first(client: TestClient) -> Any:
    return post(client, BODY)


def test_result_has_digest_and_is_stored(client: TestClient, first: Any) -> None:
    assert first.status_code == 200
    response = CurvesResponse.model_validate_json(first.content)
    spelled_out = BODY | {"methods": ["auto"], "rtol": 1e-6, "threat_models": [{"type": "worst_case"}]}
    request = CURVES.request_type.model_validate_json(encoded(spelled_out))
    assert response.digest == digest("curves", ENGINE_VERSION, request)
    assert first.headers["etag"] == f'"{response.digest}"'
    assert first.headers["cache-status"] == "privacy-bounds; fwd=miss; stored"
    again = post(client, spelled_out)
    assert (again.content, again.headers["cache-status"]) == (first.content, "privacy-bounds; hit; detail=memory")
    stored = client.get(first.headers["content-location"])
    assert (stored.status_code, stored.content) == (200, first.content)
    asked_again = {"If-None-Match": first.headers["etag"]}
    assert client.get(first.headers["content-location"], headers=asked_again).status_code == 304
    assert post(client, BODY, **asked_again).content == first.content


def test_expensive_curve_is_computed_by_worker(client: TestClient) -> None:
    answer = post(client, {"mechanism": dpsgd(), "directions": ["add", "remove"], "grid": {"count": 50}})
    assert answer.status_code == 200
    assert [curve["evidence"] for curve in answer.json()["curves"]] == ["certified", "certified"]
    counted = 'computation_duration_seconds_count{computation="curves",mechanism="dpsgd",place="worker"'
    assert counted in client.get("/metrics").text


@pytest.mark.parametrize(
    ("change", "kind", "pointer", "sentence"),
    [
        ({"methods": ["all"]}, "invalid-request", "/methods/0", "ground_truth"),
        ({"grid": {"count": 1}}, "invalid-request", "/grid/count", "[2, 10000]"),
        ({"samples": 5000}, "invalid-request", "/samples", "monte_carlo"),
        ({"points": 3}, "invalid-request", "/points", "The fields are"),
        ({"methods": ["auto"] * 8, "grid": {"count": 10_000}}, "invalid-request", "", "40000 points"),
        (
            {"mechanism": dpsgd(), "methods": ["contour", "closed_form"]},
            "unsupported-combination",
            "/methods/1",
            "contour",
        ),
    ],
)
def test_problem_has_pointer_into_body(
    client: TestClient, change: dict[str, Any], kind: str, pointer: str, sentence: str
) -> None:
    answer = post(client, BODY | change)
    assert answer.status_code == 422
    problem = answer.json()
    assert (problem["type"], problem["instance"]) == (f"/problems/{kind}", ROUTE)
    assert {error["pointer"]: sentence in error["detail"] for error in problem["errors"]} == {pointer: True}


def test_curves_beyond_budget_are_rejected_before_computation(client: TestClient) -> None:
    answer = post(client, {"mechanism": dpsgd(), "methods": ["ground_truth"], "grid": {"count": 10_000}})
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["type"] == "/problems/compute-budget-exceeded"
    assert problem["estimated_cost"] > problem["limit"]


def test_limits_of_curves_are_listed(client: TestClient) -> None:
    limits = client.get("/v1/limits").json()["request"]
    assert (limits["curves"], limits["curve_points"]) == (64, 40_000)


def test_command_line_writes_same_bytes_as_http(
    first: Any, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(BODY))
    assert cli.main(["curves", str(file)]) == 0
    assert capfdbinary.readouterr().out == first.content
    file.write_text(json.dumps(BODY | {"directions": ["up"]}))
    assert cli.main(["curves", str(file)]) == cli.PROBLEM_EXIT_CODE
    problem = json.loads(capfdbinary.readouterr().err)
    assert problem["instance"] == "privacy-bounds curves"
    assert problem["errors"][0]["pointer"] == "/directions/0"
