"""Answers wider than requested name the limit and a remedy; other answers name none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, get_args

import numpy as np
import pytest
from pydantic import ValidationError

from api_schemas.choices import LimitCode
from service.parsing import RequestBodyError
from service.privacy.errors import PrivacyComputationError
from service.privacy.limit import WidthLimit
from service.privacy.numerics.work import at_most
from service.resources.limits import ADVICE
from tests.frozen.answers import response
from tests.frozen.space import request
from tests.resources import request_space
from tests.resources.test_work import answered, composed, every_answer
from tests.slow_marker import thorough

DPSGD: Final = {"type": "dpsgd", "noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 1000}


def tolerances(node: Any) -> Iterator[tuple[bool | None, Any]]:
    """Yield whether a tolerance is met, with its limit, over a whole response."""
    if isinstance(node, list):
        for each in node:
            yield from tolerances(each)
    elif isinstance(node, dict):
        met = node.get("tolerance_met")
        if isinstance(met, list):
            yield from zip(met, node.get("limit", [None] * len(met)), strict=True)
        elif met is not None:
            yield met, node.get("limit")
        for each in node.values():
            yield from tolerances(each)


def check(number: int) -> None:
    try:
        written = response(*request(number))
    except (RequestBodyError, PrivacyComputationError, ValidationError):
        return
    for met, limit in tolerances(json.loads(written)):
        assert (met is False) == (limit is not None), number


@pytest.mark.parametrize("number", [201, 202, *range(204, 208), 209, 210, 211, *map(thorough, (200, 203, 208))])
def test_wide_answers_have_limits(number: int) -> None:
    check(number)


@pytest.mark.thorough
@pytest.mark.parametrize("number", range(212, 1200))
def test_wide_answers_of_whole_space_have_limits(number: int) -> None:
    check(number)


def test_every_limit_is_published_with_advice() -> None:
    assert set(get_args(get_args(LimitCode)[0])) == {str(limit) for limit in WidthLimit}
    assert set(ADVICE) == set(WidthLimit)


CASES: Final[dict[str, dict[str, Any]]] = {
    "no_bounds": {"mechanism": DPSGD, "method": "clt"},
    "sampling_error": {"mechanism": DPSGD, "method": "monte_carlo", "samples": 1000},
    "tolerance_too_fine": {"mechanism": DPSGD, "relative_tolerance": 1e-14},
    "two_theorems": {
        "mechanism": {
            "type": "dpsgd",
            "sampling": "shuffled",
            "noise_multiplier": 1.0,
            "dataset_size": 1000,
            "batch_size": 100,
            "epochs": 2,
        }
    },
}


@pytest.mark.parametrize("code", CASES)
def test_known_case_has_expected_limit(code: str) -> None:
    answer = answered({**CASES[code], "questions": [{"type": "epsilon", "delta": 1e-5}]})
    assert answer["limit"]["code"] == code
    assert answer["limit"]["advice"].endswith(".")


BOUNDS: Final = ("lower", "upper", "power", "type_two_error")
FINAL_CODES: Final = ("two_theorems", "small_tail", "engine_resolution")
"""Limits whose advice excludes that the same request becomes narrower with more work."""


@pytest.mark.parametrize("seed", [1370, 1823, *map(thorough, range(3000, 3400))])
def test_more_work_narrows_no_answer_whose_limit_excludes_it(seed: int) -> None:
    resource, body = request_space.any_request(np.random.default_rng(seed))
    if resource != "bounds" or body.get("method") == "monte_carlo":
        return
    try:
        with at_most(3e4):
            early = every_answer(body)
    except (PrivacyComputationError, ValidationError):
        return
    if any(answer.get("limit", {}).get("code") in FINAL_CODES for answer in early):
        for answer, again in zip(early, every_answer(body), strict=True):
            if answer.get("limit", {}).get("code") in FINAL_CODES:
                assert {name: again.get(name) for name in BOUNDS} == {name: answer.get(name) for name in BOUNDS}


def test_spent_work_is_named_before_two_theorems() -> None:
    stated = {"type": "rdp", "orders": [2.25, 28.6], "epsilons": [6.25, 107.0]}
    asked = {"mechanism": composed(stated, stated), "questions": [{"type": "delta", "epsilon": 0.5}]}
    with at_most(3e4):
        early = answered(asked)
    late = answered(asked)
    assert late["upper"] < early["upper"]
    assert (early["limit"]["code"], late["limit"]["code"]) == ("work_spent", "two_theorems")
