"""Serialised responses: the bytes match the contract, and parsing them loses nothing."""

from __future__ import annotations

import json
import math
from typing import Any

import jsonschema_rs
import pytest
from pydantic import ValidationError

from api_schemas.answers import (
    GdpMuAnswer,
    GuaranteeAnswer,
    NumberAnswer,
    ProbabilityAnswer,
    TradeOffAnswer,
    TradeOffPoint,
)
from api_schemas.assumptions_and_hazards import Assumption, Hazard
from api_schemas.bounds import BoundsRequest, BoundsResponse
from api_schemas.catalogue import catalogue
from api_schemas.enclosures import EnclosedNumber, EnclosedProbability
from api_schemas.fields import shape_of, type_of
from api_schemas.mechanisms import MechanismSpec
from api_schemas.options import OPTIONS
from api_schemas.problems import FieldError, Problem
from api_schemas.questions import QuestionSpec, TradeOffQuestion
from api_schemas.threat_models import ThreatModelSpec
from service.privacy.composition.planning import choose

DIGEST = "sha256:" + "0123456789abcdef" * 4
COMMON: dict[str, Any] = {
    "evidence": "certified",
    "tight": True,
    "conditional": False,
    "method": "contour",
    "tolerance_met": True,
    "source": "a theorem",
    "notes": ("a note",),
}


def asked(question: QuestionSpec) -> dict[str, Any]:
    return {"type": question.type, "question": question}


def response() -> BoundsResponse:
    """Return one answer of each kind, with infinities and subnormal numbers."""
    request = BoundsRequest.model_validate_json(
        json.dumps(
            {
                "mechanism": {
                    "type": "repeated",
                    "count": 3,
                    "event": {"type": "dpsgd", "sigma": 1, "q": 1e-7, "steps": 10},
                },
                "questions": [
                    {"type": "epsilon", "delta": 0},
                    {"type": "delta", "epsilon": 1e6},
                    {"type": "gdp_mu"},
                    {"type": "trade_off", "fpr": [0, 1e-300, 0.1]},
                    {"type": "attack_accuracy", "prior": 0.5, "fpr": None},
                    {"type": "reconstruction", "candidates": 7},
                    {"type": "unlearning_guarantee", "prior": 0.1, "confidence": 0.5},
                ],
                "dataset_subsampling": {"rate": 0.5},
            }
        )
    )
    epsilon, delta, gdp_mu, trade_off, accuracy, reconstruction, guarantee = request.questions
    assert isinstance(trade_off, TradeOffQuestion)
    infinite: EnclosedNumber = {"value": math.inf, "lower": math.inf, "upper": math.inf}
    plain: EnclosedProbability = {"value": 0.5, "lower": 0.25, "upper": 0.5}
    tiny: EnclosedProbability = {
        "value": 0.0,
        "lower": 0.0,
        "upper": 5e-324,
        "value_log10": -1000.0,
        "lower_log10": -math.inf,
        "upper_log10": -1000.0,
    }
    points: list[TradeOffPoint] = [
        {"false_positive_rate": rate, "type_two_error": plain, "power": power}
        for rate, power in zip(trade_off.false_positive_rates, (tiny, tiny, plain), strict=True)
    ]
    return BoundsResponse(
        digest=DIGEST,
        engine_version="2026.01.01",
        mechanism=request.mechanism,
        threat_model=request.threat_model,
        dataset_subsampling=request.dataset_subsampling,
        method="auto",
        answers=(
            NumberAnswer(**asked(epsilon), **infinite, **COMMON),
            ProbabilityAnswer(**asked(delta), **tiny, **COMMON),
            GdpMuAnswer(**asked(gdp_mu), value=0.5, lower=0.25, upper=0.5, global_mu=infinite, **COMMON),
            TradeOffAnswer(**asked(trade_off), points=tuple(points), **COMMON),
            ProbabilityAnswer(**asked(accuracy), **plain, **COMMON),
            ProbabilityAnswer(**asked(reconstruction), **plain, **COMMON),
            GuaranteeAnswer(**asked(guarantee), **plain, holds="unknown", **COMMON),
        ),
        worst_case=None,
        assumptions=(Assumption(code="noise_is_fresh", text="a text", holds="unknown"),),
        hazards=(Hazard(code="large_sample_rate", text="a text"),),
    )


