"""Membership questions against 700 digits over their whole ranges.

Priors and confidences go to within 1e-16 of 0 and 1, epsilon to 1e6, rates down to 1e-300, deletions to 1e12. Both
bounds are valid and keep their digits.
"""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

from service.privacy.enclosure import Enclosure
from service.privacy.questions import membership, membership_inverse, unlearning
from service.privacy.questions.complement import type_two_error_at_complement
from service.privacy.trade_off.approximate_dp import ApproximateDpTradeOff
from service.privacy.trade_off.combinators.bracketed import Bracketed
from service.privacy.trade_off.shifted.gaussian import gaussian_curve
from tests.slow_marker import sample_of

mpf: Any = mpmath.mpf
DRAWS = 120


@pytest.fixture(autouse=True)
def _many_digits() -> Any:
    with mpmath.workdps(700):
        yield


def probability(generator: np.random.Generator) -> float:
    """Draw a probability near 0, near 1, or in between."""
    kind, size = int(generator.integers(0, 4)), float(generator.uniform(0, 1))
    return (10 ** (-300 * size), 1 - 10 ** (-15.9 * size), size, 10 ** (-16 * size))[kind] * (1 - 2.0**-53)


def exponent(generator: np.random.Generator) -> float:
    kind, size = int(generator.integers(0, 4)), float(generator.uniform(0, 1))
    return (0.0, 10 ** (6 * size), 10 ** (-12 * size), 30 * size)[kind]


def assert_narrow_enclosure(found: Enclosure, truth: Any, wide: float = 3e-8) -> None:
    """Check that an enclosure contains the truth and has at most the relative width `wide`.

    The width covers the rounding of the largest epsilon, and the error of roots.
    """
    if found.upper < 1e-290 and found.log_lower is not None and found.log_upper is not None:
        assert found.log_lower <= mpmath.log(truth) <= found.log_upper
    assert found.lower <= truth <= found.upper
    assert found.relative_width() <= wide or found.upper < 1e-290


