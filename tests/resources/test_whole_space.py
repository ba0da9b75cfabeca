"""Random requests over everything the contract allows: each has ordered numbers, or is rejected in words."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from api_schemas.bounds import BoundsRequest
from api_schemas.fields import shape_of, type_of
from api_schemas.questions import QuestionSpec
from api_schemas.threat_models import ThreatModelSpec
from service.privacy.errors import NumericalFailure, PrivacyComputationError
from service.privacy.mechanisms.catalogue import MECHANISMS
from service.resources.bounds import BOUNDS
from tests.resources.request_space import COMPOUNDS, ELEMENTS, LATER, QUESTIONS, THREATS, body

SEEDS = range(6)
REQUESTS = 25
DEAREST = 30_000
"""Microseconds of estimated cost. More expensive requests are tested in longer runs."""
UNPROVED = ("statistical", "asymptotic")


def test_every_type_of_the_catalogues_is_drawn() -> None:
    missing = "edit tests/resources/request_space.py"
    assert {*ELEMENTS, *LATER, *COMPOUNDS} == set(MECHANISMS), missing
    assert set(QUESTIONS) == set(map(type_of, shape_of(QuestionSpec).models)), missing
    attackers = {draw(np.random.default_rng(0))["type"] for draw in THREATS}
    assert attackers | {"mixture"} == set(map(type_of, shape_of(ThreatModelSpec).models)), missing


@pytest.mark.parametrize("seed", SEEDS)
def test_random_requests_are_answered_or_rejected(seed: int) -> None:
    answered = 0
    for index in range(REQUESTS):
        sent = body(np.random.default_rng([seed, index]))
        try:
            request = BoundsRequest.model_validate_json(json.dumps(sent))
            if BOUNDS.quote(request).cost > DEAREST:
                continue
            written = BOUNDS.body(request, "", "")
        except ValidationError:
            continue
        except NumericalFailure as failure:
            pytest.fail(f"{failure}: {sent}")
        except PrivacyComputationError:
            continue
        for answer in json.loads(written, parse_constant=_no_number)["answers"]:
            _check(answer, sent)
            answered += 1
    assert answered > 0


@pytest.mark.parametrize("seed", range(3))
def test_steps_that_round_to_nothing_are_ignored(seed: int) -> None:
    """Steps at a rate too small for a weight are ignored: two-point steps remain alone, and have no contour."""
    random = np.random.default_rng([20261123, seed])
    gone = {"type": "gaussian", "noise_multiplier": 10.0 ** random.uniform(0, 15)}
    parts = [{"type": "poisson_sampled", "sample_rate": 10.0 ** random.uniform(-300, -290), "mechanism": gone}]
    parts += [{"type": "pure_dp", "epsilon": float(random.choice([1e-10, 0.3, 800.0]))} for _ in range(2)]
    parts += [{"type": "approximate_dp", "epsilon": random.uniform(0.01, 1), "delta": 1e-8}]
    steps = int(random.integers(100_000, 1_000_000))
    sent = {
        "mechanism": {"type": "repeated", "steps": steps, "mechanism": {"type": "composed", "mechanisms": parts}},
        "threat_model": {"type": "worst_case", "neighboring_relation": "replace_one"},
        "questions": [{"type": "reconstruction", "baseline_success": 1e-6}],
    }
    written = BOUNDS.body(BoundsRequest.model_validate_json(json.dumps(sent)), "", "")
    _check(json.loads(written)["answers"][0], sent)


@pytest.mark.parametrize("seed", range(3))
def test_two_steps_with_extreme_losses_are_answered(seed: int) -> None:
    """Two steps with extreme losses are answered.

    The number that decides which cells are divided is NaN there, but the bounds of the cells are valid.
    """
    random = np.random.default_rng([20261128, seed])
    shifts = [10.0 ** random.uniform(13, 15), random.uniform(0, 1), random.uniform(1, 10)]
    far = {"type": "gaussian_mixture", "noise_multiplier": 0.9, "shifts": shifts, "weights": [0.1, 0.2, 0.7]}
    weak = {"type": "gaussian", "noise_multiplier": 10.0 ** random.uniform(8, 10)}
    sent = {"mechanism": {"type": "composed", "mechanisms": [weak, far]}, "questions": [{"type": "advantage"}]}
    written = BOUNDS.body(BoundsRequest.model_validate_json(json.dumps(sent)), "", "")
    _check(json.loads(written)["answers"][0], sent)


def _no_number(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def _check(answer: dict[str, Any], sent: dict[str, Any]) -> None:
    """Check the order of the bounds, and `tight` for proved bounds."""
    assert (answer["tight"] is None) == (answer["evidence"] in UNPROVED), sent
    points = answer.get("points", ())
    for number in (answer, *(point[name] for point in points for name in ("power", "type_two_error"))):
        if number.get("lower") is not None:
            low, high = (float(str(number[end]).replace("Infinity", "inf")) for end in ("lower", "upper"))
            assert low <= high, sent
