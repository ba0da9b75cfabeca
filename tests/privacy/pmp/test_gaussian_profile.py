"""The accurate profile of the Gaussian mechanism: against mpmath, reference rows and its laws."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from service.privacy.enclosure import Enclosure
from service.privacy.pmp.gaussian.profile import delta_bounds, epsilon_at, log_delta, noise_std_at, ratio_at
from tests.slow_marker import sample_of

ROWS: list[dict[str, Any]] = [
    row
    for row in json.loads((Path(__file__).parents[1] / "reference" / "pmp.json").read_text("utf-8"))
    if row["notion"] == "Gaussian"
]
PROMISED = 1e-13
"""Relative accuracy of ln delta."""


def exact_log_delta(epsilon: float, ratio: float) -> mpf:
    """Evaluate the formula of Balle and Wang for delta of Gaussian noise, with enough digits for its cancellation."""
    with mpmath.workdps(400):
        eps, r = mpf(epsilon), mpf(ratio)

        def cdf(x: mpf) -> mpf:
            return mpmath.erfc(-x / mpmath.sqrt(2)) / 2

        upper, lower = cdf(r / 2 - eps / r), mpmath.exp(eps) * cdf(-r / 2 - eps / r)
        complement = cdf(eps / r - r / 2) + lower
        return mpmath.log1p(-complement) if complement < 0.5 else mpmath.log(upper - lower)


def arguments() -> list[tuple[float, float]]:
    """Draw arguments over the promised range, dense where delta is between 1e-300 and 1 - 1e-300, with both limits."""
    generator = np.random.default_rng(5)
    found: list[tuple[float, float]] = []
    while len(found) < 150:
        ratio = 10 ** generator.uniform(-6, math.log10(200))
        epsilon = ratio * (generator.uniform(-37, 37) + ratio / 2)
        if 0 <= epsilon <= 1e4:
            found.append((epsilon, ratio))
    return found + [(0.0, ratio) for ratio in (1e-6, 0.1, 0.499, 0.5, 0.501, 3.0, 70.0)] + [(1e4, 150.0), (1e4, 200.0)]


@sample_of(50)
@pytest.mark.parametrize(("epsilon", "ratio"), arguments())
def test_log_profile_has_promised_accuracy(epsilon: float, ratio: float) -> None:
    truth = exact_log_delta(epsilon, ratio)
    low, high = map(float, log_delta(epsilon, ratio))
    assert low <= truth <= high
    if -700 < truth < mpf("-1e-300"):
        assert high - low <= 2 * PROMISED * abs(truth)


@pytest.mark.parametrize("row", [row for row in ROWS if row["quantity"] == "ln delta(eps)"], ids=lambda row: row["id"])
def test_profiles_match_reference(row: dict[str, Any]) -> None:
    low, high = map(float, log_delta(row["inputs"]["eps"], row["inputs"]["Delta_over_sigma"]))
    assert 0.5 * (low + high) == pytest.approx(row["value"], rel=0, abs=row["abs_tol"])


@pytest.mark.parametrize("row", [row for row in ROWS if row["quantity"] == "smallest sigma"], ids=lambda row: row["id"])
def test_noise_matches_reference(row: dict[str, Any]) -> None:
    given = row["inputs"]
    found = noise_std_at(given["eps"], math.exp(given["ln_delta"]), Enclosure.point(float(given["Delta"])))
    assert found.upper == pytest.approx(row["value"], rel=0, abs=row["abs_tol"])
    assert found.relative_width() < 1e-12


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row["quantity"] == "smallest eps>=0"], ids=lambda row: row["id"]
)
def test_epsilons_match_reference(row: dict[str, Any]) -> None:
    given = row["inputs"]
    found = epsilon_at(math.exp(given["ln_delta"]), Enclosure.point(float(given["Delta_over_sigma"])))
    assert found.upper == pytest.approx(row["value"], rel=0, abs=row["abs_tol"])


@sample_of(12)
@pytest.mark.parametrize("delta", [1e-300, 1e-12, 1e-5, 0.01, 0.5, 0.9])
@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 0.1, 1.0, 30.0, 1e4])
def test_ratio_and_epsilon_are_inverse(epsilon: float, delta: float) -> None:
    ratio = ratio_at(epsilon, delta)
    assert exact_log_delta(epsilon, ratio.lower) <= mpmath.log(delta) <= exact_log_delta(epsilon, ratio.upper)
    back = epsilon_at(delta, ratio)
    assert back.lower <= epsilon * (1 + 1e-12)
    assert back.upper >= epsilon * (1 - 1e-12)


def test_profile_decreases_with_epsilon_and_increases_with_ratio() -> None:
    epsilons, ratios = np.linspace(0, 60, 400), np.geomspace(1e-8, 300, 400)
    for ratio in (1e-4, 0.3, 0.5000001, 2.0, 50.0):
        bounds = delta_bounds(epsilons, ratio)
        assert (bounds.lower[1:] <= bounds.upper[:-1]).all()
    for epsilon in (0.0, 1e-3, 1.0, 40.0):
        bounds = delta_bounds(epsilon, ratios)
        assert (bounds.lower[:-1] <= bounds.upper[1:]).all()


def test_range_limits_give_limits() -> None:
    nothing = Enclosure.point(0.0)
    assert epsilon_at(1e-5, nothing).upper == epsilon_at(0.0, nothing).upper == 0
    assert epsilon_at(0.0, Enclosure.point(1e-9)).lower == math.inf
    assert epsilon_at(1.0, Enclosure.point(100.0)).upper == 0
    # delta(0) = erf(r/sqrt 8): a larger delta needs no epsilon.
    assert epsilon_at(math.erf(1 / math.sqrt(8)) * (1 + 1e-12), Enclosure.point(1.0)).upper == 0
    assert epsilon_at(math.erf(1 / math.sqrt(8)) * (1 - 1e-12), Enclosure.point(1.0)).lower > 0
    huge = delta_bounds(np.array([0.0, 1e40]), np.array([1e90, 1e-3]))
    assert (huge.lower[0], huge.upper[1]) == (pytest.approx(1.0), pytest.approx(0.0, abs=1e-300))
