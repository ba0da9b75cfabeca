"""POST /v1/pmp/exponential and /v1/pmp/finite over HTTP and on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from api_schemas.pmp_examples import PMP_EXPONENTIAL_EXAMPLES, PMP_FINITE_EXAMPLES
from service.command import main as cli
from service.engine_version import ENGINE_VERSION
from service.resources.abstract import Computation
from service.resources.digest import digest
from service.resources.pmp.exponential import PMP_EXPONENTIAL
from service.resources.pmp.finite import PMP_FINITE
from tests.api.requests import JSON, encoded

EXPONENTIAL, FINITE = "/v1/pmp/exponential", "/v1/pmp/finite"
LINE: dict[str, Any] = PMP_EXPONENTIAL_EXAMPLES["distances"]["value"]
TABLE: dict[str, Any] = PMP_FINITE_EXAMPLES["noisy_parity"]["value"]
RESOURCES = [(EXPONENTIAL, PMP_EXPONENTIAL, LINE), (FINITE, PMP_FINITE, TABLE)]


def post(client: TestClient, route: str, body: dict[str, Any], **headers: str) -> Any:
    return client.post(route, content=encoded(body), headers=JSON | headers)


def crowd(half: int, objects: int) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    return {
        "epsilon": 10.0,
        "points": generator.normal(size=(2 * half, 1)).tolist(),
        "objects": generator.normal(size=(objects, 1)).tolist(),
        "clip_radius": 5.0,
    }


@pytest.mark.parametrize(("route", "computation", "body"), RESOURCES)
def test_result_has_digest_and_is_stored(
    client: TestClient, route: str, computation: Computation[Any, Any], body: dict[str, Any]
) -> None:
    first = post(client, route, body)
    assert first.status_code == 200
    response = computation.response_type.model_validate_json(first.content)
    request = computation.request_type.model_validate_json(encoded(body))
    assert response.digest == digest(computation.name, ENGINE_VERSION, request)
    assert first.headers["etag"] == f'"{response.digest}"'
    again = post(client, route, body)
    assert (again.content, again.headers["cache-status"]) == (first.content, "privacy-bounds; hit; detail=memory")
    stored = client.get(first.headers["content-location"])
    assert (stored.status_code, stored.content) == (200, first.content)
    asked_again = {"If-None-Match": first.headers["etag"]}
    assert client.get(first.headers["content-location"], headers=asked_again).status_code == 304
    assert post(client, route, body, **asked_again).content == first.content


@pytest.mark.parametrize(
    ("route", "examples"), [(EXPONENTIAL, PMP_EXPONENTIAL_EXAMPLES), (FINITE, PMP_FINITE_EXAMPLES)]
)
def test_published_examples_are_answered(client: TestClient, route: str, examples: dict[str, Any]) -> None:
    for example in examples.values():
        assert post(client, route, example["value"]).status_code == 200


def test_expensive_enumeration_is_computed_by_worker(client: TestClient) -> None:
    answer = post(client, EXPONENTIAL, crowd(12, 10))
    assert answer.status_code == 200
    assert answer.json()["method"] == "enumeration"
    counted = 'computation_duration_seconds_count{computation="pmp-exponential",mechanism="none",place="worker"}'
    assert counted in client.get("/metrics").text


def test_request_beyond_budget_is_rejected_with_estimate(client: TestClient) -> None:
    for body in (crowd(17, 64) | {"exact": True}, crowd(3000, 40), crowd(100, 32) | {"samples": 100_000}):
        problem = post(client, EXPONENTIAL, body).json()
        assert (problem["type"], problem["status"]) == ("/problems/compute-budget-exceeded", 422)
        assert problem["estimated_cost"] > problem["limit"]


@pytest.mark.parametrize(
    ("route", "body", "kind", "pointer", "sentence"),
    [
        (EXPONENTIAL, LINE | {"points": LINE["points"][1:]}, "invalid-request", "/points", "even"),
        (EXPONENTIAL, LINE | {"points": [[0.1], [1, 2]]}, "invalid-request", "/points/1", "1 numbers"),
        (EXPONENTIAL, LINE | {"epsilon": None}, "invalid-request", "/epsilon", "[0, 1000000]"),
        (EXPONENTIAL, LINE | {"sigma": 1.0}, "invalid-request", "/sigma", "The fields are"),
        (
            EXPONENTIAL,
            {"epsilon": 1.0, "losses": [[0.0, 3.0]], "sensitivity": 1.0},
            "out-of-domain",
            "/sensitivity",
            "at least the largest change",
        ),
        (FINITE, TABLE | {"points": 5}, "invalid-request", "/points", "even"),
        (FINITE, TABLE | {"probabilities": [[1.0]] * 5}, "invalid-request", "/probabilities", "6 rows"),
    ],
)
def test_problem_has_pointer_into_body(
    client: TestClient, route: str, body: dict[str, Any], kind: str, pointer: str, sentence: str
) -> None:
    answer = post(client, route, body)
    assert answer.status_code == 422
    problem = answer.json()
    assert (problem["type"], problem["instance"]) == (f"/problems/{kind}", route)
    assert [(error["pointer"], sentence in error["detail"]) for error in problem["errors"]] == [(pointer, True)]


@pytest.mark.parametrize(("number", "status"), [(b"NaN", 400), (b"-Infinity", 400), (b"1e999", 422)])
def test_invalid_number_is_rejected_with_pointer(client: TestClient, number: bytes, status: int) -> None:
    content = encoded(LINE | {"points": [[12345.0], [0.0]]}).replace(b"12345.0", number)
    answer = client.post(EXPONENTIAL, content=content, headers=JSON)
    assert answer.status_code == status
    assert answer.json()["errors"][0]["pointer"] == "/points/0/0"


@pytest.mark.parametrize(("points", "status"), [(10_002, 422), (100_000, 422), (1_000_000, 413)])
def test_too_many_points_are_rejected(client: TestClient, points: int, status: int) -> None:
    """Requests with too many points, too many values, or too long a body are rejected."""
    answer = post(client, EXPONENTIAL, {"epsilon": 1.0, "losses": [[0] * points], "sensitivity": 1.0})
    assert answer.status_code == status
    if status == 422:
        [error] = answer.json()["errors"]
        assert "10000" in error["detail"] if points < 20_000 else "32000" in error["detail"]


@pytest.mark.parametrize(("route", "computation", "body"), RESOURCES)
def test_command_line_writes_same_bytes_as_http(
    client: TestClient,
    route: str,
    computation: Computation[Any, Any],
    body: dict[str, Any],
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(body))
    assert cli.main([computation.name, str(file)]) == 0
    assert capfdbinary.readouterr().out == post(client, route, body).content
    file.write_text(json.dumps(body | {"points": 0}))
    assert cli.main([computation.name, str(file)]) == cli.PROBLEM_EXIT_CODE
    problem = json.loads(capfdbinary.readouterr().err)
    assert problem["instance"] == f"privacy-bounds {computation.name}"
    assert problem["errors"][0]["pointer"] == "/points"
