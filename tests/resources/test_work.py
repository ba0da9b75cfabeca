"""Work allowances: work is counted, not timed, and any request ends with valid answers when its allowance is spent."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
from pydantic import ValidationError

from service.privacy.composition.adaptive_exponential.adaptive_run import ExponentialRunTradeOff
from service.privacy.errors import NumericalFailure, PrivacyComputationError
from service.privacy.numerics.work import at_most, count_separately, count_work, is_spent, run_to_end, share_between
from service.privacy.questions import gaussian_dp
from service.resources import allowance, bounds, curves
from service.resources.allowance import OF_SEVERAL
from service.resources.assessments import assessment
from service.resources.calibration import evaluator, resource
from service.resources.claims import checking
from service.resources.comparisons import comparing
from tests.resources.request_space import any_request
from tests.slow_marker import sample_of, thorough

COMPUTATIONS: Final = {"bounds": bounds.BOUNDS, "curves": curves.CURVES}
LARGEST_CHARGE: Final = 4e6
"""Largest work of one contour or lattice, by which a request may exceed its allowance, ..."""
LEAST_OF_AN_ANSWER: Final = 2e4
"""... plus the work of each answer that starts nothing expensive, ..."""
TO_THE_END: Final = ("saddlepoint", "all")
"""... times two for lists of approximations, which are evaluated to their end."""


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


def every_answer(body: dict[str, Any]) -> list[dict[str, Any]]:
    computation = bounds.BOUNDS
    request = computation.request_type.model_validate_json(json.dumps(body))
    return json.loads(computation.body(request, "", ""))["answers"]


def answered(body: dict[str, Any]) -> dict[str, Any]:
    return every_answer(body)[0]


def test_allowances_nest_and_are_spent() -> None:
    assert not is_spent()
    with at_most(10) as outer:
        with at_most(100):
            count_work(4)
            assert not is_spent()
            count_work(6)
            assert is_spent()
        assert outer.left == 0
    assert not is_spent()
    with at_most(10), at_most(3):
        count_work(3)
        assert is_spent()


def spend(work: float) -> float:
    """Count work of a request until the allowance is spent, and return how much was counted."""
    done = 0.0
    while done < work and not is_spent():
        count_work(1.0)
        done += 1.0
    return done


@pytest.mark.parametrize(
    ("first", "second", "expected"), [(3, 4, (3, 4)), (9, 2, (3, 2)), (6, 3, (2, 3)), (9, 9, (5, 5))]
)
def test_the_first_of_two_has_half_and_runs_again_with_the_rest(
    first: float, second: float, expected: tuple[float, float]
) -> None:
    """The first of two computations has half of the allowance, and runs again with the rest.

    The second run starts anew, with the work that both left.
    """
    with at_most(10):
        assert share_between(lambda: spend(first), lambda: spend(second)) == expected


def test_a_computation_within_its_allowance_runs_to_its_end() -> None:
    assert run_to_end(lambda: spend(3)) == (3, True)
    with at_most(10) as work:
        assert run_to_end(lambda: spend(3)) == (3, True)
        assert not work.cut_short
        assert run_to_end(lambda: spend(20)) == (7, False)
        assert work.cut_short
        assert run_to_end(lambda: 1) == (1, True)
        assert work.cut_short


def test_last_evaluation_gets_the_remaining_allowance() -> None:
    with at_most(60.0) as work:
        assert allowance.share(work, 1) == 60.0
        assert allowance.share(work, 3) == 20.0
        assert allowance.share(work, 100) == 10.0


def test_parts_share_the_remaining_allowance() -> None:
    with at_most(60.0) as work:
        shares, taken = allowance.WorkBudgetShares(work, 3), list[float]()
        for _ in range(3):
            with shares.next_share():
                taken.append(work.end - work.done)
                count_work(5.0)
    assert taken == [20.0, 27.5, 50.0]


def test_cached_work_is_counted_separately() -> None:
    with at_most(10.0) as work:
        count_work(10.0)
        with count_separately() as inner:
            assert not is_spent()
            count_work(7.0)
        assert (inner.done, work.done) == (7.0, 10.0)
        assert is_spent()


def test_cached_exponential_run_counts_same_work() -> None:
    """Cached results count the same work, so that a request has one answer."""
    counted: list[float] = []
    for _ in range(2):
        with at_most(1e9) as work:
            ExponentialRunTradeOff(((0.37, 6),), 1e-3).profile(np.array([0.5]))
        counted.append(work.done)
    assert counted[0] == counted[1] > 1e3


def test_exponential_run_without_work_has_valid_bounds() -> None:
    rates, epsilons = np.array([1e-6, 0.1, 0.9]), np.array([-2.0, -0.1, 0.0, 0.7, 2.5, 9.0])
    full, short = (ExponentialRunTradeOff(((0.5, 4), (1.0, 1)), 1e-3) for _ in range(2))
    known = full.points(rates), full.profile(epsilons), full.epsilon(1e-3)
    with at_most(0.0):
        loose = short.points(rates), short.profile(epsilons), short.epsilon(1e-3)
    pairs = [(known[0].power, loose[0].power), (known[0].type_two_error, loose[0].type_two_error)]
    pairs += [(known[0].log_slope, loose[0].log_slope), (known[1], loose[1])]
    for narrow, wide in pairs:
        assert (wide.lower <= narrow.upper).all()
        assert (narrow.lower <= wide.upper).all()
        assert (wide.lower < wide.upper).any()
    assert loose[2].lower <= known[2].lower <= known[2].upper <= loose[2].upper


def test_interrupted_mu_keeps_evaluated_points() -> None:
    """An interrupted search for mu keeps its evaluated points, so more work never widens the enclosure.

    The cells of a longer search lie within the cells that they divide.
    """
    widths: list[float] = []
    for most in (2e3, 4e3, 1e6):
        curve = ExponentialRunTradeOff(((0.5, 4),), 1e-3)
        curve.profile(np.zeros(1))  # Built before.
        with at_most(most):
            found = gaussian_dp.mu(curve, 1e-9, 1e-9).value
        widths.append(found.upper - found.lower)
    assert widths[0] >= widths[1] >= widths[2]
    assert widths[0] <= 0.5


LIGHT: Final = mixed(RUN, composed(dpsgd(2.0, 0.05, 30), {"type": "gaussian", "noise_multiplier": 1.0}))
DEAR: Final = mixed(RUN, composed(dpsgd(0.8, 0.05, 7), {"type": "laplace", "noise_multiplier": 1.0}))
TARGET: Final = {"question": {"type": "epsilon", "delta": 1e-6}, "at_most": 2.0}
OTHERS: Final[dict[str, tuple[Any, Any, Callable[[dict[str, Any]], dict[str, Any]]]]] = {
    "calibrations": (
        resource.CALIBRATIONS,
        evaluator,
        lambda _: {"mechanism": RUN, "free": "/mechanism/mechanisms/0/noise_multiplier", "targets": [TARGET]},
    ),
    "assessments": (
        assessment.ASSESSMENTS,
        assessment,
        lambda mixture: {"mechanism": mixture, "context": {"delta": 1e-6}},
    ),
    "comparisons": (
        comparing.COMPARISONS,
        comparing,
        lambda mixture: {
            "runs": [{"name": name, "mechanism": each} for name, each in (("a", mixture), ("b", RUN))],
            "questions": [{"type": "epsilon", "delta": 1e-6}, {"type": "gdp_mu"}],
        },
    ),
    "claims": (
        checking.CLAIMS,
        checking,
        lambda mixture: {
            "mechanism": mixture,
            "claims": [{"question": {"type": "epsilon", "delta": 1e-6}, "value": 0.01}],
        },
    ),
}


@sample_of(2)
@pytest.mark.parametrize("mixture", [LIGHT, thorough(DEAR)], ids=["light", "dear"])
@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("most", [0.0, 2e5])
def test_nested_resources_share_one_allowance(
    name: str, most: float, mixture: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    computation, module, body = OTHERS[name]
    monkeypatch.setattr(module, "MOST_WORK", most)
    monkeypatch.setattr(resource, "ANSWERS", most)
    with at_most(np.inf) as work:
        request = computation.request_type.model_validate_json(json.dumps(body(mixture)))
        written = computation.body(request, "", "")
    assert b"NaN" not in written
    assert work.done <= 2 * most + LARGEST_CHARGE


@sample_of(2)
@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("spent", [0.0, 2e4])
def test_interrupted_answers_are_valid(name: str, spent: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both bounds with almost no work are valid: they meet the narrow bounds with full work."""
    mechanism, question = ASKED[name]
    body = {"mechanism": mechanism, "questions": [question]}
    full = answered(body)
    monkeypatch.setattr(bounds, "MOST_WORK", spent)
    short = answered(body)
    assert float(full["upper"]) - float(full["lower"]) <= 1e-6 * float(full["upper"])
    assert float(short["lower"]) <= float(full["upper"])
    assert float(full["lower"]) <= float(short["upper"])
    assert short == answered(body)


def test_interrupted_answer_misses_its_tolerance(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism, question = ASKED["mixture"]
    monkeypatch.setattr(bounds, "MOST_WORK", 0.0)
    assert not answered({"mechanism": mechanism, "questions": [question]})["tolerance_met"]


def _count_answered(seed: int, count: int, most: float, monkeypatch: pytest.MonkeyPatch) -> int:
    """Count the requests that are answered within their work, without a warning or failure."""
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
        charge = LARGEST_CHARGE * (2 if body.get("method") in TO_THE_END else 1)
        assert work.done <= OF_SEVERAL * most + charge + LEAST_OF_AN_ANSWER * len(body.get("questions", ())), body
        found += 1
    return found


def test_random_requests_end_without_work(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _count_answered(801, 30, 0.0, monkeypatch) > 15


@pytest.mark.thorough
def test_random_requests_end_with_little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _count_answered(802, 300, 5e5, monkeypatch) > 150
