"""POST /v1/conversions/membership over HTTP and on the command line, with the conventions of all resources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from api_schemas.membership_conversions import MembershipConversionsResponse
from service.command import main as cli
from service.engine_version import ENGINE_VERSION
from service.resources.conversions.membership import MEMBERSHIP_CONVERSIONS
from service.resources.digest import digest
from tests.api.requests import JSON, encoded

ROUTE = "/v1/conversions/membership"
BODY: dict[str, Any] = {
    "conversions": [
        {"type": "largest_epsilon", "positive_predictive_value": 0.75, "prior": 0.5},
        {"type": "largest_epsilon_for_deletions", "prior": 0.5, "confidence": 0.9},
    ]
}


def test_result_has_digest_and_command_line_writes_same_bytes(
    client: TestClient, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    first = client.post(ROUTE, content=encoded(BODY), headers=JSON)
    assert first.status_code == 200
    response = MembershipConversionsResponse.model_validate_json(first.content)
    request = MEMBERSHIP_CONVERSIONS.request_type.model_validate_json(encoded(BODY))
    assert response.digest == digest(MEMBERSHIP_CONVERSIONS.name, ENGINE_VERSION, request)
    assert first.headers["etag"] == f'"{response.digest}"'
    assert client.get(first.headers["content-location"]).content == first.content
    file = tmp_path / "request.json"
    file.write_text(json.dumps(BODY))
    assert cli.main(["membership-conversions", str(file)]) == 0
    assert capfdbinary.readouterr().out == first.content


def test_problem_has_pointer_into_body(client: TestClient) -> None:
    answer = client.post(ROUTE, content=encoded({"conversions": [{"type": "largest_epsilon"}]}), headers=JSON)
    assert answer.status_code == 422
    problem = answer.json()
    assert (problem["type"], problem["instance"]) == ("/problems/invalid-request", ROUTE)
    assert {error["pointer"] for error in problem["errors"]} == {
        "/conversions/0/positive_predictive_value",
        "/conversions/0/prior",
    }


def test_prior_other_than_practical_attackers_is_rejected(client: TestClient) -> None:
    body = {
        "mechanism": {"type": "pure_dp", "epsilon": 1.0},
        "threat_model": {"type": "practical", "epsilon_pmp": 0.5},
        "questions": [{"type": "advantage"}, {"type": "attack_accuracy", "prior": 0.1}],
    }
    answer = client.post("/v1/bounds", content=encoded(body), headers=JSON)
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["type"] == "/problems/unsupported-combination"
    assert [error["pointer"] for error in problem["errors"]] == ["/questions/1"]
