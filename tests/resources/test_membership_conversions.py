"""Inverse conversions in requests: published formulas, null without a solution, errors with pointers."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from pydantic import ValidationError

from api_schemas.membership_conversions import (
    MembershipConversionAnswer,
    MembershipConversionsRequest,
    MembershipConversionsResponse,
    PriorOfLargestAdvantageAnswer,
)
from api_schemas.problems import field_errors
from service.resources.conversions.membership import MEMBERSHIP_CONVERSIONS

DIGEST = "sha256:" + "0123456789abcdef" * 4


def request(*conversions: Any) -> MembershipConversionsRequest:
    return MembershipConversionsRequest.model_validate_json(json.dumps({"conversions": conversions}))


def compute(*conversions: dict[str, Any]) -> MembershipConversionsResponse:
    asked = request(*conversions)
    response = MEMBERSHIP_CONVERSIONS.response(asked, DIGEST, "2026.01.01")
    assert response.json_bytes() == MEMBERSHIP_CONVERSIONS.body(asked, DIGEST, "2026.01.01")
    return response


def one(kind: str, **fields: Any) -> MembershipConversionAnswer:
    [answer] = compute({"type": kind, **fields}).answers
    return answer


BY_THE_BOOK: list[tuple[str, dict[str, Any], float, str]] = [
    ("largest_epsilon", {"positive_predictive_value": 0.75, "prior": 0.5}, 1.0986122886681096914, "lower"),
    ("largest_epsilon", {"ppv": 0.5, "prior": 0.5}, 0.0, "lower"),
    ("largest_epsilon", {"target": 1.0, "prior": 0.5}, math.inf, "lower"),
    ("largest_sampling_rate", {"positive_predictive_value": 0.75, "epsilon": 1.0}, 0.52463311358132830890, "lower"),
    ("largest_sampling_rate", {"positive_predictive_value": 0.5, "eps": 100.0}, 3.7200759760208359630e-44, "lower"),
    ("prior_of_largest_advantage", {"epsilon": 1.0}, 0.37754066879814543536, "upper"),
    ("largest_epsilon_for_deletions", {"prior": 0.25, "confidence": 0.5}, math.log(3), "lower"),
    (
        "largest_epsilon_for_deletions",
        {"prior": 0.02, "confidence": 0.8, "deletions": 4},
        math.log(0.8**-0.25 - 1) + math.log(49),
        "lower",
    ),
    ("largest_prior_for_deletions", {"epsilon": 1.0, "confidence": 0.8}, 0.25 / (0.25 + math.e), "lower"),
    ("largest_prior_for_deletions", {"epsilon": 1.0, "confidence": 0.0, "deletions": 7}, 1.0, "lower"),
]


@pytest.mark.parametrize(("kind", "fields", "value", "safe_end"), BY_THE_BOOK)
def test_conversions_match_published_formulas(kind: str, fields: dict[str, Any], value: float, safe_end: str) -> None:
    answer = one(kind, **fields)
    assert answer.value == getattr(answer, safe_end)
    assert answer.value == pytest.approx(value, rel=2e-14)
    assert answer.evidence == "exact"
    assert "Thudi" in answer.source
    assert json.loads(answer.model_dump_json())["conversion"]["type"] == kind


def test_largest_advantage_accompanies_its_prior() -> None:
    answer = one("prior_of_largest_advantage", epsilon=1.0)
    assert isinstance(answer, PriorOfLargestAdvantageAnswer)
    assert answer.largest_advantage["value"] == pytest.approx(0.48983732480741825856, rel=1e-14)
    assert one("prior_of_largest_advantage", epsilon=0.0).notes
    assert b"largest_advantage" not in compute({"type": "largest_epsilon", "ppv": 0.6, "prior": 0.5}).json_bytes()


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("largest_epsilon", {"positive_predictive_value": 0.4, "prior": 0.5}),
        ("largest_epsilon_for_deletions", {"prior": 0.5, "confidence": 0.9}),
        ("largest_epsilon_for_deletions", {"prior": 0.01, "confidence": 0.9, "deletions": 1000}),
    ],
)
def test_missing_solution_is_null_with_note(kind: str, fields: dict[str, Any]) -> None:
    answer = one(kind, **fields)
    assert (answer.value, answer.lower, answer.upper) == (None, None, None)
    assert answer.notes


def test_small_rates_have_logarithms() -> None:
    answer = one("largest_sampling_rate", positive_predictive_value=0.5, epsilon=1000.0)
    assert answer.lower_log10 is not None
    assert answer.upper_log10 is not None
    assert answer.lower_log10 <= -1000 / math.log(10) <= answer.upper_log10


def test_answers_keep_order_and_are_independent() -> None:
    conversions = [{"type": kind, **fields} for kind, fields, _, _ in BY_THE_BOOK]
    response = compute(*conversions)
    assert response.digest == DIGEST
    for conversion, answer in zip(conversions, response.answers, strict=True):
        assert compute(conversion).answers == (answer,)
    asked = request(*conversions)
    assert (
        MEMBERSHIP_CONVERSIONS.quote(asked).cost
        == len(conversions) * MEMBERSHIP_CONVERSIONS.quote(request(conversions[0])).cost
    )


@pytest.mark.parametrize(
    ("conversion", "place"),
    [
        ({"type": "largest_epsilon", "ppv": 1.5, "prior": 0.5}, "/ppv"),
        ({"type": "largest_epsilon", "ppv": 0.5, "prior": -1}, "/prior"),
        ({"type": "largest_epsilon", "ppv": 0.5}, "/prior"),
        ({"type": "largest_sampling_rate", "ppv": 0.5, "epsilon": 1e7}, "/epsilon"),
        ({"type": "largest_sampling_rate", "ppv": 0.5, "epsilon": 1, "prior": 0.1}, "/prior"),
        ({"type": "largest_epsilon_for_deletions", "prior": 0.5, "confidence": 0.5, "deletions": 0}, "/deletions"),
        ({"type": "largest_epsilon_for_deletions", "prior": 0.5, "confidence": 0.5, "deletions": 1.5}, "/deletions"),
        ({"type": "largest_prior_for_deletions", "epsilon": 1, "confidence": 2}, "/confidence"),
        ({"type": "largest"}, "/type"),
        (3, ""),
    ],
)
def test_bad_input_has_pointer(conversion: Any, place: str) -> None:
    with pytest.raises(ValidationError) as caught:
        request({"type": "prior_of_largest_advantage", "epsilon": 1.0}, conversion)
    [error] = field_errors(caught.value)
    assert error.pointer == f"/conversions/1{place}"
    assert error.detail.endswith(".")


def test_number_of_conversions_is_limited() -> None:
    conversion = {"type": "prior_of_largest_advantage", "epsilon": 1.0}
    assert len(request(*[conversion] * 256).conversions) == 256
    for count in (0, 257):
        with pytest.raises(ValidationError):
            request(*[conversion] * count)
