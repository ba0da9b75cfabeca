"""Responses match the published document: responses to its examples, and responses at the limits of the ranges."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from starlette.testclient import TestClient

from tests.contract.published_document import PATH
from tests.contract.test_page_examples import assert_printed

DOCUMENT: dict[str, Any] = json.loads(PATH.read_text("utf-8"))
ASKED = [
    (path, name)
    for path, item in DOCUMENT["paths"].items()
    if "200" in item.get("post", {}).get("responses", ())  # A job returns 202 with a new id each time.
    for name in item["post"]["requestBody"]["content"]["application/json"]["examples"]
]
EDGES = [
    {"type": "epsilon", "delta": 0},
    {"type": "epsilon", "delta": 1},
    {"type": "delta", "epsilon": 0},
    {"type": "delta", "epsilon": 1e6},
    {"type": "advantage"},
    {"type": "gdp_mu"},
    {"type": "trade_off", "false_positive_rates": [0, 1e-300, 0.5, 1]},
    *({"type": "reconstruction", "baseline_success": chance} for chance in (0, 1e-3, 1)),
    *({"type": "attack_accuracy", "prior": prior} for prior in (0, 0.5, 1)),
    *({"type": "positive_predictive_value", "prior": prior} for prior in (0, 1e-9, 0.5, 1)),
    *({"type": "negative_predictive_value", "prior": prior, "side": "at_least"} for prior in (0, 0.5, 1)),
    *({"type": "advantage_over_prior", "prior": prior} for prior in (0, 1e-9, 0.5, 1)),
    *({"type": "deletion_capacity", "prior": 0.5, "confidence": confidence} for confidence in (0, 0.4, 1)),
    {"type": "unlearning_guarantee", "prior": 0.5, "confidence": 0.4},
]
MECHANISMS = [
    {"type": "gaussian", "noise_multiplier": 1e-4},
    {"type": "gaussian", "noise_multiplier": 1e15},
    {"type": "laplace", "noise_multiplier": 1e-4},
    {"type": "laplace", "noise_multiplier": 2},
    {"type": "pure_dp", "epsilon": 0},
    {"type": "pure_dp", "epsilon": 1e6},
    {"type": "approximate_dp", "epsilon": 1, "delta": 1},
    {"type": "gdp", "mu": 1e6},
]


def described(path: str, status: str = "200", media_type: str = "application/json") -> dict[str, Any]:
    return DOCUMENT["paths"][path]["post"]["responses"][status]["content"][media_type]


def misfits(content: dict[str, Any], answer: Any) -> list[str]:
    validator = jsonschema_rs.validator_for(content["schema"] | {"components": DOCUMENT["components"]})
    return [f"{error.instance_path}: {error.message[:200]}" for error in validator.iter_errors(answer)]


@pytest.mark.parametrize(("path", "name"), ASKED)
def test_examples_give_published_responses(client: TestClient, path: str, name: str) -> None:
    sent = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]["examples"][name]["value"]
    answer = client.post(path, json=sent).json()
    assert not misfits(described(path), answer)
    printed = described(path).get("examples", {}).get(name)
    if printed is not None:
        expected = printed["value"] | {key: answer[key] for key in ("digest", "engine_version")}
        assert answer.keys() == expected.keys()
        assert_printed(answer, expected, name)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=json.dumps)
def test_responses_at_range_limits_match_schema(client: TestClient, mechanism: dict[str, Any]) -> None:
    answer = client.post("/v1/bounds", json={"mechanism": mechanism, "questions": EDGES}).json()
    assert not misfits(described("/v1/bounds"), answer)
    assert [each["type"] for each in answer["answers"]] == [question["type"] for question in EDGES]


def test_problem_matches_schema_and_example(client: TestClient) -> None:
    content = described("/v1/bounds", "422", "application/problem+json")
    sent = {"mechanism": {"type": "dpsgd", "sigma": 1, "q": 0.1, "steps": 0}, "questions": [{"type": "advantage"}]}
    refused = client.post("/v1/bounds", json=sent).json()
    example = content["examples"]["invalid_request"]["value"]
    assert not misfits(content, refused)
    assert refused == example | {"request_id": refused["request_id"]}
