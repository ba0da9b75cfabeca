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
from tests.resources.test_work import answered, composed
from tests.slow_marker import sample_of, thorough

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


QUESTIONS: Final = (
    {"type": "reconstruction", "baseline_success": 1e-6},
    {"type": "epsilon", "delta": 1e-6},
    {"type": "delta", "epsilon": 0.5},
)


@sample_of(6)
@pytest.mark.parametrize("seed", range(200))
def test_more_work_narrows_no_answer_between_two_theorems(seed: int) -> None:
    """The limit `two_theorems` says that no request is narrower, so that more work must give the same bounds."""
    spec = request_space.mechanism(np.random.default_rng(seed))
    for question in QUESTIONS:
        asked = {"mechanism": spec, "questions": [question]}
        try:
            with at_most(3e4):
                answer = answered(asked)
        except (PrivacyComputationError, ValidationError):
            continue
        if answer.get("limit", {}).get("code") == "two_theorems":
            again = answered(asked)
            assert (again["lower"], again["upper"]) == (answer["lower"], answer["upper"])


def test_spent_work_is_named_before_two_theorems() -> None:
    stated = {"type": "rdp", "orders": [2.25, 28.6], "epsilons": [6.25, 107.0]}
    asked = {"mechanism": composed(stated, stated), "questions": [{"type": "delta", "epsilon": 0.5}]}
    with at_most(3e4):
        early = answered(asked)
    late = answered(asked)
    assert late["upper"] < early["upper"]
    assert (early["limit"]["code"], late["limit"]["code"]) == ("work_spent", "two_theorems")
