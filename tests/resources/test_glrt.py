"""Requests with the GLRT adversary: the accompanying worst case, assumptions, and errors with pointers.

The adversary of the generalised likelihood ratio test (GLRT) does not know the direction of the record's answer.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from api_schemas.bounds import BoundsRequest, BoundsResponse
from api_schemas.curves import CurvesRequest, CurvesResponse
from api_schemas.enclosures import Enclosed
from service.privacy.errors import UnsupportedCombination
from service.resources.bounds import BOUNDS
from service.resources.curves import CURVES

DIGEST = "sha256:" + "0123456789abcdef" * 4
GAUSSIAN = {"type": "gaussian", "noise_multiplier": 1.0}
LAPLACE = {"type": "laplace", "noise_multiplier": 1.0}
RUN = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.1, "steps": 3}
SEVENTY = {"type": "repeated", "mechanism": {"type": "gaussian", "noise_multiplier": 6.0}, "steps": 70}
GLRT = {"type": "glrt", "dimension": 1}
FRESH = {**GLRT, "unknown_direction": "fresh_each_step"}
WORST = {"type": "worst_case", "neighboring_relation": "add_or_remove_one"}
EPSILON = {"type": "epsilon", "delta": 0.01}


def request(mechanism: dict[str, Any], threat_model: dict[str, Any], *questions: Any, **more: Any) -> BoundsRequest:
    body = {"mechanism": mechanism, "threat_model": threat_model, "questions": questions or [EPSILON], **more}
    return BoundsRequest.model_validate_json(json.dumps(body))


def compute(mechanism: dict[str, Any], threat_model: dict[str, Any], *questions: Any, **more: Any) -> BoundsResponse:
    return BOUNDS.response(request(mechanism, threat_model, *questions, **more), DIGEST, "2026.01.01")


def curves(mechanism: dict[str, Any], **more: Any) -> CurvesResponse:
    asked = CurvesRequest.model_validate_json(json.dumps({"mechanism": mechanism, **more}))
    return CURVES.response(asked, DIGEST, "2026.01.01")


def test_worst_case_accompanies_answer() -> None:
    """The answer has epsilon 2.943660, and the worst case beside it 3.636734, as in Figure 9 of the paper."""
    questions = [EPSILON, {"type": "reconstruction", "baseline_success": 0.001}]
    found = compute(SEVENTY, GLRT, *questions)
    relaxed, _ = found.answers
    assert isinstance(relaxed, Enclosed)
    assert relaxed.value == pytest.approx(2.943660, abs=5e-7)
    assert found.worst_case is not None
    assert found.worst_case.threat_model.model_dump() == WORST
    worst, _ = found.worst_case.answers
    assert isinstance(worst, Enclosed)
    assert worst.value == pytest.approx(3.636734, abs=5e-7)
    for ours, other in zip(found.answers, found.worst_case.answers, strict=True):
        assert (ours.conditional, other.conditional) == (True, False)
        assert ours.evidence == "certified"
        assert ours.tolerance_met
        assert "GLRT" in ours.source
    assert any("does not know the direction" in assumption.text for assumption in found.assumptions)
    assert any("same vector in every step" in assumption.text for assumption in found.assumptions)


def test_every_question_is_answered() -> None:
    questions = [
        {"type": "trade_off", "false_positive_rates": [0.0, 1e-9, 0.1, 1.0], "direction": "both"},
        {"type": "delta", "epsilon": 0.5},
        {"type": "advantage"},
        {"type": "attack_accuracy", "prior": 0.3},
        {"type": "positive_predictive_value", "prior": 0.3, "false_positive_rate": 0.1},
        {"type": "negative_predictive_value", "prior": 0.3, "side": "at_least"},
        {"type": "advantage_over_prior", "prior": 0.3},
        {"type": "deletion_capacity", "prior": 0.01, "confidence": 0.9},
        {"type": "gdp_mu"},
    ]
    found = compute(GAUSSIAN, {"type": "glrt", "dimension": 5}, *questions)
    assert found.worst_case is not None
    assert len(found.answers) == len(found.worst_case.answers) == len(questions)


def test_answers_for_fresh_directions_note_that_they_are_no_bound() -> None:
    """Answers for a fresh direction in each step note that they are no bound for one direction in all steps.

    Epsilon is 0.2135 for fresh directions, and 2.9437 for an unknown direction that all steps share. This is the
    erratum `glrt-composition` of the guide.
    """
    found = compute(SEVENTY, FRESH, {**EPSILON, "direction": "add"}, relative_tolerance=1e-4)
    [answer] = found.answers
    assert isinstance(answer, Enclosed)
    assert answer.value == pytest.approx(0.2135, abs=5e-5)
    assert answer.method == "discretised"
    assert any("no bound" in note for note in answer.notes)
    assert [assumption.holds for assumption in found.assumptions if "no bound" in assumption.text] == ["no"]


def test_method_all_lists_engines() -> None:
    [answer] = compute(GAUSSIAN, {"type": "glrt", "dimension": 300}, method="all").answers
    assert isinstance(answer, Enclosed)
    assert [entry.method for entry in answer.methods or ()] == ["closed_form", "clt"]


def test_mixture_of_adversaries_is_linear_in_accuracy() -> None:
    mixed = {
        "type": "mixture",
        "components": [{"weight": 0.5, "threat_model": GLRT}, {"weight": 0.5, "threat_model": WORST}],
    }
    question = {"type": "attack_accuracy", "prior": 0.5}
    found = compute(GAUSSIAN, mixed, question)
    [answer] = found.answers
    assert isinstance(answer, Enclosed)
    # (1 + delta(0))/2 is linear in the weight: a reference row.
    assert answer.value == pytest.approx(0.64741715329081559, abs=1e-12)
    assert answer.conditional
    assert found.worst_case is not None
    assert any("drawn with the stated weights" in assumption.text for assumption in found.assumptions)


def test_curves_are_accompanied_by_worst_case() -> None:
    found = curves(GAUSSIAN, threat_models=[{"type": "glrt", "dimension": 30}], false_positive_rates=[0.01, 0.5])
    assert [curve.threat_model.type for curve in found.curves] == ["glrt", "worst_case"]
    assert [curve.conditional for curve in found.curves] == [True, False]
    assert [comparison.verdict for comparison in found.comparisons] == ["first_is_harder"]


@pytest.mark.parametrize(
    ("mechanism", "threat_model", "method", "pointer"),
    [
        (LAPLACE, GLRT, "auto", "/mechanism"),
        (RUN, GLRT, "auto", "/mechanism"),
        ({"type": "gdp", "mu": 1.0}, FRESH, "auto", "/mechanism"),
        (GAUSSIAN, GLRT, "contour", "/method"),
        (RUN, FRESH, "clt", "/method"),
    ],
)
def test_unsupported_request_has_pointer(
    mechanism: dict[str, Any], threat_model: dict[str, Any], method: str, pointer: str
) -> None:
    asked = request(mechanism, threat_model, method=method)
    for ask in (BOUNDS.quote, lambda asked: BOUNDS.response(asked, DIGEST, "2026.01.01")):
        with pytest.raises(UnsupportedCombination) as refusal:
            ask(asked)
        assert refusal.value.pointer == pointer