def test_serialisation_round_trips_to_the_byte() -> None:
    written = response().json_bytes()
    assert BoundsResponse.model_validate_json(written) == response()
    assert BoundsResponse.model_validate_json(written).json_bytes() == written


def test_body_matches_published_schema() -> None:
    schema = BoundsResponse.model_json_schema(mode="serialization")
    assert jsonschema_rs.validator_for(schema).is_valid(json.loads(response().json_bytes()))


def test_infinity_is_string_and_missing_number_is_null() -> None:
    written = json.loads(response().json_bytes())
    epsilon, delta, gdp_mu, trade_off, accuracy, reconstruction, guarantee = written["answers"]
    assert epsilon["value"] == "Infinity"
    assert gdp_mu["global_mu"]["upper"] == "Infinity"
    assert delta["lower_log10"] == "-Infinity"
    assert trade_off["points"][0]["power"]["value_log10"] == -1000.0
    assert "value_log10" not in accuracy
    assert "value" not in trade_off
    assert accuracy["question"] == {"type": "attack_accuracy", "prior": 0.5, "direction": "add"}
    assert reconstruction["question"] == {"type": "reconstruction", "candidates": 7, "direction": "add"}
    assert guarantee["holds"] == "unknown"
    assert written["worst_case"] is None


def test_response_uses_canonical_field_names() -> None:
    mechanism = json.loads(response().json_bytes())["mechanism"]
    inner = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 1e-7, "steps": 10}
    assert mechanism == {"type": "repeated", "mechanism": inner, "steps": 3}


@pytest.mark.parametrize("cut", [0, 1, 100, -1])
def test_truncated_body_is_rejected(cut: int) -> None:
    with pytest.raises(ValidationError):
        BoundsResponse.model_validate_json(response().json_bytes()[:cut])


def test_problem_omits_absent_fields() -> None:
    problem = Problem(
        type="/problems/invalid-request",
        title="Invalid request",
        status=422,
        detail="One position in the body is invalid.",
        instance="/v1/bounds",
        request_id="an-id",
        errors=(FieldError(pointer="/mechanism", detail="Required."),),
    )
    written = json.loads(problem.json_bytes())
    assert set(written) == {"type", "title", "status", "detail", "instance", "request_id", "errors"}


def test_catalogue_lists_every_type() -> None:
    listed = json.loads(catalogue("2026.01.01", ()).json_bytes())
    assert [entry["type"] for entry in listed["mechanisms"]] == [type_of(m) for m in shape_of(MechanismSpec).models]
    assert [entry["type"] for entry in listed["questions"]] == [type_of(m) for m in shape_of(QuestionSpec).models]
    models = [type_of(m) for m in shape_of(ThreatModelSpec).models]
    assert [entry["type"] for entry in listed["threat_models"]] == models
    assert models == ["worst_case", "glrt", "membership", "practical", "mixture"]
    assert listed["methods"] == [*choose.METHODS, "all"]
    assert [option["name"] for option in listed["options"]] == list(OPTIONS)
    [dpsgd] = [entry for entry in listed["mechanisms"] if entry["type"] == "dpsgd"]
    [rate] = [parameter for parameter in dpsgd["parameters"] if parameter["name"] == "sample_rate"]
    assert "q" in rate["aliases"]
    assert (rate["minimum"], rate["maximum"], rate["minimum_excluded"]) == (0, 1, True)
    [epsilon] = [entry for entry in listed["questions"] if entry["type"] == "delta"]
    assert epsilon["parameters"][0]["unit"] == "nats"
