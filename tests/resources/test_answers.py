"""Every question on every mechanism, at its range limits too: answers match the published schema and round-trip."""

from __future__ import annotations

import json
import math
from typing import Any

import jsonschema_rs
import pytest

from api_schemas.bounds import BoundsRequest, BoundsResponse
from api_schemas.enclosures import Enclosed
from service.resources.bounds import BOUNDS
from tests.slow_marker import sample_of

DIGEST = "sha256:" + "0123456789abcdef" * 4
SCHEMA = jsonschema_rs.validator_for(BoundsResponse.model_json_schema(mode="serialization"))

GAUSSIAN = {"type": "gaussian", "noise_multiplier": 1.0}
MECHANISMS: list[dict[str, Any]] = [
    GAUSSIAN,
    {"type": "gaussian", "noise_multiplier": 1e-4},
    {"type": "gaussian", "noise_multiplier": 1e15},
    {"type": "laplace", "noise_multiplier": 1.0},
    {"type": "laplace", "noise_multiplier": 1e-4},
    {"type": "laplace", "noise_multiplier": 1e15},
    {"type": "gdp", "mu": 0.0},
    {"type": "gdp", "mu": 1e6},
    {"type": "pure_dp", "epsilon": 0.0},
    {"type": "pure_dp", "epsilon": 1e6},
    {"type": "approximate_dp", "epsilon": 1.0, "delta": 0.0},
    {"type": "approximate_dp", "epsilon": 1.0, "delta": 1.0},
    {"type": "approximate_dp", "epsilon": 0.0, "delta": 1e-6},
    {"type": "poisson_sampled", "sample_rate": 0.1, "mechanism": GAUSSIAN},
    {"type": "poisson_sampled", "sample_rate": 5e-324, "mechanism": GAUSSIAN},
    {"type": "poisson_sampled", "sample_rate": 1, "mechanism": GAUSSIAN},
    {"type": "poisson_sampled", "sample_rate": 0.1, "mechanism": {"type": "laplace", "noise_multiplier": 1.0}},
    {"type": "repeated", "steps": 10**12, "mechanism": {"type": "gaussian", "noise_multiplier": 1e6}},
    {"type": "composed", "mechanisms": [GAUSSIAN, {"type": "gdp", "mu": 1.0}]},
    {"type": "exponential", "epsilon": 1.0},
    {"type": "exponential", "epsilon": 0.0},
    {"type": "exponential", "epsilon": 1e6},
    {
        "type": "mixture",
        "components": [
            {"weight": 0.5, "mechanism": GAUSSIAN},
            {"weight": 0.5, "mechanism": {"type": "approximate_dp", "epsilon": 1.0, "delta": 1e-6}},
        ],
    },
    {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
    {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 1.0, "steps": 10**12},
]
UNIT = [0.0, 5e-324, 1e-300, 0.3, 1.0]
DIRECTIONS = ("add", "remove", "both")


def questions() -> list[dict[str, Any]]:
    """Return every question at the endpoints of its ranges, in the default direction."""
    asked: list[dict[str, Any]] = [{"type": "advantage"}, {"type": "trade_off", "false_positive_rates": UNIT}]
    asked += [{"type": "epsilon", "delta": delta} for delta in UNIT]
    asked += [{"type": "delta", "epsilon": epsilon} for epsilon in (0.0, 5e-324, 1.0, 1e6)]
    asked += [{"type": "reconstruction", "baseline_success": kappa} for kappa in UNIT]
    asked += [{"type": "attack_accuracy", "prior": prior} for prior in UNIT]
    asked += [{"type": "advantage_over_prior", "prior": prior} for prior in UNIT]
    asked += [
        {"type": "deletion_capacity", "prior": p, "confidence": b} for p in (0.0, 0.3, 1.0) for b in (0.0, 0.9, 1.0)
    ]
    for kind in ("positive_predictive_value", "negative_predictive_value"):
        for side in ("at_most", "at_least"):
            asked += [{"type": kind, "side": side, "prior": prior} for prior in (0.0, 0.3, 1.0)]
            asked += [
                {"type": kind, "side": side, "prior": prior, "false_positive_rate": rate}
                for prior in (0.0, 0.3, 1.0)
                for rate in (0.0, 0.1, 1.0)
            ]
    return asked


def compute(mechanism: dict[str, Any], *asked: dict[str, Any]) -> bytes:
    # Wide answers suffice: a second engine could not change the schema.
    sent = json.dumps({"mechanism": mechanism, "questions": asked, "relative_tolerance": 1})
    return BOUNDS.body(BoundsRequest.model_validate_json(sent), DIGEST, "2026.01.01")


def check(written: bytes) -> None:
    body = json.loads(written)
    assert SCHEMA.is_valid(body), next(iter(SCHEMA.iter_errors(body))).message
    response = BoundsResponse.model_validate_json(written)
    assert response.json_bytes() == written
    for answer in response.answers:
        if isinstance(answer, Enclosed):
            assert answer.lower is not None
            assert answer.upper is not None
            assert answer.lower <= answer.upper
            assert not math.isinf(answer.lower) or answer.lower == answer.upper


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=json.dumps)
def test_every_question_has_answer_with_published_schema(mechanism: dict[str, Any]) -> None:
    check(compute(mechanism, *questions()))


@pytest.mark.parametrize("mechanism", MECHANISMS[:14], ids=json.dumps)
def test_regularised_mu_has_published_schema(mechanism: dict[str, Any]) -> None:
    for direction in DIRECTIONS:
        check(compute(mechanism, {"type": "gdp_mu", "direction": direction}))


LAPLACE = {"type": "laplace", "noise_multiplier": 1e-3}
DIRECTED: list[dict[str, Any]] = [
    {"type": "poisson_sampled", "sample_rate": 0.1, "mechanism": GAUSSIAN},
    {"type": "poisson_sampled", "sample_rate": 5e-324, "mechanism": GAUSSIAN},
    {"type": "poisson_sampled", "sample_rate": 0.5, "mechanism": {"type": "gaussian", "noise_multiplier": 1e-4}},
    {"type": "poisson_sampled", "sample_rate": 0.9999999, "mechanism": LAPLACE},
    {"type": "poisson_sampled", "sample_rate": 1e-300, "mechanism": LAPLACE},
    {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000},
    {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 1e-300, "steps": 10**12},
    {"type": "dpsgd", "noise_multiplier": 1e-4, "sample_rate": 0.5, "steps": 10},
    {"type": "dpsgd", "noise_multiplier": 1e15, "sample_rate": 0.5, "steps": 10},
]


@sample_of(12)
@pytest.mark.parametrize("mechanism", DIRECTED, ids=json.dumps)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_every_direction_has_answer_with_published_schema(mechanism: dict[str, Any], direction: str) -> None:
    check(compute(mechanism, *({**question, "direction": direction} for question in questions())))
