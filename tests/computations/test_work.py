"""Work is counted, not timed: what an allowance is spent on ends with valid answers, whatever is asked."""

from __future__ import annotations

import json
import warnings
from typing import Any, Final

import numpy as np
import pytest
from pydantic import ValidationError

from service.computations import allowance, bounds, curves
from service.privacy.errors import NumericalFailure, PrivacyComputationError
from service.privacy.numerics.work import at_most, did, is_spent
from tests.computations.request_space import any_request

COMPUTATIONS: Final = {"bounds": bounds.BOUNDS, "curves": curves.CURVES}
LARGEST_CHARGE: Final = 4e6
"""No line or lattice is more work than this, so that a request exceeds its allowance by no more."""


def composed(*mechanisms: dict[str, Any]) -> dict[str, Any]:
    return {"type": "composed", "mechanisms": list(mechanisms)}


def mixed(*parts: dict[str, Any]) -> dict[str, Any]:
    weights = [0.75, 0.25]
    return {
        "type": "mixture",
        "components": [{"weight": w, "mechanism": m} for w, m in zip(weights, parts, strict=True)],
    }


def dpsgd(noise: float, rate: float, steps: int) -> dict[str, Any]:
    return {"type": "dpsgd", "noise_multiplier": noise, "sample_rate": rate, "steps": steps}


RUN = composed(dpsgd(2.0, 0.02, 300), {"type": "laplace", "noise_multiplier": 3.0})
ASKED: dict[str, Any] = {
    "mixture": (mixed(RUN, dpsgd(1.0, 0.01, 100)), {"type": "reconstruction", "baseline_success": 1e-6}),
    "far apart": (mixed(dpsgd(5.0, 0.001, 100), dpsgd(0.7, 0.05, 300)), {"type": "advantage"}),
    "mu": (RUN, {"type": "gdp_mu"}),
    "epsilon": (mixed(RUN, {"type": "gdp", "mu": 0.5}), {"type": "epsilon", "delta": 1e-6}),
}


def answered(body: dict[str, Any]) -> dict[str, Any]:
    computation = bounds.BOUNDS
    request = computation.request_type.model_validate_json(json.dumps(body))
    return json.loads(computation.body(request, "", ""))["answers"][0]


def test_allowances_nest_and_end() -> None:
    assert not is_spent()
    with at_most(10) as outer:
        with at_most(100):
            did(4)
            assert not is_spent()
            did(6)
            assert is_spent()
        assert outer.left == 0
    assert not is_spent()
    with at_most(10), at_most(3):
        did(3)
        assert is_spent()


def test_the_last_reading_gets_all_that_is_left() -> None:
    with at_most(60.0) as work:
        assert allowance.share(work, 1) == 60.0
        assert allowance.share(work, 3) == 20.0
        assert allowance.share(work, 100) == 10.0


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("spent", [0.0, 2e4])
def test_what_is_cut_short_holds(name: str, spent: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ends of an answer for next to no work stay true: they meet those for all the work, which are narrow."""
    mechanism, question = ASKED[name]
    body = {"mechanism": mechanism, "questions": [question]}
    full = answered(body)
    monkeypatch.setattr(bounds, "MOST_WORK", spent)
    short = answered(body)
    assert float(full["upper"]) - float(full["lower"]) <= 1e-6 * float(full["upper"])
    assert float(short["lower"]) <= float(full["upper"])
    assert float(full["lower"]) <= float(short["upper"])
    assert short == answered(body)


def test_an_answer_that_was_cut_short_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism, question = ASKED["mixture"]
    monkeypatch.setattr(bounds, "MOST_WORK", 0.0)
    assert not answered({"mechanism": mechanism, "questions": [question]})["tolerance_met"]


def _finds(seed: int, count: int, most: float, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many of so many requests are answered, none by more work than it may, by a warning or by a failure."""
    for module in (bounds, curves):
        monkeypatch.setattr(module, "MOST_WORK", most)
    found = 0
    for index in range(count):
        name, body = any_request(np.random.default_rng([seed, index]))
        computation = COMPUTATIONS[name]
        with at_most(np.inf) as work, warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                request = computation.request_type.model_validate_json(json.dumps(body))
                written = computation.body(request, "", "")  # type: ignore[arg-type]
            except ValidationError:
                continue
            except NumericalFailure:
                raise
            except PrivacyComputationError:
                continue
        assert b"NaN" not in written, body
        assert work.done <= most + LARGEST_CHARGE, body
        found += 1
    return found


def test_whatever_is_asked_ends_without_work(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _finds(801, 30, 0.0, monkeypatch) > 15


@pytest.mark.thorough
def test_whatever_is_asked_ends_with_a_little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _finds(802, 300, 5e5, monkeypatch) > 150
