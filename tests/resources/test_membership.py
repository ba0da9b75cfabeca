"""Membership adversary in requests: the accompanying worst case, assumptions, and rejected input."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from pydantic import ValidationError

from api_schemas.answers import TradeOffAnswer
from api_schemas.bounds import BoundsRequest, BoundsResponse
from api_schemas.curves import CurvesRequest
from api_schemas.enclosures import Enclosed
from api_schemas.problems import field_errors
from service.privacy.errors import UnsupportedCombination
from service.resources.bounds import BOUNDS
from service.resources.curves import CURVES

DIGEST = "sha256:" + "0123456789abcdef" * 4
SCHEMA = jsonschema_rs.validator_for(BoundsResponse.model_json_schema(mode="serialization"))
RUN: dict[str, Any] = {
    "type": "noisy_sgd",
    "dataset_size": 400,
    "batch_size": 400,
    "dimension": 650,
    "steps": 1,
    "noise_std": 2.8377,
    "max_grad_norm": 500.0,
}
MEMBERSHIP: dict[str, Any] = {"type": "membership"}
QUESTIONS: list[dict[str, Any]] = [
    {"type": "trade_off", "false_positive_rates": [0.0, 0.01, 0.5, 1.0]},
    {"type": "epsilon", "delta": 1e-5},
    {"type": "delta", "epsilon": 1.0},
    {"type": "advantage"},
    {"type": "gdp_mu", "false_positive_rate_min": 1e-3, "type_two_error_min": 1e-3, "direction": "add"},
    {"type": "reconstruction", "baseline_success": 0.001},
    {"type": "attack_accuracy", "prior": 0.3},
    {"type": "positive_predictive_value", "prior": 0.1, "false_positive_rate": 1e-3},
    {"type": "negative_predictive_value", "prior": 0.1, "false_positive_rate": 1e-3},
    {"type": "advantage_over_prior", "prior": 0.1},
    {"type": "deletion_capacity", "prior": 0.1, "confidence": 0.9},
]


def request(mechanism: dict[str, Any] | None = None, model: Any = MEMBERSHIP, **more: Any) -> BoundsRequest:
    sent = {"mechanism": mechanism or RUN, "threat_model": model, "questions": QUESTIONS[:2], **more}
    return BoundsRequest.model_validate_json(json.dumps(sent))


def answered(asked: BoundsRequest) -> BoundsResponse:
    """Return the response after a check of its bytes."""
    written = BOUNDS.body(asked, DIGEST, "2026.01.01")
    body = json.loads(written)
    assert SCHEMA.is_valid(body), next(iter(SCHEMA.iter_errors(body))).message
    response = BoundsResponse.model_validate_json(written)
    assert response.json_bytes() == written
    return response


def test_every_question_is_accompanied_by_worst_case() -> None:
    response = answered(request(questions=QUESTIONS))
    assert all(answer.conditional for answer in response.answers)
    beside = response.worst_case
    assert beside is not None
    assert beside.threat_model.model_dump() == {"type": "worst_case", "neighboring_relation": "replace_one"}
    assert not any(answer.conditional for answer in beside.answers)
    assert [answer.question for answer in beside.answers] == [answer.question for answer in response.answers]
    alone = answered(request(model={"type": "worst_case"}, questions=QUESTIONS))
    assert alone.worst_case is None
    assert alone.answers == beside.answers
    for relaxed, worst in zip(response.answers, beside.answers, strict=True):
        if isinstance(relaxed, Enclosed) and isinstance(worst, Enclosed):
            assert relaxed.lower is not None
            assert worst.upper is not None
            weaker = relaxed.question.type == "deletion_capacity"
            assert weaker or relaxed.lower <= worst.upper * (1 + 1e-12)
            assert relaxed.tolerance_met


def test_answer_is_the_smaller_of_theory_and_worst_case() -> None:
    answer = answered(request()).answers[0]
    assert isinstance(answer, TradeOffAnswer)
    assert answer.points[1]["power"]["value"] == pytest.approx(0.0742, abs=5e-5)
    assert any("worst case" in note for note in answer.notes)


def test_assumptions_of_answers_are_listed() -> None:
    texts = {assumption.text: assumption.holds for assumption in answered(request()).assumptions}
    [susceptibility] = [text for text in texts if "susceptibility" in text]
    assert texts[susceptibility] == "no"
    assert any("central limit theorem" in text for text in texts)
    given = answered(request(RUN | {"K": 900.0})).assumptions
    assert "no" not in [assumption.holds for assumption in given]


def test_approximations_have_no_bounds() -> None:
    for options in ({"step_curve": "gaussian"}, {"composition": "clt"}, {"composition": "root_sum_square"}):
        for answer in answered(request(RUN | {"steps": 3}, MEMBERSHIP | options)).answers:
            assert answer.evidence == "asymptotic"
            assert not answer.tolerance_met


def test_populations_are_mixed() -> None:
    shares = [{"weight": 0.9, "susceptibility": 300.0}, {"weight": 0.1, "K": 2000.0}]
    silent = RUN | {"noise_std": 0.0}
    answers = answered(request(silent, MEMBERSHIP | {"population": shares}, questions=[{"type": "advantage"}])).answers
    assert [answer.evidence for answer in answers] == ["certified"]
    spread = answered(request(silent, MEMBERSHIP | {"population": "chi_square"}, questions=[{"type": "advantage"}]))
    [answer] = spread.answers
    assert isinstance(answer, Enclosed)
    assert not answer.tolerance_met
    assert answer.lower is not None
    assert answer.upper is not None
    assert answer.lower < answer.upper < 1.05 * answer.lower


def test_method_all_lists_used_engines() -> None:
    [answer] = answered(request(method="all", questions=[{"type": "advantage"}])).answers
    assert isinstance(answer, Enclosed)
    assert answer.methods is not None
    assert [entry.method for entry in answer.methods] == ["closed_form"]


def test_add_or_remove_is_supported_with_fixed_batches() -> None:
    answers = answered(request(model={"type": "worst_case", "neighboring_relation": "add_or_remove_one"})).answers
    assert all(answer.tight for answer in answers)


@pytest.mark.parametrize(
    ("mechanism", "more", "pointer"),
    [
        ({"type": "gaussian", "noise_multiplier": 1.0}, {}, "/mechanism"),
        ({"type": "composed", "mechanisms": [RUN, RUN]}, {}, "/mechanism"),
        (RUN | {"dimension": 10**9, "batch_size": 10**5, "dataset_size": 10**5}, {}, "/mechanism"),
        (RUN, {"method": "contour"}, "/method"),
    ],
)
def test_unsupported_request_has_pointer(mechanism: dict[str, Any], more: dict[str, Any], pointer: str) -> None:
    def served(asked: BoundsRequest) -> None:
        """Serve a request as the service does: the engine refuses requests that have a quote."""
        assert BOUNDS.quote(asked).cost > 0
        answered(asked)

    for serve in (served, answered):
        with pytest.raises(UnsupportedCombination) as caught:
            serve(request(mechanism, **more))
        assert caught.value.pointer == pointer


@pytest.mark.parametrize(
    ("mechanism", "model", "pointer"),
    [
        ({"batch_size": 401}, {}, "/mechanism/batch_size"),
        ({"dimension": 0}, {}, "/mechanism/dimension"),
        ({"susceptibility": -1.0}, {}, "/mechanism/susceptibility"),
        ({"max_grad_norm": 0.0}, {}, "/mechanism/max_grad_norm"),
        ({}, {"population": [{"weight": 0.5, "susceptibility": 1.0}]}, "/threat_model/population"),
        ({}, {"population": []}, "/threat_model/population"),
        ({}, {"population": "everyone"}, "/threat_model/population"),
        ({}, {"population": [{"weight": 0.0, "susceptibility": 1.0}]}, "/threat_model/population/0/weight"),
        ({}, {"population": [{"weight": 1.0}]}, "/threat_model/population/0/susceptibility"),
        ({}, {"composition": "gaussian"}, "/threat_model/composition"),
    ],
)
def test_bad_input_is_rejected_before_computation(
    mechanism: dict[str, Any], model: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        request(RUN | mechanism, MEMBERSHIP | model)
    [error] = field_errors(caught.value)
    assert error.pointer == pointer
    assert "documented type" not in error.detail


def test_curves_are_accompanied_by_worst_case() -> None:
    sent = json.dumps({"mechanism": RUN, "threat_models": [MEMBERSHIP], "grid": {"count": 20}, "directions": ["add"]})
    response = CURVES.response(CurvesRequest.model_validate_json(sent), DIGEST, "2026.01.01")
    assert [(curve.threat_model.type, curve.conditional) for curve in response.curves] == [
        ("membership", True),
        ("worst_case", False),
    ]
    assert response.comparisons[0].verdict in ("equal", "first_is_harder", "undecided")
    assert any(assumption.holds == "no" for assumption in response.assumptions)


def test_expensive_requests_have_high_estimates() -> None:
    sampled = RUN | {"dataset_size": 48_000, "steps": 1200}
    prices = [BOUNDS.quote(request(mechanism)).cost for mechanism in (RUN, sampled)]
    assert prices[0] < 1_000_000 < prices[1]