@pytest.mark.parametrize("seed", range(4))
def test_posteriors_and_accuracies_match_700_digits(seed: int) -> None:
    generator = np.random.default_rng([21, seed])
    for _ in range(DRAWS // 4):
        prior, rate, epsilon = probability(generator), probability(generator), exponent(generator)
        curve = ApproximateDpTradeOff(epsilon, 0.0)
        p, a, growth = mpf(prior), mpf(rate), mpmath.exp(mpf(epsilon))
        power, miss = min(growth * a, 1 - (1 - a) / growth), max(1 - growth * a, (1 - a) / growth)
        least, rest = max(1 - growth * (1 - a), a / growth), min(growth * (1 - a), 1 - a / growth)
        read = membership.positive_predictive_value
        assert_narrow_enclosure(read(curve, prior, rate).value, p * power / (p * power + (1 - p) * a))
        assert_narrow_enclosure(read(curve, prior, rate, "at_least").value, p * least / (p * least + (1 - p) * a))
        assert_narrow_enclosure(read(curve, prior).value, p * growth / (p * growth + 1 - p))
        assert_narrow_enclosure(read(curve, prior, None, "at_least").value, p / (p + (1 - p) * growth))
        read = membership.negative_predictive_value
        assert_narrow_enclosure(read(curve, prior, rate).value, (1 - p) * (1 - a) / ((1 - p) * (1 - a) + p * miss))
        assert_narrow_enclosure(
            read(curve, prior, rate, "at_least").value, (1 - p) * (1 - a) / ((1 - p) * (1 - a) + p * rest)
        )
        assert_narrow_enclosure(read(curve, prior).value, (1 - p) * growth / ((1 - p) * growth + p))
        assert_narrow_enclosure(read(curve, prior, None, "at_least").value, (1 - p) / (1 - p + p * growth))
        assert_narrow_enclosure(membership.attack_accuracy(curve, prior, rate).value, p * power + (1 - p) * (1 - a))
        advantage = membership.advantage_over_prior(curve, prior).value
        assert_narrow_enclosure(advantage, 2 * p * (1 - p) * (growth - 1) / (p * growth + 1 - p))
        assert advantage.upper <= 2 * math.nextafter(1 - prior, 2)
        smaller, larger = sorted((p, 1 - p))
        excess = max((growth - larger / smaller) / (1 + growth), 0)
        assert_narrow_enclosure(membership.attack_accuracy(curve, prior).value, larger + smaller * excess)


@pytest.mark.parametrize("seed", range(4))
def test_inverses_match_700_digits(seed: int) -> None:
    generator = np.random.default_rng([22, seed])
    for _ in range(DRAWS // 4):
        prior, target, epsilon = probability(generator), probability(generator), exponent(generator)
        deletions = int(10 ** generator.uniform(0, 12)) if generator.integers(0, 2) else int(generator.integers(1, 5))
        p, b, growth = mpf(prior), mpf(target), mpmath.exp(mpf(epsilon))
        odds = mpmath.expm1(-mpmath.log(b) / deletions)
        found = membership_inverse.largest_epsilon_for_deletions(prior, target, deletions)
        assert (found is None) == (odds * (1 - p) < p)
        if found is not None:
            assert_narrow_enclosure(found.value, mpmath.log(odds * (1 - p) / p), 1e-10)
        assert_narrow_enclosure(
            membership_inverse.largest_prior_for_deletions(epsilon, target, deletions).value, odds / (odds + growth)
        )
        found = membership_inverse.largest_epsilon(target, prior)
        assert (found is None) == (target < prior)
        if found is not None:
            assert_narrow_enclosure(found.value, mpmath.log(b / (1 - b) * (1 - p) / p), 1e-13)
        assert_narrow_enclosure(
            membership_inverse.largest_sampling_rate(target, epsilon).value, b / (b + (1 - b) * growth)
        )
        capacity = unlearning.deletion_capacity(ApproximateDpTradeOff(epsilon, 0.0), prior, target).value
        truth = mpmath.floor(-mpmath.log(b) / mpmath.log1p(p / (1 - p) * growth))
        assert capacity.lower <= truth <= capacity.upper
        assert capacity.upper - capacity.lower <= 3e-8 * capacity.upper + 1


@pytest.mark.parametrize("deletions", [2, 3, 10, 64, 65, 1000, 10**12])
def test_priors_near_edge_of_guarantee_match_700_digits(deletions: int) -> None:
    """The largest epsilon for m deletions matches 700 digits at priors just below 1 - B^{1/m}, B the confidence.

    There epsilon is the small remainder of a difference.
    """
    generator = np.random.default_rng(deletions)
    for _ in range(12):
        target = probability(generator)
        edge = -math.expm1(math.log(target) / deletions)
        prior = min(edge * (1 - 10.0 ** -float(generator.uniform(1, 15))), 1 - 2.0**-53)
        truth = mpmath.log(mpmath.expm1(-mpmath.log(mpf(target)) / deletions) * (1 - mpf(prior)) / mpf(prior))
        found = membership_inverse.largest_epsilon_for_deletions(prior, target, deletions)
        assert (found is not None) == (truth >= 0)
        if found is not None:
            assert_narrow_enclosure(found.value, truth, 1e-10)


@pytest.mark.parametrize("mu", [0.01, 1.0, 8.0, 30.0])
def test_type_two_errors_at_complements_match_gaussian_formula(mu: float) -> None:
    """The type II error of mu-GDP at the rate 1 - a is Phi(-Phi^-1(1 - a) - mu).

    a is from 1e-300 to 1/2, also where 1 - a rounds to 1.
    """
    curve = gaussian_curve(Enclosure.point(mu))
    for rate in (5e-324, 1e-300, 1e-100, 1e-17, 3e-16, 1e-9, 1e-4, 0.3):
        with mpmath.workdps(30):
            score = mpmath.findroot(
                lambda x, at=rate: mpmath.log(mpmath.ncdf(-x)) - mpmath.log(mpf(at)),
                math.sqrt(max(-2 * math.log(rate) - 3, 0.3)),
            )
            truth = mpmath.log(mpmath.ncdf(-score - mu))
        found = type_two_error_at_complement(curve, rate)
        assert found.log_lower is None or found.log_lower <= truth
        assert found.log_upper is None or truth <= found.log_upper
        assert found.lower <= mpmath.exp(truth) <= found.upper
        if truth > -680:
            assert found.relative_width() <= 1e-10


@sample_of(2)
@pytest.mark.parametrize("seed", range(6))
def test_rates_near_one_of_bracketed_curve_use_both_sides(seed: int) -> None:
    """The type II error at 1 - rate of a curve between two Gaussian curves has one bound from each of them."""
    generator = np.random.default_rng([20261201, seed])
    for _ in range(6):
        least, most = sorted((10.0 ** generator.uniform(-2, 0.8, 2)).tolist())
        rate = 10.0 ** -generator.uniform(1, 250)
        found = type_two_error_at_complement(
            Bracketed(*(gaussian_curve(Enclosure.point(mu)) for mu in (least, most))), rate
        )
        with mpmath.workdps(300):
            start = -mpmath.sqrt(-2 * mpmath.log(rate) + 1) + 1
            place = mpmath.findroot(lambda x, rate=rate: mpmath.log(mpmath.ncdf(x)) - mpmath.log(rate), start)
            logs = [mpmath.log(mpmath.ncdf(place - mu)) for mu in (most, least)]
            if logs[0] < -690:  # Outside the range of the search.
                continue
            assert found.log_lower is not None
            assert found.log_upper is not None
            assert found.log_lower <= logs[0] <= found.log_lower + 1e-9
            assert found.log_upper - 1e-9 <= logs[1] <= found.log_upper
